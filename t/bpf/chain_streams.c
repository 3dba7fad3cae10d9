/* SPDX-License-Identifier: BSD-3-Clause */
/* Which TCP segments the chain can follow, and that all others close the table's gate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/bpf/segments.h"
#include "t/lib/tap.h"

#define LONG_SETTLE  60000000000u
#define SHORT_SETTLE 30000000u

static const struct form plain;

static bool check(struct watch *watch, const char *key, enum gate_is want, const char *what)
{
    enum gate_is is = gate_is(key ? watch_gate(watch, key) : watch->all);

    return ok(is == want, "%s: the gate of %s is %s", what, key ? key : "the table", gate_name(is));
}

static bool all_is(struct watch *watch, enum gate_is want, const char *what)
{
    return check(watch, NULL, want, what);
}

#define IN(talk, seq, flags, text)                                                                 \
    talk_in(talk, (talk)->in + (uint32_t)(seq), (talk)->out, flags, text, sizeof(text) - 1)

/* A tracked connection whose counters are reset. */
static void begin(struct talk *talk, struct watch *watch)
{
    talk_open(talk, watch, &plain);
    watch_mark(watch);
}

/* --- segments retransmitted or out of order ------------------------------------------------- */

#define FIVE(steps) steps steps steps steps steps
#define TEN(steps)  FIVE(steps) FIVE(steps)

static const struct dialogue repeated[] = {
    {"a retransmitted segment that the server has acknowledged closes nothing, and is counted",
     "open; > delete a\r\n; < DELETED\r\n; >-10 delete a\r\n; table untouched; retransmitted 1"},
    {"a keep-alive byte closes nothing", ">-1 x; table untouched"},
    {"a retransmitted segment with new bytes behind the old ones closes the new command's gate",
     ">-10 delete a\r\ndelete b\r\n; gate b entered; table untouched"},
    {"until its reply", "move 10; < DELETED\r\n; gate b left"},
    {"a retransmitted, unacknowledged segment with other bytes loses the connection",
     "open; > delete a\r\n; >-10 delete b\r\n; table timed; lost 1"},
    {"a request on a lost connection closes the table's gate for a time",
     "mark; > get a\r\n; table timed"},
    {"a reply on a lost connection closes it until now", "mark; < END\r\n; table left"},
    {"other bytes, and new ones behind them, lose the connection",
     "open; > delete a\r\n; >-10 delete b\r\ndelete c\r\n; table timed"},
    {"an unacknowledged segment retransmitted unchanged, with new bytes, is followed",
     "open; > delete a\r\n; >-10 delete a\r\n; >-10 delete a\r\ndelete b\r\n; gate b entered; "
     "table untouched"},
    {"both replies end the new command, and the retransmitted one by time",
     "move 10; < DELETED\r\nDELETED\r\n; gate a timed; gate b left"},
    {"segments retransmitted as one are counted, and close nothing",
     "open; > get a\r\nde; > lete a\r\nset b 0 0 20\r\n01234; > 56789; > 0123456789\r\n; "
     ">-53 get a\r\ndelete a\r\nset b 0 0 20\r\n01234; "
     ">-53 get a\r\ndelete a\r\nset b 0 0 20\r\n01234567890123456789\r\n; "
     ">-44 lete a\r\nset b 0 0 20\r\nxxxxxxx; table untouched; lost 0; retransmitted 3"},
    {"with another key they lose the connection",
     ">-44 lete c\r\nset b 0 0 20\r\n01234; table timed"},
    {"one line retransmitted as two",
     "open; > get abc def\r\n; >-13 get abc\ndef\r\n; table timed"},
    {"a value retransmitted with a smaller length",
     "open; > set b 0 0 20\r\n01234567890123456789\r\n; "
     ">-36 set b 0 0 18\r\n01234567890123456789\r\n; table timed"},
    {"a retransmitted segment that begins elsewhere",
     "open; > delete a\r\n; >-9 elete a\r\n; table timed"},
    {"a retransmitted segment that ends elsewhere",
     "open; > delete a\r\ndelete b\r\n; >-20 delete a\r\n; table timed"},
    {"a retransmission of the eighth last segment closes nothing",
     "open; > delete a\r\n; > delete b\r\n; > delete b\r\n; > delete b\r\n; > delete b\r\n; "
     "> delete b\r\n; > delete b\r\n; > delete b\r\n; > delete b\r\n; >-80 delete b\r\n; "
     "table untouched"},
    {"a retransmission of the ninth last segment", ">-90 delete a\r\n; table timed"},
    {"a retransmitted segment that begins and ends within values closes nothing",
     "open; > set a 0 0 20\r\n0123456789; > 0123456789\r\nset b 0 0 10\r\n01234; "
     ">-37 xxxxxx0123456789\r\nset b 0 0 10\r\nxxxxx; table untouched"},
    {"a retransmitted segment that differs between two values",
     ">-37 xxxxxx0123456789\r\nset c 0 0 10\r\nxxxxx; table timed"},
};

