/* SPDX-License-Identifier: BSD-3-Clause */
/* Which replies the chain keeps, for how long, and which replies it does not keep. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>

#include "kcache/chain.h"
#include "t/bpf/chain_lab.h"
#include "t/lib/tap.h"

enum { SECOND = 1000000000 };

#define TEXT(text) text, sizeof(text) - 1

static const char reply_k[] = "VALUE k 0 1\r\nv\r\nEND\r\n";
#define REPLY reply_k, sizeof(reply_k) - 1

static void get_k(struct frame *frame, unsigned int id)
{
    frame_request(frame, TEXT("get k\r\n"));
    frame->bytes[42] = (uint8_t)(id >> 8);
    frame->bytes[43] = (uint8_t)id;
}

static struct chain_gate *gate_k(struct chain_lab *chain)
{
    return &chain_lab_bucket(chain, "k", 1)->gate;
}

/* A get of the key is passed, and the chain keeps its reply. */
static bool keep_k(struct chain_lab *chain)
{
    struct frame frame;

    get_k(&frame, 1);
    return lab_passes(&chain->lab, LOADER_XDP, &frame, LAB_UNCOUNTED) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILLS);
}

static bool answers_k(struct chain_lab *chain)
{
    struct frame frame;

    get_k(&frame, 2);
    return lab_answers(&chain->lab, LOADER_XDP, &frame, REPLY);
}

static bool misses_k(struct chain_lab *chain, enum chain_count miss)
{
    struct frame frame;

    get_k(&frame, 3);
    return chain_misses(chain, &frame, miss);
}

/* --- gates ---------------------------------------------------------------------------------- */

static void write_arrives(struct chain_gate *gate, uint64_t until)
{
    gate->until = until;
    __atomic_fetch_add(&gate->word, CHAIN_VERSION + 1, __ATOMIC_SEQ_CST);
}

static void write_ends(struct chain_gate *gate)
{
    __atomic_store_n(&gate->done, chain_lab_now(), __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&gate->word, 1, __ATOMIC_SEQ_CST);
}

static void test_gate(struct chain_lab *chain, struct chain_gate *gate, const char *name)
{
    struct frame frame;

    chain_lab_clear(chain);
    ok(keep_k(chain) && answers_k(chain), "%s: an entry is answered", name);
    write_arrives(gate, chain_lab_now() + SECOND);
    ok(misses_k(chain, CHAIN_MISS_WRITTEN), "%s: an entry is not answered once a write has arrived",
       name);
    get_k(&frame, 1);
    ok(chain_misses(chain, &frame, CHAIN_MISS_WRITTEN) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING),
       "%s: a reply is not kept while a write is in flight", name);
    ok(chain_misses(chain, &frame, CHAIN_MISS_WRITTEN),
       "%s: a get before the write's reply is passed", name);
    write_ends(gate);
    ok(misses_k(chain, CHAIN_MISS_WRITTEN),
       "%s: the end of a write does not make older entries valid", name);
    ok(chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING),
       "%s: a reply to a get from before the write's reply is not kept", name);
    chain_lab_clear(chain);
    write_arrives(gate, chain_lab_now() + SECOND);
    write_ends(gate);
    ok(keep_k(chain) && answers_k(chain),
       "%s: a reply to a get from after the write's reply is kept", name);
}

static void test_late(struct chain_lab *chain, struct chain_gate *gate, const char *name)
{
    struct frame frame;

    chain_lab_clear(chain);
    write_arrives(gate, chain_lab_now());
    get_k(&frame, 1);
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(chain, &frame, REPLY, CHAIN_WRITES_LATE),
       "%s: a write without a reply is given up at its time, and replies to earlier gets are not "
       "kept",
       name);
    ok(keep_k(chain) && answers_k(chain), "%s: replies to later gets are kept", name);
}

static void test_gates(struct chain_lab *chain)
{
    test_gate(chain, gate_k(chain), "the key's gate");
    test_gate(chain, chain->all, "the table's gate");
    test_late(chain, gate_k(chain), "the key's gate");
    test_late(chain, chain->all, "the table's gate");
}

