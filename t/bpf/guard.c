/* SPDX-License-Identifier: BSD-3-Clause */
/* Which sources the kernel programs answer: allow=, rate=, amplification=. Requests of others are
 * passed. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "iface/local.h"
#include "kcache/guard.h"
#include "kmem/prefix.h"
#include "t/bpf/lab.h"
#include "t/lib/tap.h"

static const char *const names[] = {"XDP", "TC"};
static const char hit_reply[] = "VALUE hit 0 5\r\nvalue\r\nEND\r\n";

static const char server6[] = "fd77::1", public6[] = "2001:db8:77::1", public4[] = "198.51.100.1";

/* A server on a private address of each family, and on a public one. */
static void open_lab(struct lab *lab, const struct loader_guard *guard)
{
    struct mc_local local = {.n4 = 2, .v4 = {htonl(LAB_SERVER), inet_addr(public4)}, .n6 = 2};

    lab_open_guarded(lab, 256, guard, 0);
    inet_pton(AF_INET6, server6, local.v6[0]);
    inet_pton(AF_INET6, public6, local.v6[1]);
    local_publish(lab->control, &local);
    loader_set_tc(lab->loader, true, false);
    lab_put(lab, "hit", 3, "value", 5);
}

/* A load takes longer than the tests, so both programs are tested with one load. */
static void test_both(const struct loader_guard *guard,
                      void (*test)(struct lab *lab, enum loader_program program))
{
    struct lab lab;

    open_lab(&lab, guard);
    for (enum loader_program program = LOADER_XDP; program <= LOADER_TC; program++) {
        loader_set_tc(lab.loader, true, program == LOADER_TC);
        test(&lab, program);
    }
    lab_close(&lab);
}

static void request_from(struct frame *frame, uint32_t source, const char *text)
{
    frame_request(frame, text, strlen(text));
    source = htonl(source);
    memcpy(frame->bytes + 26, &source, 4);
    frame_seal(frame);
}

/* Sends a hit and a miss from an address; not allowed: both are passed. */
static bool from(struct lab *lab, enum loader_program program, uint32_t source, bool allowed)
{
    struct frame hit, miss;

    request_from(&hit, source, "get hit\r\n");
    request_from(&miss, source, "get none\r\n");
    if (allowed)
        return lab_answers(lab, program, &hit, hit_reply, sizeof(hit_reply) - 1) &&
               lab_answers(lab, program, &miss, "END\r\n", 5);
    return lab_passes(lab, program, &hit, MC_COUNT_PASS_ALLOW) &&
           lab_passes(lab, program, &miss, MC_COUNT_PASS_ALLOW);
}

/* --- the same over IPv6 ----------------------------------------------------- */

static void request_from6(struct frame *frame, const uint8_t *source, const char *text)
{
    size_t ntext = strlen(text), nudp = 16 + ntext;
    uint8_t *b = frame->bytes;

    memset(b, 0, 78);
    memcpy(b + 12, "\x86\xdd\x60", 3);
    b[18] = (uint8_t)(nudp >> 8);
    b[19] = (uint8_t)nudp;
    memcpy(b + 20, "\x11\x40", 2);
    memcpy(b + 22, source, 16);
    inet_pton(AF_INET6, server6, b + 38);
    memcpy(b + 54,
           (uint8_t[]){LAB_CLIENT_PORT >> 8, LAB_CLIENT_PORT & 0xff, LAB_PORT >> 8, LAB_PORT & 0xff,
                       b[18], b[19], 0, 0},
           8);
    memcpy(b + 62, "\x12\x34\0\0\0\1\0\0", 8);
    memcpy(b + 70, text, ntext);
    frame->n = 70 + ntext;
    frame_sum(frame, FRAME_SUM_WHOLE);
}

static bool is_answered6(struct lab *lab, enum loader_program program, const uint8_t *source)
{
    struct frame frame, out;

    request_from6(&frame, source, "get hit\r\n");
    return lab_run(lab, program, &frame, &out) == (program == LOADER_XDP ? 3u : 7u) &&
           memcmp(out.bytes + 70, hit_reply, sizeof(hit_reply) - 1) == 0;
}

static bool from6(struct lab *lab, enum loader_program program, const char *source, bool allowed)
{
    struct frame frame;
    uint8_t bytes[16];

    if (inet_pton(AF_INET6, source, bytes) != 1)
        abort();
    request_from6(&frame, bytes, "get none\r\n");
    return allowed ? is_answered6(lab, program, bytes)
                   : lab_passes(lab, program, &frame, MC_COUNT_PASS_ALLOW);
}

static uint32_t address(const char *text)
{
    return ntohl(inet_addr(text));
}

/* --- allow= ------------------------------------------------------------------ */

