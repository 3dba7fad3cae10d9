/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which gets the chain answers from earlier replies of the server, byte by byte, and which it
 * passes.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iface/local.h"
#include "t/bpf/chain_lab.h"
#include "t/lib/tap.h"

static const struct shape shapes[] = {
    {false, 0}, {true, 0}, {false, 1}, {true, 1}, {false, 2}, {true, 2},
};

static char letters[2048];

static const char *shape_name(const struct shape *shape)
{
    static char name[32];

    snprintf(name, sizeof(name), "IPv%d, %u VLAN tags", shape->v6 ? 6 : 4, shape->ntags);
    return name;
}

#define TEXT(text)       text, sizeof(text) - 1
#define BLOCK(key, n, v) "VALUE " key " 0 " n "\r\n" v "\r\n"
#define REPLY            BLOCK("k", "1", "v") "END\r\n"

/* Whether a get is passed, since not all of its keys have an entry. */
static bool misses(struct chain_lab *chain, const char *request)
{
    struct frame frame;

    frame_text(&frame, request);
    return chain_misses(chain, &frame, CHAIN_MISS_EMPTY);
}

/* Passes a get, and has the chain keep the server's reply with this value. */
static bool put(struct chain_lab *chain, const char *key, size_t nkey, const char *value,
                size_t nvalue)
{
    char request[300], reply[2048];
    struct frame frame;
    size_t n;

    text_get(request, key, nkey);
    n = text_value(reply, key, nkey, value, nvalue);
    memcpy(reply + n, "END\r\n", 5);
    frame_request(&frame, request, nkey + 6);
    return lab_passes(&chain->lab, &frame, LAB_UNCOUNTED) &&
           chain_replies(chain, &frame, reply, n + 5, CHAIN_FILLS);
}

#define PUT(chain, key, value) put(chain, TEXT(key), TEXT(value))

/* --- one key --------------------------------------------------------------------------- */

static void test_hit(struct chain_lab *chain)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        chain->lab.shape = shapes[i];
        chain_lab_clear(chain);
        ok(chain_keeps(chain, "get key\r\n", TEXT("VALUE key 0 5\r\nvalue\r\nEND\r\n")),
           "%s: a miss is passed, its reply is kept, the next get is answered from it",
           shape_name(&shapes[i]));
    }
    chain->lab.shape = shapes[0];
}

/* Every length of a value, with keys of many lengths: all sizes of entries and their limits. */
static void test_lengths(struct chain_lab *chain)
{
    static const size_t keys[] = {1, 3, 7, 8, 9, 11, 12, 16, 31, 32, 60, 249, 250};
    char request[300], reply[2048];
    unsigned int wrong, nkeys;
    size_t i, nvalue, n, s;

    for (s = 0; s < COUNT(shapes); s++) {
        chain->lab.shape = shapes[s];
        wrong = nkeys = 0;
        for (nvalue = 0; nvalue <= CHAIN_VALUE_MAX; nvalue += 1 + (nvalue > 600) * 7) {
            i = nkeys++ % (COUNT(keys));
            text_get(request, letters + nvalue % 13, keys[i]);
            n = text_value(reply, letters + nvalue % 13, keys[i], letters + nvalue % 26, nvalue);
            memcpy(reply + n, "END\r\n", 5);
            if (n + 5 > MC_UDP_PAYLOAD - MC_UDP_HEADER)
                continue;
            chain_lab_clear(chain);
            wrong += !chain_keeps(chain, request, reply, n + 5);
        }
        ok(wrong == 0 && nkeys > 600,
           "%s: values of 0 to %d bytes and keys of 1 to 250 are answered", shape_name(&shapes[s]),
           CHAIN_VALUE_MAX);
    }
    chain->lab.shape = shapes[0];
}

