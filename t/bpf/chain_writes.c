/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which replies over UDP end which writes: when exactly one request can be meant. All requests
 * share one place, as a few of a real table do.
 */
#include <stdio.h>
#include <string.h>

#include "t/bpf/segments.h"
#include "t/lib/tap.h"

#define SETTLE        60000000000u
#define SAYS(literal) literal, sizeof(literal) - 1

/* Of a request or reply with this id. */
#define FROM(number)                                                                               \
    {                                                                                              \
        .port = 40000, .id = (number), .total = 1                                                  \
    }

static const struct datagram first = FROM(1), second = FROM(2);

/* Binary: opcode, lengths of key, of extras, of all. */
#define BINARY(magic, opcode, nkey, nextras, nbody)                                                \
    magic opcode "\0" nkey nextras "\0\0\0\0\0\0" nbody "\0\0\0\1\0\0\0\0\0\0\0\0"
#define ASKS(opcode, nkey, nextras, nbody)    BINARY("\x80", opcode, nkey, nextras, nbody)
#define ANSWERS(opcode, nkey, nextras, nbody) BINARY("\x81", opcode, nkey, nextras, nbody)

#define SET    "set key 0 0 1\r\nv\r\n"
#define OTHER  "set other 0 0 1\r\nv\r\n"
#define STORED "STORED\r\n"

/* Whether it is closed for all of SETTLE after that time. */
static bool closed_from(struct watch *watch, uint64_t when)
{
    const struct chain_gate *gate = watch_gate(watch, "key");

    return gate_is(gate) == GATE_TIMED && gate->done >= when + SETTLE;
}

/* --- what is said and answered ---------------------------------------------------------------- */

struct row {
    const char *name;
    const char *asks;
    size_t nasks;
    const char *answers;
    size_t nanswers;
};

static const struct row ended[] = {
    {"set", SAYS(SET), SAYS("STORED\r\n")},
    {"add", SAYS("add key 0 0 1\r\nv\r\n"), SAYS("NOT_STORED\r\n")},
    {"cas", SAYS("cas key 0 0 1 5\r\nv\r\n"), SAYS("EXISTS\r\n")},
    {"cas of nothing", SAYS("cas key 0 0 1 5\r\nv\r\n"), SAYS("NOT_FOUND\r\n")},
    {"delete", SAYS("delete key\r\n"), SAYS("DELETED\r\n")},
    {"touch", SAYS("touch key 0\r\n"), SAYS("TOUCHED\r\n")},
    {"incr", SAYS("incr key 1\n"), SAYS("7\r\n")},
    {"decr", SAYS("decr key 1\n"), SAYS("18446744073709551615\r\n")},
    {"binary set", SAYS(ASKS("\1", "\3", "\10", "\14") "\0\0\0\0\0\0\0\0keyv"),
     SAYS(ANSWERS("\1", "\0", "\0", "\0"))},
    {"binary add that fails", SAYS(ASKS("\2", "\3", "\10", "\14") "\0\0\0\0\0\0\0\0keyv"),
     SAYS(ANSWERS("\2", "\0", "\0", "\24") "Data exists for key.")},
    {"binary delete", SAYS(ASKS("\4", "\3", "\0", "\3") "key"),
     SAYS(ANSWERS("\4", "\0", "\0", "\0"))},
    {"binary append", SAYS(ASKS("\16", "\3", "\0", "\4") "keyv"),
     SAYS(ANSWERS("\16", "\0", "\0", "\0"))},
    {"binary incr", SAYS(ASKS("\5", "\3", "\24", "\27") "aaaaaaaabbbbbbbbcccckey"),
     SAYS(ANSWERS("\5", "\0", "\0", "\10") "\0\0\0\0\0\0\0\1")},
};

