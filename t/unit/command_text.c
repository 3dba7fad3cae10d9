/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands over a real store: dialogues, byte for byte as memcached answers them (observed on
 * Debian's 1.6.18, but for the version).
 */
#include "config.h"
#include "store/store_items.h"

#include "t/unit/command_client.h"

#define K10         "kkkkkkkkkk"
#define K50         K10 K10 K10 K10 K10
#define K250        K50 K50 K50 K50 K50
#define K251        K250 "k"
#define BAD         "CLIENT_ERROR bad command line format\r\n"
#define CHUNK       "CLIENT_ERROR bad data chunk\r\n"
#define STORED      "STORED\r\n"
#define END         "END\r\n"
#define ABC         "VALUE k 0 3\r\nabc\r\n"
#define SET_ABC     "set k 0 0 3\r\nabc\r\n"
#define NON_NUMERIC "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
#define VERSION     "VERSION " PACKAGE_VERSION "\r\n"

struct dialogue {
    const char *name, *send, *answer;
};

static const struct dialogue retrieval[] = {
    {"a missing key", "get k\r\n", END},
    {"a stored value is returned", "set k 5 0 3\r\nabc\r\nget k\r\n",
     STORED "VALUE k 5 3\r\nabc\r\n" END},
    {"an empty value is returned", "set k 0 0 0\r\n\r\nget k\r\n",
     STORED "VALUE k 0 0\r\n\r\n" END},
    {"flags have 32 bits", "set k 4294967295 0 1\r\nx\r\nget k\r\n",
     STORED "VALUE k 4294967295 1\r\nx\r\n" END},
    {"a value may contain line ends", "set k 0 0 6\r\na\r\nb\r\n\r\nget k\r\n",
     STORED "VALUE k 0 6\r\na\r\nb\r\n\r\n" END},
    {"a key of 250 bytes", "set " K250 " 0 0 1\r\nx\r\nget " K250 "\r\n",
     STORED "VALUE " K250 " 0 1\r\nx\r\n" END},
    {"several keys are answered in the order asked",
     SET_ABC "set j 1 0 1\r\nx\r\nget j nope k j nothing\r\n",
     STORED STORED "VALUE j 1 1\r\nx\r\n" ABC "VALUE j 1 1\r\nx\r\n" END},
    {"bget is answered as get", SET_ABC "bget k\r\n", STORED ABC END},
    {"get without a key", "get\r\nget \r\ngets\r\n", "ERROR\r\nERROR\r\nERROR\r\n"},
    {"a too long key discards the values before it", SET_ABC "get k k " K251 " k\r\nget k\r\n",
     STORED BAD ABC END},
    {"a too long first key", "get " K251 "\r\ngets " K251 "\r\ngat 0 " K251 "\r\n", BAD BAD BAD},
    {"gat without keys", "gat 0\r\ngat\r\ngat x k\r\n",
     END "ERROR\r\nCLIENT_ERROR invalid exptime argument\r\n"},
    {"gat returns the value", SET_ABC "gat 0 k nope k\r\n", STORED ABC ABC END},
    {"gat with a time in the past returns the value one last time", SET_ABC "gat -1 k\r\nget k\r\n",
     STORED ABC END END},
    {"touch with a time in the past expires the value", SET_ABC "touch k -1\r\nget k\r\n",
     STORED "TOUCHED\r\n" END},
    {"a value stored with a time in the past is expired", "set k 0 -1 3\r\nabc\r\nget k\r\n",
     STORED END},
    {"two commands in one read", SET_ABC "get k\r\nget k\r\n", STORED ABC END ABC END},
};

static const struct dialogue storage[] = {
    {"add stores only a missing key", "add a 0 0 1\r\n1\r\nadd a 0 0 1\r\n2\r\nget a\r\n",
     STORED "NOT_STORED\r\nVALUE a 0 1\r\n1\r\n" END},
    {"replace stores only an existing key",
     "replace nope 0 0 1\r\n1\r\nreplace a 7 0 1\r\n3\r\nget a\r\n",
     "NOT_STORED\r\n" STORED "VALUE a 7 1\r\n3\r\n" END},
    {"append keeps the flags", "append a 9 0 2\r\nxy\r\nget a\r\n",
     STORED "VALUE a 7 3\r\n3xy\r\n" END},
    {"prepend keeps the flags", "prepend a 9 0 2\r\nuv\r\nget a\r\n",
     STORED "VALUE a 7 5\r\nuv3xy\r\n" END},
    {"append and prepend of a missing key store nothing",
     "append nope 0 0 1\r\nx\r\nprepend nope 0 0 1\r\nx\r\n", "NOT_STORED\r\nNOT_STORED\r\n"},
    {"noreply suppresses the answer",
     "set a 0 0 1 noreply\r\nx\r\nadd a 0 0 1 noreply\r\ny\r\nappend a 0 0 1 noreply\r\nz\r\n"
     "get a\r\n",
     "VALUE a 0 2\r\nxz\r\n" END},
    {"cas of a missing key", "cas nope 0 0 1 1\r\nx\r\ncas nope 0 0 1 0\r\nx\r\n",
     "NOT_FOUND\r\nNOT_FOUND\r\n"},
    {"cas with another id than the item's",
     SET_ABC "cas k 0 0 1 18446744073709551615\r\nx\r\nget k\r\n", STORED "EXISTS\r\n" ABC END},
    {"cas noreply", "cas nope 0 0 3 1 noreply\r\nabc\r\nversion\r\n", VERSION},
    {"a value longer than its length", SET_ABC "set k 0 0 3\r\nxyzdefgh\r\nget k\r\n",
     STORED CHUNK "ERROR\r\n" ABC END},
    {"a value longer than its length by one byte", "set k 0 0 3\r\nabcd\r\nversion\r\n",
     CHUNK "ERROR\r\n" VERSION},
    {"a value shorter than its length", "set k 0 0 3\r\nab\r\nversion\r\n", CHUNK "ERROR\r\n"},
    {"a value that ends with a bare newline", "set k 0 0 3\r\nabc\nversion\r\n", CHUNK "ERROR\r\n"},
    {"a value that ends with two carriage returns", "set k 0 0 3\r\nabc\r\rversion\r\n",
     CHUNK VERSION},
    {"a bad value with noreply", "set k 0 0 3 noreply\r\nabcdef\r\nversion\r\n",
     "ERROR\r\n" VERSION},
    {"a bad value keeps the old one", "get k\r\n", ABC END},
    {"the value after a bad line is parsed as commands",
     "set k a 0 3\r\nabc\r\nset " K251 " 0 0 3\r\nabc\r\nset k 0 0 -1\r\nget k\r\n",
     BAD "ERROR\r\n" BAD "ERROR\r\n" BAD ABC END},
    {"a bad line with noreply", "set " K251 " 0 0 3 noreply\r\nabc\r\nversion\r\n",
     "ERROR\r\n" VERSION},
};

static const struct dialogue changes[] = {
    {"delete", SET_ABC "delete k\r\ndelete k\r\nget k\r\n", STORED "DELETED\r\nNOT_FOUND\r\n" END},
    {"delete with a zero", SET_ABC "delete k 0\r\n", STORED "DELETED\r\n"},
    {"delete noreply", SET_ABC "delete k noreply\r\ndelete k 0 noreply\r\nget k\r\n", STORED END},
    {"delete with a time", SET_ABC "delete k 5\r\ndelete k 5 noreply\r\nget k\r\n",
     STORED "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n" ABC END},
    {"touch", "touch k 100\r\ntouch nope 0\r\ntouch k x\r\ntouch k\r\n",
     "TOUCHED\r\nNOT_FOUND\r\nCLIENT_ERROR invalid exptime argument\r\nERROR\r\n"},
    {"touch noreply", "touch k 0 noreply\r\ntouch k x noreply\r\nversion\r\n", VERSION},
    {"incr and decr", "set n 3 0 2\r\n10\r\nincr n 1\r\ndecr n 2\r\nget n\r\n",
     STORED "11\r\n9\r\nVALUE n 3 2\r\n9 \r\n" END},
    {"a number grows", "set n 3 0 2\r\n99\r\nincr n 1\r\nget n\r\n",
     STORED "100\r\nVALUE n 3 3\r\n100\r\n" END},
    {"decr stops at zero", "decr n 1000\r\n", "0\r\n"},
    {"incr wraps", "set n 0 0 20\r\n18446744073709551615\r\nincr n 2\r\nget n\r\n",
     STORED "1\r\nVALUE n 0 20\r\n1                   \r\n" END},
    {"incr by a number over 64 bits", "incr n 18446744073709551616\r\nincr n -1\r\nincr n x\r\n",
     "CLIENT_ERROR invalid numeric delta argument\r\n"
     "CLIENT_ERROR invalid numeric delta argument\r\n"
     "CLIENT_ERROR invalid numeric delta argument\r\n"},
    {"incr of a missing key", "incr nope 1\r\ndecr nope 1\r\nincr\r\nincr n\r\n",
     "NOT_FOUND\r\nNOT_FOUND\r\nERROR\r\nERROR\r\n"},
    {"incr of letters", SET_ABC "incr k 1\r\ndecr k 1\r\nincr k 1 noreply\r\n",
     STORED NON_NUMERIC NON_NUMERIC},
    {"incr of an empty value", "set n 0 0 0\r\n\r\nincr n 1\r\n", STORED NON_NUMERIC},
    {"incr of a negative number", "set n 0 0 2\r\n-1\r\nincr n 1\r\n", STORED NON_NUMERIC},
    {"incr of a number over 64 bits", "set n 0 0 20\r\n18446744073709551616\r\nincr n 1\r\n",
     STORED NON_NUMERIC},
    {"incr of a number between blanks", "set n 0 0 3\r\n 1 \r\nincr n 1\r\n", STORED "2\r\n"},
    {"incr noreply", "set n 0 0 1\r\n1\r\nincr n 1 noreply\r\nget n\r\n",
     STORED "VALUE n 0 1\r\n2\r\n" END},
};

static const struct dialogue administration[] = {
    {"version", "version\r\nversion foo\r\n", VERSION "ERROR\r\n"},
    {"flush_all", SET_ABC "flush_all\r\nget k\r\n" SET_ABC "get k\r\n",
     STORED "OK\r\n" END STORED ABC END},
    {"flush_all 0", SET_ABC "flush_all 0\r\nget k\r\n", STORED "OK\r\n" END},
    {"flush_all with a time in the past", SET_ABC "flush_all -10\r\nget k\r\n",
     STORED "OK\r\n" END},
    {"flush_all noreply", SET_ABC "flush_all noreply\r\nget k\r\n", STORED END},
    {"flush_all 0 noreply", SET_ABC "flush_all 0 noreply\r\nget k\r\n", STORED END},
    {"flush_all with a bad time",
     SET_ABC "flush_all x\r\nflush_all x noreply\r\nflush_all 1 2 3\r\nget k\r\n",
     STORED "CLIENT_ERROR invalid exptime argument\r\nERROR\r\n" ABC END},
    {"verbosity",
     "verbosity 1\r\nverbosity\r\nverbosity foo\r\nverbosity -1\r\nverbosity 0 noreply\r\n",
     "OK\r\nERROR\r\n" BAD BAD},
    {"cache_memlimit",
     "cache_memlimit\r\ncache_memlimit 7\r\ncache_memlimit x\r\ncache_memlimit 1000000001\r\n"
     "cache_memlimit 64 noreply\r\ncache_memlimit 64\r\n",
     "ERROR\r\nMEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\nERROR\r\n"
     "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\nOK\r\n"},
    {"cache_memlimit above the memory that references can address", "cache_memlimit 1000000000\r\n",
     "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"},
    {"shutdown is disabled by default", "shutdown\r\nshutdown foo\r\n",
     "ERROR: shutdown not enabled\r\nERROR: shutdown not enabled\r\n"},
    {"unknown words", "foo\r\nGET k\r\n\r\n\n   \r\n",
     "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
    {"short statistics",
     "stats sizes\r\nstats settings\r\nstats conns\r\nstats bmc\r\nstats reset\r\nstats foo\r\n"
     "stats noreply\r\n",
     "STAT sizes_status disabled\r\nEND\r\nSTAT maxbytes 67108864\r\nEND\r\n"
     "STAT 7:state conn_listening\r\nEND\r\nSTAT bmc_hits 5\r\nEND\r\nRESET\r\nERROR\r\n"
     "ERROR\r\n"},
};

static void speaks(struct server *server, const struct dialogue *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = ask(server, rows[i].send);

        if (!ok(strcmp(got, rows[i].answer) == 0, "%s", rows[i].name))
            diag("got: %.300s", got);
    }
}

#define SPEAKS(server, rows) speaks(server, rows, COUNT(rows))

static void dialogues(struct server *server)
{
    SPEAKS(server, retrieval);
    SPEAKS(server, storage);
    SPEAKS(server, changes);
    SPEAKS(server, administration);
}

static void connections_end(void)
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server.config.shutdown_enabled = true;
    server_start(&server, &store);
    ok(strcmp(ask(&server, "quit\r\nversion\r\n"), "") == 0 && server.closed,
       "quit closes the connection without an answer");
    ok(strcmp(ask(&server, "GET / HTTP/1.1\r\n\r\n"), "") == 0 && server.closed,
       "an HTTP request closes the connection without an answer");
    ok(strcmp(ask(&server, "shutdown foo\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n") == 0 &&
           !server.closed && server.nshutdowns == 0,
       "shutdown with an unknown word is refused");
    ok(strcmp(ask(&server, "shutdown\r\nversion\r\n"), "") == 0 && server.closed &&
           server.nshutdowns == 1 && !server.graceful,
       "shutdown closes the connection, and is reported to the server");
    ok(strcmp(ask(&server, "shutdown graceful\r\nversion\r\n"), "") == 0 && server.closed &&
           server.nshutdowns == 2 && server.graceful,
       "shutdown graceful does too, and asks to keep the items");
    ask(&server, "verbosity 1\r\n");
    ok(server.verbosity == 1, "the new verbosity is reported to the server");
    ask(&server, "verbosity 1000\r\n");
    ok(server.verbosity == 2, "the verbosity is at most 2");
    server_stop(&server);
}

static void times_are_relative_or_absolute(void)
{
    struct store_config store;
    struct server server;
    char line[128];

    server_defaults(&server, &store);
    server_start(&server, &store);
    ask(&server, "set a 0 10 1\r\nx\r\nset b 0 2592000 1\r\nx\r\n");
    snprintf(line, sizeof(line), "set c 0 %lld 1\r\nx\r\nset d 0 2592001 1\r\nx\r\n",
             (long long)server.config.clock.base_unix + server.now + 10);
    ask(&server, line);
    ok(strcmp(ask(&server, "get d\r\n"), END) == 0, "a time over 30 days is a Unix time");
    server.now += 9;
    ok(strcmp(ask(&server, "get a c\r\n"), "VALUE a 0 1\r\nx\r\nVALUE c 0 1\r\nx\r\n" END) == 0,
       "a value exists until its expiry");
    server.now += 1;
    ok(strcmp(ask(&server, "get a b c\r\n"), "VALUE b 0 1\r\nx\r\n" END) == 0,
       "a value is gone at its expiry, given as seconds or as a Unix time");
    ask(&server, SET_ABC "flush_all 5\r\n");
    ok(strcmp(ask(&server, "get k\r\n"), ABC END) == 0, "a delayed flush removes nothing at first");
    server.now += 3;
    store_tick(server.store, server.now);
    ok(strcmp(ask(&server, "get k\r\n"), ABC END) == 0,
       "a delayed flush removes nothing two seconds before its time");
    server.now += 1;
    store_tick(server.store, server.now);
    ok(strcmp(ask(&server, "get k\r\n"), END) == 0,
       "a delayed flush removes all a second before its time, as memcached's does");
    ask(&server, SET_ABC "flush_all 1\r\n");
    ok(strcmp(ask(&server, "get k\r\n"), END) == 0, "flush_all 1 removes all at once");
    server_stop(&server);
}

static void refusals(void)
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server.config.flush_enabled = false;
    store.cas = false;
    server_start(&server, &store);
    ok(strcmp(ask(&server, SET_ABC "flush_all\r\nflush_all x\r\nflush_all noreply\r\nget k\r\n"),
              STORED "CLIENT_ERROR flush_all not allowed\r\n"
                     "CLIENT_ERROR flush_all not allowed\r\n" ABC END) == 0,
       "with -F flush_all is refused");
    ok(strstr(ask(&server, "stats\r\n"), "STAT cmd_flush 3\r\n") != NULL,
       "each refused flush_all is counted");
    ok(strcmp(ask(&server, "gets k\r\n"), "VALUE k 0 3 0\r\nabc\r\n" END) == 0,
       "with -C gets shows 0");
    server_stop(&server);
}