static void test_values(struct chain_lab *chain)
{
    static const struct {
        const char *name, *value;
    } rows[] = {
        {"newlines", "a\r\nb\nc\r\n\r\n"},
        {"an END", "END\r\n"},
        {"bytes that look like an item", "x\r\nVALUE victim 0 4\r\nEVIL\r\nEND\r\n"},
        {"nothing", ""},
    };
    char reply[512];
    size_t i, n;

    for (i = 0; i < COUNT(rows); i++) {
        chain_lab_clear(chain);
        n = text_value(reply, "key", 3, rows[i].value, strlen(rows[i].value));
        memcpy(reply + n, "END\r\n", 5);
        ok(chain_keeps(chain, "get key\r\n", reply, n + 5), "a value with %s is answered whole",
           rows[i].name);
    }
    ok(chain_lab_count(chain, CHAIN_FILLS) > 0 && chain_lab_bucket(chain, "victim", 6)->nkey != 6,
       "bytes within a value do not become an entry");
}

/* Client flags are kept as the server printed them. */
static void test_flags(struct chain_lab *chain)
{
    chain_lab_clear(chain);
    ok(chain_keeps(chain, "get key\r\n", TEXT("VALUE key 4294967295 1\r\nx\r\nEND\r\n")),
       "the largest flags are answered");
}

/* --- which key ---------------------------------------------------------------------------- */

static void test_same_bucket(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;

    settings.entries = settings.nmedium = settings.nlarge = settings.noutstanding = 1;
    chain_lab_open(&chain, &settings, NULL);
    ok(PUT(&chain, "prefix", "1") &&
           chain_answers(&chain, "get prefix\r\n", TEXT("VALUE prefix 0 1\r\n1\r\nEND\r\n")),
       "a table may have one bucket, and one slot for outstanding requests");
    ok(misses(&chain, "get prefixed\r\n"), "a longer key in the same bucket is another key");
    ok(misses(&chain, "get pre\r\n"), "a shorter key in the same bucket is another key");
    chain.buckets[0].stamp &= (1ull << CHAIN_STAMP_BITS) - 1;
    chain.buckets[0].stamp |= lab_hash(&chain.lab, "prefiy", 6) >> CHAIN_STAMP_BITS
                                                                       << CHAIN_STAMP_BITS;
    ok(misses(&chain, "get prefiy\r\n"),
       "keys with equal hashes are distinguished by all their bytes");
    chain_lab_close(&chain);
}

/* Buckets share blocks: a get never returns the text of another bucket. */
static void test_shared_blocks(void)
{
    struct chain_settings settings = chain_lab_settings;
    struct chain_lab chain;
    struct frame frame;
    static const size_t sizes[] = {200, 1000};
    char name[32];
    bool right = true, lost = true;

    settings.nmedium = settings.nlarge = 1;
    chain_lab_open(&chain, &settings, NULL);
    for (size_t s = 0; s < 2; s++) {
        chain_lab_clear(&chain);
        for (size_t i = 0; i < 16; i++) {
            snprintf(name, sizeof(name), "key-%02zu", i);
            right &= put(&chain, name, 6, letters + i, sizes[s]);
        }
        for (size_t i = 0; i < 15; i++) {
            snprintf(name, sizeof(name), "get key-%02zu\r\n", i);
            frame_request(&frame, name, 12);
            lost &= chain_misses(&chain, &frame, CHAIN_MISS_EMPTY);
        }
    }
    ok(right && lost, "an entry whose block was taken by another bucket is not answered");
    chain_lab_close(&chain);
}

