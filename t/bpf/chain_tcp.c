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

/* --- every writing command ---------------------------------------------------------------- */

struct text {
    const char *at;
    size_t n;
};
#define SAYS(literal)    .says = {literal, sizeof(literal) - 1}
#define ANSWERS(literal) .answer = {literal, sizeof(literal) - 1}
#define NEXT(literal)    .next = {literal, sizeof(literal) - 1}
#define THEN(literal)    .then = {literal, sizeof(literal) - 1}
#define EVERYTHING       .everything = true

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
    {"set", SAYS("set key 7 0 5\r\nvalue\r\n"), ANSWERS("STORED\r\n")},
    {"add", SAYS("add key 0 0 1\r\nv\r\n"), ANSWERS("NOT_STORED\r\n")},
    {"replace", SAYS("replace key 0 -1 0\r\n\r\n"), ANSWERS("STORED\r\n")},
    {"append", SAYS("append key 0 0 2\r\n\r\n\r\n"), ANSWERS("STORED\r\n")},
    {"prepend", SAYS("prepend key 0 0 1 \r\nv\r\n"), ANSWERS("STORED\r\n")},
    {"cas", SAYS("cas key 0 0 1 12345\r\nv\r\n"), ANSWERS("EXISTS\r\n")},
    {"delete", SAYS("delete key\r\n"), ANSWERS("DELETED\r\n")},
    {"delete with a bare newline", SAYS("delete key\n"), ANSWERS("DELETED\r\n")},
    {"incr", SAYS("incr key 5\r\n"), ANSWERS("10\r\n")},
    {"decr", SAYS("decr key 5\r\n"), ANSWERS("NOT_FOUND\r\n")},
    {"touch", SAYS("touch key -1\r\n"), ANSWERS("TOUCHED\r\n")},
    {"gat", SAYS("gat -1 key\r\n"), ANSWERS("VALUE key 0 1\r\nv\r\nEND\r\n")},
    {"gats", SAYS("gats 5 key\r\n"), ANSWERS("END\r\n")},
    {"ms", SAYS("ms key 2 T0\r\nvv\r\n"), ANSWERS("HD\r\n")},
    {"md", SAYS("md key\r\n"), ANSWERS("HD\r\n")},
    {"ma", SAYS("ma key v\r\n"), ANSWERS("VA 2\r\n10\r\n")},
    {"mg that touches", SAYS("mg key T30 v\r\n"), ANSWERS("VA 1\r\nv\r\n")},
    {"binary set",
     SAYS(BINARY("\x80", "\1", "\3", "\10", "\20") "\0\0\0\0\0\0\0\0"
                                                   "keyvalue"),
     ANSWERS(BINARY("\x81", "\1", "\0", "\0", "\0"))},
    {"binary delete", SAYS(BINARY("\x80", "\4", "\3", "\0", "\3") "key"),
     ANSWERS(BINARY("\x81", "\4", "\0", "\0", "\0"))},
    {"binary append", SAYS(BINARY("\x80", "\x0e", "\3", "\0", "\4") "keyv"),
     ANSWERS(BINARY("\x81", "\x0e", "\0", "\0", "\0"))},
    {"binary incr",
     SAYS(BINARY("\x80", "\5", "\3", "\24", "\27") "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0key"),
     ANSWERS(BINARY("\x81", "\5", "\0", "\0", "\10") "\0\0\0\0\0\0\0\1")},
    {"binary touch", SAYS(BINARY("\x80", "\x1c", "\3", "\4", "\7") "\0\0\0\0key"),
     ANSWERS(BINARY("\x81", "\x1c", "\0", "\4", "\4") "\0\0\0\0")},
    {"flush_all", SAYS("flush_all\r\n"), ANSWERS("OK\r\n"), EVERYTHING},
    {"an unknown command", SAYS("obliterate key\r\n"), ANSWERS("ERROR\r\n"), EVERYTHING},
    {"binary flush", SAYS(BINARY("\x80", "\10", "\0", "\0", "\0")),
     ANSWERS(BINARY("\x81", "\10", "\0", "\0", "\0")), EVERYTHING},
    {"a key in base64", SAYS("md a2V5 b\r\n"), ANSWERS("HD\r\n"), EVERYTHING},
    {"set without a reply", SAYS("set key 0 0 1 noreply\r\nv\r\n"), NEXT("version\r\n"),
     THEN("VERSION 1\r\n")},
    {"delete without a reply", SAYS("delete key noreply\r\n"), NEXT("get other\r\n"),
     THEN("END\r\n")},
    {"quiet md", SAYS("md key q\r\n"), NEXT("mn\r\n"), THEN("MN\r\n")},
    {"quiet binary set",
     SAYS(BINARY("\x80", "\x11", "\3", "\10", "\14") "\0\0\0\0\0\0\0\0"
                                                     "keyv"),
     NEXT(VERSION), THEN(BINARY("\x81", "\x0b", "\0", "\0", "\5") "1.6.1")},
    {"flush_all without a reply", SAYS("flush_all noreply\r\n"), NEXT("version\r\n"),
     THEN("VERSION 1\r\n"), EVERYTHING},
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

    for (i = 0; i < COUNT(commands); i++) {
        command = &commands[i];
        for (ngood = cut = 0; cut < command->says.n; cut++)
            ngood += try_command(watch, form, command, cut);
        ok(ngood == command->says.n,
           "%s: %s, split anywhere (%zu of %zu), closes the gate until its reply", name,
           command->name, ngood, command->says.n);
    }
}

