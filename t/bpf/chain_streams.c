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

static void test_repeated(struct watch *watch)
{
    struct talk talk;

    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    ANSWER(&talk, "DELETED\r\n");
    IN(&talk, -10, ACK, "delete a\r\n");
    all_is(watch, GATE_UNTOUCHED, "a retransmitted segment that the server has acknowledged");
    ok(watch_count(watch, CHAIN_RETRANSMITTED) == 1, "a retransmitted segment is counted");
    IN(&talk, -1, ACK, "x");
    all_is(watch, GATE_UNTOUCHED, "a keep-alive byte");
    IN(&talk, -10, ACK, "delete a\r\ndelete b\r\n");
    check(watch, "b", GATE_ENTERED, "a retransmitted segment with new bytes behind the old ones");
    all_is(watch, GATE_UNTOUCHED, "a retransmitted segment with new bytes behind the old ones");
    talk.in += 10;
    ANSWER(&talk, "DELETED\r\n");
    check(watch, "b", GATE_LEFT, "the reply");

    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    IN(&talk, -10, ACK, "delete b\r\n");
    all_is(watch, GATE_TIMED, "a retransmitted, unacknowledged segment with other bytes");
    ok(watch_count(watch, CHAIN_LOST) == 1 && watch_count(watch, CHAIN_CLOSED_ALL) > 0,
       "the connection is lost, and counted");
    watch_mark(watch);
    SAY(&talk, "get a\r\n");
    all_is(watch, GATE_TIMED, "a request on a lost connection");
    watch_mark(watch);
    ANSWER(&talk, "END\r\n");
    all_is(watch, GATE_LEFT, "a reply on a lost connection");

    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    IN(&talk, -10, ACK, "delete b\r\ndelete c\r\n");
    all_is(watch, GATE_TIMED, "a retransmitted segment with other bytes, and new ones behind them");
}

/* The same bytes again, before the server has acknowledged them. */
static void test_same(struct watch *watch)
{
    struct talk talk;

    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    IN(&talk, -10, ACK, "delete a\r\n");
    IN(&talk, -10, ACK, "delete a\r\ndelete b\r\n");
    check(watch, "b", GATE_ENTERED,
          "an unacknowledged segment retransmitted unchanged, with new bytes");
    all_is(watch, GATE_UNTOUCHED,
           "an unacknowledged segment retransmitted unchanged, with new bytes");
    talk.in += 10;
    ANSWER(&talk, "DELETED\r\nDELETED\r\n");
    check(watch, "a", GATE_TIMED, "both replies, to the retransmitted command and to the new one");
    check(watch, "b", GATE_LEFT, "both replies, to the retransmitted command and to the new one");

    begin(&talk, watch);
    SAY(&talk, "get a\r\nde");
    SAY(&talk, "lete a\r\nset b 0 0 20\r\n01234");
    SAY(&talk, "56789");
    SAY(&talk, "0123456789\r\n");
    IN(&talk, -53, ACK, "get a\r\ndelete a\r\nset b 0 0 20\r\n01234");
    IN(&talk, -53, ACK, "get a\r\ndelete a\r\nset b 0 0 20\r\n01234567890123456789\r\n");
    IN(&talk, -44, ACK, "lete a\r\nset b 0 0 20\r\nxxxxxxx");
    all_is(watch, GATE_UNTOUCHED, "segments retransmitted as one");
    ok(watch_count(watch, CHAIN_LOST) == 0 && watch_count(watch, CHAIN_RETRANSMITTED) == 3,
       "segments retransmitted as one are counted");
    IN(&talk, -44, ACK, "lete c\r\nset b 0 0 20\r\n01234");
    all_is(watch, GATE_TIMED, "segments retransmitted as one, with another key");
}

