/* SPDX-License-Identifier: BSD-3-Clause */
/* Dialogues of `stats detail`, `stats cachedump` and the switches of `stats sizes`. */
#include "t/unit/command_client.h"

struct dialogue {
    const char *name, *send, *answer;
};

#define OK_    "OK\r\n"
#define END    "END\r\n"
#define STORED "STORED\r\n"
#define DUMP   "stats detail dump\r\n"
#define USAGE  "CLIENT_ERROR usage: stats detail on|off|dump\r\n"
#define BAD    "CLIENT_ERROR bad command line format\r\n"

/* Each begins after "stats reset" with detail on, and ends with a dump. */
static const struct dialogue counted[] = {
    {"the dump is empty at first", "", END},
    {"a miss", "get p:a\r\n", END "PREFIX p get 1 hit 0 set 0 del 0\r\n" END},
    {"a set and a hit are counted", "set p:a 0 0 1\r\n1\r\nget p:a\r\n",
     STORED "VALUE p:a 0 1\r\n1\r\n" END "PREFIX p get 1 hit 1 set 1 del 0\r\n" END},
    {"several keys", "get p:a p:a p:b\r\n",
     "VALUE p:a 0 1\r\n1\r\nVALUE p:a 0 1\r\n1\r\n" END "PREFIX p get 3 hit 2 set 0 del 0\r\n" END},
    {"gat is counted as a get", "gat 0 p:a p:b\r\n",
     "VALUE p:a 0 1\r\n1\r\n" END "PREFIX p get 2 hit 1 set 0 del 0\r\n" END},
    {"touch, incr and flush_all are not counted",
     "touch p:a 0\r\ntouch p:b 0\r\nincr p:a 1\r\nincr p:b 1\r\nflush_all 1000\r\n",
     "TOUCHED\r\nNOT_FOUND\r\n2\r\nNOT_FOUND\r\n" OK_ END},
    {"the meta commands are not counted", "mg p:a v\r\nmd p:b\r\nms p:c 1\r\n1\r\nmg p:d v N30\r\n",
     "VA 1\r\n2\r\nNF\r\nHD\r\nVA 0 W\r\n\r\n" END},
    {"a delete is counted, hit or miss", "delete p:a\r\ndelete p:a\r\ndelete p:a noreply\r\n",
     "DELETED\r\nNOT_FOUND\r\n"
     "PREFIX p get 0 hit 0 set 0 del 3\r\n" END},
    {"every storage command is counted, stored or not",
     "add p:a 0 0 1\r\n1\r\nadd p:a 0 0 1\r\n1\r\nreplace p:x 0 0 1\r\n1\r\n"
     "append p:x 0 0 1\r\n1\r\ncas p:x 0 0 1 5\r\n1\r\nset p:a 0 0 1 noreply\r\n1\r\n",
     STORED "NOT_STORED\r\nNOT_STORED\r\nNOT_STORED\r\nNOT_FOUND\r\n"
            "PREFIX p get 0 hit 0 set 6 del 0\r\n" END},
    {"a storage command whose value is bad or too large is counted",
     "set p:a 0 0 1\r\n123\r\nset p:a 0 0 1048577\r\n", "CLIENT_ERROR bad data chunk\r\n"},
    {"a refused command line is not counted",
     "set p:a 0 0 -1\r\nset p:a a 0 1\r\ndelete p:a 5\r\ngat x p:a\r\n",
     BAD BAD "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
             "CLIENT_ERROR invalid exptime argument\r\n" END},
    {"a key without a delimiter is not counted", "get a\r\ndelete a\r\n", END "NOT_FOUND\r\n" END},
    {"an empty prefix is counted", "get :a\r\n", END "PREFIX  get 1 hit 0 set 0 del 0\r\n" END},
    {"the prefix ends at the first delimiter", "get a:b:c\r\n",
     END "PREFIX a get 1 hit 0 set 0 del 0\r\n" END},
    {"after 'detail off' nothing is counted", "get p:1\r\nstats detail off\r\nget p:1\r\n",
     END OK_ END "PREFIX p get 1 hit 0 set 0 del 0\r\n" END},
    {"after 'detail on' counting goes on",
     "get p:1\r\nstats detail off\r\nget p:1\r\nstats detail on\r\nget p:1\r\n",
     END OK_ END OK_ END "PREFIX p get 2 hit 0 set 0 del 0\r\n" END},
    {"words after on, off and dump are ignored", "stats detail dump x\r\nstats detail on off\r\n",
     END OK_ END},
    {"unknown words are answered with the usage",
     "stats detail\r\nstats detail foo\r\nstats detail ON\r\nstats detail onx\r\n",
     USAGE USAGE USAGE USAGE END},
};