/* A write to another key closes the gate of its bucket, and no other. */
static void test_neighbour(struct chain_lab *chain)
{
    chain_lab_clear(chain);
    ok(keep_k(chain), "an entry");
    write_arrives(&chain->buckets[(chain_lab_bucket(chain, "k", 1) - chain->buckets) ^ 1].gate, 0);
    ok(answers_k(chain), "a write to the next bucket does not change this bucket's gate");
}

/* --- age -------------------------------------------------------------------------------------- */

static void test_age(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_bucket *bucket;
    struct chain_lab chain;

    settings.max_age = 100000;
    chain_lab_open(&chain, &settings, NULL);
    ok(keep_k(&chain) && answers_k(&chain), "an entry is answered");
    bucket = chain_lab_bucket(&chain, "k", 1);
    bucket->stamp -= 99000;
    ok(answers_k(&chain), "an entry is answered up to the age of --max-age");
    bucket->stamp -= 1001;
    ok(misses_k(&chain, CHAIN_MISS_AGE), "an older entry is not answered");
    bucket->stamp += 200000;
    ok(misses_k(&chain, CHAIN_MISS_AGE), "an entry with a time in the future is not answered");
    chain_lab_close(&chain);
}

/* --- asks ----------------------------------------------------------------------------------- */

/* Makes all asks older. */
static void asks_age(struct chain_lab *chain, uint64_t by)
{
    struct chain_ask ask;
    uint32_t i;

    for (i = 0; i < chain->settings.nasks; i++) {
        bpf_map_lookup_elem(chain_lab_map(chain, "asks"), &i, &ask);
        ask.first -= ask.first ? by : 0;
        ask.next -= ask.next ? by : 0;
        ask.wrote -= ask.wrote ? by : 0;
        bpf_map_update_elem(chain_lab_map(chain, "asks"), &i, &ask, BPF_ANY);
    }
}

static void test_not_asked(struct chain_lab *chain)
{
    static const struct {
        const char *name;
        size_t at; /* the byte of the request that differs */
    } rows[] = {
        {"id", 43},
        {"client's port", 35},
        {"client's address", 29},
        {"server's address", 33},
    };
    struct frame asked, other;
    size_t i;

    chain_lab_clear(chain);
    get_k(&asked, 1);
    ok(chain_replies(chain, &asked, REPLY, CHAIN_FILL_NOT_ASKED),
       "a reply without a request is not kept");
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        chain_lab_clear(chain);
        other = asked;
        other.bytes[rows[i].at] ^= 1;
        ok(chain_misses(chain, &asked, CHAIN_MISS_EMPTY) &&
               chain_replies(chain, &other, REPLY, CHAIN_FILL_NOT_ASKED),
           "a reply to a request with another %s is not kept", rows[i].name);
        ok(chain_replies(chain, &asked, REPLY, CHAIN_FILLS),
           "the reply to the request itself is kept");
        ok(chain_replies(chain, &asked, REPLY, CHAIN_FILL_NOT_ASKED), "once");
    }
}

/* Of requests that cannot be distinguished the earliest time counts. */
static void test_same_id(struct chain_lab *chain)
{
    struct chain_gate *gate = gate_k(chain);
    struct frame frame;

    chain_lab_clear(chain);
    get_k(&frame, 1);
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY), "a request");
    write_arrives(gate, chain_lab_now() + SECOND);
    write_ends(gate);
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY),
       "after a write, a request with the same id is passed");
    ok(chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING),
       "neither reply is kept, since each may be the first request's");
    ok(keep_k(chain), "when both replies have left, a request with that id is kept again");
}

/* A request with an unknown number of replies keeps its slot. */
static void test_hold(struct chain_lab *chain)
{
    static const char *const others[] = {"gets k\r\n", "get k\r\nget k\r\n", "get \r\n",
                                         "gat 0 k\r\n", "touch x 0\r\nget k\r\n"};
    struct chain_gate *gate = gate_k(chain);
    struct frame other, frame;
    size_t i;

    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        chain_lab_clear(chain);
        get_k(&frame, 1);
        frame_request(&other, others[i], strlen(others[i]));
        memcpy(other.bytes + 42, frame.bytes + 42, 2);
        lab_run(&chain->lab, LOADER_XDP, &other, &(struct frame){.n = 0});
        *gate = *chain->all = (struct chain_gate){0};
        write_arrives(gate, chain_lab_now() + SECOND);
        write_ends(gate);
        ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
               chain_replies(chain, &frame, TEXT("END\r\n"), CHAIN_COUNTS) &&
               chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING) &&
               chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING),
           "behind request %zu with its id, every reply to a get counts as the earlier request's",
           i);
        asks_age(chain, 2 * (uint64_t)SECOND);
        ok(keep_k(chain), "after two seconds a reply to a get with that id is kept again");
    }
}

