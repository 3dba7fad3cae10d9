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

static const char *const names[] = {"XDP", "TC"};

/* --- an item, and its text in each protocol ---------------------------------- */

struct sample {
    char key[MC_KEY_MAX], value[2048];
    size_t nkey, nvalue;
    uint32_t flags, exptime;
    uint64_t cas;
};

static void sample_make(struct sample *sample, size_t nkey, size_t nvalue)
{
    size_t i;

    *sample = (struct sample){.nkey = nkey, .nvalue = nvalue, .flags = 7, .cas = 12345};
    for (i = 0; i < nkey; i++)
        sample->key[i] = (char)('!' + (nkey + i * 31) % 94);
    for (i = 0; i < nvalue; i++)
        sample->value[i] = (char)(nvalue + i * 13 + i / 256);
}

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The second of the server's clock. */
static uint32_t second(const struct lab *lab)
{
    return (uint32_t)((clock_ns() - lab->control->base_ns) / 1000000000u);
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
    item->time = second(lab);
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
static bool says(struct lab *lab, enum loader_program program, const struct text *request,
                 const struct text *reply)
{
    struct frame frame;

    frame_request(&frame, request->bytes, request->n);
    if (reply->n > TEXT_MAX)
        return lab_passes(lab, program, &frame, MC_COUNT_PASS_SIZE);
    return lab_answers(lab, program, &frame, reply->bytes, reply->n);
}

/* --- gets ---------------------------------------------------------------------- */

static bool gets_one(struct lab *lab, enum loader_program program, const struct sample *sample)
{
    struct text request = {.n = 0}, reply = {.n = 0};

    lab_clear(lab);
    sample_put(lab, sample);
    text_say(&request, "gets ");
    text_add(&request, sample->key, sample->nkey);
    text_say(&request, "\r\n");
    add_gets(&reply, sample);
    text_say(&reply, "END\r\n");
    return says(lab, program, &request, &reply);
}

static void test_gets(struct lab *lab, enum loader_program program)
{
    struct text request = {.n = 0}, reply = {.n = 0};
    struct sample sample;
    size_t n;
    bool right = true;

    for (n = 0; n <= 1400 && right; n++) {
        sample_make(&sample, 16, n);
        right = gets_one(lab, program, &sample);
    }
    ok(right, "%s: gets: values of 0 to 1400 bytes are answered if they fit", names[program]);
    for (n = 1, right = true; n <= MC_KEY_MAX && right; n++) {
        sample_make(&sample, n, n * 5 % 900);
        right = gets_one(lab, program, &sample);
    }
    ok(right, "%s: gets: keys of 1 to 250 bytes are answered", names[program]);
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
    ok(says(lab, program, &request, &reply), "%s: gets of 20 keys, hits and misses, is answered",
       names[program]);
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
static bool meta_one(struct lab *lab, enum loader_program program, const struct meta *meta,
                     struct sample *sample)
{
    struct text request, reply;
    struct frame frame;
    bool right;

    lab_clear(lab);
    sample_put(lab, sample);
    meta_request(&request, meta, sample);
    meta_reply(&reply, meta, sample, true);
    right = says(lab, program, &request, &reply);
    lab_clear(lab);
    if (strchr(meta->flags, 'N') || strchr(meta->flags, 'q')) {
        frame_request(&frame, request.bytes, request.n);
        return right &&
               (strchr(meta->flags, 'N') ? lab_passes(lab, program, &frame, MC_COUNT_PASS_COMMAND)
                                         : lab_takes(lab, program, &frame));
    }
    meta_reply(&reply, meta, sample, false);
    return right && says(lab, program, &request, &reply);
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

static void test_meta(struct lab *lab, enum loader_program program)
{
    struct sample sample;
    struct meta meta;
    bool right = true;
    size_t n;

    for (n = 0; n < 4000 && right; n++) {
        /* At the beginning of a second, so that it will not change meanwhile. */
        lab->control->base_ns = clock_ns() - 100 * 1000000000ull;
        sample_make(&sample, n % 250 + 1, n % 7 ? n % 50 : n % 1450);
        sample.flags = n % 3 ? (uint32_t)n : UINT32_MAX - (uint32_t)n;
        choose_flags(&meta);
        /* With R30 it is not to be stored again. */
        meta.ttl = n % 5 ? 1 + (uint32_t)rand() % 100000 : UINT32_MAX - 1000;
        if (strchr(meta.flags, 'R') && meta.ttl < 40)
            meta.ttl = 40;
        sample.exptime = n % 4 ? second(lab) + meta.ttl : 0;
        right = meta_one(lab, program, &meta, &sample) ||
                (sample.exptime && second(lab) + meta.ttl != sample.exptime);
    }
    ok(right,
       "%s: mg with the flags v f c t s k q O h l N R in any order is answered, hits and misses",
       names[program]);
    for (n = 0, right = true; n <= 1400 && right; n++) {
        meta = (struct meta){.flags = "v"};
        sample_make(&sample, 9, n);
        right = meta_one(lab, program, &meta, &sample);
    }
    ok(right, "%s: mg v: values of 0 to 1400 bytes are answered if they fit", names[program]);
}

/* Whether "mg KEY FLAGS" for a sample is answered, or passed for this reason. */
static bool meta_asks(struct lab *lab, enum loader_program program, const char *flags,
                      const char *answer, enum mc_count reason)
{
    struct text text = {.n = 0};
    struct frame frame;

    text_say(&text, "mg hit %s\r\n", flags);
    frame_request(&frame, text.bytes, text.n);
    return answer ? lab_answers(lab, program, &frame, answer, strlen(answer))
                  : lab_passes(lab, program, &frame, reason);
}

/* Flags that are answered where the server would change nothing. */
static void test_asks(struct lab *lab, enum loader_program program)
{
    struct mc_item *item;

    lab->control->base_ns = clock_ns() - 1000 * 1000000000ull;
    lab_clear(lab);
    item = lab_put(lab, "hit", 3, "value", 5);
    item->time = second(lab);
    ok(meta_asks(lab, program, "h", NULL, MC_COUNT_PASS_ITEM),
       "%s: mg h of an item that was never read is passed", names[program]);
    ok(!lab_bucket(lab, lab_hash(lab, "hit", 3))->accessed, "%s: and not marked as read",
       names[program]);
    item->flags |= MC_ITEM_FETCHED;
    ok(meta_asks(lab, program, "h", "HD h1\r\n", 0),
       "%s: mg h of an item that was read is answered", names[program]);
    item->time = second(lab);
    ok(meta_asks(lab, program, "l", "HD l0\r\n", 0),
       "%s: mg l of an item that was read in this second is answered", names[program]);
    item->time = second(lab) - 1;
    ok(meta_asks(lab, program, "l", NULL, MC_COUNT_PASS_ITEM),
       "%s: mg l of one that was not is passed", names[program]);
    ok(meta_asks(lab, program, "R30", "HD\r\n", 0) &&
           meta_asks(lab, program, "R2592000 N1", "HD\r\n", 0),
       "%s: mg R of an item that does not expire is answered", names[program]);
    item->exptime = second(lab) + 35;
    ok(meta_asks(lab, program, "R30", "HD\r\n", 0) && meta_asks(lab, program, "R0", "HD\r\n", 0) &&
           meta_asks(lab, program, "R0000030", "HD\r\n", 0),
       "%s: mg R of an item that lives longer is answered", names[program]);
    item->exptime = second(lab) + 29;
    ok(meta_asks(lab, program, "R30", NULL, MC_COUNT_PASS_ITEM),
       "%s: mg R of an item that somebody is to store again is passed", names[program]);
}

/* --- numbers --------------------------------------------------------------------- */

static bool number_one(struct lab *lab, enum loader_program program, uint64_t number)
{
    const struct meta meta = {.flags = "cfsk"};
    struct sample sample;

    sample_make(&sample, 3, number % 90);
    sample.cas = number;
    sample.flags = (uint32_t)number;
    return gets_one(lab, program, &sample) && meta_one(lab, program, &meta, &sample);
}

static void test_numbers(struct lab *lab, enum loader_program program)
{
    uint64_t power, number;
    unsigned int i;
    bool right = true;

    for (power = 1; power < UINT64_MAX / 10 && right; power *= 10)
        for (number = power - 2; number != power + 3 && right; number++)
            right = number_one(lab, program, number) && number_one(lab, program, number * 9);
    for (i = 0; i < 64 && right; i++)
        for (number = (1ull << i) - 2; number != (1ull << i) + 3 && right; number++)
            right = number_one(lab, program, number);
    for (i = 0; i < 2000 && right; i++)
        right = number_one(lab, program,
                           ((uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand()) >>
                               i % 60);
    ok(right, "%s: ids and client flags of every length are printed", names[program]);
}

/* Under -C items have ids, but they are not printed. */
static void test_without_cas(struct lab *lab, enum loader_program program)
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
    ok(says(lab, program, &request, &reply), "%s: under -C gets prints 0", names[program]);
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

static bool binary_one(struct lab *lab, enum loader_program program, uint8_t opcode,
                       const struct sample *sample)
{
    struct text request, reply;
    struct frame frame;
    bool right;

    lab_clear(lab);
    sample_put(lab, sample);
    binary_request(&request, opcode, sample);
    binary_reply(&reply, opcode, sample, true);
    right = says(lab, program, &request, &reply);
    lab_clear(lab);
    if (opcode == GETQ || opcode == GETKQ) {
        frame_request(&frame, request.bytes, request.n);
        return right && lab_takes(lab, program, &frame);
    }
    binary_reply(&reply, opcode, sample, false);
    return right && says(lab, program, &request, &reply);
}

static void test_binary(struct lab *lab, enum loader_program program)
{
    struct sample sample;
    size_t n, i;
    bool right = true;

    for (i = 0; i < sizeof(opcodes); i++) {
        for (n = 0; n <= 1420 && right; n++) {
            sample_make(&sample, 16, n);
            sample.cas = n * 0x123456789abcdef;
            right = binary_one(lab, program, opcodes[i], &sample);
        }
        for (n = 1; n <= MC_KEY_MAX && right; n++) {
            sample_make(&sample, n, n * 3 % 1100);
            sample.flags = UINT32_MAX / (uint32_t)n;
            /* Bytes that no key of the text protocol has. */
            sample.key[n / 2] = " \r\n\t"[n % 5];
            right = binary_one(lab, program, opcodes[i], &sample);
        }
        ok(right,
           "%s: binary opcode %02x: keys and values of any size are answered, hits and misses",
           names[program], opcodes[i]);
    }
}

static void test_bad_binary(struct lab *lab, enum loader_program program)
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
            right = lab_passes(lab, program, &frame, MC_COUNT_PASS_REQUEST);
        }
    }
    ok(right, "%s: lengths that do not agree are passed", names[program]);
    for (n = 8, right = true; n < 40 && right; n++) {
        binary_request(&request, GET, &sample);
        frame_request(&frame, request.bytes, n);
        if (n != request.n)
            right = lab_passes(lab, program, &frame,
                               n < 24 ? MC_COUNT_PASS_REQUEST : MC_COUNT_PASS_COMMAND);
    }
    ok(right, "%s: a datagram of less or more than one request is passed", names[program]);
    for (byte = 0, right = true; byte < 256 && right; byte++) {
        if (memchr(opcodes, (int)byte, sizeof(opcodes)))
            continue;
        binary_request(&request, (uint8_t)byte, &sample);
        frame_request(&frame, request.bytes, request.n);
        right = lab_passes(lab, program, &frame, MC_COUNT_PASS_COMMAND);
    }
    ok(right, "%s: every other opcode is passed", names[program]);
}

/* --- what is passed to the server ------------------------------------------------------ */

#define LETTERS_31 "0123456789012345678901234567890"

static void test_passes(struct lab *lab, enum loader_program program)
{
    static const struct {
        const char *text;
        enum mc_count reason;
    } rows[] = {
        {"gets\r\n  ", MC_COUNT_PASS_REQUEST},
        {"gets \r\n", MC_COUNT_PASS_REQUEST},
        {"gets\thit\r\n", MC_COUNT_PASS_COMMAND},
        {"gets hit", MC_COUNT_PASS_REQUEST},
        {"gets h\tit\r\n", MC_COUNT_PASS_REQUEST},
        {"gets hit\r\n\r\n", MC_COUNT_PASS_COMMAND},
        {"getsx hit\r\n", MC_COUNT_PASS_COMMAND},
        {"mg \r\n  ", MC_COUNT_PASS_REQUEST},
        {"mg hit v v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v s f v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit s v v v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit @\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v @ s\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit \xf6 v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v\xe0s f\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v 6\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v1\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit T30\r\n", MC_COUNT_PASS_COMMAND},
        {"mg nil v N30\r\n", MC_COUNT_PASS_COMMAND},
        {"mg nil v q N30\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v N\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit N-1 v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit R1: v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit R/1 v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit R12345678\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit R2592001\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit N1 N2\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit h1\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit l0\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit u v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg aGl0 b v\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit E1\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit x\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v\t\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v\r\r\n", MC_COUNT_PASS_REQUEST},
        {"mg hit O" LETTERS_31 "a\r\n", MC_COUNT_PASS_REQUEST},
        {"mg hit Oa Ob\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v\r\nmn\r\n", MC_COUNT_PASS_COMMAND},
        {"mg hit v\n ", MC_COUNT_PASS_REQUEST},
        {"mn  \r\n", MC_COUNT_PASS_COMMAND},
        {"me hit\r\n", MC_COUNT_PASS_COMMAND},
    };
    struct frame frame;
    size_t i;

    lab_clear(lab);
    lab_put(lab, "hit", 3, "value", 5);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        frame_request(&frame, rows[i].text, strlen(rows[i].text));
        ok(lab_passes(lab, program, &frame, rows[i].reason), "%s: row %zu is passed",
           names[program], i);
    }
}

