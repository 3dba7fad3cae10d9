/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests the kernel programs answer, and that the bytes are the server's. */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "iface/local.h"
#include "t/lib/tap.h"
#include "t/lib/text.h"

/* The bytes that the server sends for one item. */
static void add_value(struct text *text, const char *key, size_t nkey, const char *value,
                      size_t nvalue)
{
    text_say(text, "VALUE ");
    text_add(text, key, nkey);
    text_say(text, " 0 %zu\r\n", nvalue);
    text_add(text, value, nvalue);
    text_say(text, "\r\n");
}

/* A key that differs for each pair of length and number. */
static void make_key(char *key, size_t nkey, unsigned int number)
{
    for (size_t i = 0; i < nkey; i++) {
        key[i] = (char)('!' + (number + i * (i > 1) * 31) % 94);
        number /= i < 2 ? 94 : 1;
    }
}

static void make_value(char *value, size_t nvalue, unsigned int number)
{
    for (size_t i = 0; i < nvalue; i++)
        value[i] = (char)(number + i * 13 + i / 256);
}

/* The largest UDP payload of a reply to a request of this shape. */
static size_t payload_max(const struct lab *lab)
{
    size_t most = lab->control->packet_over - 1u - (lab->shape.v6 ? 48 : 28);

    return lab->control->packet_over && most < MC_UDP_PAYLOAD ? most : MC_UDP_PAYLOAD;
}

/* Whether a request is answered so, or passed if the reply is too large. */
static bool says(struct lab *lab, const struct text *request, const struct text *reply)
{
    struct frame frame;

    frame_request(&frame, request->bytes, request->n);
    if (reply->n + MC_UDP_HEADER > payload_max(lab))
        return lab_passes(lab, &frame, MC_COUNT_PASS_SIZE);
    return lab_answers(lab, &frame, reply->bytes, reply->n);
}

/* Whether the only item is answered, or passed if it is too large. */
static bool get_item(struct lab *lab, const char *end, const struct text *key,
                     const struct text *value)
{
    struct text text = {.n = 0}, reply = {.n = 0};

    lab_clear(lab);
    lab_put(lab, key->bytes, key->n, value->bytes, value->n);
    text_say(&text, "get ");
    text_add(&text, key->bytes, key->n);
    text_say(&text, "%s", end);
    add_value(&reply, key->bytes, key->n, value->bytes, value->n);
    text_say(&reply, "END\r\n");
    return says(lab, &text, &reply);
}

static bool get_one(struct lab *lab, const char *end, size_t nkey, size_t nvalue)
{
    struct text key = {.n = nkey}, value = {.n = nvalue};

    make_key(key.bytes, nkey, (unsigned int)nvalue);
    make_value(value.bytes, nvalue, (unsigned int)nkey);
    return get_item(lab, end, &key, &value);
}

static void test_sizes(struct lab *lab)
{
    size_t n;
    bool right = true;

    for (n = 0; n <= 1400 && right; n++)
        right = get_one(lab, "\r\n", 16, n);
    ok(right, "values of 0 to 1400 bytes are answered if they fit one datagram");
    for (n = 1, right = true; n <= MC_KEY_MAX && right; n++)
        right = get_one(lab, "\r\n", n, 40);
    ok(right, "keys of 1 to 250 bytes are answered");
    for (n = 1, right = true; n <= MC_KEY_MAX && right; n++)
        right = get_one(lab, "\n", n, n * 4 % 1100);
    ok(right, "a request may end with a bare newline");
    for (n = 1, right = true; n <= MC_KEY_MAX && right; n += 7)
        right = get_one(lab, " \r\n", n, 3) && get_one(lab, "  \n", n, 500);
    ok(right, "spaces may follow the key");
}

static bool miss_one(struct lab *lab, size_t nkey)
{
    char key[MC_KEY_MAX];
    struct text text = {.n = 0};

    make_key(key, nkey, 99);
    text_say(&text, "get %.*s\r\n", (int)nkey, key);
    return lab_replies(lab, text.bytes, "END\r\n");
}