#define DOTS "........................................"

static const struct dialogue gaps[] = {
    {"a segment behind a missing one", "open; >10 delete b\r\n; table timed"},
    {"a command behind a value of which a part is missing closes its gate",
     "open; > set k 0 0 100\r\n; >40 " DOTS "; "
     ">0 \r\nset evil 0 0 1\r\nx\r\nset evil 0 0 1\r\nx\r\n; >90 ..........\r\ndelete b\r\n; "
     "gate b entered"},
    {"parts of a value in any order close nothing, nor do commands within them",
     ">80 ..........; table untouched; gate evil untouched"},
    {"both replies, to commands that waited for a part, end them by time",
     "move 112; < STORED\r\nDELETED\r\n; gate b timed"},
    {"an acknowledged end of a value, retransmitted, closes nothing",
     ">-22 ..........\r\ndelete b\r\n; table untouched"},
    {"an unacknowledged end of a value, retransmitted with another command",
     "open; > set k 0 0 100\r\n; >90 ..........\r\ndelete b\r\n; >90 ..........\r\ndelete c\r\n; "
     "table timed"},
    {"a segment behind the missing end of a value",
     "open; > set k 0 0 100\r\n; >101 \ndelete b\r\n; table timed"},
};

static const struct dialogue flags[] = {
    {"urgent data, which a server may read at another position",
     "open; >urg delete a\r\n; table timed"},
    {"a last segment closes its key's gate", "open; >fin delete a\r\n; gate a entered"},
    {"until its reply", "move 11; < DELETED\r\n; gate a left; table untouched"},
    {"a server that closes the connection without a reply ends a write by time",
     "open; > delete a\r\n; <fin; gate a timed"},
    {"a command behind the server's close", "> delete b\r\n; table timed"},
};

static const struct dialogue replies[] = {
    {"a reply again ends nothing",
     "open; > delete a\r\ndelete b\r\n; < DELETED\r\n; <-9 DELETED\r\n; gate b entered"},
    {"nor does a retransmitted reply with a part of the next one",
     "<-9 DELETED\r\nDELE; gate b entered"},
    {"but the end of that does", "<4 TED\r\n; gate b left"},
    {"a reply behind a missing one ends all writes by time",
     "open; > delete a\r\ndelete b\r\n; <9 DELETED\r\n; gate a timed; gate b timed"},
    {"so does a write after that end", "> delete c\r\n; gate c timed; table untouched"},
};

/* --- connections begin ----------------------------------------------------------------------- */

static const struct dialogue unknown[] = {
    {"a segment of an untracked connection is counted, and closes the table's gate",
     "old; > get a\r\n; table timed; unfollowed 1"},
    {"segments without data close nothing", "mark; >0; >fin; >rst; table untouched"},
    {"data in the SYN that the server does not accept closes nothing",
     "old; >syn delete a\r\n; <syn 0; table untouched"},
    {"data in the SYN that the server accepts", "old; >syn delete a\r\n; <syn 10; table timed"},
    {"a client that sends data before the server's SYN", "old; >syn; > delete a\r\n; table timed"},
    {"a client that acknowledges bytes that the server did not send",
     "old; >syn; <syn 0; >ahead delete a\r\n; table timed"},
};