/* Other bytes at the same position. */
static void test_others(struct watch *watch)
{
    struct talk talk;
    int i;

    begin(&talk, watch);
    SAY(&talk, "get abc def\r\n");
    IN(&talk, -13, ACK, "get abc\ndef\r\n");
    all_is(watch, GATE_TIMED, "one line retransmitted as two");
    begin(&talk, watch);
    SAY(&talk, "set b 0 0 20\r\n01234567890123456789\r\n");
    IN(&talk, -36, ACK, "set b 0 0 18\r\n01234567890123456789\r\n");
    all_is(watch, GATE_TIMED, "a value retransmitted with a smaller length");
    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    IN(&talk, -9, ACK, "elete a\r\n");
    all_is(watch, GATE_TIMED, "a retransmitted segment that begins elsewhere");
    begin(&talk, watch);
    SAY(&talk, "delete a\r\ndelete b\r\n");
    IN(&talk, -20, ACK, "delete a\r\n");
    all_is(watch, GATE_TIMED, "a retransmitted segment that ends elsewhere");
    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    for (i = 0; i < 8; i++)
        SAY(&talk, "delete b\r\n");
    IN(&talk, -80, ACK, "delete b\r\n");
    all_is(watch, GATE_UNTOUCHED, "a retransmission of the eighth last segment");
    IN(&talk, -90, ACK, "delete a\r\n");
    all_is(watch, GATE_TIMED, "a retransmission of the ninth last segment");
    begin(&talk, watch);
    SAY(&talk, "set a 0 0 20\r\n0123456789");
    SAY(&talk, "0123456789\r\nset b 0 0 10\r\n01234");
    IN(&talk, -37, ACK, "xxxxxx0123456789\r\nset b 0 0 10\r\nxxxxx");
    all_is(watch, GATE_UNTOUCHED, "a retransmitted segment that begins and ends within values");
    IN(&talk, -37, ACK, "xxxxxx0123456789\r\nset c 0 0 10\r\nxxxxx");
    all_is(watch, GATE_TIMED, "a retransmitted segment that differs between two values");
}

static void test_gaps(struct watch *watch)
{
    struct talk talk;

    begin(&talk, watch);
    IN(&talk, 10, ACK, "delete b\r\n");
    all_is(watch, GATE_TIMED, "a segment behind a missing one");

    begin(&talk, watch);
    SAY(&talk, "set k 0 0 100\r\n");
    IN(&talk, 40, ACK, "........................................");
    IN(&talk, 0, ACK, "\r\nset evil 0 0 1\r\nx\r\nset evil 0 0 1\r\nx\r\n");
    IN(&talk, 90, ACK, "..........\r\ndelete b\r\n");
    check(watch, "b", GATE_ENTERED, "a command behind a value of which a part is missing");
    IN(&talk, 80, ACK, "..........");
    all_is(watch, GATE_UNTOUCHED, "parts of a value in any order");
    check(watch, "evil", GATE_UNTOUCHED, "commands within the parts of a value");
    talk.in += 112;
    ANSWER(&talk, "STORED\r\nDELETED\r\n");
    check(watch, "b", GATE_TIMED, "both replies, to commands that waited for a part");
    IN(&talk, -22, ACK, "..........\r\ndelete b\r\n");
    all_is(watch, GATE_UNTOUCHED, "an acknowledged end of a value, retransmitted");

    begin(&talk, watch);
    SAY(&talk, "set k 0 0 100\r\n");
    IN(&talk, 90, ACK, "..........\r\ndelete b\r\n");
    IN(&talk, 90, ACK, "..........\r\ndelete c\r\n");
    all_is(watch, GATE_TIMED,
           "an unacknowledged end of a value, retransmitted with another command");

    begin(&talk, watch);
    SAY(&talk, "set k 0 0 100\r\n");
    IN(&talk, 101, ACK, "\ndelete b\r\n");
    all_is(watch, GATE_TIMED, "a segment behind the missing end of a value");
}

static void test_flags(struct watch *watch)
{
    struct talk talk;

    begin(&talk, watch);
    IN(&talk, 0, ACK | URG, "delete a\r\n");
    all_is(watch, GATE_TIMED, "urgent data, which a server may read at another position");

    begin(&talk, watch);
    IN(&talk, 0, ACK | FIN, "delete a\r\n");
    check(watch, "a", GATE_ENTERED, "a last segment");
    talk.in += 11;
    ANSWER(&talk, "DELETED\r\n");
    check(watch, "a", GATE_LEFT, "the reply");
    all_is(watch, GATE_UNTOUCHED, "during the last segment and its reply");

    begin(&talk, watch);
    SAY(&talk, "delete a\r\n");
    talk_out(&talk, talk.out, talk.in, FIN | ACK, NULL, 0);
    check(watch, "a", GATE_TIMED, "a server that closes the connection without a reply");
    SAY(&talk, "delete b\r\n");
    all_is(watch, GATE_TIMED, "a command behind the server's close");
}