static const struct {
    const char *first, *last; /* of a local range; its neighbours are not */
} local[] = {{"10.0.0.0", "10.255.255.255"},
             {"127.0.0.0", "127.255.255.255"},
             {"172.16.0.0", "172.31.255.255"},
             {"192.168.0.0", "192.168.255.255"},
             {"100.64.0.0", "100.127.255.255"}};

static const char *const foreign[] = {"1.1.1.1", "8.8.8.8", "192.0.2.7", "203.0.113.9",
                                      "223.255.255.1"};
enum { FOREIGN = sizeof(foreign) / sizeof(foreign[0]) };

static void test_local(struct lab *lab, enum loader_program program)
{
    size_t i;

    for (i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        uint32_t first = address(local[i].first), last = address(local[i].last);

        ok(from(lab, program, first, true) && from(lab, program, last, true) &&
               from(lab, program, first - 1, false) && from(lab, program, last + 1, false),
           "%s: without allow= %s to %s is answered, and its neighbours are not", names[program],
           local[i].first, local[i].last);
    }
    for (i = 0; i < FOREIGN; i++)
        ok(from(lab, program, address(foreign[i]), false),
           "%s: without allow= a request from %s is passed", names[program], foreign[i]);
}

static void test_all(struct lab *lab, enum loader_program program)
{
    for (size_t i = 0; i < FOREIGN; i++)
        ok(from(lab, program, address(foreign[i]), true), "%s: with allow=all %s is answered",
           names[program], foreign[i]);
    ok(from6(lab, program, "2001:db8:5::9", true), "%s: with allow=all any IPv6 source is answered",
       names[program]);
}

static struct prefix prefix_of(const char *text)
{
    struct prefix prefix;

    if (!prefix_parse(text, &prefix))
        abort();
    return prefix;
}

static void test_list_of(struct prefix *prefixes, size_t n, bool with_local,
                         void (*test)(struct lab *lab, enum loader_program program))
{
    struct guard guard = {.loader = {.allow = MC_ALLOW_LIST, .local = with_local}};

    if (guard_list(&guard, prefixes, n))
        abort();
    test_both(&guard.loader, test);
    guard_fini(&guard);
}

static const char *const listed[] = {
    "203.0.113.0/24", "203.0.113.128/25", "203.0.113.7/32", "20.0.0.0/7",     "30.1.0.0/16",
    "30.3.0.0/17",    "40.1.2.3",         "40.1.2.5/32",    "40.1.3.0/29",    "2001:db8::/32",
    "2a00:1:2:3::4",  "2a00:1:2:5::/65",  "3000::/4",       "2c00:1::80/121", "2001:db8:1::/48"};
enum { LISTED = sizeof(listed) / sizeof(listed[0]) };