static void test_again(struct watch *watch)
{
    struct talk talk, fresh;

    begin(&talk, watch);
    SAY(&talk, "set k 0 0 1000\r\n...");
    talk_in(&talk, 77, 0, SYN, NULL, 0);
    SAY(&talk, "\r\ndelete a\r\n");
    all_is(watch, GATE_UNTOUCHED, "a SYN that the server does not answer");
    check(watch, "a", GATE_UNTOUCHED, "a command in a value behind such a SYN");

    fresh = talk;
    fresh.in = 78;
    fresh.out = 99;
    talk_out(&fresh, fresh.out - 1, fresh.in, SYN | ACK, NULL, 0);
    SAY(&fresh, "delete a\r\n");
    check(watch, "a", GATE_ENTERED, "a new connection of the same addresses and ports");
    all_is(watch, GATE_UNTOUCHED, "a new connection of the same addresses and ports");
    talk_out(&fresh, 98, 78, SYN | ACK, NULL, 0);
    ANSWER(&fresh, "DELETED\r\n");
    check(watch, "a", GATE_LEFT, "a reply behind the server's retransmitted SYN");
    SAY(&talk, "delete b\r\n");
    all_is(watch, GATE_TIMED, "a segment of the old connection");

    begin(&talk, watch);
    SAY(&talk, "get a\r\n");
    ANSWER(&talk, "END\r\n");
    fresh = talk;
    fresh.in -= 1000;
    fresh.out += 1000;
    talk_in(&fresh, fresh.in - 1, 0, SYN, NULL, 0);
    talk_in(&fresh, fresh.in, fresh.out, ACK, NULL, 0);
    SAY(&fresh, "delete a\r\n");
    all_is(watch, GATE_TIMED,
           "a new connection with sequence numbers before the old one's, without the server's SYN");
}

static void test_flood(struct watch *watch)
{
    struct talk talk, flood;

    begin(&talk, watch);
    flood = (struct talk){.watch = watch, .form = plain};
    for (int i = 0; i < 40000; i++) {
        flood.port = (uint16_t)i;
        talk_in(&flood, (uint32_t)i, 0, SYN, NULL, 0);
    }
    SAY(&talk, "delete a\r\n");
    check(watch, "a", GATE_ENTERED, "a connection during a SYN flood");
    all_is(watch, GATE_UNTOUCHED, "a connection during a SYN flood");
}

static void test_many_connections(struct watch *watch)
{
    static struct talk talks[1000];
    size_t i, n = 0;
    char key[16], text[32];

    for (i = 0; i < 1000; i++)
        talk_open(&talks[i], watch, &plain);
    watch_mark(watch);
    for (i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "delete key%zu\r\n", i);
        talk_say(&talks[i], text, strlen(text));
        snprintf(key, sizeof(key), "key%zu", i);
        n += gate_is(watch_gate(watch, key)) == GATE_ENTERED;
    }
    ok(n == 1000 && gate_is(watch->all) == GATE_UNTOUCHED,
       "1,000 connections at once are tracked (%zu)", n);
}

/* --- lost connections, and resync ------------------------------------------------------------ */

#define GET     "get x\r\n"
#define END     "END\r\n"
#define SILENCE "old; > " GET "; < " END "; settle; mark; "

/* The silence may have become long enough when the test looks: any state but untouched. */
static const struct dialogue found[] = {
    {"the first command behind a silence is followed, and counted",
     SILENCE "> delete a\r\nde; gate a entered; table untouched; found 1"},
    {"so is its reply, and the next command",
     "> lete b\r\n; < DELETED\r\n; gate a left; gate b entered"},
    {"an unknown command behind a silence", SILENCE "> gibberish\r\n; table !untouched"},
    {"a part of a command behind a silence", SILENCE "> dele; table !untouched"},
    {"a silence after a request without an answer",
     "old; > " GET "; settle; mark; > delete a\r\n; table !untouched"},
    {"a silence after a part of an answer",
     "old; > " GET "; < VALUE x; settle; mark; > delete a\r\n; table !untouched"},
    {"a command behind a silence at another sequence number",
     SILENCE ">-2 delete a\r\n; table !untouched"},
    {"a command behind a silence and a missing byte",
     SILENCE "move 1; > delete a\r\n; table !untouched"},
};

