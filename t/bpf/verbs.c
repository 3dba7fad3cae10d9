/* SPDX-License-Identifier: BSD-3-Clause */
/* gets, mg and the binary gets: which requests the kernel programs answer, and which they pass. */
#include "t/bpf/lab.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "t/lib/tap.h"
#include "t/lib/text.h"

enum {
    OPAQUE_MAX = 32,
    TEXT_MAX = MC_UDP_PAYLOAD - MC_UDP_HEADER,
    MARK_BYTES = 20, /* of XDP's mark for TC */
};

/* --- an item, and its text in each protocol ---------------------------------- */

struct sample {
    char key[MC_KEY_MAX], value[2048];
    size_t nkey, nvalue;
    uint32_t flags, exptime;
    uint64_t cas;
};

static void sample_make(struct sample *sample, size_t nkey, size_t nvalue)
{
    *sample = (struct sample){.nkey = nkey, .nvalue = nvalue, .flags = 7, .cas = 12345};
    for (size_t i = 0; i < nkey; i++)
        sample->key[i] = (char)('!' + (nkey + i * 31) % 94);
    for (size_t i = 0; i < nvalue; i++)
        sample->value[i] = (char)(nvalue + i * 13 + i / 256);
}

/* Makes a second begin now, so that it will not change meanwhile. */
static void start_second(struct lab *lab)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    lab->control->base_ns = (uint64_t)(now.tv_sec - 100) * 1000000000u + (uint64_t)now.tv_nsec;
}

/* lab_put with client flags, a cas id and a time. */
static struct mc_item *sample_put(struct lab *lab, const struct sample *sample)
{
    struct mc_item *item =
        lab_put(lab, sample->key, sample->nkey, sample->value, sample->nvalue + 10);
    char *wire = (char *)item + MC_ITEM_HEADER + sample->nkey;
    int nsuffix = sprintf(wire, " %" PRIu32 " %zu\r\n", sample->flags, sample->nvalue);

    memcpy(wire + nsuffix, sample->value, sample->nvalue);
    memcpy(wire + nsuffix + sample->nvalue, "\r\n", 2);
    item->nsuffix = (uint8_t)nsuffix;
    item->nbytes = (uint32_t)(sample->nkey + (size_t)nsuffix + sample->nvalue + 2);
    item->cas = sample->cas;
    item->exptime = sample->exptime;
    /* Read before, and in this second. */
    item->flags |= MC_ITEM_FETCHED;
    item->time = lab_second(lab);
    return item;
}

static void add_gets(struct text *text, const struct sample *sample)
{
    text_say(text, "VALUE ");
    text_add(text, sample->key, sample->nkey);
    text_say(text, " %" PRIu32 " %zu %" PRIu64 "\r\n", sample->flags, sample->nvalue, sample->cas);
    text_add(text, sample->value, sample->nvalue);
    text_say(text, "\r\n");
}

/* Whether it is answered, or passed because the reply is too long. */
static bool says(struct lab *lab, const struct text *request, const struct text *reply)
{
    struct frame frame;

    frame_request(&frame, request->bytes, request->n);
    if (reply->n > TEXT_MAX)
        return lab_passes(lab, &frame, MC_COUNT_PASS_SIZE);
    return lab_answers(lab, &frame, reply->bytes, reply->n);
}

/* --- gets ---------------------------------------------------------------------- */

static bool gets_one(struct lab *lab, const struct sample *sample)
{
    struct text request = {.n = 0}, reply = {.n = 0};

    lab_clear(lab);
    sample_put(lab, sample);
    text_say(&request, "gets ");
    text_add(&request, sample->key, sample->nkey);
    text_say(&request, "\r\n");
    add_gets(&reply, sample);
    text_say(&reply, "END\r\n");
    return says(lab, &request, &reply);
}