/* Errors, replies to other commands, several replies, parts of one. */
static const struct row not_ended[] = {
    {"an error", SAYS(SET), SAYS("ERROR\r\n")},
    {"a client's error", SAYS("incr key x\r\n"), SAYS("CLIENT_ERROR invalid numeric\r\n")},
    {"a server's error", SAYS(SET), SAYS("SERVER_ERROR out of memory\r\n")},
    {"a meta command's reply", SAYS("ms key 1\r\nv\r\n"), SAYS("HD\r\n")},
    {"that of verbosity", SAYS(SET), SAYS("OK\r\n")},
    {"two", SAYS(SET), SAYS("STORED\r\nSTORED\r\n")},
    {"a line that begins alike", SAYS(SET), SAYS("STORED\n\n")},
    {"half a line", SAYS(SET), SAYS("NOT_STOR")},
    {"a number without an end", SAYS("incr key 1\r\n"), SAYS("12")},
    {"a digit", SAYS("incr key 1\r\n"), SAYS("1")},
    {"two numbers, too long for one", SAYS("incr key 1\r\n"), SAYS("12345678901\r\n34567890\r\n")},
    {"a binary get's", SAYS(SET), SAYS(ANSWERS("\0", "\0", "\4", "\5") "0000v")},
    {"a quiet command's", SAYS(SET), SAYS(ANSWERS("\21", "\0", "\0", "\0"))},
    {"an unknown one's", SAYS(SET), SAYS(ANSWERS("\x77", "\0", "\0", "\0"))},
    {"two binary ones", SAYS(SET),
     SAYS(ANSWERS("\1", "\0", "\0", "\0") ANSWERS("\1", "\0", "\0", "\0"))},
    {"half a header", SAYS(SET), SAYS("\x81\1\0\0\0\0\0\0\0\0\0\0\0\0\0")},
};

static void test_ended(struct watch *watch)
{
    static const struct form forms[] = {{.v6 = false},
                                        {.v6 = true},
                                        {.ip_options = 8},
                                        {.v6 = true, .ip_options = 16},
                                        {.ntags = 1}};
    struct datagram from = first;
    const struct row *row;
    size_t i, form, ngood;

    for (i = 0; i < COUNT(ended); i++) {
        row = &ended[i];
        for (ngood = form = 0; form < COUNT(forms); form++) {
            from.form = forms[form];
            watch_mark(watch);
            ngood += watch_datagram(watch, &from, row->asks, row->nasks) &&
                     watch_reply(watch, &from, row->answers, row->nanswers) &&
                     watch_count(watch, CHAIN_WRITES_SEEN) == 1 &&
                     watch_count(watch, CHAIN_WRITES_ENDED) == 1 &&
                     watch_count(watch, CHAIN_FILL_FORM) == 0 &&
                     gate_is(watch_gate(watch, "key")) == GATE_LEFT;
        }
        ok(ngood == form, "%s over UDP ends when its reply leaves (in %zu of %zu forms)", row->name,
           ngood, form);
    }
}

static void test_not_ended(struct watch *watch)
{
    const struct row *row;
    uint64_t now;

    for (size_t i = 0; i < COUNT(not_ended); i++) {
        row = &not_ended[i];
        watch_mark(watch);
        watch_datagram(watch, &first, row->asks, row->nasks);
        now = watch_now();
        watch_reply(watch, &first, row->answers, row->nanswers);
        ok(closed_from(watch, now) && watch_count(watch, CHAIN_WRITES_ENDED) == 0 &&
               watch_count(watch, CHAIN_FILL_FORM) == 1,
           "a write whose reply may be %s ends by time", row->name);
    }
}

static void test_heads(struct watch *watch)
{
    static const struct {
        const char *name;
        struct datagram from;
    } rows[] = {
        {"to another id", {.port = 40000, .id = 0x101, .total = 1}},
        {"to another port", {.port = 40001, .id = 1, .total = 1}},
        {"to another address", {.form = {.v6 = true}, .port = 40000, .id = 1, .total = 1}},
        {"that is the first of two", {.port = 40000, .id = 1, .total = 2}},
        {"that is the second of two", {.port = 40000, .id = 1, .sequence = 1, .total = 2}},
        {"that is the second of one", {.port = 40000, .id = 1, .sequence = 1, .total = 1}},
        {"that is one of none", {.port = 40000, .id = 1, .total = 0}},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        watch_mark(watch);
        watch_datagram(watch, &first, SAYS(SET));
        watch_reply(watch, &rows[i].from, SAYS(STORED));
        ok(gate_is(watch_gate(watch, "key")) == GATE_ENTERED, "a reply %s does not end a write",
           rows[i].name);
    }
}

/* --- other requests -------------------------------------------------------------------------- */

#define SETS     "ask 1 " SET
#define SETS2    "ask 2 " SET
#define SETS3    "ask 3 " SET
#define REPLIES  "reply 1 " STORED
#define REPLIES2 "reply 2 " STORED
#define REPLIES3 "reply 3 " STORED

