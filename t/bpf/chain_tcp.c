/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands and replies over TCP: which gates close, and when they open. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/segments.h"
#include "t/lib/tap.h"

#define LONG_SETTLE 60000000000u

static const struct form plain;

static bool check(struct watch *watch, const char *key, enum gate_is want, const char *what)
{
    enum gate_is is = gate_is(key ? watch_gate(watch, key) : watch->all);

    return ok(is == want, "%s: the gate of %s is %s", what, key ? key : "the table", gate_name(is));
}

/* --- every writing command ---------------------------------------------------------------- */

struct text {
    const char *at;
    size_t n;
};
#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }
#define NO_TEXT                                                                                    \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

/* A binary header up to its opaque and cas: key, extras, body. */
#define BINARY(magic, opcode, nkey, nextras, nbody)                                                \
    magic opcode "\0" nkey nextras "\0\0\0\0\0\0" nbody "\0\0\0\1\0\0\0\0\0\0\0\0"
#define VERSION BINARY("\x80", "\x0b", "\0", "\0", "\0")

struct command {
    const char *name;
    struct text says; /* a command that writes "key", or any key */
    struct text answer;
    bool everything;
    struct text next; /* if the command has no answer: one that has, */
    struct text then; /* and its answer */
};

static const struct command commands[] = {
    {"set", TEXT("set key 7 0 5\r\nvalue\r\n"), TEXT("STORED\r\n"), false, NO_TEXT, NO_TEXT},
    {"add", TEXT("add key 0 0 1\r\nv\r\n"), TEXT("NOT_STORED\r\n"), false, NO_TEXT, NO_TEXT},
    {"replace", TEXT("replace key 0 -1 0\r\n\r\n"), TEXT("STORED\r\n"), false, NO_TEXT, NO_TEXT},
    {"append", TEXT("append key 0 0 2\r\n\r\n\r\n"), TEXT("STORED\r\n"), false, NO_TEXT, NO_TEXT},
    {"prepend", TEXT("prepend  key 0 0 1 \r\nv\r\n"), TEXT("STORED\r\n"), false, NO_TEXT, NO_TEXT},
    {"cas", TEXT("cas key 0 0 1 12345\r\nv\r\n"), TEXT("EXISTS\r\n"), false, NO_TEXT, NO_TEXT},
    {"delete", TEXT("delete key\r\n"), TEXT("DELETED\r\n"), false, NO_TEXT, NO_TEXT},
    {"delete with a bare newline", TEXT("delete key\n"), TEXT("DELETED\r\n"), false, NO_TEXT,
     NO_TEXT},
    {"incr", TEXT("incr key 5\r\n"), TEXT("10\r\n"), false, NO_TEXT, NO_TEXT},
    {"decr", TEXT("decr key 5\r\n"), TEXT("NOT_FOUND\r\n"), false, NO_TEXT, NO_TEXT},
    {"touch", TEXT("touch key -1\r\n"), TEXT("TOUCHED\r\n"), false, NO_TEXT, NO_TEXT},
    {"gat", TEXT("gat -1 key\r\n"), TEXT("VALUE key 0 1\r\nv\r\nEND\r\n"), false, NO_TEXT, NO_TEXT},
    {"gats", TEXT("gats 5 key\r\n"), TEXT("END\r\n"), false, NO_TEXT, NO_TEXT},
    {"ms", TEXT("ms key 2 T0\r\nvv\r\n"), TEXT("HD\r\n"), false, NO_TEXT, NO_TEXT},
    {"md", TEXT("md key\r\n"), TEXT("HD\r\n"), false, NO_TEXT, NO_TEXT},
    {"ma", TEXT("ma key v\r\n"), TEXT("VA 2\r\n10\r\n"), false, NO_TEXT, NO_TEXT},
    {"mg that touches", TEXT("mg key T30 v\r\n"), TEXT("VA 1\r\nv\r\n"), false, NO_TEXT, NO_TEXT},
    {"binary set",
     TEXT(BINARY("\x80", "\1", "\3", "\10", "\20") "\0\0\0\0\0\0\0\0"
                                                   "keyvalue"),
     TEXT(BINARY("\x81", "\1", "\0", "\0", "\0")), false, NO_TEXT, NO_TEXT},
    {"binary delete", TEXT(BINARY("\x80", "\4", "\3", "\0", "\3") "key"),
     TEXT(BINARY("\x81", "\4", "\0", "\0", "\0")), false, NO_TEXT, NO_TEXT},
    {"binary append", TEXT(BINARY("\x80", "\x0e", "\3", "\0", "\4") "keyv"),
     TEXT(BINARY("\x81", "\x0e", "\0", "\0", "\0")), false, NO_TEXT, NO_TEXT},
    {"binary incr",
     TEXT(BINARY("\x80", "\5", "\3", "\24", "\27") "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0key"),
     TEXT(BINARY("\x81", "\5", "\0", "\0", "\10") "\0\0\0\0\0\0\0\1"), false, NO_TEXT, NO_TEXT},
    {"binary touch", TEXT(BINARY("\x80", "\x1c", "\3", "\4", "\7") "\0\0\0\0key"),
     TEXT(BINARY("\x81", "\x1c", "\0", "\4", "\4") "\0\0\0\0"), false, NO_TEXT, NO_TEXT},
    {"flush_all", TEXT("flush_all\r\n"), TEXT("OK\r\n"), true, NO_TEXT, NO_TEXT},
    {"an unknown command", TEXT("obliterate key\r\n"), TEXT("ERROR\r\n"), true, NO_TEXT, NO_TEXT},
    {"binary flush", TEXT(BINARY("\x80", "\10", "\0", "\0", "\0")),
     TEXT(BINARY("\x81", "\10", "\0", "\0", "\0")), true, NO_TEXT, NO_TEXT},
    {"a key in base64", TEXT("md a2V5 b\r\n"), TEXT("HD\r\n"), true, NO_TEXT, NO_TEXT},
    {"set without a reply", TEXT("set key 0 0 1 noreply\r\nv\r\n"), NO_TEXT, false,
     TEXT("version\r\n"), TEXT("VERSION 1\r\n")},
    {"delete without a reply", TEXT("delete key noreply\r\n"), NO_TEXT, false,
     TEXT("get other\r\n"), TEXT("END\r\n")},
    {"quiet md", TEXT("md key q\r\n"), NO_TEXT, false, TEXT("mn\r\n"), TEXT("MN\r\n")},
    {"quiet binary set",
     TEXT(BINARY("\x80", "\x11", "\3", "\10", "\14") "\0\0\0\0\0\0\0\0"
                                                     "keyv"),
     NO_TEXT, false, TEXT(VERSION), TEXT(BINARY("\x81", "\x0b", "\0", "\0", "\5") "1.6.1")},
    {"flush_all without a reply", TEXT("flush_all noreply\r\n"), NO_TEXT, true, TEXT("version\r\n"),
     TEXT("VERSION 1\r\n")},
};