static void test_replies(struct watch *watch)
{
    struct talk talk;

    begin(&talk, watch);
    SAY(&talk, "delete a\r\ndelete b\r\n");
    ANSWER(&talk, "DELETED\r\n");
    talk_out(&talk, talk.out - 9, talk.in, ACK, "DELETED\r\n", 9);
    check(watch, "b", GATE_ENTERED, "a reply again");
    talk_out(&talk, talk.out - 9, talk.in, ACK, "DELETED\r\nDELE", 13);
    check(watch, "b", GATE_ENTERED, "a retransmitted reply with a part of the next reply");
    talk_out(&talk, talk.out + 4, talk.in, ACK, "TED\r\n", 5);
    check(watch, "b", GATE_LEFT, "the end of the reply");

    begin(&talk, watch);
    SAY(&talk, "delete a\r\ndelete b\r\n");
    talk_out(&talk, talk.out + 9, talk.in, ACK, "DELETED\r\n", 9);
    check(watch, "a", GATE_TIMED, "a reply behind a missing one");
    check(watch, "b", GATE_TIMED, "a reply behind a missing one");
    SAY(&talk, "delete c\r\n");
    check(watch, "c", GATE_TIMED, "a write after a missing reply");
    all_is(watch, GATE_UNTOUCHED, "after a missing reply");
}

/* --- connections begin ----------------------------------------------------------------------- */