static void cas_ids_work(struct server *server)
{
    unsigned long long id = 0;
    char line[128];
    int tail = 0;

    ask(server, SET_ABC "gets k\r\n");
    ok(sscanf(server->out, "STORED VALUE k 0 3 %llu abc END %n", &id, &tail) == 1 && tail > 0 &&
           id > 0,
       "gets returns the CAS id");
    snprintf(line, sizeof(line), "cas k 1 0 2 %llu\r\nde\r\ncas k 1 0 2 %llu\r\nfg\r\nget k\r\n",
             id, id);
    ok(strcmp(ask(server, line), STORED "EXISTS\r\nVALUE k 1 2\r\nde\r\n" END) == 0,
       "an id is valid for one cas");
    ask(server, "gats 0 k\r\n");
    ok(sscanf(server->out, "VALUE k 1 2 %llu", &id) == 1, "gats returns the CAS id");
    snprintf(line, sizeof(line), "cas k 1 0 2 %llu noreply\r\nhi\r\nget k\r\n", id);
    ok(strcmp(ask(server, line), "VALUE k 1 2\r\nhi\r\n" END) == 0,
       "the id of gats is valid for a cas");
}

int main(void)
{
    with_server(dialogues);
    connections_end();
    times_are_relative_or_absolute();
    refusals();
    with_server(cas_ids_work);
    return done();
}