static void test_gets(struct lab *lab)
{
    struct text request = {.n = 0}, reply = {.n = 0};
    struct sample sample;
    size_t n;
    bool right = true;

    for (n = 0; n <= 1400 && right; n++) {
        sample_make(&sample, 16, n);
        right = gets_one(lab, &sample);
    }
    ok(right, "gets: values of 0 to 1400 bytes are answered if they fit");
    for (n = 1, right = true; n <= MC_KEY_MAX && right; n++) {
        sample_make(&sample, n, n * 5 % 900);
        right = gets_one(lab, &sample);
    }
    ok(right, "gets: keys of 1 to 250 bytes are answered");
    lab_clear(lab);
    text_say(&request, "gets");
    for (n = 1; n <= 20; n++) {
        sample_make(&sample, n, n * 2);
        if (n % 3) {
            sample_put(lab, &sample);
            add_gets(&reply, &sample);
        }
        text_say(&request, n % 2 ? " " : "   ");
        text_add(&request, sample.key, sample.nkey);
    }
    text_say(&request, " \n");
    text_say(&reply, "END\r\n");
    ok(says(lab, &request, &reply), "gets of 20 keys, hits and misses, is answered");
}

/* --- mg ------------------------------------------------------------------------ */

/* A request of mg, and the expected answer for a sample. */
struct meta {
    char flags[16]; /* letters; O stands for opaque */
    char opaque[OPAQUE_MAX];
    uint32_t ttl; /* seconds until it expires */
};

static void add_flag(struct text *text, char flag, const struct meta *meta,
                     const struct sample *sample, bool hit)
{
    if (flag == 'O') {
        text_say(text, " O%s", meta->opaque);
    } else if (flag == 'k') {
        text_say(text, " k");
        text_add(text, sample->key, sample->nkey);
    } else if (hit && flag == 'f') {
        text_say(text, " f%" PRIu32, sample->flags);
    } else if (hit && flag == 'c') {
        text_say(text, " c%" PRIu64, sample->cas);
    } else if (hit && flag == 's') {
        text_say(text, " s%zu", sample->nvalue);
    } else if (hit && flag == 't' && sample->exptime) {
        text_say(text, " t%" PRIu32, meta->ttl);
    } else if (hit && flag == 't') {
        text_say(text, " t-1");
    } else if (hit && (flag == 'h' || flag == 'l')) {
        text_say(text, flag == 'h' ? " h1" : " l0");
    }
}

static void meta_request(struct text *text, const struct meta *meta, const struct sample *sample)
{
    const char *flag;

    text->n = 0;
    text_say(text, "mg ");
    text_add(text, sample->key, sample->nkey);
    for (flag = meta->flags; *flag; flag++)
        text_say(text, " %c%s", *flag,
                 *flag == 'O'                   ? meta->opaque
                 : *flag == 'N' || *flag == 'R' ? "30"
                                                : "");
    text_say(text, "\r\n");
}

static void meta_reply(struct text *text, const struct meta *meta, const struct sample *sample,
                       bool hit)
{
    bool value = hit && strchr(meta->flags, 'v');
    const char *flag;

    text->n = 0;
    if (value)
        text_say(text, "VA %zu", sample->nvalue);
    else
        text_say(text, hit ? "HD" : "EN");
    for (flag = meta->flags; *flag; flag++)
        add_flag(text, *flag, meta, sample, hit);
    text_say(text, "\r\n");
    if (value) {
        text_add(text, sample->value, sample->nvalue);
        text_say(text, "\r\n");
    }
}

/* Sends a get for a sample that is in the table, and for one that is not. */
static bool meta_one(struct lab *lab, const struct meta *meta, struct sample *sample)
{
    struct text request, reply;
    struct frame frame;
    bool right;

    lab_clear(lab);
    sample_put(lab, sample);
    meta_request(&request, meta, sample);
    meta_reply(&reply, meta, sample, true);
    right = says(lab, &request, &reply);
    lab_clear(lab);
    if (strchr(meta->flags, 'N') || strchr(meta->flags, 'q')) {
        frame_request(&frame, request.bytes, request.n);
        return right && (strchr(meta->flags, 'N') ? lab_passes(lab, &frame, MC_COUNT_PASS_COMMAND)
                                                  : lab_takes(lab, &frame));
    }
    meta_reply(&reply, meta, sample, false);
    return right && says(lab, &request, &reply);
}