/* --- several commands ------------------------------------------------------------------------ */

static const struct dialogue several[] = {
    {"of five commands in one segment, those that write close their gates",
     "open; > set a 0 0 1\r\n1\r\nget b\r\ndelete c\r\nset d 0 0 3 noreply\r\nset\r\nincr e 1\r\n; "
     "gate a entered; gate b untouched; gate c entered; gate d entered; gate e entered"},
    {"the first reply ends the first one", "< STORED\r\n; gate a left; gate c entered"},
    {"a value that looks like a reply, and half a reply, end none",
     "< VALUE b 0 9\r\nDELETED\r\n\r\nEND\r\nDELE; gate c entered"},
    {"the third reply", "< TED\r\n; gate c left; gate d entered"},
    {"the fourth reply also ends the write without a reply",
     "< 7\r\n; gate d left; gate e left; table untouched; seen 4; ended 4"},
    {"two keys of an incomplete command", "open; > gat 5 one two ; gate two entered"},
    {"a command with more than two keys closes the table's gate", "> three\r\n; table entered"},
    {"until its reply", "< END\r\n; table left; gate one left; gate three left"},
    {"a value that looks like a command closes nothing, a command behind it does",
     "open; > set key 0 0 25\r\nset evil 0 0 1\r\nx\r\nset \r\n\r\nset good 0 0 1\r\nx\r\n; "
     "gate evil untouched; gate good entered"},
    {"until its reply", "< STORED\r\nSTORED\r\n; gate good left; table untouched"},
};

static const struct dialogue errors[] = {
    {"an error reply to one write ends it",
     "open; > delete a\r\n; < SERVER_ERROR x\r\n; gate a left"},
    {"an error that may be the reply to a command with noreply ends a write by time",
     "> delete b noreply\r\ndelete c\r\n; < SERVER_ERROR x\r\n; gate c timed"},
    {"so does a write end on a connection whose replies cannot be counted",
     "> delete d\r\n; gate d timed; table untouched"},
    {"an error of a server that may parse the value as commands loses the connection",
     "open; > set a 0 0 10\r\n0123456789\r\nget b\r\n; "
     "< SERVER_ERROR object too large for cache\r\n; table timed; lost 1"},
    {"an error that can only be the reply to its command does not",
     "open; > set a 0 0 10\r\n0123456789\r\n; < STORED\r\n; > delete b noreply\r\nget b\r\n; "
     "< END\r\n; > incr d x\r\n; mark; < ERROR\r\n; > delete c\r\n; gate c entered; "
     "table untouched"},
    {"a reply to an incomplete command", "open; > set a 0 0 100\r\n; < STORED\r\n; table timed"},
    {"a write after a surplus reply",
     "open; > delete a\r\n; < DELETED\r\nDELETED\r\n; > delete b\r\n; table timed"},
    {"flush_all with a time in the past closes the table's gate until its reply",
     "open; > flush_all 1000000000\r\n; < OK\r\n; table left"}, /* 2001 */
    {"a write after flush_all", "mark; > set a 0 0 1\r\n1\r\n; gate a entered"},
};

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
    SAY(&talk, "delete again\r\n");
    ok(gate_is(watch->all) == GATE_UNTOUCHED && gate_is(watch_gate(watch, "again")) == GATE_ENTERED,
       "after all replies there is room again");
    ANSWER(&talk, "DELETED\r\n");
    ok(gate_is(watch_gate(watch, "again")) == GATE_LEFT, "and the next write ends with its reply");
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
    ok(gate_is(watch_gate(watch, "behind")) == GATE_ENTERED &&
           gate_is(watch->all) == GATE_UNTOUCHED,
       "a command behind 40,000 bytes of value closes its gate");
    ANSWER(&talk, "STORED\r\nDELETED\r\n");
    ok(gate_is(watch_gate(watch, "behind")) == GATE_LEFT, "until its reply");

    watch_mark(watch);
    for (n = 0, i = 0; n < 60000; i++)
        n += (size_t)sprintf(text + n, "incr key%d 1\r\n", i % 1000);
    n += (size_t)sprintf(text + n, "incr last 1\r\n");
    talk_say(&talk, text, n);
    ok(watch_count(watch, CHAIN_WRITES_SEEN) == (uint64_t)i + 1,
       "%d commands in one segment all close their gates (%d)", i + 1,
       (int)watch_count(watch, CHAIN_WRITES_SEEN));
    ok(gate_is(watch_gate(watch, "last")) == GATE_TIMED && gate_is(watch->all) == GATE_UNTOUCHED,
       "the last of many commands ends by time");
}

/* Mean of single runs; the first ones warm up. */
static double time_each(struct talk *talk, const void *data, size_t n, const char *answer)
{
    uint64_t sum = 0;

    for (int i = -200; i < 2000; i++) {
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

    watch_open(&watch, LONG_SETTLE);
    for (size_t i = 0; i < COUNT(forms); i++)
        test_commands(&watch, &forms[i].form, forms[i].name);
    WATCH_TALK(&watch, several);
    test_many_writes(&watch);
    WATCH_TALK(&watch, errors);
    test_flush(&watch);
    test_large(&watch);
    watch_mark(&watch);
    test_times(&watch);
    watch_close(&watch);
    return done();
}