static void test_two_servers(struct chain_lab *chain)
{
    struct mc_local local = {.n4 = 2,
                             .n6 = 2,
                             .v4 = {htonl(LAB_SERVER), htonl(LAB_SERVER + 7)},
                             .v6 = {{0xfd, (uint64_t)htonl(LAB_SERVER) << 32},
                                    {0xfd, (uint64_t)htonl(LAB_SERVER + 7) << 32}}};
    struct frame frame;

    for (unsigned int v6 = 0; v6 < 2; v6++) {
        chain_lab_clear(chain);
        lab_own(chain->lab.control);
        local_publish(chain->lab.control, &local);
        chain->lab.shape = shapes[v6];
        ok(PUT(chain, "key", "one") &&
               chain_answers(chain, "get key\r\n", TEXT("VALUE key 0 3\r\none\r\nEND\r\n")),
           "%s: a value of the server on the first address is answered", shape_name(&shapes[v6]));
        frame_request(&frame, TEXT("get key\r\n"));
        frame.bytes[33] += 7;
        frame_seal(&frame);
        ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY),
           "%s: it is not answered for the server on the second address", shape_name(&shapes[v6]));
    }
    chain->lab.shape = shapes[0];
    lab_own(chain->lab.control);
}

/* --- many keys --------------------------------------------------------------------------- */

static void test_multiget(struct chain_lab *chain)
{
    static const struct lab_case rows[] = {
        {"a get of two keys is answered", SEND("get a b\r\n"),
         ANSWER(BLOCK("a", "1", "1") BLOCK("b", "2", "22") "END\r\n")},
        {"two keys are answered in the order of the request", SEND("get b a\r\n"),
         ANSWER(BLOCK("b", "2", "22") BLOCK("a", "1", "1") "END\r\n")},
        {"a key is answered as often as it is asked for", SEND("get a a b a\r\n"),
         ANSWER(BLOCK("a", "1", "1") BLOCK("a", "1", "1") BLOCK("b", "2", "22")
                    BLOCK("a", "1", "1") "END\r\n")},
    };
    struct frame frame;

    chain_lab_clear(chain);
    ok(PUT(chain, "a", "1") && PUT(chain, "b", "22"), "the replies to two keys are kept");
    LAB_TRY(&chain->lab, rows);
    ok(misses(chain, "get a none b\r\n") && misses(chain, "get none a b\r\n") &&
           misses(chain, "get a b none\r\n"),
       "a request is passed if any of its keys is not in the table");
    frame_text(&frame, "get c d\r\n");
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(chain, &frame, TEXT(BLOCK("c", "1", "3") BLOCK("d", "1", "4") "END\r\n"),
                         CHAIN_COUNTS) &&
           lab_replies(&chain->lab, "get d c\r\n",
                       BLOCK("d", "1", "4") BLOCK("c", "1", "3") "END\r\n"),
       "each block of a reply is kept as an entry of its own");
}

/*
 * As memcached answers since 1.5.20: one datagram for each value, each numbered as the only one.
 */
static void test_divided(struct chain_lab *chain)
{
    struct frame frame;

    chain_lab_clear(chain);
    frame_request(&frame, TEXT("get a b\r\n"));
    ok(chain_misses(chain, &frame, CHAIN_MISS_EMPTY) &&
           chain_replies(chain, &frame, TEXT("VALUE a 0 1\r\n1\r\n"), CHAIN_FILLS) &&
           chain_replies(chain, &frame, TEXT("VALUE b 0 1\r\n2\r\nEND\r\n"), CHAIN_FILLS) &&
           chain_answers(chain, "get a b\r\n",
                         TEXT("VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n")),
       "a reply of several datagrams, each with whole blocks, is kept");
    ok(chain_replies(chain, &frame, TEXT("VALUE b 0 1\r\n2\r\nEND\r\n"), CHAIN_FILL_NOT_ASKED),
       "the datagram with END is the last one");
}

/* Makes a request of n keys in different buckets, and its reply. False: the reply does not fit. */
static bool make_many(struct chain_lab *chain, size_t n, char *request, char *reply, size_t *nreply)
{
    static bool used[1 << 16];
    size_t i, at = 3, bucket;
    char key[16];

    memset(used, 0, sizeof(used));
    memcpy(request, "get", 3);
    *nreply = 0;
    for (i = 0; n && *nreply < 1380; i++) {
        snprintf(key, sizeof(key), "%zx", i);
        bucket = (size_t)(chain_lab_bucket(chain, key, strlen(key)) - chain->buckets);
        if (used[bucket])
            continue;
        used[bucket] = true;
        n--;
        at += (size_t)sprintf(request + at, " %s", key);
        *nreply += text_value(reply + *nreply, key, strlen(key), letters + i % 26, i % 3);
    }
    memcpy(request + at, "\r\n", 3);
    memcpy(reply + *nreply, "END\r\n", 5);
    *nreply += 5;
    return n == 0 && *nreply <= MC_UDP_PAYLOAD - MC_UDP_HEADER;
}