static void test_unknown(struct watch *watch)
{
    struct talk talk = {.watch = watch, .port = 39999, .in = 1000, .out = 5000};

    watch_mark(watch);
    SAY(&talk, "get a\r\n");
    all_is(watch, GATE_TIMED, "a connection that is older than the chain");
    ok(watch_count(watch, CHAIN_UNFOLLOWED) == 1,
       "a segment of an untracked connection is counted");
    watch_mark(watch);
    talk_in(&talk, talk.in, talk.out, ACK, NULL, 0);
    talk_in(&talk, talk.in, talk.out, ACK | FIN, NULL, 0);
    talk_in(&talk, talk.in, talk.out, RST, NULL, 0);
    all_is(watch, GATE_UNTOUCHED, "segments without data");

    talk.port--;
    watch_mark(watch);
    talk_in(&talk, talk.in - 1, 0, SYN, "delete a\r\n", 10);
    talk_out(&talk, talk.out - 1, talk.in, SYN | ACK, NULL, 0);
    all_is(watch, GATE_UNTOUCHED, "data in the SYN that the server does not accept");

    talk.port--;
    watch_mark(watch);
    talk_in(&talk, talk.in - 1, 0, SYN, "delete a\r\n", 10);
    talk_out(&talk, talk.out - 1, talk.in + 10, SYN | ACK, NULL, 0);
    all_is(watch, GATE_TIMED, "data in the SYN that the server accepts");

    talk.port--;
    watch_mark(watch);
    talk_in(&talk, talk.in - 1, 0, SYN, NULL, 0);
    SAY(&talk, "delete a\r\n");
    all_is(watch, GATE_TIMED, "a client that sends data before the server's SYN");

    talk.port--;
    watch_mark(watch);
    talk_in(&talk, talk.in - 1, 0, SYN, NULL, 0);
    talk_out(&talk, talk.out - 1, talk.in, SYN | ACK, NULL, 0);
    talk_in(&talk, talk.in, talk.out + 1, ACK, "delete a\r\n", 10);
    all_is(watch, GATE_TIMED, "a client that acknowledges bytes that the server did not send");
}

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
    int i;

    begin(&talk, watch);
    flood = (struct talk){.watch = watch, .form = plain};
    for (i = 0; i < 40000; i++) {
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

static void settle(uint64_t from)
{
    while (watch_now() < from + SHORT_SETTLE)
        ;
}

/*
 * An untracked connection sent a request, the server answered with `answer`, then both were silent.
 */
static void silence(struct talk *talk, const char *says, const char *answer)
{
    talk->port++;
    talk->in += 100000;
    talk_say(talk, says, strlen(says));
    if (answer)
        talk_answer(talk, answer, strlen(answer));
    settle(watch_now());
    watch_mark(talk->watch);
}

/* The silence may have become long enough when the test looks. */
static void closes(struct watch *watch, const char *what)
{
    ok(gate_is(watch->all) != GATE_UNTOUCHED, "%s: the table's gate is closed for a time", what);
}

static void test_found(struct watch *watch)
{
    struct talk talk = {.watch = watch, .port = 50000, .in = 1000, .out = 5000};

    silence(&talk, "get x\r\n", "END\r\n");
    SAY(&talk, "delete a\r\nde");
    check(watch, "a", GATE_ENTERED, "the first command behind a silence");
    all_is(watch, GATE_UNTOUCHED, "the first command behind a silence");
    ok(watch_count(watch, CHAIN_FOUND) == 1, "a connection tracked again is counted");
    SAY(&talk, "lete b\r\n");
    ANSWER(&talk, "DELETED\r\n");
    check(watch, "a", GATE_LEFT, "the reply to the first command behind a silence");
    check(watch, "b", GATE_ENTERED, "the reply to the first command behind a silence");

    silence(&talk, "get x\r\n", "END\r\n");
    SAY(&talk, "gibberish\r\n");
    closes(watch, "an unknown command behind a silence");
    silence(&talk, "get x\r\n", "END\r\n");
    SAY(&talk, "dele");
    closes(watch, "a part of a command behind a silence");
    silence(&talk, "get x\r\n", NULL);
    SAY(&talk, "delete a\r\n");
    closes(watch, "a silence after a request without an answer");
    silence(&talk, "get x\r\n", "VALUE x");
    SAY(&talk, "delete a\r\n");
    closes(watch, "a silence after a part of an answer");
    silence(&talk, "get x\r\n", "END\r\n");
    IN(&talk, -2, ACK, "delete a\r\n");
    closes(watch, "a command behind a silence at another sequence number");
    talk_ack(&talk);
    silence(&talk, "get x\r\n", "END\r\n");
    talk.in++;
    SAY(&talk, "delete a\r\n");
    closes(watch, "a command behind a silence and a missing byte");
}

/* Sends a command and receives its answer, n times. */
static void rounds(struct talk *talk, int n, const char *says, const char *answer)
{
    for (; n; n--) {
        talk_say(talk, says, strlen(says));
        talk_answer(talk, answer, strlen(answer));
    }
}

/* Whether a connection is tracked from its next segment on. */
static bool is_found(struct talk *talk)
{
    struct watch *watch = talk->watch;
    bool found;

    watch_mark(watch);
    SAY(talk, "delete a\r\n");
    found = gate_is(watch_gate(watch, "a")) == GATE_ENTERED &&
            gate_is(watch->all) == GATE_UNTOUCHED && watch_count(watch, CHAIN_FOUND) == 1;
    ANSWER(talk, "DELETED\r\n");
    return found && gate_is(watch_gate(watch, "a")) == GATE_LEFT;
}

static void old(struct talk *talk, struct watch *watch)
{
    static uint16_t port = 1000;

    *talk = (struct talk){.watch = watch, .port = port++, .in = 1000, .out = 5000};
    watch_mark(watch);
}

static void test_in_turn(struct watch *watch)
{
    struct talk talk;
    int i;

    old(&talk, watch);
    rounds(&talk, 5, "get x\r\n", "END\r\n");
    all_is(watch, GATE_TIMED, "an old connection with alternating requests and answers");
    ok(is_found(&talk), "it is tracked after four of them behind its first segment");
    old(&talk, watch);
    rounds(&talk, 4, "get x\r\n", "END\r\n");
    ok(!is_found(&talk), "it is not tracked after three");
    ok(is_found(&talk), "it is tracked after one more");
    old(&talk, watch);
    SAY(&talk, "r\nset b 0 0 1\r\nx");
    rounds(&talk, 1, "\r\n", "STORED\r\n");
    rounds(&talk, 4, "set b 0 0 10\r\n0123456789\r\nget b\r\n",
           "STORED\r\nVALUE b 0 5\r\n01234\r\nEND\r\n");
    ok(is_found(&talk), "a connection first seen within a value is tracked");
    old(&talk, watch);
    for (i = 0; i < 5; i++) {
        SAY(&talk, "set b 0 0 10\r\n");
        SAY(&talk, "0123456789\r\n");
        ANSWER(&talk, "STO");
        ANSWER(&talk, "RED\r\n");
    }
    ok(is_found(&talk), "a connection whose commands and answers have several segments is tracked");
    begin(&talk, watch);
    IN(&talk, 10, ACK, "delete b\r\n");
    talk.in += 20;
    rounds(&talk, 5, "get x\r\n", "END\r\n");
    ok(is_found(&talk), "a connection that was lost is tracked");
}

static void test_out_of_turn(struct watch *watch)
{
    struct talk talk;
    int i;

    old(&talk, watch);
    for (i = 0; i < 10; i++) {
        SAY(&talk, "get x\r\n");
        talk_ack(&talk);
    }
    ok(!is_found(&talk), "a value that looks like commands, without answers, is not tracked");
    old(&talk, watch);
    SAY(&talk, "get a\r\n");
    rounds(&talk, 10, "get x\r\n", "END\r\n");
    ok(!is_found(&talk), "a connection that is always one answer behind is not tracked");
    old(&talk, watch);
    for (i = 0; i < 10; i++) {
        SAY(&talk, "get x\r\n");
        SAY(&talk, "get x\r\n");
        ANSWER(&talk, "END\r\n");
    }
    ok(!is_found(&talk), "a connection with one answer to two requests is not tracked");
    old(&talk, watch);
    rounds(&talk, 10, "get x\r\n", "END\r\nEND\r\n");
    ok(!is_found(&talk), "a connection with two answers to one request is not tracked");
    old(&talk, watch);
    rounds(&talk, 10, "get x\r\n", "ERROR\r\n");
    ok(!is_found(&talk), "a connection whose answers are errors is not tracked");
    old(&talk, watch);
    rounds(&talk, 10, "zap x\r\n", "OK\r\n");
    ok(!is_found(&talk), "a connection with unknown commands is not tracked");
    old(&talk, watch);
    rounds(&talk, 10, "get x\r\n", "END");
    ok(!is_found(&talk), "a connection with incomplete answers is not tracked");
    old(&talk, watch);
    SAY(&talk, "...");
    talk_ack(&talk);
    SAY(&talk, "set x 0 0 1000000\r\n...\r\n");
    rounds(&talk, 5, "get x\r\n", "END\r\n");
    ok(is_found(&talk), "a connection after what looked like a long value is tracked");
    old(&talk, watch);
    for (i = 0; i < 10; i++) {
        rounds(&talk, 3, "get x\r\n", "END\r\n");
        IN(&talk, -3, ACK, "x\r\n");
    }
    ok(!is_found(&talk),
       "a connection with a retransmission after every third request is not tracked");
    old(&talk, watch);
    for (i = 0; i < 10; i++) {
        rounds(&talk, 3, "get x\r\n", "END\r\n");
        talk.out += 5;
    }
    ok(!is_found(&talk), "a connection of which some answers are missing is not tracked");
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
    int i;

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
    for (i = 0; i < 40; i++)
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
    int i;

    begin(&talk, watch);
    for (i = 0; i <= CHAIN_WRITES; i++)
        SAY(&talk, "delete a\r\n");
    SAY(&talk, "delete b\r\n");
    SAY(&talk, "get c\r\n");
    gate = watch_gate(watch, "b");
    ok(gate->done > watch_now(), "the gate of a write that is not kept is closed for a time");
    settle(watch_now());
    for (i = 0; i <= CHAIN_WRITES; i++)
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
    test_repeated(&watch);
    test_same(&watch);
    test_others(&watch);
    test_gaps(&watch);
    test_flags(&watch);
    test_replies(&watch);
    test_unknown(&watch);
    test_again(&watch);
    test_flood(&watch);
    test_many_connections(&watch);
    test_in_turn(&watch);
    test_out_of_turn(&watch);
    watch_close(&watch);
    watch_open(&watch, SHORT_SETTLE);
    test_found(&watch);
    test_settled(&watch);
    test_slow(&watch);
    test_given_up(&watch);
    test_late_writer(&watch);
    test_late(&watch);
    test_late_surplus(&watch);
    watch_close(&watch);
    return done();
}