static bool says(struct server *server, const char *send, const char *answer)
{
    const char *got = ask(server, send);

    if (strcmp(got, answer) != 0)
        diag("got: %.300s", got);
    return strcmp(got, answer) == 0;
}

static void test_counted(struct server *server)
{
    char text[4096];

    for (size_t i = 0; i < COUNT(counted); i++) {
        ask(server, "stats reset\r\nstats detail on\r\n");
        snprintf(text, sizeof(text), "%s" DUMP, counted[i].send);
        if (!strstr(counted[i].name, "bad or too large")) {
            ok(says(server, text, counted[i].answer), "detail: %s", counted[i].name);
            continue;
        }
        /* The rest of the bad value is taken for a command; the too large value has no body here.
         */
        ask(server, counted[i].send);
        ok(says(server, DUMP, "PREFIX p get 0 hit 0 set 2 del 0\r\n" END), "detail: %s",
           counted[i].name);
    }
}

static void test_switch(struct server *server)
{
    ask(server, "stats reset\r\nstats detail on\r\n");
    ok(server->detail && commands_detail(server->commands),
       "'detail on' is reported to the server");
    ask(server, "stats detail off\r\n");
    ok(!server->detail && !commands_detail(server->commands),
       "'detail off' is reported to the server");
}

static void test_bounded(struct server *server)
{
    const char *at;
    char key[64];
    size_t n = 0;

    ask(server, "stats detail on\r\n");
    for (int i = 0; i < 40000; i++) {
        snprintf(key, sizeof(key), "get %d:x\r\n", i);
        ask(server, key);
    }
    for (at = ask(server, DUMP); strncmp(at, "PREFIX ", 7) == 0; at = strchr(at, '\n') + 1)
        n++;
    ok(n <= 1 << 14 && n > 10000 && strcmp(at, END) == 0,
       "an unlimited number of prefixes is cut off at a limit (%zu), and the dump ends", n);
    ask(server, "stats reset\r\nstats detail off\r\n");
}

static const struct dialogue dumps[] = {
    {"no items", "stats cachedump 1 0\r\n", END},
    {"cachedump lists the newest item first",
     "set a 5 0 3\r\nabc\r\nset b 0 0 1\r\n1\r\nstats cachedump 1 0\r\n",
     STORED STORED "ITEM b [1 b; 0 s]\r\nITEM a [3 b; 0 s]\r\n" END},
    {"a limit", "stats cachedump 1 1\r\nstats cachedump 1 2 3 4\r\n",
     "ITEM b [1 b; 0 s]\r\n" END "ITEM b [1 b; 0 s]\r\nITEM a [3 b; 0 s]\r\n" END},
    {"cachedump prints an expiry as a Unix time",
     "touch a 2000000000\r\ndelete b\r\nstats cachedump 1 0\r\n",
     "TOUCHED\r\nDELETED\r\nITEM a [3 b; 2000000000 s]\r\n" END},
    {"cachedump of classes that are empty or do not exist lists nothing",
     "stats cachedump 0 0\r\nstats cachedump 63 0\r\n", END END},
    {"class numbers out of range are refused",
     "stats cachedump 64 0\r\nstats cachedump 18446744073709551615 0\r\n",
     "CLIENT_ERROR Illegal slab id\r\nCLIENT_ERROR Illegal slab id\r\n"},
    {"words that are no numbers are refused",
     "stats cachedump a 0\r\nstats cachedump 1 b\r\nstats cachedump 1x 0\r\n"
     "stats cachedump -1 0\r\nstats cachedump 1 -1\r\n",
     BAD BAD BAD BAD BAD},
    {"missing words are refused", "stats cachedump\r\nstats cachedump 1\r\n",
     "CLIENT_ERROR bad command line\r\nCLIENT_ERROR bad command line\r\n"},
};