/* The number of keys is limited only by the size of their reply. */
static void test_many_keys(struct chain_lab *chain)
{
    char request[2048], reply[2048];
    size_t n, nreply, most = 0;
    unsigned int wrong = 0;

    for (n = 2; n <= 100 && make_many(chain, n, request, reply, &nreply); n += 1 + (n > 40) * 3) {
        chain_lab_clear(chain);
        wrong += !chain_keeps(chain, request, reply, nreply);
        most = n;
    }
    ok(wrong == 0 && most > 60, "requests of 2 to %zu keys are answered", most);
}

/* All keys are in the table, but the reply does not fit a datagram. */
static void test_too_long(struct chain_lab *chain)
{
    struct frame frame;

    chain_lab_clear(chain);
    ok(put(chain, "a", 1, letters, 700) && put(chain, "b", 1, letters, 680) &&
           put(chain, "c", 1, letters, 600),
       "values of 700, 680 and 600 bytes are kept");
    frame_request(&frame, TEXT("get a b\r\n"));
    ok(lab_passes(&chain->lab, &frame, MC_COUNT_PASS_SIZE),
       "a request whose reply is longer than a datagram is passed");
    frame_request(&frame, TEXT("get a b c none\r\n"));
    ok(lab_passes(&chain->lab, &frame, MC_COUNT_PASS_SIZE),
       "a request of four keys whose reply is longer than a datagram is passed");
}

/* --- forms of requests --------------------------------------------------------------------- */

/* A packet other than a plain get is passed, and closes the gates of the keys that it may write. */
static const struct lab_case requests[] = {
    {SEND("get k\r\n"), ANSWER(REPLY)},
    {SEND("get k\n"), ANSWER(REPLY)},
    {SEND("get k \r\n"), ANSWER(REPLY)},
    {SEND("get  k\r\n"), ANSWER(REPLY)},
    {SEND("get k   \n"), ANSWER(REPLY)},
    {SEND("get      k \n"), ANSWER(REPLY)},
    {"a request to another address is passed", SEND("get k\r\n"), TO("10.0.0.0"), UNCOUNTED},
    {"to another port", SEND("get k\r\n"), FRAME(AT(36, "\x2c\x2e")), UNCOUNTED},
    {"from a service's port", SEND("get k\r\n"), FRAME(AT(34, "\0\x35")), PASS(SOURCE)},
    {"when the process that loaded the chain has ended or is stopped",
     STATE(CONTROL(lease, 1ll << 32)), SEND("get k\r\n"), PASS(STOPPED)},
    {"else answered", SEND("get k\r\n"), ANSWER(REPLY)},
    {"a request whose reply is over the MTU is passed",
     STATE(CONTROL(packet_over, 20 + 8 + MC_UDP_HEADER + sizeof(REPLY) - 1)), SEND("get k\r\n"),
     PASS(SIZE)},
    {"a request whose reply fits the MTU is answered",
     STATE(CONTROL(packet_over, 20 + 8 + MC_UDP_HEADER + sizeof(REPLY))), SEND("get k\r\n"),
     ANSWER(REPLY)},
    {SEND("gets k\r\n"), PASS(COMMAND)},
    {SEND("get k\r\nset k 0 0 1\r\nx\r\n"), PASS(COMMAND)},
    {SEND("get none\r\nset k 0 0 1\r\nx\r\n"), PASS(COMMAND)},
    {SEND("get none none\r\nget k\r\n"), PASS(COMMAND)},
    {SEND("get none"), PASS(REQUEST)},
    {SEND("get k\tk\r\n"), PASS(REQUEST)},
    {SEND("get \r\n"), PASS(REQUEST)},
    {SEND("GET k\r\n"), PASS(COMMAND)},
    {SEND("mg k v\r\n"), PASS(COMMAND)},
    {"a request of no datagram is passed", SEND("get k\r\n"), FRAME(AT(47, "\0")), PASS(FRAME)},
    {"a request of 2 datagrams is passed", SEND("get k\r\n"), FRAME(AT(47, "\2")), PASS(FRAME)},
    {"a request of 7 datagrams is passed", SEND("get k\r\n"), FRAME(AT(47, "\7")), PASS(FRAME)},
};