static void test_items(struct lab *lab, enum loader_program program)
{
    static const char *const texts[] = {"gets hit\r\n", "mg hit v\r\n", "gets nil hit\r\n"};
    struct mc_item *item;
    struct frame frame;
    unsigned int flag;
    size_t i;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        bool right = true;

        lab_clear(lab);
        item = lab_put(lab, "hit", 3, "value", 5);
        frame_request(&frame, texts[i], strlen(texts[i]));
        for (flag = 1; flag < 1 << 16; flag <<= 1) {
            item->flags = (uint16_t)(MC_ITEM_LINKED | flag);
            right &= !(flag & MC_ITEM_PASS) || lab_passes(lab, program, &frame, MC_COUNT_PASS_ITEM);
        }
        item->flags = MC_ITEM_LINKED;
        item->epoch++;
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_EXPIRED);
        item->epoch--;
        item->exptime = second(lab);
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_EXPIRED);
        item->exptime = 0;
        lab->control->flush_at = second(lab);
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_EXPIRED);
        lab->control->flush_at = 0;
        lab->control->bypass = 1;
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_BYPASS);
        lab->control->bypass = 0;
        lab_bucket(lab, lab_hash(lab, "hit", 3))->seq++;
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_BUSY);
        lab_bucket(lab, lab_hash(lab, "hit", 3))->seq++;
        ok(right, "%s: request %zu is passed where a get is", names[program], i);
    }
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
           lab_passes(lab, LOADER_XDP, request, LAB_UNCOUNTED);
}