static void test_rotation(struct chain_lab *chain)
{
    struct chain_gate *gate = gate_k(chain);
    struct frame frame;

    chain_lab_clear(chain);
    get_k(&frame, 1);
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY), "a get that the server drops is passed");
    asks_age(chain, CHAIN_ASK_NS - SECOND / 2);
    write_arrives(gate, chain_lab_now() + SECOND);
    write_ends(gate);
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING),
       "while its ask is valid, the reply to the next get counts as its reply");
    asks_age(chain, SECOND / 2);
    gate->done -= SECOND / 2;
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILLS),
       "when its ask has expired, the reply to the next get is kept");
    chain_lab_clear(chain);
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY),
       "another get that the server drops is passed");
    asks_age(chain, CHAIN_ASK_NS);
    ok(chain_replies(chain, &frame, REPLY, CHAIN_FILL_NOT_ASKED),
       "a reply that is two seconds late matches no ask");
}

/* With the default times. */
static void test_dropped(void)
{
    struct kcache_chain options = {.entries = 1024};
    struct chain_settings settings;
    struct chain_lab chain;
    struct timespec tick;
    struct frame frame;

    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    chain_complete(&options);
    chain_settings(&options, (uint64_t)tick.tv_nsec, &settings);
    settings.nasks = 64;
    settings.any_socket = 1;
    chain_lab_open(&chain, &settings, NULL);
    get_k(&frame, 1);
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY), "a get that the server drops is passed");
    asks_age(&chain, settings.ask - SECOND / 50);
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &frame, REPLY, CHAIN_FILLS) && answers_k(&chain),
       "the reply to the next get is kept, and is not too old to be answered");
    chain_lab_close(&chain);
}

/* Several requests in one slot. */
static void test_one_slot(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;
    struct chain_gate *gate;
    struct frame a, b;

    settings.nasks = 1;
    chain_lab_open(&chain, &settings, NULL);
    gate = gate_k(&chain);
    get_k(&a, 1);
    get_k(&b, 2);
    ok(chain_misses(&chain, &a, CHAIN_MISS_EMPTY) && chain_misses(&chain, &b, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &b, REPLY, CHAIN_FILLS),
       "the replies to two requests in one slot are kept");
    chain_lab_clear(&chain);
    ok(chain_misses(&chain, &a, CHAIN_MISS_EMPTY), "a request");
    write_arrives(gate, chain_lab_now() + SECOND);
    write_ends(gate);
    ok(chain_misses(&chain, &b, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &b, REPLY, CHAIN_FILL_WRITING),
       "the second request in a slot has the first one's time");
    ok(chain_misses(&chain, &b, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &a, REPLY, CHAIN_FILL_WRITING),
       "a third request has it as well, while the first may be in flight");
    chain_lab_close(&chain);
}

/* --- writes over UDP ------------------------------------------------------------------------- */

static bool set_arrives(struct chain_lab *chain, struct frame *frame, unsigned int id)
{
    frame_request(frame, TEXT("set k 0 0 1\r\nv\r\n"));
    frame->bytes[42] = (uint8_t)(id >> 8);
    frame->bytes[43] = (uint8_t)id;
    return lab_passes(&chain->lab, LOADER_XDP, frame, MC_COUNT_PASS_COMMAND);
}

static bool set_ends(struct chain_lab *chain, const struct frame *frame)
{
    return chain_replies(chain, frame, TEXT("STORED\r\n"), CHAIN_WRITES_ENDED);
}