static bool is(struct watch *watch, const struct command *command, enum gate_is want)
{
    return gate_is(command->everything ? watch->all : watch_gate(watch, "key")) == want &&
           (command->everything || gate_is(watch->all) == GATE_UNTOUCHED);
}

/* Sends a command in two segments, split at `cut`, and answers it. */
static bool try_command(struct watch *watch, const struct form *form, const struct command *command,
                        size_t cut)
{
    struct talk talk;
    bool good;

    talk_open(&talk, watch, form);
    watch_mark(watch);
    if (cut)
        talk_say(&talk, command->says.at, cut);
    good = gate_is(watch->all) == GATE_UNTOUCHED || command->everything;
    talk_say(&talk, command->says.at + cut, command->says.n - cut);
    good = good && is(watch, command, GATE_ENTERED);
    if (command->answer.n) {
        talk_answer(&talk, command->answer.at, command->answer.n - 1);
        good = good && is(watch, command, GATE_ENTERED);
        talk_answer(&talk, command->answer.at + command->answer.n - 1, 1);
        return good && is(watch, command, GATE_LEFT);
    }
    talk_say(&talk, command->next.at, command->next.n);
    good = good && is(watch, command, GATE_ENTERED);
    talk_answer(&talk, command->then.at, command->then.n);
    return good && is(watch, command, GATE_LEFT);
}

