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

static const struct datagram first = FROM(1), second = FROM(2), third = FROM(3);

/* Binary: opcode, lengths of key, of extras, of all. */
#define BINARY(magic, opcode, nkey, nextras, nbody)                                                \
    magic opcode "\0" nkey nextras "\0\0\0\0\0\0" nbody "\0\0\0\1\0\0\0\0\0\0\0\0"
#define ASKS(opcode, nkey, nextras, nbody)    BINARY("\x80", opcode, nkey, nextras, nbody)
#define ANSWERS(opcode, nkey, nextras, nbody) BINARY("\x81", opcode, nkey, nextras, nbody)

static void says(struct watch *watch, const struct datagram *from, const char *text)
{
    if (!watch_datagram(watch, from, text, strlen(text)))
        diag("%s is not passed", text);
}

static void answers(struct watch *watch, const struct datagram *from, const char *text)
{
    if (!watch_reply(watch, from, text, strlen(text)))
        diag("%s does not leave", text);
}

static void sets(struct watch *watch, const struct datagram *from)
{
    says(watch, from, "set key 0 0 1\r\nv\r\n");
}

static void stored(struct watch *watch, const struct datagram *from)
{
    answers(watch, from, "STORED\r\n");
}

static enum gate_is state(struct watch *watch)
{
    return gate_is(watch_gate(watch, "key"));
}

/* Whether the key's gate is in this state, and prints which it is in, if not. */
static bool is(struct watch *watch, enum gate_is want)
{
    enum gate_is got = state(watch);

    if (got != want)
        diag("the gate is %s, not %s", gate_name(got), gate_name(want));
    return got == want;
}

/* Whether it is closed for all of SETTLE after that time. */
static bool closed_from(struct watch *watch, uint64_t when)
{
    return is(watch, GATE_TIMED) && watch_gate(watch, "key")->done >= when + SETTLE;
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
    {"set", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("STORED\r\n")},
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
    {"an error", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("ERROR\r\n")},
    {"a client's error", SAYS("incr key x\r\n"), SAYS("CLIENT_ERROR invalid numeric\r\n")},
    {"a server's error", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("SERVER_ERROR out of memory\r\n")},
    {"a meta command's reply", SAYS("ms key 1\r\nv\r\n"), SAYS("HD\r\n")},
    {"that of verbosity", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("OK\r\n")},
    {"two", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("STORED\r\nSTORED\r\n")},
    {"a line that begins alike", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("STORED\n\n")},
    {"half a line", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("NOT_STOR")},
    {"a number without an end", SAYS("incr key 1\r\n"), SAYS("12")},
    {"a digit", SAYS("incr key 1\r\n"), SAYS("1")},
    {"two numbers, too long for one", SAYS("incr key 1\r\n"), SAYS("12345678901\r\n34567890\r\n")},
    {"a binary get's", SAYS("set key 0 0 1\r\nv\r\n"),
     SAYS(ANSWERS("\0", "\0", "\4", "\5") "0000v")},
    {"a quiet command's", SAYS("set key 0 0 1\r\nv\r\n"), SAYS(ANSWERS("\21", "\0", "\0", "\0"))},
    {"an unknown one's", SAYS("set key 0 0 1\r\nv\r\n"), SAYS(ANSWERS("\x77", "\0", "\0", "\0"))},
    {"two binary ones", SAYS("set key 0 0 1\r\nv\r\n"),
     SAYS(ANSWERS("\1", "\0", "\0", "\0") ANSWERS("\1", "\0", "\0", "\0"))},
    {"half a header", SAYS("set key 0 0 1\r\nv\r\n"), SAYS("\x81\1\0\0\0\0\0\0\0\0\0\0\0\0\0")},
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

    for (i = 0; i < sizeof(ended) / sizeof(ended[0]); i++) {
        row = &ended[i];
        for (ngood = form = 0; form < sizeof(forms) / sizeof(forms[0]); form++) {
            from.form = forms[form];
            watch_mark(watch);
            ngood += watch_datagram(watch, &from, row->asks, row->nasks) &&
                     watch_reply(watch, &from, row->answers, row->nanswers) &&
                     watch_count(watch, CHAIN_WRITES_SEEN) == 1 &&
                     watch_count(watch, CHAIN_WRITES_ENDED) == 1 &&
                     watch_count(watch, CHAIN_FILL_FORM) == 0 && is(watch, GATE_LEFT);
        }
        ok(ngood == form, "%s over UDP ends when its reply leaves (in %zu of %zu forms)", row->name,
           ngood, form);
    }
}

static void test_not_ended(struct watch *watch)
{
    const struct row *row;
    uint64_t now;
    size_t i;

    for (i = 0; i < sizeof(not_ended) / sizeof(not_ended[0]); i++) {
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

static void test_replies_to_gets(struct watch *watch)
{
    static const char *const texts[] = {"END\r\n", "VALUE key 0 1\r\nv\r\nEND\r\n",
                                        "VALUE key 0 1\r\nv\r\n", ""};
    size_t i, ngood = 0;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        watch_mark(watch);
        sets(watch, &first);
        answers(watch, &first, texts[i]);
        ngood += is(watch, GATE_ENTERED);
        stored(watch, &first);
        ngood += is(watch, GATE_LEFT);
    }
    ok(ngood == 2 * i, "a reply to a get ends no write, and the write's own still does (%zu)",
       ngood);
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
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        watch_mark(watch);
        sets(watch, &first);
        stored(watch, &rows[i].from);
        ok(is(watch, GATE_ENTERED), "a reply %s does not end a write", rows[i].name);
    }
}