static void test_dump(struct server *server)
{
    for (size_t i = 0; i < COUNT(dumps); i++)
        ok(says(server, dumps[i].send, dumps[i].answer), "cachedump: %s", dumps[i].name);
}

static void test_dump_bound(struct server *server)
{
    const char *line, *got;
    char text[512];
    size_t n = 0;

    for (int i = 0; i < 12000; i++) {
        snprintf(text, sizeof(text), "set %0240d 0 0 1\r\n1\r\n", i);
        ask(server, text);
    }
    /* The class of the items stored here. */
    for (unsigned int clsid = 2; n == 0 && clsid < 20; clsid++) {
        snprintf(text, sizeof(text), "stats cachedump %u 0\r\n", clsid);
        got = ask(server, text);
        for (line = got; strncmp(line, "ITEM ", 5) == 0; line = strchr(line, '\n') + 1)
            n++;
    }
    ok(n > 7000 && n < 12000 && server->nout <= 2 << 20 && server->nout > (2 << 20) - 600 &&
           strcmp(server->out + server->nout - strlen(END), END) == 0,
       "cachedump prints at most 2 MB, of whole lines (%zu lines, %zu bytes)", n, server->nout);
}

static const struct dialogue sizes[] = {
    {"disabled", "stats sizes\r\n", "STAT sizes_status disabled\r\n" END},
    {"sizes_enable answers with a line without END",
     "stats sizes_enable\r\nstats sizes_enable x\r\n",
     "STAT sizes_status enabled\r\nSTAT sizes_status enabled\r\n"},
    {"items stored before sizes_enable are not counted",
     "stats sizes\r\ndelete a\r\nstats sizes\r\n", END "DELETED\r\n" END},
    {"items stored after it are counted",
     "set a 0 0 1\r\n1\r\nset b 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\nstats sizes\r\n",
     STORED STORED STORED "STAT 64 2\r\n" END},
    {"disabled again", "stats sizes_disable\r\nstats sizes_disable\r\nstats sizes\r\n",
     "STAT sizes_status disabled\r\nSTAT sizes_status disabled\r\n"
     "STAT sizes_status disabled\r\n" END},
    {"items deleted meanwhile are subtracted",
     "delete a\r\nset c 0 0 1\r\n1\r\nstats sizes_enable\r\nstats sizes\r\ndelete c\r\n"
     "stats sizes\r\n",
     "DELETED\r\n" STORED "STAT sizes_status enabled\r\nSTAT 64 1\r\n" END "DELETED\r\n"
     "STAT 64 1\r\n" END},
};

static void test_sizes(struct server *server)
{
    for (size_t i = 0; i < COUNT(sizes); i++)
        ok(says(server, sizes[i].send, sizes[i].answer), "sizes: %s", sizes[i].name);
}

static void test_options(void)
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server.config.dump_enabled = false;
    server.config.detail_enabled = true;
    server.config.prefix_delimiter = '/';
    server_start(&server, &store);
    ok(says(&server, "stats cachedump 1 0\r\nstats cachedump\r\n",
            "CLIENT_ERROR stats cachedump not allowed\r\n"
            "CLIENT_ERROR stats cachedump not allowed\r\n"),
       "-X: no cachedump");
    ok(server.detail && says(&server, "get a/b\r\nget a:b\r\n" DUMP,
                             END END "PREFIX a get 1 hit 0 set 0 del 0\r\n" END),
       "-D turns detail on at the start, with another delimiter");
    server_stop(&server);
}

int main(void)
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server_start(&server, &store);
    test_counted(&server);
    test_switch(&server);
    test_bounded(&server);
    ask(&server, "delete p:a\r\ndelete p:c\r\ndelete p:d\r\n");
    test_dump(&server);
    test_sizes(&server);
    test_dump_bound(&server);
    server_stop(&server);
    test_options();
    return done();
}