static void test_commands(struct watch *watch, const struct form *form, const char *name)
{
    const struct command *command;
    size_t cut, ngood, i;

    for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        command = &commands[i];
        for (ngood = cut = 0; cut < command->says.n; cut++)
            ngood += try_command(watch, form, command, cut);
        ok(ngood == command->says.n,
           "%s: %s, split anywhere (%zu of %zu), closes the gate until its reply", name,
           command->name, ngood, command->says.n);
    }
}

/* --- several commands ------------------------------------------------------------------------ */

static void test_pipeline(struct watch *watch)
{
    struct talk talk;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk,
        "set a 0 0 1\r\n1\r\nget b\r\ndelete c\r\nset d 0 0 3 noreply\r\nset\r\nincr e 1\r\n");
    check(watch, "a", GATE_ENTERED, "five commands in one segment");
    check(watch, "b", GATE_UNTOUCHED, "five commands in one segment");
    check(watch, "c", GATE_ENTERED, "five commands in one segment");
    check(watch, "d", GATE_ENTERED, "five commands in one segment");
    check(watch, "e", GATE_ENTERED, "five commands in one segment");
    ANSWER(&talk, "STORED\r\n");
    check(watch, "a", GATE_LEFT, "the first reply");
    check(watch, "c", GATE_ENTERED, "the first reply");
    ANSWER(&talk, "VALUE b 0 9\r\nDELETED\r\n\r\nEND\r\nDELE");
    check(watch, "c", GATE_ENTERED, "a value that looks like a reply, and half a reply");
    ANSWER(&talk, "TED\r\n");
    check(watch, "c", GATE_LEFT, "the third reply");
    check(watch, "d", GATE_ENTERED, "the third reply");
    ANSWER(&talk, "7\r\n");
    check(watch, "d", GATE_LEFT, "the fourth reply also ends the write without a reply");
    check(watch, "e", GATE_LEFT, "the fourth reply");
    check(watch, NULL, GATE_UNTOUCHED, "during five commands");
    ok(watch_count(watch, CHAIN_WRITES_SEEN) == 4 && watch_count(watch, CHAIN_WRITES_ENDED) == 4,
       "four writes and their ends are counted");
}

static void test_slow_keys(struct watch *watch)
{
    struct talk talk;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "gat 5 one two ");
    check(watch, "two", GATE_ENTERED, "two keys of an incomplete command");
    SAY(&talk, "three\r\n");
    check(watch, NULL, GATE_ENTERED, "the end of a command with more than two keys");
    ANSWER(&talk, "END\r\n");
    check(watch, NULL, GATE_LEFT, "the reply");
    check(watch, "one", GATE_LEFT, "the reply");
    check(watch, "three", GATE_LEFT, "the reply");
}

static void test_values(struct watch *watch)
{
    struct talk talk;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "set key 0 0 25\r\nset evil 0 0 1\r\nx\r\nset \r\n\r\nset good 0 0 1\r\nx\r\n");
    check(watch, "evil", GATE_UNTOUCHED, "a value that looks like a command");
    check(watch, "good", GATE_ENTERED, "a command behind such a value");
    ANSWER(&talk, "STORED\r\nSTORED\r\n");
    check(watch, "good", GATE_LEFT, "both replies");
    check(watch, NULL, GATE_UNTOUCHED, "during a value that looks like a command");
}