static void test_list(struct lab *lab, enum loader_program program)
{
    static const struct {
        const char *from;
        bool allowed;
    } rows[] = {
        {"203.0.113.0", true},  {"203.0.113.255", true},   {"203.0.112.255", false},
        {"203.0.114.0", false}, {"20.0.0.1", true},        {"21.255.255.255", true},
        {"22.0.0.0", false},    {"19.255.255.255", false}, {"30.1.0.0", true},
        {"30.1.255.255", true}, {"30.2.0.0", false},       {"30.3.127.255", true},
        {"30.3.128.0", false},  {"40.1.2.3", true},        {"40.1.2.2", false},
        {"40.1.2.4", false},    {"40.1.2.5", true},        {"40.1.3.7", true},
        {"40.1.3.8", false},    {"10.0.0.2", false},       {"32.1.13.184", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(from(lab, program, address(rows[i].from), rows[i].allowed), "%s: a list: %s is %s",
           names[program], rows[i].from, rows[i].allowed ? "answered" : "passed");
}

static void test_nobody(struct lab *lab, enum loader_program program)
{
    ok(from(lab, program, LAB_CLIENT, false) && from6(lab, program, "fd77::2", false),
       "%s: with an empty list no source is answered", names[program]);
}

static void test_ipv4(struct lab *lab, enum loader_program program)
{
    ok(from(lab, program, LAB_CLIENT, true) && from(lab, program, address("8.8.8.8"), true) &&
           from6(lab, program, "fd77::2", false),
       "%s: 0.0.0.0/0 allows all of IPv4", names[program]);
}

enum { MANY = 10000, PROBES = 6000 };

static uint32_t any32(void)
{
    return (uint32_t)random() << 16 ^ (uint32_t)random();
}

/* An address in or just beside one of the prefixes, or any address. */
static uint32_t probe_of(const struct prefix *prefixes, size_t n)
{
    const struct prefix *prefix = &prefixes[(size_t)random() % n];
    uint32_t first = (uint32_t)(prefix->high >> 32);
    uint32_t last = first | (uint32_t)(prefix->bits == 32 ? 0 : UINT32_MAX >> prefix->bits);

    switch (random() % 6) {
    case 0:
        return first;
    case 1:
        return last;
    case 2:
        return first - 1;
    case 3:
        return last + 1;
    case 4:
        return first | (any32() & (last ^ first));
    }
    return any32();
}

/* 0, 127 and from 224 on cannot be sources; see test_sources of t/bpf/passes.c. */
static bool is_plain(uint32_t source)
{
    return source >> 24 != 0 && source >> 24 < 224;
}

static bool is_held(const struct prefix *prefixes, size_t n, uint32_t source)
{
    struct prefix one = {.high = (uint64_t)source << 32, .bits = 32};

    for (size_t i = 0; i < n; i++)
        if (prefix_holds(&prefixes[i], &one))
            return true;
    return false;
}

/* dense: all in 10.1.0.0/16, as single addresses and small. */
static void make_many(struct prefix *out, bool dense)
{
    for (size_t i = 0; i < MANY; i++) {
        char text[32];
        uint32_t at = dense ? 0x0a010000 | (any32() & 0xffff) : 0x14000000 + any32() / 4 * 3;

        snprintf(text, sizeof(text), "%u.%u.%u.%u/%ld", at >> 24, at >> 16 & 255, at >> 8 & 255,
                 at & 255, dense ? 29 + random() % 4 : 14 + random() % 19);
        out[i] = prefix_of(text);
    }
}

/* Compares with a search of the whole list, for addresses beside the prefixes from `near` on, and
 * for twice as many others. */
static void probe_many(struct lab *lab, const struct prefix *prefixes, const struct prefix *near,
                       const char *what)
{
    struct frame frame;
    size_t i, in = 0;
    bool right = true;

    for (i = 0; i < PROBES && right; i++) {
        uint32_t source = probe_of(near, MANY);
        bool held = is_held(prefixes, 2 * MANY, source);

        if (!is_plain(source))
            continue;
        in += held;
        request_from(&frame, source, "get none\r\n");
        right = held ? lab_answers(lab, LOADER_XDP, &frame, "END\r\n", 5)
                     : lab_passes(lab, LOADER_XDP, &frame, MC_COUNT_PASS_ALLOW);
    }
    ok(right && in > PROBES / 4 && in < PROBES * 7 / 8,
       "10,000 prefixes%s: %zu addresses in them are answered and %zu others are not", what, in,
       i - in);
}

static const struct {
    const char *source;
    bool local, listed;
} rows6[] = {
    {"fd77::2", true, false},
    {"fc00::1", true, false},
    {"fdff:ffff::1", true, false},
    {"fbff::1", false, false},
    {"fe00::1", false, false},
    {"fe80::1", false, false},
    {"febf::1", false, false},
    {"fec0::1", false, false},
    {"fe7f::1", false, false},
    {"::1", true, false},
    {"2001:db8::1", false, true},
    {"2001:db8:ffff::", false, true},
    {"2001:db9::1", false, false},
    {"2001:db7:ffff::1", false, false},
    {"2a00:1:2:3::4", false, true},
    {"2a00:1:2:3::5", false, false},
    {"2a00:1:2:4::4", false, false},
    {"2a00:1:2:5::ffff", false, true},
    {"2a00:1:2:5:8000::1", false, false},
    {"3000::1", false, true},
    {"3fff:ffff::1", false, true},
    {"4000::1", false, false},
    {"2c00:1::7e", false, false},
    {"2c00:1::80", false, true},
    {"2c00:1::ff", false, true},
    {"2c00:1::100", false, false},
};

static void test_local6(struct lab *lab, enum loader_program program)
{
    bool right = true;

    for (size_t i = 0; i < sizeof(rows6) / sizeof(rows6[0]); i++)
        right &= from6(lab, program, rows6[i].source, rows6[i].local);
    ok(right, "%s: without allow= local IPv6 sources are answered, and no others", names[program]);
}

/* The same to a public address of the server: answered or not. */
static bool to_public4(struct lab *lab, enum loader_program program, const char *source, bool yes)
{
    in_addr_t to = inet_addr(public4);
    struct frame frame;

    request_from(&frame, address(source), "get none\r\n");
    memcpy(frame.bytes + 30, &to, 4);
    frame_seal(&frame);
    return yes ? lab_answers(lab, program, &frame, "END\r\n", 5)
               : lab_passes(lab, program, &frame, MC_COUNT_PASS_ALLOW);
}

static bool to_public6(struct lab *lab, enum loader_program program, const char *source, bool yes)
{
    struct frame frame, out;
    uint8_t bytes[16];

    inet_pton(AF_INET6, source, bytes);
    request_from6(&frame, bytes, "get none\r\n");
    inet_pton(AF_INET6, public6, frame.bytes + 38);
    return yes ? lab_run(lab, program, &frame, &out) == (program == LOADER_XDP ? 3u : 7u)
               : lab_passes(lab, program, &frame, MC_COUNT_PASS_ALLOW);
}

static void test_public(struct lab *lab, enum loader_program program)
{
    bool right = true;

    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        right &= to_public4(lab, program, local[i].first, false);
    for (size_t i = 0; i < sizeof(rows6) / sizeof(rows6[0]); i++)
        right &= to_public6(lab, program, rows6[i].source, false);
    ok(right, "%s: without allow= no request to a public address is answered", names[program]);
}

/* `local` and one public source. */
static void test_list_local(struct lab *lab, enum loader_program program)
{
    ok(from(lab, program, LAB_CLIENT, true) && from6(lab, program, "fd77::2", true) &&
           from(lab, program, address("203.0.113.9"), true) &&
           from(lab, program, address("203.0.113.8"), false),
       "%s: a list with `local` allows private sources and those on the list", names[program]);
    ok(to_public4(lab, program, "10.0.0.2", false) && to_public6(lab, program, "fd77::2", false) &&
           to_public4(lab, program, "203.0.113.9", true),
       "%s: a list with `local` allows only the sources on the list to use a public address",
       names[program]);
}

/* 10.0.0.0/8 by itself is not `local`. */
static void test_list_private(struct lab *lab, enum loader_program program)
{
    ok(to_public4(lab, program, "10.0.0.2", true) && to_public4(lab, program, "172.16.0.2", false),
       "%s: a private prefix on a list may use a public address, too", names[program]);
}

static void test_list6(struct lab *lab, enum loader_program program)
{
    bool right = true;

    for (size_t i = 0; i < sizeof(rows6) / sizeof(rows6[0]); i++)
        right &= from6(lab, program, rows6[i].source, rows6[i].listed);
    ok(right, "%s: a list of IPv6 prefixes allows exactly these", names[program]);
}

static uint64_t any64(void)
{
    return (uint64_t)any32() << 32 | any32();
}

/* An address in or just beside a prefix, or any address in 2000::/3. */
static struct prefix probe6_of(const struct prefix *prefixes, size_t n)
{
    struct prefix probe = prefixes[(size_t)random() % n];
    uint64_t high = ~prefix_mask_high(probe.bits), low = ~prefix_mask_low(probe.bits);
    long where = random() % 5;

    if (where == 0)
        return (struct prefix){any64() >> 3 | 1ull << 61, any64(), 128, true};
    if (where == 1) { /* one bit of the prefix is different */
        unsigned int bit = 3 + (unsigned int)random() % (probe.bits - 3);

        probe.high ^= bit < 64 ? 1ull << (63 - bit) : 0;
        probe.low ^= bit < 64 ? 0 : 1ull << (127 - bit);
    }
    probe.high |= where == 2 ? high : any64() & high;
    probe.low |= where == 2 ? low : any64() & low;
    probe.bits = 128;
    return probe;
}

static void make_many6(struct prefix *out)
{
    for (size_t i = 0; i < MANY; i++) {
        uint8_t bits = (uint8_t)(20 + random() % 109);
        uint64_t high = i % 2 ? 0x20010db800000000 | (any64() & 0xffff) : any64() >> 3 | 1ull << 61;

        out[i] = (struct prefix){high & prefix_mask_high(bits), any64() & prefix_mask_low(bits),
                                 bits, true};
    }
}

static void probe_many6(struct lab *lab, const struct prefix *prefixes)
{
    struct frame frame, out;
    size_t i, in = 0;
    bool right = true;

    for (i = 0; i < PROBES && right; i++) {
        struct prefix probe = probe6_of(prefixes, MANY);
        uint64_t words[2] = {htobe64(probe.high), htobe64(probe.low)};
        bool held = false;

        for (size_t j = 0; j < MANY && !held; j++)
            held = prefix_holds(&prefixes[j], &probe);
        in += held;
        request_from6(&frame, (const uint8_t *)words, "get none\r\n");
        right = held ? lab_run(lab, LOADER_XDP, &frame, &out) == 3
                     : lab_passes(lab, LOADER_XDP, &frame, MC_COUNT_PASS_ALLOW);
    }
    ok(right && in > PROBES / 4 && in < PROBES * 7 / 8,
       "10,000 IPv6 prefixes: %zu addresses in them are answered and %zu others are not", in,
       i - in);
}

/* One list of three times 10,000. */
static void test_many(void)
{
    static struct prefix four[2 * MANY], six[MANY], all[3 * MANY];
    struct guard guard = {.loader = {.allow = MC_ALLOW_LIST}};
    struct lab lab;

    srandom(11);
    make_many(four, false);
    make_many(four + MANY, true);
    make_many6(six);
    memcpy(all, four, sizeof(four));
    memcpy(all + 2 * MANY, six, sizeof(six));
    if (guard_list(&guard, all, 3 * MANY))
        abort();
    open_lab(&lab, &guard.loader);
    guard_fini(&guard);
    probe_many(&lab, four, four, "");
    probe_many(&lab, four, four + MANY, " of one /16");
    probe_many6(&lab, six);
    lab_close(&lab);
}

/* --- rate= --------------------------------------------------------------------- */

static bool is_answered(struct lab *lab, enum loader_program program, uint32_t source)
{
    struct frame frame, out;

    request_from(&frame, source, "get hit\r\n");
    return lab_run(lab, program, &frame, &out) == (program == LOADER_XDP ? 3u : 7u);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void test_burst(struct lab *lab, enum loader_program program)
{
    const uint32_t source = LAB_CLIENT + 100 * program;
    struct frame frame;
    double start = now();
    unsigned int i, answered = 0;
    bool right;

    for (i = 0; i < 20; i++)
        answered += is_answered(lab, program, source);
    ok(answered == 20, "%s: a burst of 20 requests is answered", names[program]);
    request_from(&frame, source, "get hit\r\n");
    /* A second refills one request. */
    for (i = 0; i < 20 && is_answered(lab, program, source); i++)
        ;
    ok(i <= now() - start && lab_passes(lab, program, &frame, MC_COUNT_PASS_RATE),
       "%s: after the burst requests are passed", names[program]);
    request_from(&frame, source, "get hit none hit\r\n");
    right = lab_passes(lab, program, &frame, MC_COUNT_PASS_RATE);
    ok(right, "%s: a get of several keys is one request", names[program]);
    request_from(&frame, source + 1, "set hit 0 0 1\r\nx\r\n");
    for (i = 0; i < 30; i++)
        right &= lab_passes(lab, program, &frame, MC_COUNT_PASS_COMMAND);
    for (i = 0; i < 20; i++)
        right &= is_answered(lab, program, source + 1);
    ok(right, "%s: another source has a limit of its own, and passed requests do not count",
       names[program]);
    while (!is_answered(lab, program, source))
        if (now() - start > 60)
            break;
    ok(now() - start < 60, "%s: with time the first source is answered again", names[program]);
}

static unsigned int burst_of(struct lab *lab, const char *source, unsigned int tries)
{
    unsigned int answered = 0;
    uint8_t bytes[16];

    inet_pton(AF_INET6, source, bytes);
    while (tries--)
        answered += is_answered6(lab, LOADER_XDP, bytes);
    return answered;
}

/* A minute refills less than one request. */
static void test_sources6(struct lab *lab, enum loader_program program)
{
    unsigned int first, second;

    if (program != LOADER_XDP)
        return;
    first = burst_of(lab, "2001:db8:0:1::1", 40);
    second = burst_of(lab, "2001:db8:0:1:8000::2", 40);
    ok(first == 40 && second >= 10 && second < 40, "a /64 of public IPv6 shares one limit");
    ok(burst_of(lab, "2001:db8:0:2::1", 40) == 40, "another /64 has a limit of its own");
    ok(burst_of(lab, "fd77::1", 40) == 40 && burst_of(lab, "fd77::2", 40) == 40 &&
           burst_of(lab, "fe80::1", 40) == 40 && burst_of(lab, "fe80::2", 40) == 40,
       "each local IPv6 address has a limit of its own");
}

enum { BUCKET_RATE = 10000, BUCKET_DEPTH = 20000, SHARED_DEPTH = 500000 };

struct asker {
    struct lab *lab;
    atomic_uint *nready;
};

/* A request that is counted by the rate limit, and then passed unchanged: the program is run on it
 * in a loop. */
static void *ask_often(void *arg)
{
    struct asker *asker = arg;
    struct frame frame, out;
    struct loader_packet packet = {.in = frame.bytes,
                                   .out = out.bytes,
                                   .nout = sizeof(out.bytes),
                                   .repeat = 3 * SHARED_DEPTH / 2};

    request_from(&frame, LAB_CLIENT, "get hit\r\n");
    packet.nin = frame.n;
    /* A spinning thread has a CPU: they begin at once. */
    atomic_fetch_add(asker->nready, 1);
    while (atomic_load(asker->nready) < 2)
        ;
    if (loader_run(asker->lab->loader, LOADER_XDP, &packet))
        diag("the run failed");
    return NULL;
}

/* How many of the requests from two CPUs at once are counted. */
static unsigned long long ask_on_two_cpus(struct lab *lab)
{
    atomic_uint nready = 0;
    struct asker asker = {lab, &nready};
    struct mc_counts before, after;
    pthread_t threads[2];

    loader_counts(lab->loader, &before);
    for (unsigned int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, ask_often, &asker) != 0)
            skip_all("no thread");
    for (unsigned int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    loader_counts(lab->loader, &after);
    return after.count[MC_COUNT_PASS_ITEM] - before.count[MC_COUNT_PASS_ITEM];
}

/* The rate limit's bucket is changed by compare and exchange: two CPUs together take its content
 * once. */
static void test_two_cpus(void)
{
    struct loader_guard guard = {.rate = 1, .burst = SHARED_DEPTH};
    unsigned long long charged;
    double start, spent;
    struct lab lab;

    open_lab(&lab, &guard);
    lab_clear(&lab);
    lab_put(&lab, "hit", 3, "value", 5)->flags |= MC_ITEM_CHUNKED;
    start = now();
    charged = ask_on_two_cpus(&lab);
    spent = now() - start;
    ok(charged > SHARED_DEPTH / 2 && (double)charged <= SHARED_DEPTH + spent + 1,
       "two CPUs together take no more than 500,000 requests from one bucket");
    diag("%llu in %.1f s", charged, spent);
    lab_close(&lab);
}

static void test_time(void)
{
    struct loader_guard guard = {.rate = BUCKET_RATE, .burst = BUCKET_DEPTH};
    double start, spent;
    unsigned int answered = 0;
    struct lab lab;

    open_lab(&lab, &guard);
    start = now();
    while (answered < 2 * BUCKET_DEPTH && now() - start < 60)
        answered += is_answered(&lab, LOADER_XDP, LAB_CLIENT);
    spent = now() - start;
    /* The kernel's tick, of 10 ms at most, may come right after the first request. */
    ok(answered == 2 * BUCKET_DEPTH && answered <= BUCKET_DEPTH + BUCKET_RATE * (spent + 0.01),
       "refilling a bucket takes as long as the rate says");
    diag("%.0f a second beyond the burst", BUCKET_DEPTH / spent);
    lab_close(&lab);
}

/* --- a reload -------------------------------------------------------------------- */

static void replace(struct lab *lab, struct guard *guard, const char *source, bool with_local)
{
    struct prefix prefix = prefix_of(source);

    guard_fini(guard);
    guard->loader.local = with_local;
    if (guard_list(guard, &prefix, 1))
        abort();
    if (lab && loader_set_guard(lab->loader, &guard->loader))
        abort();
}

/* Whether both programs answer the source, and not the other one. */
static bool only(struct lab *lab, const char *source, const char *other)
{
    bool right = true;

    for (enum loader_program program = LOADER_XDP; program <= LOADER_TC; program++) {
        loader_set_tc(lab->loader, true, program == LOADER_TC);
        right &=
            from(lab, program, address(source), true) && from(lab, program, address(other), false);
    }
    loader_set_tc(lab->loader, true, false);
    return right;
}

static void test_reload_limits(struct lab *lab, struct guard *guard, const char *source)
{
    struct frame frame;
    unsigned int i;

    request_from(&frame, address(source), "get hit\r\n");
    guard->loader.amplification = 1;
    replace(lab, guard, source, false);
    ok(lab_passes(lab, LOADER_XDP, &frame, MC_COUNT_PASS_AMPLIFICATION),
       "amplification= counts once it is set");
    guard->loader.amplification = 0;
    guard->loader.rate = 1;
    guard->loader.burst = 1000000;
    replace(lab, guard, source, false);
    ok(is_answered(lab, LOADER_XDP, address(source)), "a bucket of a million is used");
    guard->loader.burst = 10;
    replace(lab, guard, source, false);
    for (i = 0; i < 30 && is_answered(lab, LOADER_XDP, address(source)); i++)
        ;
    ok(i >= 9 && i < 30, "rate= counts once it is set (%u were answered)", i);
    guard->loader.rate = 0;
    replace(lab, guard, source, false);
    for (i = 0; i < 30 && is_answered(lab, LOADER_XDP, address(source)); i++)
        ;
    ok(i == 30, "and not once it is removed");
}

static void test_reload(void)
{
    struct guard guard = {.loader = {.allow = MC_ALLOW_LIST, .reloads = true}};
    const char *const one = "198.51.100.7", *const two = "198.51.100.9";
    struct prefix many[MANY];
    struct lab lab;

    replace(NULL, &guard, one, false);
    open_lab(&lab, &guard.loader);
    ok(only(&lab, one, two), "a list that may be reloaded is in force");
    replace(&lab, &guard, two, false);
    ok(only(&lab, two, one), "another list is in force at once");
    replace(&lab, &guard, "198.51.100.8/31", true);
    ok(only(&lab, two, one) && only(&lab, "10.0.0.2", one), "a third, with `local`");
    replace(&lab, &guard, one, false);
    ok(only(&lab, one, "10.0.0.2"), "a fourth, without it");
    make_many(many, false);
    guard_fini(&guard);
    ok(guard_list(&guard, many, MANY) == -ENOSPC && !guard.list && only(&lab, one, two),
       "a list that is too long is refused, and changes nothing");
    test_reload_limits(&lab, &guard, one);
    guard_fini(&guard);
    lab_close(&lab);
}

/* --- amplification= --------------------------------------------------------------- */

/* The text of a reply with a value of that size; the key is long enough to be answered in place. */
static size_t reply_of(char *out, size_t nout, size_t nvalue)
{
    static char value[2048];

    memset(value, 'v', sizeof(value));
    return (size_t)snprintf(out, nout, "VALUE large 0 %zu\r\n%.*s\r\nEND\r\n", nvalue, (int)nvalue,
                            value);
}

/* The largest value whose reply is at most `times` the request, and one byte more. */
static bool boundary(struct lab *lab, enum loader_program program, unsigned int times,
                     const char *text)
{
    static char value[2048], reply[4096];
    size_t room = (MC_UDP_HEADER + strlen(text)) * times - MC_UDP_HEADER, nvalue = 0, n;
    struct frame frame;
    bool right;

    while (reply_of(reply, sizeof(reply), nvalue + 1) <= room)
        nvalue++;
    memset(value, 'v', sizeof(value));
    request_from(&frame, LAB_CLIENT, text);
    lab_clear(lab);
    lab_put(lab, "large", 5, value, nvalue);
    n = reply_of(reply, sizeof(reply), nvalue);
    right = n == room && lab_answers(lab, program, &frame, reply, n);
    lab_clear(lab);
    lab_put(lab, "large", 5, value, nvalue + 1);
    return right && lab_passes(lab, program, &frame, MC_COUNT_PASS_AMPLIFICATION);
}

static void test_three_times(struct lab *lab, enum loader_program program)
{
    ok(boundary(lab, program, 3, "get large\r\n") &&
           boundary(lab, program, 3, "get no large none\r\n"),
       "%s: amplification=3: replies up to three times the request are answered, for one key and "
       "several",
       names[program]);
}

static void test_thirty_times(struct lab *lab, enum loader_program program)
{
    ok(boundary(lab, program, 30, "get large\r\n") &&
           boundary(lab, program, 30, "get no large none\r\n"),
       "%s: amplification=30: replies up to thirty times the request are answered", names[program]);
}

static void test_once(struct lab *lab, enum loader_program program)
{
    struct frame frame;

    request_from(&frame, LAB_CLIENT, "get a\r\n");
    ok(lab_answers(lab, program, &frame, "END\r\n", 5), "%s: amplification=1: a miss is answered",
       names[program]);
    request_from(&frame, LAB_CLIENT, "get hit\r\n");
    ok(lab_passes(lab, program, &frame, MC_COUNT_PASS_AMPLIFICATION),
       "%s: amplification=1: a hit no longer than its request is answered", names[program]);
}

/* --- requests of other protocols that are answered ---------------------------------- */

static const struct {
    const char *name, *text;
    size_t ntext;
} verbs[] = {
    {"gets", "gets hit\r\n", 10},
    {"mg", "mg hit v\r\n", 10},
    {"a binary get", "\x80\x00\x00\x03\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0hit", 27},
};

static void verb_from(struct frame *frame, size_t i, uint32_t source)
{
    frame_request(frame, verbs[i].text, verbs[i].ntext);
    source = htonl(source);
    memcpy(frame->bytes + 26, &source, 4);
    frame_seal(frame);
}

static bool is_verb_answered(struct lab *lab, enum loader_program program, size_t i,
                             uint32_t source)
{
    struct frame frame, out;

    verb_from(&frame, i, source);
    return lab_run(lab, program, &frame, &out) == (program == LOADER_XDP ? 3u : 7u);
}

/* The reason for which it is passed, or 0: it is answered. */
static bool verb_is(struct lab *lab, enum loader_program program, size_t i, uint32_t source,
                    enum mc_count reason)
{
    struct frame frame;

    verb_from(&frame, i, source);
    return reason ? lab_passes(lab, program, &frame, reason)
                  : is_verb_answered(lab, program, i, source);
}

static void test_verbs(struct lab *lab, enum loader_program program)
{
    unsigned int n;

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        uint32_t source = LAB_CLIENT + 10 + 100 * program + (uint32_t)i;

        ok(verb_is(lab, program, i, address("8.8.8.8"), MC_COUNT_PASS_ALLOW) &&
               verb_is(lab, program, i, source, 0),
           "%s: %s: allow= is the same", names[program], verbs[i].name);
        for (n = 1; n < 40 && is_verb_answered(lab, program, i, source); n++)
            ;
        ok(n >= 20 && n < 40 && verb_is(lab, program, i, source, MC_COUNT_PASS_RATE),
           "%s: %s: rate= is the same", names[program], verbs[i].name);
    }
}

static void test_verbs_once(struct lab *lab, enum loader_program program)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        ok(verb_is(lab, program, i, LAB_CLIENT, MC_COUNT_PASS_AMPLIFICATION),
           "%s: %s: amplification= is the same", names[program], verbs[i].name);
}

/* --- misses ----------------------------------------------------------------------------- */

/* The shortest request of each kind, and one whose key is as long as "Not found". */
static const struct {
    const char *name, *text;
    size_t ntext;
    int more; /* bytes that a miss has more than its request, 0: none */
} misses[] = {
    {"get", "get a\n", 6, 0},
    {"gets", "gets a\n", 7, 0},
    {"mg", "mg a v\n", 7, 0},
    {"a binary Get", "\x80\x00\x00\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0a", 25, 8},
    {"a binary Get of nine bytes",
     "\x80\x00\x00\x09\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0\0abcdefghi", 33, 0},
    {"a binary GetK", "\x80\x0c\x00\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0a", 25, 0},
};
enum { MISSES = sizeof(misses) / sizeof(misses[0]) };

/* For every kind of miss, by its UDP header, how many bytes more than its request it has. */
static void test_misses(struct lab *lab, enum loader_program program)
{
    for (size_t i = 0; i < MISSES; i++) {
        struct frame frame, out;
        int more = sizeof(out.bytes);

        frame_request(&frame, misses[i].text, misses[i].ntext);
        if (lab_run(lab, program, &frame, &out) == (program == LOADER_XDP ? 3u : 7u))
            more = (out.bytes[38] << 8 | out.bytes[39]) - (frame.bytes[38] << 8 | frame.bytes[39]);
        else
            diag("no answer");
        ok(misses[i].more ? more == misses[i].more : more <= 0,
           "%s: %s: a miss has at most %d bytes more than its request", names[program],
           misses[i].name, misses[i].more);
    }
}

/* With amplification=1 no miss is larger than its request. */
static void test_misses_once(struct lab *lab, enum loader_program program)
{
    for (size_t i = 0; i < MISSES; i++) {
        struct frame frame, out;

        frame_request(&frame, misses[i].text, misses[i].ntext);
        ok(misses[i].more
               ? lab_passes(lab, program, &frame, MC_COUNT_PASS_AMPLIFICATION)
               : lab_run(lab, program, &frame, &out) == (program == LOADER_XDP ? 3u : 7u),
           "%s: amplification=1: a miss of %s is %s", names[program], misses[i].name,
           misses[i].more ? "passed" : "answered");
    }
}

/* --- several tests for each load ------------------------------------------------------ */

static void test_default(struct lab *lab, enum loader_program program)
{
    test_local(lab, program);
    test_local6(lab, program);
    test_misses(lab, program);
    test_public(lab, program);
}

static void test_everybody(struct lab *lab, enum loader_program program)
{
    test_all(lab, program);
    test_sources6(lab, program);
}

static void test_listed(struct lab *lab, enum loader_program program)
{
    test_list(lab, program);
    test_list6(lab, program);
}

static void test_rates(struct lab *lab, enum loader_program program)
{
    test_burst(lab, program);
    test_verbs(lab, program);
}

static void test_sizes(struct lab *lab, enum loader_program program)
{
    test_once(lab, program);
    test_verbs_once(lab, program);
    test_misses_once(lab, program);
}

int main(void)
{
    static const struct loader_guard all = {.allow = MC_ALLOW_ALL, .rate = 1, .burst = 50};
    struct prefix prefixes[LISTED];

    test_both(&(struct loader_guard){0}, test_default);
    test_both(&all, test_everybody);
    for (size_t i = 0; i < LISTED; i++)
        prefixes[i] = prefix_of(listed[i]);
    test_list_of(prefixes, LISTED, false, test_listed);
    prefixes[0] = prefix_of("0.0.0.0/0");
    test_list_of(prefixes, 1, false, test_ipv4);
    test_list_of(prefixes, 0, false, test_nobody);
    prefixes[0] = prefix_of("203.0.113.9");
    test_list_of(prefixes, 1, true, test_list_local);
    prefixes[0] = prefix_of("10.0.0.0/8");
    test_list_of(prefixes, 1, false, test_list_private);
    test_many();
    test_reload();
    test_both(&(struct loader_guard){.rate = 1, .burst = 20}, test_rates);
    test_two_cpus();
    test_time();
    test_both(&(struct loader_guard){.amplification = 1}, test_sizes);
    test_both(&(struct loader_guard){.amplification = 3}, test_three_times);
    test_both(&(struct loader_guard){.amplification = 30}, test_thirty_times);
    return done();
}