/* --- other requests ----------------------------------------------------------------------------
 */

/* The client or the network sends the datagram twice. */
static void test_duplicates(struct watch *watch)
{
    uint64_t now;

    watch_mark(watch);
    sets(watch, &first);
    now = watch_now();
    sets(watch, &first);
    ok(closed_from(watch, now), "a write that arrives again before its reply has left ends by "
                                "time, from the second on");
    stored(watch, &first);
    ok(closed_from(watch, now), "not by the first reply");
    stored(watch, &first);
    ok(closed_from(watch, now) && watch_count(watch, CHAIN_WRITES_ENDED) == 0, "nor by the second");
    sets(watch, &first);
    stored(watch, &first);
    ok(is(watch, GATE_TIMED), "nor does the next one with its id, however late: one of the replies "
                              "may have been lost");
    watch_mark(watch);
    sets(watch, &first);
    stored(watch, &first);
    sets(watch, &first);
    ok(is(watch, GATE_ENTERED), "one that arrives again behind its reply enters the gate again");
    stored(watch, &first);
    ok(is(watch, GATE_LEFT), "and leaves it with its own");
    stored(watch, &first);
    sets(watch, &first);
    ok(is(watch, GATE_ENTERED), "a reply too many ends nothing that arrives after it");
}

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

static const struct other only_before[] = {
    {"two sets with its id", "set a 0 0 1\r\nv\r\nset b 0 0 1\r\nv\r\n", true, true},
};

/* One arrives between a write and its reply. */
static void test_between(struct watch *watch, const struct other *rows, size_t nrows)
{
    const struct other *row;
    uint64_t now;
    bool held;

    for (row = rows; row < rows + nrows; row++) {
        watch_mark(watch);
        sets(watch, &first);
        now = watch_now();
        says(watch, row->same ? &first : &second, row->asks);
        held = !row->matters || closed_from(watch, now);
        stored(watch, &first);
        ok(held && (row->matters ? closed_from(watch, now) : is(watch, GATE_LEFT)),
           "%s between a write and its reply: it ends by %s", row->name,
           row->matters ? "time" : "its reply");
    }
}

/* One is unanswered when a write arrives. */
static void test_before(struct watch *watch, const struct other *rows, size_t nrows)
{
    const struct other *row;
    uint64_t now;

    for (row = rows; row < rows + nrows; row++) {
        watch_mark(watch);
        says(watch, row->same ? &first : &second, row->asks);
        now = watch_now();
        sets(watch, &first);
        stored(watch, &first);
        ok(row->matters ? closed_from(watch, now) : is(watch, GATE_LEFT),
           "%s before a write, unanswered: it ends by %s", row->name,
           row->matters ? "time" : "its reply");
    }
}

static void test_before_another(struct watch *watch)
{
    uint64_t now;

    watch_mark(watch);
    says(watch, &first, "get other\r\n");
    says(watch, &second, "get other\r\n");
    now = watch_now();
    sets(watch, &first);
    stored(watch, &first);
    ok(closed_from(watch, now), "a get with its id, and then another in its place, unanswered: it "
                                "ends by time");
    watch_mark(watch);
    says(watch, &first, "delete other"); /* all is closed */
    watch_mark_gates(watch);
    watch_age(watch, 2 * SETTLE);
    sets(watch, &first);
    stored(watch, &first);
    ok(is(watch, GATE_TIMED),
       "what could not be parsed, with its id, however old: it ends by time");
}

/* Doubt about one write ends with its reply, if only reads were the reason. */
static void test_doubt_ends(struct watch *watch)
{
    watch_mark(watch);
    says(watch, &first, "get other\r\n");
    sets(watch, &first);
    stored(watch, &first);
    watch_mark_gates(watch);
    watch_age(watch, 2 * CHAIN_ASK_NS);
    sets(watch, &first);
    ok(is(watch, GATE_ENTERED), "the reply to a write that ended by time, behind a get, is known");
    stored(watch, &first);
    ok(is(watch, GATE_LEFT), "and the next write with its id ends by its reply");
}

static void test_while_closed(struct watch *watch)
{
    watch_mark(watch);
    watch->all->done = watch_now() + SETTLE;
    sets(watch, &first);
    stored(watch, &first);
    ok(is(watch, GATE_TIMED), "a write that arrives while everything is closed ends by time");
    watch_mark(watch);
    watch->all->until = watch_now() + SETTLE;
    watch->all->word = CHAIN_VERSION + 1;
    sets(watch, &first);
    stored(watch, &first);
    ok(is(watch, GATE_TIMED), "so does one while flush_all is in flight");
}

/* --- time --------------------------------------------------------------------------------------
 */