/* Some of the letters, in some order. */
static void choose_flags(struct meta *meta)
{
    char letters[] = "vfctskqOhlNR";
    unsigned int n = (unsigned int)rand() % 13, left = 12, at, i;

    for (i = 0; i < n; i++) {
        at = (unsigned int)rand() % left--;
        meta->flags[i] = letters[at];
        letters[at] = letters[left];
    }
    meta->flags[n] = '\0';
    n = (unsigned int)rand() % OPAQUE_MAX;
    for (i = 0; i < n; i++)
        meta->opaque[i] = (char)('!' + rand() % 94);
    meta->opaque[n] = '\0';
}

static void test_meta(struct lab *lab)
{
    struct sample sample;
    struct meta meta;
    bool right = true;
    size_t n;

    for (n = 0; n < 4000 && right; n++) {
        start_second(lab);
        sample_make(&sample, n % 250 + 1, n % 7 ? n % 50 : n % 1450);
        sample.flags = n % 3 ? (uint32_t)n : UINT32_MAX - (uint32_t)n;
        choose_flags(&meta);
        /* With R30 it is not to be stored again. */
        meta.ttl = n % 5 ? 1 + (uint32_t)rand() % 100000 : UINT32_MAX - 1000;
        if (strchr(meta.flags, 'R') && meta.ttl < 40)
            meta.ttl = 40;
        sample.exptime = n % 4 ? lab_second(lab) + meta.ttl : 0;
        right = meta_one(lab, &meta, &sample) ||
                (sample.exptime && lab_second(lab) + meta.ttl != sample.exptime);
    }
    ok(right,
       "mg with the flags v f c t s k q O h l N R in any order is answered, hits and misses");
    for (n = 0, right = true; n <= 1400 && right; n++) {
        meta = (struct meta){.flags = "v"};
        sample_make(&sample, 9, n);
        right = meta_one(lab, &meta, &sample);
    }
    ok(right, "mg v: values of 0 to 1400 bytes are answered if they fit");
}

/* Flags that are answered where the server would change nothing. */
static const struct lab_case asks[] = {
    {"mg h of an item that was never read is passed", STATE(ITEM(flags, MC_ITEM_LINKED)),
     SEND("mg hit h\r\n"), PASS(ITEM)},
    {"mg h of an item that was read is answered", SEND("mg hit h\r\n"), ANSWER("HD h1\r\n")},
    {"mg l of an item that was read in this second is answered", STATE(ITEM_IN(time, 0)),
     SEND("mg hit l\r\n"), ANSWER("HD l0\r\n")},
    {"mg l of one that was not is passed", STATE(ITEM_IN(time, -1)), SEND("mg hit l\r\n"),
     PASS(ITEM)},
    {"mg R of an item that does not expire is answered",
     SEND2("mg hit R30\r\n", "mg hit R2592000 N1\r\n"), ANSWER("HD\r\n")},
    {"mg R of an item that lives longer is answered", STATE(ITEM_IN(exptime, 35)),
     SEND2("mg hit R30\r\n", "mg hit R0\r\n"), ANSWER("HD\r\n")},
    {"mg R with seven digits is answered", STATE(ITEM_IN(exptime, 35)), SEND("mg hit R0000030\r\n"),
     ANSWER("HD\r\n")},
    {"mg R of an item that a client should store again is passed", STATE(ITEM_IN(exptime, 29)),
     SEND("mg hit R30\r\n"), PASS(ITEM)},
};

static void test_asks(struct lab *lab)
{
    start_second(lab);
    lab_only(lab, "hit", "value");
    lab->item->flags |= MC_ITEM_FETCHED;
    lab_try(lab, asks, 1);
    ok(!lab->bucket->accessed, "and not marked as read");
    lab_try(lab, asks + 1, COUNT(asks) - 1);
}