static void test_forms(struct chain_lab *chain)
{
    char spaces[1400] = "get k", key[300];

    chain_lab_clear(chain);
    ok(PUT(chain, "k", "v"), "the reply to a key is kept");
    memset(spaces + 5, ' ', 1300);
    memcpy(spaces + 1305, "\r\n", 3);
    ok(lab_replies(&chain->lab, spaces, REPLY),
       "a request that is longer than its reply is answered");
    LAB_TRY(&chain->lab, requests);
    text_get(key, letters, 251);
    ok(lab_leaves(&chain->lab, key, MC_COUNT_PASS_REQUEST), "a key of 251 bytes is passed");
}

/* Checksums of the headers for many addresses: some need a second carry. */
static void test_checksums(struct chain_lab *chain)
{
    struct frame frame;
    unsigned int i, v6, wrong;

    for (v6 = 0; v6 < 2; v6++) {
        chain->lab.shape = shapes[v6];
        chain_lab_clear(chain);
        wrong = !PUT(chain, "k", "v");
        for (i = 0; i < 20000 && !wrong; i++) {
            frame_request(&frame, TEXT("get k\r\n"));
            frame.bytes[28] = (uint8_t)(i * 13 >> 8);
            frame.bytes[29] = (uint8_t)(i * 13);
            frame.bytes[34] = (uint8_t)(8 + (i & 127));
            frame.bytes[42] = (uint8_t)(i >> 3);
            frame_seal(&frame);
            wrong += !lab_answers(&chain->lab, &frame, TEXT(REPLY));
        }
        ok(wrong == 0, "%s: 20,000 replies have the right checksums", shape_name(&shapes[v6]));
    }
    chain->lab.shape = shapes[0];
}

/* Replies that are larger than amplification= allows. */
static void test_amplification(void)
{
    static const struct loader_guard guard = {.amplification = 2};
    struct chain_lab chain;
    struct frame frame;

    chain_lab_open(&chain, NULL, &guard);
    frame_request(&frame, TEXT("get k\r\n"));
    ok(put(&chain, "k", 1, letters, 200) &&
           lab_passes(&chain.lab, &frame, MC_COUNT_PASS_AMPLIFICATION),
       "a request is passed if its reply is too large for it");
    ok(chain_replies(&chain, &frame, TEXT(REPLY), CHAIN_FILLS) &&
           chain_answers(&chain, "get k\r\n", TEXT(REPLY)),
       "the reply is kept");
    chain_lab_close(&chain);
}

int main(void)
{
    struct chain_lab chain;

    for (size_t i = 0; i < sizeof(letters); i++)
        letters[i] = (char)('a' + i % 26);
    chain_lab_open(&chain, NULL, NULL);
    test_hit(&chain);
    test_lengths(&chain);
    test_values(&chain);
    test_flags(&chain);
    test_same_bucket();
    test_shared_blocks();
    test_two_servers(&chain);
    test_multiget(&chain);
    test_divided(&chain);
    test_many_keys(&chain);
    test_too_long(&chain);
    test_forms(&chain);
    test_checksums(&chain);
    test_amplification();
    chain_lab_close(&chain);
    return done();
}