static void test_dropped(struct watch *watch)
{
    static const struct datagram *const others[] = {&second, &first};
    uint64_t now;
    size_t i;

    for (i = 0; i < 2; i++) {
        watch_mark(watch);
        sets(watch, &first);
        watch_age(watch, SETTLE - 1000000000);
        now = watch_now();
        says(watch, others[i], "set other 0 0 1\r\nv\r\n");
        ok(closed_from(watch, now) && gate_is(watch_gate(watch, "other")) == GATE_TIMED,
           "a write without a reply, and another with %s id before --settle: both end by time",
           i ? "its" : "another");
    }
    watch_mark(watch);
    sets(watch, &first);
    watch_age(watch, SETTLE);
    says(watch, &second, "set other 0 0 1\r\nv\r\n");
    ok(is(watch, GATE_LEFT) && gate_is(watch_gate(watch, "other")) == GATE_ENTERED,
       "after --settle one with another id ends it, and enters its own gate");
    answers(watch, &second, "STORED\r\n");
    ok(gate_is(watch_gate(watch, "other")) == GATE_LEFT, "which its reply opens");
    watch_mark(watch);
    sets(watch, &first);
    watch_age(watch, 1000 * (uint64_t)SETTLE);
    now = watch_now();
    says(watch, &first, "set other 0 0 1\r\nv\r\n");
    answers(watch, &first, "STORED\r\n");
    ok(closed_from(watch, now) && gate_is(watch_gate(watch, "other")) == GATE_TIMED,
       "one with its id ends by time, however late: the server may have been stopped");
    watch_mark(watch);
    sets(watch, &first);
    watch_age(watch, SETTLE - 1000000000);
    says(watch, &second, "get other\r\n");
    ok(is(watch, GATE_ENTERED), "a get in its place does not end a write before --settle,");
    watch_age(watch, 1000000000);
    says(watch, &third, "get other\r\n");
    ok(is(watch, GATE_LEFT), "but after it, if its reply was not seen");
}

/* Of writes that cannot be told apart each makes the time begin again. */
static void test_doubt_lasts(struct watch *watch)
{
    bool held = true;
    int i;

    watch_mark(watch);
    says(watch, &first, "set a 0 0 1 noreply\r\nv\r\n");
    for (i = 0; i < 3; i++) {
        watch_mark_gates(watch);
        watch_age(watch, SETTLE - 1000000000);
        sets(watch, i % 2 ? &second : &third);
        stored(watch, i % 2 ? &second : &third);
        held = held && is(watch, GATE_TIMED);
    }
    ok(held, "writes in a place whose writes may be unanswered end by time");
    watch_mark_gates(watch);
    watch_age(watch, SETTLE);
    sets(watch, &first);
    stored(watch, &first);
    ok(is(watch, GATE_LEFT), "until none has come for --settle");
}

/* The gate gives the write up, and is filled: such entries become invalid. */
static void test_late_reply(struct watch *watch)
{
    struct chain_gate *gate;
    uint64_t word;

    watch_mark(watch);
    gate = watch_gate(watch, "key");
    sets(watch, &first);
    gate->word = (gate->word & ~(CHAIN_GENERATION - 1)) + CHAIN_GENERATION;
    word = ++gate->word; /* of another write, in the next generation */
    stored(watch, &first);
    ok(gate->word == word + CHAIN_VERSION && is(watch, GATE_ENTERED),
       "the reply to a write that was given up makes entries invalid, and ends no later write");
}

/* The same of one that is no longer waited for: a get has come to its place. */
static void test_late_reply_after_get(struct watch *watch)
{
    static const struct datagram *const others[] = {&second, &first};
    struct chain_gate *gate = watch_gate(watch, "key");
    uint64_t word;
    size_t i;

    for (i = 0; i < 2; i++) {
        watch_mark(watch);
        sets(watch, &first);
        watch_age(watch, i ? 0 : SETTLE);
        says(watch, others[i], "get other\r\n");
        says(watch, others[i], "get other\r\n");
        word = ++gate->word; /* another write arrives */
        stored(watch, &first);
        ok(gate->word == word + CHAIN_VERSION && is(watch, GATE_ENTERED),
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
    int i;

    watch_mark(watch);
    for (i = 0; i < 1000; i++) {
        from.id = (uint16_t)(i * 7);
        sets(watch, &from);
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
    test_replies_to_gets(&watch);
    test_heads(&watch);
    test_duplicates(&watch);
    test_between(&watch, either, sizeof(either) / sizeof(either[0]));
    test_between(&watch, only_between, sizeof(only_between) / sizeof(only_between[0]));
    test_before(&watch, either, sizeof(either) / sizeof(either[0]));
    test_before(&watch, only_before, sizeof(only_before) / sizeof(only_before[0]));
    test_before_another(&watch);
    test_doubt_ends(&watch);
    test_while_closed(&watch);
    test_dropped(&watch);
    test_doubt_lasts(&watch);
    test_late_reply(&watch);
    test_late_reply_after_get(&watch);
    test_counts(&watch);
    watch_close(&watch);
    return done();
}