static void test_many_writes(struct watch *watch)
{
    struct talk talk;
    char text[64], key[16];
    int i, n;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    for (i = 0; i < 2 * CHAIN_WRITES; i++) {
        n = snprintf(text, sizeof(text), "incr key%d 1\r\n", i);
        talk_say(&talk, text, (size_t)n);
    }
    for (n = i = 0; i < 2 * CHAIN_WRITES; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        n += gate_is(watch_gate(watch, key)) == (i < CHAIN_WRITES ? GATE_ENTERED : GATE_TIMED);
    }
    ok(n == 2 * CHAIN_WRITES,
       "open writes beyond the room of a connection close their gates for a time (%d)", n);
    for (i = 0; i < CHAIN_WRITES; i++)
        ANSWER(&talk, "1\r\n");
    for (n = i = 0; i < CHAIN_WRITES; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        n += gate_is(watch_gate(watch, key)) == GATE_LEFT;
    }
    ok(n == CHAIN_WRITES, "the other writes end with their replies (%d)", n);
    for (i = 0; i < CHAIN_WRITES; i++)
        ANSWER(&talk, "1\r\n");
    check(watch, NULL, GATE_UNTOUCHED, "after all replies");
    SAY(&talk, "delete again\r\n");
    check(watch, "again", GATE_ENTERED, "a write when there is room again");
    ANSWER(&talk, "DELETED\r\n");
    check(watch, "again", GATE_LEFT, "the reply");
}

static void test_errors(struct watch *watch)
{
    struct talk talk;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "delete a\r\n");
    ANSWER(&talk, "SERVER_ERROR x\r\n");
    check(watch, "a", GATE_LEFT, "an error reply to one write");
    SAY(&talk, "delete b noreply\r\ndelete c\r\n");
    ANSWER(&talk, "SERVER_ERROR x\r\n");
    check(watch, "c", GATE_TIMED, "an error that may be the reply to a command with noreply");
    SAY(&talk, "delete d\r\n");
    check(watch, "d", GATE_TIMED, "a write on a connection whose replies cannot be counted");
    check(watch, NULL, GATE_UNTOUCHED, "on a connection whose replies cannot be counted");

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "set a 0 0 10\r\n0123456789\r\nget b\r\n");
    ANSWER(&talk, "SERVER_ERROR object too large for cache\r\n");
    check(watch, NULL, GATE_TIMED, "an error of a server that may parse the value as commands");
    ok(watch_count(watch, CHAIN_LOST) == 1, "after such an error the connection is lost");

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "set a 0 0 10\r\n0123456789\r\n");
    ANSWER(&talk, "STORED\r\n");
    SAY(&talk, "delete b noreply\r\nget b\r\n");
    ANSWER(&talk, "END\r\n");
    SAY(&talk, "incr d x\r\n");
    watch_mark(watch);
    ANSWER(&talk, "ERROR\r\n");
    SAY(&talk, "delete c\r\n");
    check(watch, "c", GATE_ENTERED, "an error that can only be the reply to its command");
    check(watch, NULL, GATE_UNTOUCHED, "an error that can only be the reply to its command");

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "set a 0 0 100\r\n");
    ANSWER(&talk, "STORED\r\n");
    check(watch, NULL, GATE_TIMED, "a reply to an incomplete command");

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "delete a\r\n");
    ANSWER(&talk, "DELETED\r\nDELETED\r\n");
    SAY(&talk, "delete b\r\n");
    check(watch, NULL, GATE_TIMED, "a write after a surplus reply");
}

static void test_flush(struct watch *watch)
{
    struct talk talk;
    uint64_t now = watch_now(), done;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    SAY(&talk, "flush_all 10\r\n");
    ANSWER(&talk, "OK\r\n");
    done = watch->all->done;
    ok(done > now + 10000000000u + LONG_SETTLE && done < now + 40000000000u + LONG_SETTLE,
       "flush_all 10 closes the table's gate for ten seconds and the time of a write");
    watch_mark(watch);
    SAY(&talk, "flush_all 1000000000\r\n"); /* 2001 */
    ANSWER(&talk, "OK\r\n");
    check(watch, NULL, GATE_LEFT, "flush_all with a time in the past");
    watch_mark(watch);
    SAY(&talk, "set a 0 0 1\r\n1\r\n");
    check(watch, "a", GATE_ENTERED, "a write after flush_all");
}