static void test_write(struct chain_lab *chain)
{
    struct frame set, early, frame;

    chain_lab_clear(chain);
    ok(keep_k(chain) && answers_k(chain) && set_arrives(chain, &set, 9),
       "a write over UDP to an entry");
    get_k(&early, 1);
    get_k(&frame, 2);
    ok(chain_misses(chain, &early, CHAIN_MISS_WRITTEN) &&
           chain_misses(chain, &frame, CHAIN_MISS_WRITTEN) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILL_WRITING),
       "the reply to a get is not kept before the write's reply");
    ok(set_ends(chain, &set) && chain_replies(chain, &early, REPLY, CHAIN_FILL_WRITING),
       "nor behind it, if the get arrived before it");
    asks_age(chain, CHAIN_ASK_NS); /* some may share a slot */
    ok(chain_misses(chain, &frame, CHAIN_MISS_WRITTEN) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILLS) && answers_k(chain),
       "that to a get which arrives later is");
}

/* A write holds its place until its reply, and no longer. */
static void test_write_in_slot(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;
    struct frame set, frame;

    settings.nasks = 1;
    settings.settle = 60 * (uint64_t)SECOND;
    chain_lab_open(&chain, &settings, NULL);
    get_k(&frame, 2);
    ok(set_arrives(&chain, &set, 1) && set_ends(&chain, &set), "a write over UDP, and its reply");
    write_arrives(gate_k(&chain), chain_lab_now() + SECOND);
    write_ends(gate_k(&chain));
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &frame, REPLY, CHAIN_FILLS),
       "the next request in its slot does not count as that old");
    chain_lab_clear(&chain);
    ok(set_arrives(&chain, &set, 1), "a write over UDP without a reply");
    write_arrives(gate_k(&chain), chain_lab_now() + SECOND);
    write_ends(gate_k(&chain));
    gate_k(&chain)->word = CHAIN_VERSION; /* both have ended */
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &frame, REPLY, CHAIN_FILL_WRITING),
       "the next request does");
    chain_lab_clear(&chain);
    ok(set_arrives(&chain, &set, 1), "another");
    asks_age(&chain, CHAIN_ASK_NS);
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) && set_ends(&chain, &set) &&
           chain_replies(&chain, &frame, REPLY, CHAIN_FILL_WRITING),
       "a reply that comes when its ask has expired ends no other ask");
    chain_lab_close(&chain);
}

/* --- more of asks ---------------------------------------------------------------------------- */

/* BPF_PROG_TEST_RUN's packets leave from a socket without protocol and port. */
static void test_senders(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;
    struct frame frame;

    settings.any_socket = 0;
    chain_lab_open(&chain, &settings, NULL);
    get_k(&frame, 1);
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &frame, REPLY, CHAIN_FOREIGN) &&
           misses_k(&chain, CHAIN_MISS_EMPTY),
       "a reply that was not sent by the server's socket is not kept");
    ok(set_arrives(&chain, &frame, 2) &&
           chain_replies(&chain, &frame, TEXT("STORED\r\n"), CHAIN_FOREIGN) &&
           gate_k(&chain)->word == CHAIN_VERSION + 1,
       "and ends no write");
    chain_lab_close(&chain);
}

/*
 * Requests of several clients in one slot: it keeps the earliest time, and the last two clients.
 */
static void test_replies_without_request(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct frame a, b, other;
    struct chain_lab chain;

    settings.nasks = 1;
    chain_lab_open(&chain, &settings, NULL);
    get_k(&a, 1);
    get_k(&b, 2);
    get_k(&other, 3);
    ok(chain_misses(&chain, &a, CHAIN_MISS_EMPTY) && chain_misses(&chain, &b, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &other, REPLY, CHAIN_FILL_NOT_ASKED),
       "a reply without a request is not kept when other requests share its slot");
    ok(chain_replies(&chain, &a, REPLY, CHAIN_FILLS) &&
           chain_replies(&chain, &b, REPLY, CHAIN_FILLS),
       "theirs are");
    chain_lab_close(&chain);
}

/* --- forms of replies ------------------------------------------------------------------------ */