static void test_misses(struct lab *lab)
{
    bool right = true;

    lab_clear(lab);
    for (size_t n = 1; n <= MC_KEY_MAX && right; n++)
        right = miss_one(lab, n);
    ok(right, "a missing key of 1 to 250 bytes is answered as a miss");
    ok(lab_replies(lab, "get a b c d e\r\n", "END\r\n"),
       "several missing keys are answered as misses");
}

/* Keys number 0, 2, 4... exist. They are asked for in a given order, some twice. */
static bool get_many(struct lab *lab, size_t nkeys, size_t nkey, size_t nvalue, const char *gap)
{
    char key[MC_KEY_MAX], value[2048];
    struct text text = {.n = 0}, reply = {.n = 0};
    size_t i, number;

    lab_clear(lab);
    for (i = 0; i < nkeys; i += 2) {
        make_key(key, nkey, (unsigned int)i);
        make_value(value, nvalue, (unsigned int)i);
        lab_put(lab, key, nkey, value, nvalue);
    }
    text_say(&text, "get");
    for (i = 0; i < nkeys; i++) {
        number = i % 5 == 4 ? 0 : i;
        make_key(key, nkey, (unsigned int)number);
        text_say(&text, "%s", gap);
        text_add(&text, key, nkey);
        make_value(value, nvalue, (unsigned int)number);
        if (number % 2 == 0)
            add_value(&reply, key, nkey, value, nvalue);
    }
    text_say(&text, "\r\n");
    text_say(&reply, "END\r\n");
    return says(lab, &text, &reply);
}

static void test_many(struct lab *lab)
{
    size_t n;
    bool right = true;

    for (n = 2; n <= 128 && right; n++)
        right = get_many(lab, n, 2 + n % 7, 1, " ");
    ok(right, "2 to 128 keys, hits and misses and repeats, are answered in the order asked");
    for (n = 1, right = true; n <= 40 && right; n++)
        right = get_many(lab, n, 8, n * 3, "  ");
    ok(right, "several spaces may stand between keys");
    for (n = 2, right = true; n <= 20 && right; n++)
        right = get_many(lab, n, 16, 90 + n, "      ");
    ok(right, "replies around the size of one datagram are answered if they fit");
    ok(get_many(lab, 5, 250, 17, " "), "five keys of 250 bytes are answered");
}

/* A packet larger than an interface's MTU needs fragments, which only the server makes. */
static void test_mtu(struct lab *lab)
{
    static const uint32_t mtus[] = {68, 576, 1280, 1427, 1428, 1429, 1447, 1448, 1449, 9000};
    bool one = true, many = true;
    size_t i, n, most;

    for (i = 0; i < COUNT(mtus); i++) {
        lab->control->packet_over = mtus[i] + 1;
        most = payload_max(lab);
        for (n = 0; n <= 1400 && one; n += n + 100 > most && n < most ? 1 : 37)
            one = get_one(lab, "\r\n", 16, n);
        for (n = 2; n <= 20 && many; n++)
            many = get_many(lab, n, 16, 90 + n, " ");
        many = many && miss_one(lab, 16);
    }
    lab->control->packet_over = 0;
    ok(one, "one hit is answered up to exactly the MTU");
    ok(many, "several keys are answered up to exactly the MTU");
}

/* The most keys that a request of an Ethernet frame can have. */
static void test_most_keys(struct lab *lab)
{
    struct text text = {.n = 0};

    lab_clear(lab);
    text_say(&text, "get");
    while (text.n + 2 + 2 <= 1472 - 8)
        text_say(&text, " x");
    text_say(&text, "\r\n");
    ok(lab_replies(lab, text.bytes, "END\r\n"), "%zu keys in one request are answered",
       (text.n - 5) / 2);
    text.n = 0;
    text_say(&text, "get");
    while (text.n + 1 + 3 <= 1472 - 8)
        text_say(&text, " ");
    text_say(&text, "x\r\n");
    ok(lab_replies(lab, text.bytes, "END\r\n"), "a request that is mostly spaces is answered");
}

/* Each code path of a miss: the shortest, with several keys, behind a full bucket, of another
 * command. */
