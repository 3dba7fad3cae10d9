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
#include "t/bpf/dialogue.h"
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
    return lab_passes(&chain->lab, &frame, LAB_UNCOUNTED) &&
           chain_replies(chain, &frame, REPLY, CHAIN_FILLS);
}

static bool answers_k(struct chain_lab *chain)
{
    struct frame frame;

    get_k(&frame, 2);
    return lab_answers(&chain->lab, &frame, REPLY);
}

static bool misses_k(struct chain_lab *chain, enum chain_count miss)
{
    struct frame frame;

    get_k(&frame, 3);
    return chain_misses(chain, &frame, miss);
}

/* --- steps ----------------------------------------------------------------------------------- */

/* Makes all outstanding requests older. */
static void asks_age(struct chain_lab *chain, uint64_t by)
{
    struct chain_outstanding ask;

    for (uint32_t i = 0; i < chain->settings.noutstanding; i++) {
        bpf_map_lookup_elem(chain_lab_map(chain, "mc_outstanding"), &i, &ask);
        ask.first -= ask.first ? by : 0;
        ask.next -= ask.next ? by : 0;
        ask.wrote -= ask.wrote ? by : 0;
        bpf_map_update_elem(chain_lab_map(chain, "mc_outstanding"), &i, &ask, BPF_ANY);
    }
}

static void set_k(struct frame *frame, unsigned int id)
{
    frame_text(frame, "set k 0 0 1\r\nv\r\n");
    frame->bytes[42] = (uint8_t)(id >> 8);
    frame->bytes[43] = (uint8_t)id;
}

struct stage {
    struct chain_lab *chain;
    struct chain_gate *gate; /* of the key, or the table's */
};

/*
 *     clear           no entries, writes and asks
 *     get ID MISS     a get of the key with this id is passed, since its entry is empty, written,
 * or past its age reply ID COUNT  the reply to it leaves, and is counted so: it fills the entry, or
 * why not end ID          a reply "END" keep, hit       a get is passed and its reply kept; is
 * answered write, written  a write arrives at the gate, and ends; write late: it has no more time
 *     set ID          one over UDP; stored ID, its reply; stored ID foreign
 *     age S           makes all asks S seconds older; fresh S: the end of the write
 *     busy            another CPU begins or ends to fill the entry
 */
static const char *const words[] = {"clear",   "get", "reply",  "end", "keep",  "hit", "write",
                                    "written", "set", "stored", "age", "fresh", "busy"};
enum { CLEAR, GET, REPLIES, END, KEEP, HIT, WRITE, WRITTEN, SET, STORED, AGE, FRESH, BUSY };

static enum chain_count count_of(const char *name)
{
    static const char *const names[] = {"empty", "written", "past", "fills",  "writing",
                                        "late",  "unasked", "busy", "foreign"};
    static const enum chain_count counts[] = {
        CHAIN_MISS_EMPTY,  CHAIN_MISS_WRITTEN,   CHAIN_MISS_AGE,  CHAIN_FILLS,  CHAIN_FILL_WRITING,
        CHAIN_WRITES_LATE, CHAIN_FILL_NOT_ASKED, CHAIN_FILL_BUSY, CHAIN_FOREIGN};

    return counts[dialogue_word(name, names, COUNT(names))];
}

static bool write_step(struct stage *stage, size_t step, const char *rest)
{
    struct chain_gate *gate = stage->gate;

    if (step == WRITE) {
        gate->until = chain_lab_now() + (*rest ? 0 : SECOND);
        __atomic_fetch_add(&gate->word, CHAIN_VERSION + 1, __ATOMIC_SEQ_CST);
    } else if (step == WRITTEN) {
        __atomic_store_n(&gate->done, chain_lab_now(), __ATOMIC_SEQ_CST);
        __atomic_fetch_sub(&gate->word, 1, __ATOMIC_SEQ_CST);
    } else if (step == FRESH) {
        gate->done -= (uint64_t)(atof(rest) * SECOND);
    }
    return true;
}

static bool take(void *arg, const char *word, char *rest)
{
    size_t step = dialogue_word(word, words, COUNT(words));
    struct stage *stage = arg;
    struct chain_lab *chain = stage->chain;
    unsigned int id = (unsigned int)strtoul(rest, step == AGE || step == FRESH ? NULL : &rest, 10);
    struct frame frame;

    rest += *rest == ' ';
    (step == SET || step == STORED ? set_k : get_k)(&frame, id);
    switch (step) {
    case CLEAR:
        chain_lab_clear(chain);
        return true;
    case GET:
        return chain_misses(chain, &frame, count_of(rest));
    case REPLIES:
        return chain_replies(chain, &frame, REPLY, count_of(rest));
    case END:
        return chain_replies(chain, &frame, TEXT("END\r\n"), CHAIN_COUNTS);
    case KEEP:
        return keep_k(chain);
    case HIT:
        return answers_k(chain);
    case SET:
        return lab_passes(&chain->lab, &frame, MC_COUNT_PASS_COMMAND);
    case STORED:
        return chain_replies(chain, &frame, TEXT("STORED\r\n"),
                             *rest ? count_of(rest) : CHAIN_WRITES_ENDED);
    case AGE:
        asks_age(chain, (uint64_t)(atof(rest) * SECOND));
        return true;
    case BUSY:
        chain_lab_bucket(chain, "k", 1)->seq++;
        return true;
    }
    return write_step(stage, step, rest);
}