static const struct dialogue others[] = {
    /* Replies to gets end no write, and the write's own still does. */
    {"END", "mark; " SETS "; reply 1 END\r\n; gate key entered; " REPLIES "; gate key left"},
    {"a value and END",
     "mark; " SETS "; reply 1 VALUE key 0 1\r\nv\r\nEND\r\n; gate key entered; " REPLIES
     "; gate key left"},
    {"a value without END",
     "mark; " SETS "; reply 1 VALUE key 0 1\r\nv\r\n; gate key entered; " REPLIES
     "; gate key left"},
    {"nothing", "mark; " SETS "; reply 1 ; gate key entered; " REPLIES "; gate key left"},
    /* The client or the network sends the datagram twice. */
    {"a write that arrives again before its reply has left ends by time, from the second on",
     "mark; " SETS "; " SETS "; gate key closed"},
    {"not by the first reply", REPLIES "; gate key closed"},
    {"nor by the second", REPLIES "; gate key closed; ended 0"},
    {"nor does the next one with its id, however late: one of the replies may have been lost",
     SETS "; " REPLIES "; gate key timed"},
    {"one that arrives again behind its reply enters the gate again",
     "mark; " SETS "; " REPLIES "; " SETS "; gate key entered"},
    {"and leaves it with its own", REPLIES "; gate key left"},
    {"a reply too many ends nothing that arrives after it", REPLIES "; " SETS "; gate key entered"},
    /* Requests that are unanswered when a write arrives. */
    {"a get with its id, and then another in its place, unanswered: it ends by time",
     "mark; ask 1 get other\r\n; ask 2 get other\r\n; " SETS "; " REPLIES "; gate key closed"},
    {"what could not be parsed, with its id, however old: it ends by time",
     "mark; ask 1 delete other; gates; age 60; " SETS "; " REPLIES "; gate key timed"},
    /* Doubt about one write ends with its reply, if only reads were the reason. */
    {"the reply to a write that ended by time, behind a get, is known",
     "mark; ask 1 get other\r\n; " SETS "; " REPLIES "; gates; age -56; " SETS
     "; gate key entered"},
    {"and the next write with its id ends by its reply", REPLIES "; gate key left"},
};

/* Whose id is the write's, or which only fall on its place; whether it then ends by time. */
struct other {
    const char *name, *asks;
    bool same, matters;
};

static const struct other either[] = {
    {"a set with its id", "set other 0 0 1\r\nv\r\n", true, true},
    {"a set without a reply with its id", "set other 0 0 1 noreply\r\nv\r\n", true, true},
    {"a get with its id", "get other\r\n", true, true},
    {"gets with its id", "gets other\r\n", true, true},
    {"version with its id", "version\r\n", true, true},
    {"another set in its place", "set other 0 0 1\r\nv\r\n", false, true},
    {"another get in its place", "get other\r\n", false, false},
    {"another version in its place", "version\r\n", false, false},
};

static const struct other only_between[] = {
    {"two commands with its id", "get a\r\nget b\r\n", true, true},
    {"flush_all with its id", "flush_all\r\n", true, true},
    {"an unfinished command with its id", "set other 0 0 9\r\nv", true, true},
    {"another set without a reply in its place", "set other 0 0 1 noreply\r\nv\r\n", false, true},
    {"other gets in its place", "gets other\r\n", false, false},
};

static const struct other only_before = {"two sets with its id",
                                         "set a 0 0 1\r\nv\r\nset b 0 0 1\r\nv\r\n", true, true};

/* One arrives between a write and its reply, or is unanswered when a write arrives. */
static void test_other(struct watch *watch, const struct other *row, bool between)
{
    char what[128], steps[256];
    unsigned int id = row->same ? 1 : 2;
    const char *end = row->matters ? "closed" : "left";

    snprintf(what, sizeof(what), "%s %s: it ends by %s", row->name,
             between ? "between a write and its reply" : "before a write, unanswered",
             row->matters ? "time" : "its reply");
    if (between)
        snprintf(steps, sizeof(steps), "mark; " SETS "; ask %u %s%s; " REPLIES "; gate key %s", id,
                 row->asks, row->matters ? "; gate key closed" : "", end);
    else
        snprintf(steps, sizeof(steps), "mark; ask %u %s; " SETS "; " REPLIES "; gate key %s", id,
                 row->asks, end);
    watch_talk(watch, &(struct dialogue){what, steps}, 1);
}

static void test_others(struct watch *watch)
{
    for (size_t i = 0; i < COUNT(either); i++) {
        test_other(watch, &either[i], true);
        test_other(watch, &either[i], false);
    }
    for (size_t i = 0; i < COUNT(only_between); i++)
        test_other(watch, &only_between[i], true);
    test_other(watch, &only_before, false);
}

static void test_while_closed(struct watch *watch)
{
    static const struct dialogue closed[] =
        {
            {"a write that arrives while everything is closed ends by time",
             SETS "; " REPLIES "; gate key timed"},
        },
                                 flushed[] = {
                                     {"so does one while flush_all is in flight",
                                      SETS "; " REPLIES "; gate key timed"},
                                 };

    watch_mark(watch);
    watch->all->done = watch_now() + SETTLE;
    WATCH_TALK(watch, closed);
    watch_mark(watch);
    watch->all->until = watch_now() + SETTLE;
    watch->all->word = CHAIN_VERSION + 1;
    WATCH_TALK(watch, flushed);
}