static void test_size(struct lab *lab)
{
    static const char *const requests[] = {"get a-key-of-sixteen\r\n", "get none none none\r\n",
                                           "gets a-key-of-sixteen\r\n",
                                           "mg a-key-of-sixteen v\r\n"};
    struct frame frame, out;
    bool right = true;

    for (size_t again = 0; again < 2; again++) {
        lab_clear(lab);
        for (size_t i = 0; i < COUNT(requests); i++) {
            if (again) /* a full bucket of the key's, and an overflow bucket */
                lab_bucket(lab, lab_hash(lab, "a-key-of-sixteen", 16))->next = 1;
            frame_text(&frame, requests[i]);
            right &= lab_run(lab, LOADER_XDP, &frame, &out) == 3 && out.n == frame.n;
        }
    }
    ok(right, "a small frame keeps its length when it becomes a miss");
}

static bool padded(struct lab *lab, const char *text, const char *reply)
{
    struct frame request;
    bool right = true;

    for (size_t pad = 1; pad <= 64 && right; pad++) {
        frame_text(&request, text);
        memset(request.bytes + request.n, 0xdb, pad);
        request.n += pad;
        right = lab_answers(lab, &request, reply, strlen(reply));
    }
    return right;
}

static void test_padding(struct lab *lab)
{
    lab_only(lab, "k", "value");
    ok(padded(lab, "get k\r\n", "VALUE k 0 5\r\nvalue\r\nEND\r\n"),
       "a hit is answered in a padded frame");
    ok(padded(lab, "get z\r\n", "END\r\n"), "a miss is answered in a padded frame");
}

/* The IP checksum folds its carry twice for some addresses. */
static void test_checksums(struct lab *lab)
{
    struct frame request;
    bool right = true;

    lab_only(lab, "k", "value");
    for (uint32_t i = 0; i < 0x10000 && right; i += lab->program == LOADER_XDP ? 1 : 17) {
        frame_text(&request, "get k\r\n");
        request.bytes[28] = (uint8_t)(i >> 8);
        request.bytes[29] = (uint8_t)i;
        if (memcmp(request.bytes + 26, request.bytes + 30, 4) == 0)
            continue;
        frame_seal(&request);
        right = lab_answers(lab, &request, "VALUE k 0 5\r\nvalue\r\nEND\r\n", 25);
    }
    ok(right, "the IP checksum is right for every source address of a network");
}

/*
 * Values with as many carries as possible, and as few: IPv6's checksum covers the values, too, of
 * items with and without a stored checksum.
 */
static void test_sums(struct lab *lab, bool sums)
{
    static const unsigned char bytes[] = {0xff, 0, 0x80, 0xfe, 1, 0x7f, 0xff, 0xff};
    struct text key = {.bytes = "sum", .n = 3}, value;
    uint32_t i, kind, random = 1;
    bool right = true;

    lab->sums = sums;
    for (value.n = 0; value.n <= 1300 && right; value.n++) {
        for (kind = 0; kind < 3 && right; kind++) {
            for (i = 0; i < value.n; i++) {
                random = random * 1103515245 + 12345;
                value.bytes[i] = (char)(kind < 2 ? bytes[kind] : bytes[random >> 16 & 7]);
            }
            right = get_item(lab, "\r\n", &key, &value);
        }
    }
    ok(right, "the checksum is right for values of 0 to 1300 bytes 0, 0xff and others%s",
       sums ? " that have a stored checksum" : "");
    lab->sums = false;
}

/* No other test notices whether the stored checksum is used, as computing it anew gives the same
 * reply. */
static void test_own_sum(struct lab *lab)
{
    static const char reply[] = "VALUE item 0 5\r\nvalue\r\nEND\r\n";

    lab->sums = true;
    lab_only(lab, "item", "value");
    lab->sums = false;
    ok(lab_replies(lab, "get item\r\n", reply), "a value with a stored checksum is answered");
    lab->item->wire[lab->item->nbytes]++;
    ok(!lab_replies(lab, "get item\r\n", reply), "its checksum is not computed anew");
}