static const struct dialogue in_turn[] = {
    {"an old connection with alternating requests and answers is tracked after four of them",
     "old; rounds 5 " GET "|" END "; table timed; found"},
    {"it is not tracked after three", "old; rounds 4 " GET "|" END "; !found"},
    {"it is tracked after one more", "found"},
    {"a connection first seen within a value is tracked",
     "old; > r\nset b 0 0 1\r\nx; rounds 1 \r\n|STORED\r\n; rounds 4 "
     "set b 0 0 10\r\n0123456789\r\nget b\r\n|STORED\r\nVALUE b 0 5\r\n01234\r\nEND\r\n; found"},
    {"a connection whose commands and answers have several segments is tracked",
     "old; " FIVE("> set b 0 0 10\r\n; > 0123456789\r\n; < STO; < RED\r\n; ") "found"},
    {"a connection that was lost is tracked",
     "open; >10 delete b\r\n; move 20; rounds 5 " GET "|" END "; found"},
    {"a value that looks like commands, without answers, is not tracked",
     "old; " TEN("> " GET "; ack; ") "!found"},
    {"a connection that is always one answer behind is not tracked",
     "old; > get a\r\n; rounds 10 " GET "|" END "; !found"},
    {"a connection with one answer to two requests is not tracked",
     "old; " TEN("> " GET "; > " GET "; < " END "; ") "!found"},
    {"a connection with two answers to one request is not tracked",
     "old; rounds 10 " GET "|" END END "; !found"},
    {"a connection whose answers are errors is not tracked",
     "old; rounds 10 " GET "|ERROR\r\n; !found"},
    {"a connection with unknown commands is not tracked",
     "old; rounds 10 zap x\r\n|OK\r\n; !found"},
    {"a connection with incomplete answers is not tracked", "old; rounds 10 " GET "|END; !found"},
    {"a connection after what looked like a long value is tracked",
     "old; > ...; ack; > set x 0 0 1000000\r\n...\r\n; rounds 5 " GET "|" END "; found"},
    {"a connection with a retransmission after every third request is not tracked",
     "old; " TEN("rounds 3 " GET "|" END "; >-3 x\r\n; ") "!found"},
    {"a connection of which some answers are missing is not tracked",
     "old; " TEN("rounds 3 " GET "|" END "; <move 5; ") "!found"},
};

static void settle(uint64_t from)
{
    while (watch_now() < from + SHORT_SETTLE)
        ;
}

static void test_settled(struct watch *watch)
{
    struct talk talk;
    uint64_t from;

    do { /* on a busy machine the connection may be silent, too */
        begin(&talk, watch);
        from = watch_now();
        SAY(&talk, "delete a noreply\r\ndelete b\r\n");
        ANSWER(&talk, "ERROR\r\n");
        ANSWER(&talk, "DELETED\r\n");
        SAY(&talk, "delete c\r\n");
    } while (watch_now() >= from + SHORT_SETTLE);
    ok(gate_is(watch_gate(watch, "c")) != GATE_ENTERED,
       "after an ambiguous error replies cannot be counted");
    ANSWER(&talk, "DELETED\r\n");
    settle(watch_now());
    SAY(&talk, "delete d\r\n");
    check(watch, "d", GATE_ENTERED, "a write after a silence");
    ANSWER(&talk, "DELETED\r\n");
    check(watch, "d", GATE_LEFT, "the reply");
    all_is(watch, GATE_UNTOUCHED, "after the silence");
}

/* A command that takes longer to arrive than --settle. */
static void test_slow(struct watch *watch)
{
    struct talk talk;
    uint64_t word, from;

    begin(&talk, watch);
    SAY(&talk, "set k 0 0 5\r\nva");
    settle(watch_now());
    word = watch_gate(watch, "k")->word;
    from = watch_now();
    SAY(&talk, "lue\r\n");
    check(watch, "k", GATE_ENTERED, "the late end of a value");
    ok(watch_gate(watch, "k")->word != word && watch_gate(watch, "k")->until > from + SHORT_SETTLE,
       "the late end of a value closes its gate again");
    ANSWER(&talk, "STORED\r\n");
    check(watch, "k", GATE_LEFT, "the reply");
}

/* A gate's word after a fill has given up the writes in flight. */
static uint64_t given_up(uint64_t word)
{
    return (word & ~(CHAIN_GENERATION - 1)) + CHAIN_GENERATION;
}

/* A reply that leaves after its write was given up. */
static void test_given_up(struct watch *watch)
{
    struct chain_gate *gate;
    struct talk talk;
    uint64_t word;

    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    gate = watch_gate(watch, "a");
    word = gate->word = given_up(gate->word);
    ANSWER(&talk, "DELETED\r\n");
    ok(gate->word == word + CHAIN_VERSION,
       "the reply to a write that was given up makes fills since then invalid");
    SAY(&talk, "delete b\r\n");
    gate = watch_gate(watch, "b");
    word = gate->word;
    ANSWER(&talk, "DELETED\r\n");
    ok(gate->word == word + CHAIN_VERSION - 1,
       "the reply to another write changes the gate's version, too");
}