static void run(struct chain_lab *chain, struct chain_gate *gate, const struct dialogue *rows,
                size_t n)
{
    dialogue_run(rows, n, take, &(struct stage){chain, gate});
}
#define RUN(chain, rows) run(chain, gate_k(chain), rows, COUNT(rows))

/* --- gates ----------------------------------------------------------------------------------- */

static const struct dialogue gates[] = {
    {"an entry is answered", "clear; keep; hit"},
    {"an entry is not answered once a write has arrived", "write; get 3 written"},
    {"a reply is not kept while a write is in flight", "get 1 written; reply 1 writing"},
    {"a get before the write's reply is passed", "get 1 written"},
    {"the end of a write does not make older entries valid", "written; get 3 written"},
    {"a reply to a get from before the write's reply is not kept", "reply 1 writing"},
    {"a reply to a get from after the write's reply is kept", "clear; write; written; keep; hit"},
    {"a write without a reply is given up at its time, replies to earlier gets are not kept",
     "clear; write late; get 1 empty; reply 1 late"},
    {"replies to later gets are kept", "keep; hit"},
};

/* A write to another key closes the gate of its bucket, and no other. */
static const struct dialogue neighbour[] = {
    {"a write to the next bucket does not change this bucket's gate", "clear; keep; write; hit"},
};