/* --- forms ------------------------------------------------------------------------------------ */

static void test_large(struct watch *watch)
{
    static char text[65536];
    static const char end[] = "\r\ndelete behind\r\n";
    struct talk talk;
    size_t n = 0;
    int i;

    talk_open(&talk, watch, &plain);
    watch_mark(watch);
    n = (size_t)sprintf(text, "set key 0 0 40000\r\n");
    memset(text + n, 's', 40000);
    memcpy(text + n + 40000, end, sizeof(end));
    n += 40000 + sizeof(end) - 1;
    talk_say(&talk, text, n);
    check(watch, "behind", GATE_ENTERED, "a command behind 40,000 bytes of value");
    check(watch, NULL, GATE_UNTOUCHED, "a command behind 40,000 bytes of value");
    ANSWER(&talk, "STORED\r\nDELETED\r\n");
    check(watch, "behind", GATE_LEFT, "both replies");

    watch_mark(watch);
    for (n = 0, i = 0; n < 60000; i++)
        n += (size_t)sprintf(text + n, "incr key%d 1\r\n", i % 1000);
    n += (size_t)sprintf(text + n, "incr last 1\r\n");
    talk_say(&talk, text, n);
    ok(watch_count(watch, CHAIN_WRITES_SEEN) == (uint64_t)i + 1,
       "%d commands in one segment all close their gates (%d)", i + 1,
       (int)watch_count(watch, CHAIN_WRITES_SEEN));
    check(watch, "last", GATE_TIMED, "the last of many commands");
    check(watch, NULL, GATE_UNTOUCHED, "during many commands");
}

/* Mean of single runs; the first ones warm up. */
static double time_each(struct talk *talk, const void *data, size_t n, const char *answer)
{
    uint64_t sum = 0;
    int i;

    for (i = -200; i < 2000; i++) {
        sum += talk_time(talk, data, n);
        if (i == -1)
            sum = 0;
        if (answer)
            talk_answer(talk, answer, strlen(answer));
    }
    return (double)sum / 2000;
}

static void test_times(struct watch *watch)
{
    static char value[1400];
    struct talk talk;

    talk_open(&talk, watch, &plain);
    diag("nanoseconds for a set of 27 bytes: %.0f",
         time_each(&talk, "set key:1234 0 0 5\r\nvalue\r\n", 27, "STORED\r\n"));
    diag("for an acknowledgement: %.0f", time_each(&talk, NULL, 0, NULL));
    SAY(&talk, "set key 0 0 1000000000\r\n");
    diag("for 1,400 bytes of a value: %.0f", time_each(&talk, value, sizeof(value), NULL));
    ok(gate_is(watch->all) == GATE_UNTOUCHED, "all timed segments were followed");
}

int main(void)
{
    static const struct {
        struct form form;
        const char *name;
    } forms[] = {
        {{.v6 = false}, "IPv4"},
        {{.v6 = true}, "IPv6"},
        {{.ip_options = 8, .tcp_options = 12}, "IPv4 and TCP with options"},
        {{.v6 = true, .ip_options = 16, .tcp_options = 40}, "IPv6 with an extension header"},
        {{.ntags = 2, .tcp_options = 12}, "two tags"},
    };
    struct watch watch;
    size_t i;

    watch_open(&watch, LONG_SETTLE);
    for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        test_commands(&watch, &forms[i].form, forms[i].name);
    test_pipeline(&watch);
    test_values(&watch);
    test_slow_keys(&watch);
    test_many_writes(&watch);
    test_errors(&watch);
    test_flush(&watch);
    test_large(&watch);
    watch_mark(&watch);
    test_times(&watch);
    watch_close(&watch);
    return done();
}