/* The same while another, later write is in flight. */
static void test_late_writer(struct watch *watch)
{
    struct talk late, other;
    struct chain_gate *gate;

    begin(&late, watch);
    talk_open(&other, watch, &plain);
    SAY(&late, "delete a\r\n");
    gate = watch_gate(watch, "a");
    gate->word = given_up(gate->word);
    SAY(&other, "delete a\r\n");
    ANSWER(&late, "DELETED\r\n");
    check(watch, "a", GATE_ENTERED, "the late reply to one write does not end another");
    ANSWER(&other, "DELETED\r\n");
    check(watch, "a", GATE_LEFT, "the reply to the other write ends it");
}

/* A write that the server receives later than --settle after it passed the chain. */
static void test_late(struct watch *watch)
{
    struct talk talk;
    uint64_t now;

    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    SAY(&talk, "delete b\r\n");
    settle(watch_now());
    now = watch_now();
    IN(&talk, -20, ACK, "delete a\r\n");
    ok(watch_gate(watch, "a")->done > now && watch_gate(watch, "b")->done > now,
       "a retransmitted segment closes the gates of its connection's open writes again");
    all_is(watch, GATE_UNTOUCHED, "a retransmitted segment");

    begin(&talk, watch);
    SAY(&talk, "set k 0 0 100\r\n");
    IN(&talk, 90, ACK, "..........\r\ndelete b\r\n");
    settle(watch_now());
    now = watch_now();
    IN(&talk, 0, ACK,
       "..............................................................................."
       "...........");
    ok(watch_gate(watch, "k")->done > now && watch_gate(watch, "b")->done > now,
       "a late part of a value closes the gates of its connection's open writes again");
    all_is(watch, GATE_UNTOUCHED, "a late part of a value");

    begin(&talk, watch);
    for (int i = 0; i < 40; i++)
        SAY(&talk, "delete a\r\n");
    settle(watch_now());
    now = watch_now();
    IN(&talk, -10, ACK, "delete a\r\n");
    ok(watch->all->done > now,
       "with more open writes than are kept a retransmission closes the table's gate");
}

/*
 * Writes for which the ring has no room, and whose replies leave when their gates are open again.
 */
static void test_late_surplus(struct watch *watch)
{
    struct chain_gate *gate;
    struct talk talk;
    uint64_t word;

    begin(&talk, watch);
    for (int i = 0; i <= CHAIN_WRITES; i++)
        SAY(&talk, "delete a\r\n");
    SAY(&talk, "delete b\r\n");
    SAY(&talk, "get c\r\n");
    gate = watch_gate(watch, "b");
    ok(gate->done > watch_now(), "the gate of a write that is not kept is closed for a time");
    settle(watch_now());
    for (int i = 0; i <= CHAIN_WRITES; i++)
        ANSWER(&talk, "DELETED\r\n");
    word = watch->all->word;
    ANSWER(&talk, "DELETED\r\n");
    ok(watch->all->word != word && watch->all->done >= gate->done,
       "its reply makes fills since then invalid");
    word = watch->all->word;
    ANSWER(&talk, "END\r\n");
    ok(watch->all->word == word, "a later reply changes nothing");
}

int main(void)
{
    struct watch watch;

    watch_open(&watch, LONG_SETTLE);
    WATCH_TALK(&watch, repeated);
    WATCH_TALK(&watch, gaps);
    WATCH_TALK(&watch, flags);
    WATCH_TALK(&watch, replies);
    WATCH_TALK(&watch, unknown);
    test_again(&watch);
    test_flood(&watch);
    test_many_connections(&watch);
    WATCH_TALK(&watch, in_turn);
    watch_close(&watch);
    watch_open(&watch, SHORT_SETTLE);
    WATCH_TALK(&watch, found);
    test_settled(&watch);
    test_slow(&watch);
    test_given_up(&watch);
    test_late_writer(&watch);
    test_late(&watch);
    test_late_surplus(&watch);
    watch_close(&watch);
    return done();
}