static void test_gates(struct chain_lab *chain)
{
    size_t next = (size_t)(chain_lab_bucket(chain, "k", 1) - chain->buckets) ^ 1;

    tap_under("the key's gate: ");
    RUN(chain, gates);
    tap_under("the table's gate: ");
    run(chain, chain->all, gates, COUNT(gates));
    tap_under("%s", "");
    run(chain, &chain->buckets[next].gate, neighbour, 1);
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

/* --- outstanding requests --------------------------------------------------------------------- */

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

    chain_lab_clear(chain);
    get_k(&asked, 1);
    ok(chain_replies(chain, &asked, REPLY, CHAIN_FILL_NOT_ASKED),
       "a reply without a request is not kept");
    for (size_t i = 0; i < COUNT(rows); i++) {
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

static const struct dialogue asks[] = {
    /* Of requests that cannot be distinguished the earliest time counts. */
    {"after a write, a request with the same id is passed",
     "clear; get 1 empty; write; written; get 1 empty"},
    {"neither reply is kept, since each may be the first request's",
     "reply 1 writing; reply 1 writing"},
    {"when both replies have left, a request with that id is kept again", "keep"},
    {"while the ask of a get that the server drops is valid, the reply to the next get counts as "
     "its reply",
     "clear; get 1 empty; age 1.5; write; written; get 1 empty; reply 1 writing"},
    {"when its outstanding request has expired, the reply to the next get is kept",
     "age 0.5; fresh 0.5; get 1 empty; reply 1 fills"},
    {"a reply that is two seconds late matches no outstanding request",
     "clear; get 1 empty; age 2; reply 1 unasked"},
    /* A write over UDP. */
    {"the reply to a get is not kept before the write's reply",
     "clear; keep; hit; set 9; get 1 written; get 2 written; reply 2 writing"},
    {"nor behind it, if the get arrived before it", "stored 9; reply 1 writing"},
    {"that to a get which arrives later is", "age 2; get 2 written; reply 2 fills; hit"},
    {"while another CPU fills an entry it is not read", "clear; keep; busy; get 1 empty"},
    {"nor filled", "reply 1 busy"},
    {"when the fill has ended the entry is answered", "busy; hit"},
};

/* A request with an unknown number of replies keeps its slot. */
static void test_hold(struct chain_lab *chain)
{
    static const char *const others[] = {"gets k\r\n", "get k\r\nget k\r\n", "get \r\n",
                                         "gat 0 k\r\n", "touch x 0\r\nget k\r\n"};
    static const struct dialogue rows[] = {
        {"every reply to a get with its id counts as the earlier request's",
         "write; written; get 1 empty; end 1; reply 1 writing; reply 1 writing"},
        {"after two seconds a reply to a get with that id is kept again", "age 2; keep"},
    };
    struct frame other, frame;

    for (size_t i = 0; i < COUNT(others); i++) {
        chain_lab_clear(chain);
        get_k(&frame, 1);
        frame_text(&other, others[i]);
        memcpy(other.bytes + 42, frame.bytes + 42, 2);
        lab_run(&chain->lab, LOADER_XDP, &other, &(struct frame){.n = 0});
        *gate_k(chain) = *chain->all = (struct chain_gate){0};
        tap_under("behind request %zu: ", i);
        RUN(chain, rows);
    }
    tap_under("%s", "");
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
    settings.noutstanding = 64;
    settings.any_socket = 1;
    chain_lab_open(&chain, &settings, NULL);
    get_k(&frame, 1);
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY), "a get that the server drops is passed");
    asks_age(&chain, settings.outstanding - SECOND / 50);
    ok(chain_misses(&chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(&chain, &frame, REPLY, CHAIN_FILLS) && answers_k(&chain),
       "the reply to the next get is kept, and is not too old to be answered");
    chain_lab_close(&chain);
}

/* Several requests in one slot. */
static const struct dialogue one_slot[] = {
    {"the replies to two requests in one slot are kept", "get 1 empty; get 2 empty; reply 2 fills"},
    {"the second request in a slot has the first one's time",
     "clear; get 1 empty; write; written; get 2 empty; reply 2 writing"},
    {"a third request has it as well, while the first may be in flight",
     "get 2 empty; reply 1 writing"},
    /* It keeps the earliest time, and the last two clients. */
    {"a reply without a request is not kept when other requests share its slot",
     "clear; get 1 empty; get 2 empty; reply 3 unasked"},
    {"theirs are", "reply 1 fills; reply 2 fills"},
};

/* A write holds its place until its reply, and no longer. */
static const struct dialogue held[] = {
    {"the next request in a write's slot does not count as that old",
     "set 1; stored 1; write; written; get 2 empty; reply 2 fills"},
    {"a reply that comes when its outstanding request has expired ends no other",
     "clear; set 1; age 2; get 2 empty; stored 1; reply 2 writing"},
    {"a write over UDP without a reply", "clear; set 1; write; written"},
};
static const struct dialogue held_on[] = {
    {"the next request counts as that old", "get 2 empty; reply 2 writing"},
};

/* BPF_PROG_TEST_RUN's packets leave from a socket without protocol and port. */
static const struct dialogue foreign[] = {
    {"a reply that was not sent by the server's socket is not kept",
     "get 1 empty; reply 1 foreign; get 3 empty"},
    {"nor does one end a write", "set 2; stored 2 foreign"},
};

static void test_settings(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;

    settings.noutstanding = 1;
    chain_lab_open(&chain, &settings, NULL);
    RUN(&chain, one_slot);
    chain_lab_close(&chain);
    settings.settle = 60 * (uint64_t)SECOND;
    chain_lab_open(&chain, &settings, NULL);
    RUN(&chain, held);
    gate_k(&chain)->word = CHAIN_VERSION; /* both have ended */
    RUN(&chain, held_on);
    chain_lab_close(&chain);
    settings = chain_lab_settings;
    settings.any_socket = 0;
    chain_lab_open(&chain, &settings, NULL);
    RUN(&chain, foreign);
    ok(gate_k(&chain)->word == CHAIN_VERSION + 1, "the write is still in flight");
    chain_lab_close(&chain);
}

/* --- forms of replies ------------------------------------------------------------------------ */

static void test_forms(struct chain_lab *chain)
{
    static const char *const rows[] = {
        "VALUE k 0 1 77\r\nv\r\nEND\r\n", /* gets */
        "VALUE k 0 1\r\nv\r\nENDX",
        "VALUE k 0 1\r\nv\r\nEND\r\n\r\n",
        "VALUE k 0 2\r\nv\r\nEND\r\n",
        "VALUE k 0 0\r\nv\r\nEND\r\n",
        "VALUE k 0 99\r\nv\r\nEND\r\n",
        "VALUE k 0 \r\nv\r\nEND\r\n",
        "VALUE k  1\r\nv\r\nEND\r\n",
        "VALUE k 0 -1\r\nv\r\nEND\r\n",
        "VALUE k 0 1\nv\r\nEND\r\n",
        "VALUE  0 1\r\nv\r\nEND\r\n",
        "VALUE k 0 1\r\nv\r\nVALUE k 0 9\r\nEND\r\n",
        "VA 1\r\nv\r\n",
        "ERROR\r\n",
        "SERVER_ERROR out of memory writing get response\r\n",
        "\x81\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x05",
        "STAT pid 1\r\nEND\r\n",
    };
    struct frame frame;

    for (size_t i = 0; i < COUNT(rows); i++) {
        chain_lab_clear(chain);
        get_k(&frame, 1);
        ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
               chain_replies(chain, &frame, rows[i], strlen(rows[i]), CHAIN_FILL_FORM) &&
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

    for (size_t i = 0; i < COUNT(rows); i++) {
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

int main(void)
{
    struct chain_lab chain;

    chain_lab_open(&chain, NULL, NULL);
    test_gates(&chain);
    test_age();
    test_not_asked(&chain);
    RUN(&chain, asks);
    test_hold(&chain);
    test_dropped();
    test_settings();
    test_forms(&chain);
    test_datagrams(&chain);
    test_limits();
    chain_lab_close(&chain);
    return done();
}