/* --- time --------------------------------------------------------------------------------------
 */

static const struct dialogue times[] = {
    {"a write without a reply, and another with another id before --settle: both end by time",
     "mark; " SETS "; age -1; ask 2 " OTHER "; gate key closed; gate other timed"},
    {"a write without a reply, and another with its id before --settle: both end by time",
     "mark; " SETS "; age -1; ask 1 " OTHER "; gate key closed; gate other timed"},
    {"after --settle one with another id ends it, and enters its own gate",
     "mark; " SETS "; age 0; ask 2 " OTHER "; gate key left; gate other entered"},
    {"which its reply opens", REPLIES2 "; gate other left"},
    {"one with its id ends by time, however late: the server may have been stopped",
     "mark; " SETS "; age 59940; ask 1 " OTHER "; " REPLIES "; gate key closed; gate other timed"},
    {"a get in its place does not end a write before --settle,",
     "mark; " SETS "; age -1; ask 2 get other\r\n; gate key entered"},
    {"but after it, if its reply was not seen", "age -59; ask 3 get other\r\n; gate key left"},
    /* Of writes that cannot be told apart each makes the time begin again. */
    {"writes in a place whose writes may be unanswered end by time",
     "mark; ask 1 set a 0 0 1 noreply\r\nv\r\n; gates; age -1; " SETS3 "; " REPLIES3
     "; gate key timed; gates; age -1; " SETS2 "; " REPLIES2
     "; gate key timed; gates; age -1; " SETS3 "; " REPLIES3 "; gate key timed"},
    {"until none has come for --settle", "gates; age 0; " SETS "; " REPLIES "; gate key left"},
};

/* The gate gives the write up, and is filled: such entries become invalid. */
static void test_late_reply(struct watch *watch)
{
    struct chain_gate *gate;
    uint64_t word;

    watch_mark(watch);
    gate = watch_gate(watch, "key");
    watch_datagram(watch, &first, SAYS(SET));
    gate->word = (gate->word & ~(CHAIN_GENERATION - 1)) + CHAIN_GENERATION;
    word = ++gate->word; /* of another write, in the next generation */
    watch_reply(watch, &first, SAYS(STORED));
    ok(gate->word == word + CHAIN_VERSION && gate_is(gate) == GATE_ENTERED,
       "the reply to a write that was given up makes entries invalid, and ends no later write");
}

/* The same of one that is no longer waited for: a get has come to its place. */
static void test_late_reply_after_get(struct watch *watch)
{
    static const struct datagram *const ids[] = {&second, &first};
    struct chain_gate *gate = watch_gate(watch, "key");
    uint64_t word;

    for (size_t i = 0; i < 2; i++) {
        watch_mark(watch);
        watch_datagram(watch, &first, SAYS(SET));
        watch_age(watch, i ? 0 : SETTLE);
        watch_datagram(watch, ids[i], SAYS("get other\r\n"));
        watch_datagram(watch, ids[i], SAYS("get other\r\n"));
        word = ++gate->word; /* another write arrives */
        watch_reply(watch, &first, SAYS(STORED));
        ok(gate->word == word + CHAIN_VERSION && gate_is(gate) == GATE_ENTERED,
           "the reply to a write that left the gate when a get with %s id came makes entries "
           "invalid, and ends no later write",
           i ? "its" : "another");
    }
}

/* A gate counts at most one write for each place. */
static void test_counts(struct watch *watch)
{
    struct datagram from = first;
    uint64_t writers, most = 0;

    watch_mark(watch);
    for (int i = 0; i < 1000; i++) {
        from.id = (uint16_t)(i * 7);
        watch_datagram(watch, &from, SAYS(SET));
        writers = watch_gate(watch, "key")->word & (CHAIN_GENERATION - 1);
        most = writers > most ? writers : most;
        watch_age(watch, i % 3 ? SETTLE : 0);
    }
    ok(most == 1, "a thousand writes without replies in one place: the gate counts at most one");
}

int main(void)
{
    struct watch watch;

    watch_open(&watch, SETTLE);
    test_ended(&watch);
    test_not_ended(&watch);
    test_heads(&watch);
    WATCH_TALK(&watch, others);
    test_others(&watch);
    test_while_closed(&watch);
    WATCH_TALK(&watch, times);
    test_late_reply(&watch);
    test_late_reply_after_get(&watch);
    test_counts(&watch);
    watch_close(&watch);
    return done();
}