/* XDP looks once: what a writer disturbs is TC's, which tries again. */
static void test_disturbed(struct lab *lab)
{
    static const char *const texts[] = {"mg hit v\r\n", "mg hit k v O1\r\n", "mg hit\r\n"};
    const struct sample sample = {.key = "hit", .nkey = 3};
    struct frame frames[4];
    struct text request;
    size_t i;

    lab_clear(lab);
    lab_put(lab, "hit", 3, "value", 5);
    for (i = 0; i < 3; i++)
        frame_request(&frames[i], texts[i], strlen(texts[i]));
    binary_request(&request, GETK, &sample);
    frame_request(&frames[3], request.bytes, request.n);
    loader_set_tc(lab->loader, true, false);
    for (i = 0; i < 4; i++) {
        lab_bucket(lab, lab_hash(lab, "hit", 3))->seq++;
        ok(goes_to_tc(lab, &frames[i]),
           "XDP: request %zu is left to TC while its bucket is written to", i);
        lab_bucket(lab, lab_hash(lab, "hit", 3))->seq++;
    }
    loader_set_tc(lab->loader, false, false);
}

static void test_counts(struct lab *lab, enum loader_program program)
{
    const struct counted want = {.seen = 4,
                                 .answered = 4,
                                 .keys = 6,
                                 .hits = 4,
                                 .misses = 2,
                                 .class_hits = 4,
                                 .read = 18 + 10 + 10 + 27 + 4 * 8,
                                 .written = 2 * 20 + 5 + 9 + 4 + 29 + 4 * 8};
    const struct sample sample = {.key = "hit", .nkey = 3};
    struct frame requests[4];
    struct text request;

    frame_request(&requests[0], "gets hit nil hit\r\n", 18);
    frame_request(&requests[1], "mg hit v\r\n", 10);
    frame_request(&requests[2], "mg nil v\r\n", 10);
    binary_request(&request, GET, &sample);
    frame_request(&requests[3], request.bytes, request.n);
    ok(lab_counts(lab, program, requests, 4, &want),
       "%s: packets, answers, keys, hits, misses and bytes are counted", names[program]);
    ok(lab_bucket(lab, lab_hash(lab, "hit", 3))->accessed, "%s: a hit sets its accessed mark",
       names[program]);
}

static void test_program(struct lab *lab, enum loader_program program)
{
    test_gets(lab, program);
    test_meta(lab, program);
    test_asks(lab, program);
    test_numbers(lab, program);
    test_without_cas(lab, program);
    test_binary(lab, program);
    test_bad_binary(lab, program);
    test_passes(lab, program);
    test_items(lab, program);
    test_counts(lab, program);
}

int main(void)
{
    struct lab lab;

    srand(1);
    lab_open(&lab, 256);
    test_program(&lab, LOADER_XDP);
    test_disturbed(&lab);
    loader_set_tc(lab.loader, true, true);
    test_program(&lab, LOADER_TC);
    lab_close(&lab);
    return done();
}