/* Ids are echoed; a sequence number and reserved bytes are not. */
static void test_frame_header(struct lab *lab)
{
    struct frame request;
    bool right = true;

    lab_only(lab, "k", "");
    for (uint32_t id = 0; id < 0x10000 && right; id += 251) {
        frame_text(&request, "get k\r\n");
        request.bytes[42] = (uint8_t)(id >> 8);
        request.bytes[43] = (uint8_t)id;
        request.bytes[44] = (uint8_t)(id >> 3);
        request.bytes[45] = (uint8_t)(id >> 5);
        request.bytes[48] = (uint8_t)id;
        request.bytes[49] = 0x5a;
        right = lab_answers(lab, &request, "VALUE k 0 0\r\n\r\nEND\r\n", 20);
    }
    ok(right, "the reply has the request's id, its sequence and reserved bytes are zero");
}

static void test_counts(struct lab *lab)
{
    const struct counted want = {.seen = 3,
                                 .answered = 3,
                                 .keys = 5,
                                 .hits = 3,
                                 .misses = 2,
                                 .class_hits = 3,
                                 .read = 17 + 9 + 9 + 3 * 8,
                                 .written = 2 * 18 + 5 + 18 + 5 + 5 + 3 * 8};
    struct frame requests[3];

    frame_text(&requests[0], "get hit nil hit\r\n");
    frame_text(&requests[1], "get hit\r\n");
    frame_text(&requests[2], "get nil\r\n");
    ok(lab_counts(lab, requests, 3, &want),
       "packets, answers, keys, hits, misses and bytes are counted");
}

static void test_addresses(struct lab *lab)
{
    struct mc_local local = {.n4 = MC_MAX_ADDRESSES};
    struct frame request;
    bool right = true;

    lab_clear(lab);
    for (uint32_t i = 0; i < MC_MAX_ADDRESSES; i++)
        local.v4[i] = htonl(0x0a010000 + i * 77);
    local_publish(lab->control, &local);
    for (uint32_t i = 0; i < MC_MAX_ADDRESSES && right; i++) {
        frame_text(&request, "get k\r\n");
        memcpy(request.bytes + 30, &local.v4[i], 4);
        frame_seal(&request);
        right = lab_answers(lab, &request, "END\r\n", 5);
    }
    ok(right, "requests to each of %d local addresses are answered", MC_MAX_ADDRESSES);
    ok(lab_leaves(lab, "get k\r\n", LAB_UNCOUNTED), "requests to other addresses are not answered");
    lab_own(lab->control);
}

/* Behaviour that depends on where the headers begin in a frame. */
static void test_shape(struct lab *lab)
{
    tap_under("%s, IPv%d, %u tags: ", lab->program == LOADER_XDP ? "XDP" : "TC",
              lab->shape.v6 ? 6 : 4, lab->shape.ntags);
    test_sizes(lab);
    test_misses(lab);
    test_many(lab);
    test_mtu(lab);
    test_most_keys(lab);
    test_padding(lab);
    if (lab->program == LOADER_XDP && !lab->shape.v6 && !lab->shape.ntags)
        test_size(lab);
}

static void test_program(struct lab *lab)
{
    test_shape(lab);
    test_checksums(lab);
    test_frame_header(lab);
    test_counts(lab);
    test_addresses(lab);
    lab->shape = (struct shape){.v6 = true};
    test_shape(lab);
    test_checksums(lab);
    test_sums(lab, false);
    test_sums(lab, true);
    if (lab->program == LOADER_XDP)
        test_own_sum(lab);
    test_frame_header(lab);
    lab->shape = (struct shape){.v6 = false};
}

int main(void)
{
    struct lab lab;

    lab_open(&lab, 256);
    lab_use(&lab, LOADER_XDP);
    test_program(&lab);
    /* The stack removes a tag before TC: a test run does not. */
    for (unsigned int i = 0; i < 4; i++) {
        lab.shape = (struct shape){.v6 = i % 2, .ntags = 1 + i / 2};
        test_shape(&lab);
    }
    lab.shape = (struct shape){.v6 = false};
    lab_use(&lab, LOADER_TC);
    test_program(&lab);
    lab_close(&lab);
    return done();
}