static void test_forms(struct chain_lab *chain)
{
    static const struct {
        const char *text;
        enum chain_count counted;
    } rows[] = {
        {"VALUE k 0 1 77\r\nv\r\nEND\r\n", CHAIN_FILL_FORM}, /* gets */
        {"VALUE k 0 1\r\nv\r\nENDX", CHAIN_FILL_FORM},
        {"VALUE k 0 1\r\nv\r\nEND\r\n\r\n", CHAIN_FILL_FORM},
        {"VALUE k 0 2\r\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE k 0 0\r\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE k 0 99\r\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE k 0 \r\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE k  1\r\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE k 0 -1\r\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE k 0 1\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE  0 1\r\nv\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VALUE k 0 1\r\nv\r\nVALUE k 0 9\r\nEND\r\n", CHAIN_FILL_FORM},
        {"VA 1\r\nv\r\n", CHAIN_FILL_FORM},
        {"ERROR\r\n", CHAIN_FILL_FORM},
        {"SERVER_ERROR out of memory writing get response\r\n", CHAIN_FILL_FORM},
        {"\x81\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x05", CHAIN_FILL_FORM},
        {"STAT pid 1\r\nEND\r\n", CHAIN_FILL_FORM},
    };
    struct frame frame;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        chain_lab_clear(chain);
        get_k(&frame, 1);
        ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
               chain_replies(chain, &frame, rows[i].text, strlen(rows[i].text), rows[i].counted) &&
               misses_k(chain, CHAIN_MISS_EMPTY),
           "reply %zu is not kept", i);
    }
}

static void test_datagrams(struct chain_lab *chain)
{
    static const struct {
        unsigned int sequence, total;
        enum chain_count counted;
    } rows[] = {{0, 2, CHAIN_FILL_SIZE},
                {0, 0, CHAIN_FILL_SIZE},
                {1, 2, CHAIN_COUNTS},
                {1, 1, CHAIN_COUNTS},
                {0, 256, CHAIN_FILL_SIZE}};
    struct frame frame, reply;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        chain_lab_clear(chain);
        get_k(&frame, 1);
        frame_answer(&reply, &frame, REPLY);
        reply.bytes[44] = (uint8_t)(rows[i].sequence >> 8);
        reply.bytes[45] = (uint8_t)rows[i].sequence;
        reply.bytes[46] = (uint8_t)(rows[i].total >> 8);
        reply.bytes[47] = (uint8_t)rows[i].total;
        ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
               chain_leaves(chain, &reply, rows[i].counted) && misses_k(chain, CHAIN_MISS_EMPTY),
           "datagram %u of %u is not kept", rows[i].sequence, rows[i].total);
    }
}

static void test_limits(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;
    struct frame frame;

    settings.key_max = 3;
    settings.value_max = 4;
    chain_lab_open(&chain, &settings, NULL);
    ok(chain_keeps(&chain, "get abc\r\n", TEXT("VALUE abc 0 4\r\n1234\r\nEND\r\n")),
       "a reply with the longest key and the longest value is kept");
    frame_request(&frame, TEXT("get abcd\r\n"));
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &frame, TEXT("VALUE abcd 0 1\r\n1\r\nEND\r\n"), CHAIN_FILL_SIZE),
       "a reply with a longer key is not kept");
    frame_request(&frame, TEXT("get ab\r\n"));
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &frame, TEXT("VALUE ab 0 5\r\n12345\r\nEND\r\n"), CHAIN_FILL_SIZE),
       "a reply with a longer value is not kept");
    chain_lab_close(&chain);
}

/* --- an entry that another CPU fills --------------------------------------------------------- */

static void test_busy(struct chain_lab *chain)
{
    struct chain_bucket *bucket = chain_lab_bucket(chain, "k", 1);
    struct frame frame;

    chain_lab_clear(chain);
    ok(keep_k(chain), "an entry");
    bucket->seq++;
    get_k(&frame, 1);
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY),
       "while another CPU fills an entry it is not read");
    ok(chain_replies(chain, &frame, REPLY, CHAIN_FILL_BUSY), "nor filled");
    bucket->seq++;
    ok(answers_k(chain), "when the fill has ended the entry is answered");
}

int main(void)
{
    struct chain_lab chain;

    chain_lab_open(&chain, NULL, NULL);
    test_gates(&chain);
    test_neighbour(&chain);
    test_age();
    test_not_asked(&chain);
    test_same_id(&chain);
    test_hold(&chain);
    test_rotation(&chain);
    test_dropped();
    test_one_slot();
    test_replies_without_request();
    test_senders();
    test_write(&chain);
    test_write_in_slot();
    test_forms(&chain);
    test_datagrams(&chain);
    test_limits();
    test_busy(&chain);
    chain_lab_close(&chain);
    return done();
}