/* --- numbers --------------------------------------------------------------------- */

static bool number_one(struct lab *lab, uint64_t number)
{
    const struct meta meta = {.flags = "cfsk"};
    struct sample sample;

    sample_make(&sample, 3, number % 90);
    sample.cas = number;
    sample.flags = (uint32_t)number;
    return gets_one(lab, &sample) && meta_one(lab, &meta, &sample);
}

static void test_numbers(struct lab *lab)
{
    bool right = true;

    for (uint64_t power = 1; power < UINT64_MAX / 10 && right; power *= 10)
        for (uint64_t number = power - 2; number != power + 3 && right; number++)
            right = number_one(lab, number) && number_one(lab, number * 9);
    for (unsigned int i = 0; i < 64 && right; i++)
        for (uint64_t number = (1ull << i) - 2; number != (1ull << i) + 3 && right; number++)
            right = number_one(lab, number);
    for (unsigned int i = 0; i < 2000 && right; i++)
        right = number_one(
            lab, ((uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand()) >> i % 60);
    ok(right, "ids and client flags of every length are printed");
}

/* Under -C items have ids, but they are not printed. */
static void test_without_cas(struct lab *lab)
{
    struct text request = {.n = 0}, reply = {.n = 0};
    struct sample sample;

    sample_make(&sample, 5, 5);
    lab_clear(lab);
    sample_put(lab, &sample);
    sample.cas = 0;
    lab->control->without_cas = 1;
    text_say(&request, "gets ");
    text_add(&request, sample.key, sample.nkey);
    text_say(&request, "\r\n");
    add_gets(&reply, &sample);
    text_say(&reply, "END\r\n");
    ok(says(lab, &request, &reply), "under -C gets prints 0");
    lab->control->without_cas = 0;
}

/* --- the binary protocol ------------------------------------------------------------- */

enum { GET = 0x00, GETQ = 0x09, GETK = 0x0c, GETKQ = 0x0d };
static const uint8_t opcodes[] = {GET, GETQ, GETK, GETKQ};

static void add_number(struct text *text, uint64_t number, unsigned int nbytes)
{
    while (nbytes-- > 0) {
        char byte = (char)(number >> 8 * nbytes);

        text_add(text, &byte, 1);
    }
}

static void binary_request(struct text *text, uint8_t opcode, const struct sample *sample)
{
    text->n = 0;
    add_number(text, 0x80, 1);
    add_number(text, opcode, 1);
    add_number(text, sample->nkey, 2);
    add_number(text, 0, 1);
    add_number(text, 0x5a, 1);   /* data type */
    add_number(text, 0xabcd, 2); /* vbucket */
    add_number(text, sample->nkey, 4);
    add_number(text, 0xdeadbeef, 4);
    add_number(text, 0x0102030405060708, 8);
    text_add(text, sample->key, sample->nkey);
}

static void binary_reply(struct text *text, uint8_t opcode, const struct sample *sample, bool hit)
{
    size_t nkey = opcode == GETK || opcode == GETKQ ? sample->nkey : 0;
    const char *value = hit ? sample->value : "Not found";
    size_t nvalue = hit ? sample->nvalue : nkey ? 0 : 9;

    text->n = 0;
    add_number(text, 0x81, 1);
    add_number(text, opcode, 1);
    add_number(text, nkey, 2);
    add_number(text, hit ? 4 : 0, 1);
    add_number(text, 0, 1);
    add_number(text, !hit, 2);
    add_number(text, nkey + nvalue + (hit ? 4 : 0), 4);
    add_number(text, 0xdeadbeef, 4);
    add_number(text, hit ? sample->cas : 0, 8);
    if (hit)
        add_number(text, sample->flags, 4);
    text_add(text, sample->key, nkey);
    text_add(text, value, nvalue);
}

static bool binary_one(struct lab *lab, uint8_t opcode, const struct sample *sample)
{
    struct text request, reply;
    struct frame frame;
    bool right;

    lab_clear(lab);
    sample_put(lab, sample);
    binary_request(&request, opcode, sample);
    binary_reply(&reply, opcode, sample, true);
    right = says(lab, &request, &reply);
    lab_clear(lab);
    if (opcode == GETQ || opcode == GETKQ) {
        frame_request(&frame, request.bytes, request.n);
        return right && lab_takes(lab, &frame);
    }
    binary_reply(&reply, opcode, sample, false);
    return right && says(lab, &request, &reply);
}

static void test_binary(struct lab *lab)
{
    struct sample sample;
    bool right = true;

    for (size_t i = 0; i < sizeof(opcodes); i++) {
        for (size_t n = 0; n <= 1420 && right; n++) {
            sample_make(&sample, 16, n);
            sample.cas = n * 0x123456789abcdef;
            right = binary_one(lab, opcodes[i], &sample);
        }
        for (size_t n = 1; n <= MC_KEY_MAX && right; n++) {
            sample_make(&sample, n, n * 3 % 1100);
            sample.flags = UINT32_MAX / (uint32_t)n;
            /* Bytes that no key of the text protocol has. */
            sample.key[n / 2] = " \r\n\t"[n % 5];
            right = binary_one(lab, opcodes[i], &sample);
        }
        ok(right, "binary opcode %02x: keys and values of any size are answered, hits and misses",
           opcodes[i]);
    }
}

static void test_bad_binary(struct lab *lab)
{
    static const uint8_t places[] = {2, 3, 4, 8, 9, 10, 11};
    struct text request;
    struct sample sample;
    struct frame frame;
    unsigned int byte;
    size_t i, n;
    bool right = true;

    sample_make(&sample, 10, 10);
    for (i = 0; i < sizeof(places) && right; i++) {
        for (byte = 0; byte < 256 && right; byte++) {
            binary_request(&request, GET, &sample);
            if ((uint8_t)request.bytes[places[i]] == byte)
                continue;
            request.bytes[places[i]] = (char)byte;
            frame_request(&frame, request.bytes, request.n);
            right = lab_passes(lab, &frame, MC_COUNT_PASS_REQUEST);
        }
    }
    ok(right, "lengths that do not agree are passed");
    for (n = 8, right = true; n < 40 && right; n++) {
        binary_request(&request, GET, &sample);
        frame_request(&frame, request.bytes, n);
        if (n != request.n)
            right = lab_passes(lab, &frame, n < 24 ? MC_COUNT_PASS_REQUEST : MC_COUNT_PASS_COMMAND);
    }
    ok(right, "a datagram of less or more than one request is passed");
    for (byte = 0, right = true; byte < 256 && right; byte++) {
        if (memchr(opcodes, (int)byte, sizeof(opcodes)))
            continue;
        binary_request(&request, (uint8_t)byte, &sample);
        frame_request(&frame, request.bytes, request.n);
        right = lab_passes(lab, &frame, MC_COUNT_PASS_COMMAND);
    }
    ok(right, "every other opcode is passed");
}

/* --- what is passed to the server ------------------------------------------------------ */

#define LETTERS_31 "0123456789012345678901234567890"

static const struct lab_case passes[] = {
    {SEND("gets\r\n  "), PASS(REQUEST)},
    {SEND("gets \r\n"), PASS(REQUEST)},
    {SEND("gets\thit\r\n"), PASS(COMMAND)},
    {SEND("gets hit"), PASS(REQUEST)},
    {SEND("gets h\tit\r\n"), PASS(REQUEST)},
    {SEND("gets hit\r\n\r\n"), PASS(COMMAND)},
    {SEND("getsx hit\r\n"), PASS(COMMAND)},
    {SEND("mg \r\n  "), PASS(REQUEST)},
    {SEND("mg hit v v\r\n"), PASS(COMMAND)},
    {SEND("mg hit v s f v\r\n"), PASS(COMMAND)},
    {SEND("mg hit s v v v\r\n"), PASS(COMMAND)},
    {SEND("mg hit @\r\n"), PASS(COMMAND)},
    {SEND("mg hit v @ s\r\n"), PASS(COMMAND)},
    {SEND("mg hit \xf6 v\r\n"), PASS(COMMAND)},
    {SEND("mg hit v\xe0s f\r\n"), PASS(COMMAND)},
    {SEND("mg hit v 6\r\n"), PASS(COMMAND)},
    {SEND("mg hit v1\r\n"), PASS(COMMAND)},
    {SEND("mg hit T30\r\n"), PASS(COMMAND)},
    {SEND("mg nil v N30\r\n"), PASS(COMMAND)},
    {SEND("mg nil v q N30\r\n"), PASS(COMMAND)},
    {SEND("mg hit v N\r\n"), PASS(COMMAND)},
    {SEND("mg hit N-1 v\r\n"), PASS(COMMAND)},
    {SEND("mg hit R1: v\r\n"), PASS(COMMAND)},
    {SEND("mg hit R/1 v\r\n"), PASS(COMMAND)},
    {SEND("mg hit R12345678\r\n"), PASS(COMMAND)},
    {SEND("mg hit R2592001\r\n"), PASS(COMMAND)},
    {SEND("mg hit N1 N2\r\n"), PASS(COMMAND)},
    {SEND("mg hit h1\r\n"), PASS(COMMAND)},
    {SEND("mg hit l0\r\n"), PASS(COMMAND)},
    {SEND("mg hit u v\r\n"), PASS(COMMAND)},
    {SEND("mg aGl0 b v\r\n"), PASS(COMMAND)},
    {SEND("mg hit E1\r\n"), PASS(COMMAND)},
    {SEND("mg hit x\r\n"), PASS(COMMAND)},
    {SEND("mg hit v\t\r\n"), PASS(COMMAND)},
    {SEND("mg hit v\r\r\n"), PASS(REQUEST)},
    {SEND("mg hit O" LETTERS_31 "a\r\n"), PASS(REQUEST)},
    {SEND("mg hit Oa Ob\r\n"), PASS(COMMAND)},
    {SEND("mg hit v\r\nmn\r\n"), PASS(COMMAND)},
    {SEND("mg hit v\n "), PASS(REQUEST)},
    {SEND("mn  \r\n"), PASS(COMMAND)},
    {SEND("me hit\r\n"), PASS(COMMAND)},
};

/* Where a get is passed. */
#define HITS SEND2("gets hit\r\n", "mg hit v\r\n")
#define MANY SEND("gets nil hit\r\n")

static const struct lab_case states[] = {
    {"an item of an older epoch", STATE(ITEM_MORE(epoch, 1)), HITS, PASS(EXPIRED)},
    {"an item that has expired", STATE(ITEM_IN(exptime, 0)), HITS, PASS(EXPIRED)},
    {"at the time of a delayed flush", STATE(CONTROL_IN(flush_at, 0)), HITS, PASS(EXPIRED)},
    {"in bypass", STATE(CONTROL(bypass, 1)), HITS, PASS(BYPASS)},
    {"a bucket that is being changed", STATE(BUCKET_MORE(seq, 1)), HITS, PASS(BUSY)},
    {"an item of an older epoch, of two keys", STATE(ITEM_MORE(epoch, 1)), MANY, PASS(EXPIRED)},
    {"an item that has expired, of two keys", STATE(ITEM_IN(exptime, 0)), MANY, PASS(EXPIRED)},
    {"at the time of a delayed flush, two keys", STATE(CONTROL_IN(flush_at, 0)), MANY,
     PASS(EXPIRED)},
    {"in bypass, two keys", STATE(CONTROL(bypass, 1)), MANY, PASS(BYPASS)},
    {"a bucket that is being changed, of two keys", STATE(BUCKET_MORE(seq, 1)), MANY, PASS(BUSY)},
};

static void test_items(struct lab *lab)
{
    static const struct lab_case one = {HITS, PASS(ITEM)}, two = {MANY, PASS(ITEM)};
    bool right = true;

    for (unsigned int flag = 1; flag < 1 << 16; flag <<= 1) {
        lab->item->flags = (uint16_t)(MC_ITEM_LINKED | flag);
        right &= !(flag & MC_ITEM_PASS) || (lab_right(lab, &one) && lab_right(lab, &two));
    }
    lab->item->flags = MC_ITEM_LINKED;
    ok(right, "items with a flag in MC_ITEM_PASS are passed");
    LAB_TRY(lab, states);
}

/* The frame leaves XDP as it came, with a mark for TC before it, and nothing is counted. */
static bool goes_to_tc(struct lab *lab, const struct frame *request)
{
    char out[2048];
    struct loader_packet packet = {.in = request->bytes,
                                   .nin = request->n,
                                   .out = out,
                                   .nout = sizeof(out),
                                   .ifindex = lab->ifindex};

    return loader_run(lab->loader, LOADER_XDP, &packet) == 0 && packet.nmark == MARK_BYTES &&
           packet.nout == request->n + MARK_BYTES &&
           memcmp(out + MARK_BYTES, request->bytes, request->n) == 0 &&
           lab_passes(lab, request, LAB_UNCOUNTED);
}

#define BINARY_GETK "\x80\x0c\0\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0hit"
#define BINARY_GET  "\x80\0\0\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0hit"

/* XDP looks once: what a writer disturbs is TC's, which tries again. */
static void test_disturbed(struct lab *lab)
{
    static const struct lab_case rows[] = {{SEND("mg hit v\r\n")},
                                           {SEND("mg hit k v O1\r\n")},
                                           {SEND("mg hit\r\n")},
                                           {SEND(BINARY_GETK)}};
    struct frame frame;

    lab_only(lab, "hit", "value");
    loader_set_tc(lab->loader, true, false);
    lab->bucket->seq++;
    for (size_t i = 0; i < COUNT(rows); i++) {
        lab_frame(&frame, &rows[i]);
        ok(goes_to_tc(lab, &frame), "request %zu is left to TC while its bucket is written to", i);
    }
    lab->bucket->seq++;
    loader_set_tc(lab->loader, false, false);
}

static void test_counts(struct lab *lab)
{
    const struct counted want = {.seen = 4,
                                 .answered = 4,
                                 .keys = 6,
                                 .hits = 4,
                                 .misses = 2,
                                 .class_hits = 4,
                                 .read = 18 + 10 + 10 + 27 + 4 * 8,
                                 .written = 2 * 20 + 5 + 9 + 4 + 29 + 4 * 8};
    struct frame requests[4];

    frame_text(&requests[0], "gets hit nil hit\r\n");
    frame_text(&requests[1], "mg hit v\r\n");
    frame_text(&requests[2], "mg nil v\r\n");
    frame_request(&requests[3], BINARY_GET, sizeof(BINARY_GET) - 1);
    ok(lab_counts(lab, requests, 4, &want),
       "packets, answers, keys, hits, misses and bytes are counted");
    ok(lab_bucket(lab, lab_hash(lab, "hit", 3))->accessed, "a hit sets its accessed mark");
}

static void test_program(struct lab *lab)
{
    test_gets(lab);
    test_meta(lab);
    test_asks(lab);
    test_numbers(lab);
    test_without_cas(lab);
    test_binary(lab);
    test_bad_binary(lab);
    lab_only(lab, "hit", "value");
    LAB_TRY(lab, passes);
    test_items(lab);
    test_counts(lab);
}

int main(void)
{
    struct lab lab;

    srand(1);
    lab_open(&lab, 256);
    lab_use(&lab, LOADER_XDP);
    test_program(&lab);
    test_disturbed(&lab);
    lab_use(&lab, LOADER_TC);
    test_program(&lab);
    lab_close(&lab);
    return done();
}
