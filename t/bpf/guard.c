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

#define GET_HIT   "get hit\r\n"
#define GET_NONE  "get none\r\n"
#define HIT_REPLY "VALUE hit 0 5\r\nvalue\r\nEND\r\n"

static const char public6[] = "2001:db8:77::1", public4[] = "198.51.100.1";

/* A server on a private address of each family, and on a public one. */
static void open_lab(struct lab *lab, const struct loader_guard *guard)
{
    struct mc_local local = {.n4 = 2, .v4 = {htonl(LAB_SERVER), inet_addr(public4)}, .n6 = 2};

    lab_open_guarded(lab, 256, guard, 0);
    inet_pton(AF_INET6, "fd00::a00:1", local.v6[0]);
    inet_pton(AF_INET6, public6, local.v6[1]);
    local_publish(lab->control, &local);
    loader_set_tc(lab->loader, true, false);
    lab_only(lab, "hit", "value");
}

/* A load takes longer than the tests, so both programs are tested with one load. */
static void test_both(const struct loader_guard *guard, void (*test)(struct lab *lab))
{
    struct lab lab;

    open_lab(&lab, guard);
    for (enum loader_program program = LOADER_XDP; program <= LOADER_TC; program++) {
        lab_use(&lab, program);
        test(&lab);
    }
    lab_close(&lab);
}

/* An address as text, which the next call overwrites. */
static const char *ip4(uint32_t address)
{
    return inet_ntoa((struct in_addr){htonl(address)});
}

/* Sends a hit and a miss from an address to another, NULL: a private one; not allowed: both are
 * passed. */
static bool from_to(struct lab *lab, const char *source, const char *to, bool allowed)
{
    const struct lab_case rows[] = {
        {SEND(GET_HIT), FROM(source), TO(to), ANSWER(HIT_REPLY)},
        {SEND(GET_NONE), FROM(source), TO(to), ANSWER("END\r\n")},
        {SEND2(GET_HIT, GET_NONE), FROM(source), TO(to), PASS(ALLOW)},
    };

    return allowed ? lab_right(lab, &rows[0]) && lab_right(lab, &rows[1])
                   : lab_right(lab, &rows[2]);
}

static bool from(struct lab *lab, const char *source, bool allowed)
{
    return from_to(lab, source, NULL, allowed);
}

static void frame_from(struct frame *frame, const char *source)
{
    lab_frame(frame, &(struct lab_case){SEND(GET_HIT), FROM(source)});
}

static bool is_answered(struct lab *lab, const char *source)
{
    struct frame frame;

    frame_from(&frame, source);
    return lab_is_answered(lab, &frame);
}

/* How many of so many requests are answered, until one is not. */
static unsigned int burst_of(struct lab *lab, const char *source, unsigned int tries)
{
    unsigned int n = 0;

    while (n < tries && is_answered(lab, source))
        n++;
    return n;
}

/* --- allow= ------------------------------------------------------------------ */

static struct prefix prefix_of(const char *text)
{
    struct prefix prefix;

    if (!prefix_parse(text, &prefix))
        abort();
    return prefix;
}

static const char *const listed[] = {
    "203.0.113.0/24", "203.0.113.128/25", "203.0.113.7/32", "20.0.0.0/7",     "30.1.0.0/16",
    "30.3.0.0/17",    "40.1.2.3",         "40.1.2.5/32",    "40.1.3.0/29",    "2001:db8::/32",
    "2a00:1:2:3::4",  "2a00:1:2:5::/65",  "3000::/4",       "2c00:1::80/121", "2001:db8:1::/48"};

/* What a source is: in a local range, on the list above, 203.0.113.9, in 10.0.0.0/8, of IPv4. */
enum { NEITHER, LOCAL = 1, LISTED = 2, NINE = 4, TEN = 8, FOUR = 16 };

/* The first and last addresses of local ranges, and of the list's prefixes; those beside them, and
 * others. */
static const struct {
    unsigned int is;
    const char *addresses[48];
} sources[] = {
    {LOCAL | TEN, {"10.0.0.0", "10.0.0.2", "10.255.255.255"}},
    {LOCAL,
     {"127.0.0.0", "127.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0",
      "192.168.255.255", "100.64.0.0", "100.127.255.255", "fd77::2", "fc00::1", "fdff:ffff::1",
      "::1"}},
    {LISTED,
     {"203.0.113.0",      "203.0.113.8",  "203.0.113.255", "20.0.0.1",        "21.255.255.255",
      "30.1.0.0",         "30.1.255.255", "30.3.127.255",  "40.1.2.3",        "40.1.2.5",
      "40.1.3.7",         "2001:db8::1",  "2001:db8:5::9", "2001:db8:ffff::", "2a00:1:2:3::4",
      "2a00:1:2:5::ffff", "3000::1",      "3fff:ffff::1",  "2c00:1::80",      "2c00:1::ff"}},
    {LISTED | NINE, {"203.0.113.9"}},
    {NEITHER,
     {"9.255.255.255", "11.0.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0",
      "192.167.255.255", "192.169.0.0", "100.63.255.255", "100.128.0.0", "1.1.1.1", "8.8.8.8"}},
    {NEITHER,
     {"192.0.2.7", "223.255.255.1", "32.1.13.184", "203.0.112.255", "203.0.114.0", "22.0.0.0",
      "19.255.255.255", "30.2.0.0", "30.3.128.0", "40.1.2.2", "40.1.2.4", "40.1.3.8"}},
    {NEITHER,
     {"fbff::1", "fe00::1", "fe80::1", "febf::1", "fec0::1", "fe7f::1", "2001:db9::1",
      "2001:db7:ffff::1", "2a00:1:2:3::5", "2a00:1:2:4::4", "2a00:1:2:5:8000::1", "4000::1",
      "2c00:1::7e", "2c00:1::100"}},
};

/* Which of them may ask a private address of the server, and which a public one. */
static const struct allow {
    const char *what;
    const char *prefixes[COUNT(listed)];
    bool all, with_local;
    unsigned int to_private, to_public;
} allows[] = {
    {"without allow=", {NULL}, false, true, LOCAL, 0},
    {"with allow=all", {NULL}, true, false, UINT32_MAX, UINT32_MAX},
    {"with an empty list", {NULL}, false, false, 0, 0},
    {"with 0.0.0.0/0", {"0.0.0.0/0"}, false, false, FOUR, FOUR},
    {"with a list and `local`", {"203.0.113.9"}, false, true, LOCAL | NINE, NINE},
    {"with a private prefix", {"10.0.0.0/8"}, false, false, TEN, TEN},
};
static struct allow by_list = {"with a list", {NULL}, false, false, LISTED, LISTED};

/* Whether exactly those that may are answered; counts them. */
static bool try_source(struct lab *lab, const char *source, const char *to, bool allowed,
                       unsigned int *n)
{
    *n += allowed;
    if (from_to(lab, source, to, allowed))
        return true;
    diag("%s is not %s", source, allowed ? "answered" : "passed");
    return false;
}

static void try_sources(struct lab *lab, const struct allow *allow, bool v6, bool to_public)
{
    unsigned int may = to_public ? allow->to_public : allow->to_private, n = 0;
    const char *to = !to_public ? NULL : v6 ? public6 : public4;
    bool right = true;

    for (size_t i = 0; i < COUNT(sources); i++) {
        bool allowed = ((sources[i].is | (v6 ? 0 : FOUR)) & may) || may == UINT32_MAX;

        for (const char *const *source = sources[i].addresses; *source; source++)
            if (v6 == (strchr(*source, ':') != NULL))
                right &= try_source(lab, *source, to, allowed, &n);
    }
    ok(right, "%s: of sources of IPv%d, %u may ask a %s address, and no others", allow->what,
       v6 ? 6 : 4, n, to_public ? "public" : "private");
}

static void test_allow(const struct allow *allow)
{
    struct guard guard = {
        .loader = {.allow = allow->all ? MC_ALLOW_ALL : MC_ALLOW_LIST, .local = allow->with_local}};
    struct prefix prefixes[COUNT(listed)];
    struct lab lab;
    size_t n;

    for (n = 0; n < COUNT(listed) && allow->prefixes[n]; n++)
        prefixes[n] = prefix_of(allow->prefixes[n]);
    if (allow == allows)
        guard.loader = (struct loader_guard){0};
    else if (!allow->all && guard_list(&guard, prefixes, n))
        abort();
    open_lab(&lab, &guard.loader);
    for (unsigned int i = 0; i < 8; i++) {
        lab_use(&lab, i / 4 ? LOADER_TC : LOADER_XDP);
        try_sources(&lab, allow, i & 1, i & 2);
    }
    lab_close(&lab);
    if (guard.list)
        guard_fini(&guard);
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
    size_t i, in = 0;
    bool right = true;

    for (i = 0; i < PROBES && right; i++) {
        uint32_t source = probe_of(near, MANY);
        bool held = is_held(prefixes, 2 * MANY, source);

        in += held;
        right = !is_plain(source) || from(lab, ip4(source), held);
    }
    ok(right && in > PROBES / 4 && in < PROBES * 7 / 8,
       "10,000 prefixes%s: %zu addresses in them are answered and %zu others are not", what, in,
       i - in);
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
    char source[INET6_ADDRSTRLEN];
    size_t i, in = 0;
    bool right = true;

    for (i = 0; i < PROBES && right; i++) {
        struct prefix probe = probe6_of(prefixes, MANY);
        uint64_t words[2] = {htobe64(probe.high), htobe64(probe.low)};
        bool held = false;

        for (size_t j = 0; j < MANY && !held; j++)
            held = prefix_holds(&prefixes[j], &probe);
        in += held;
        right = from(lab, inet_ntop(AF_INET6, words, source, sizeof(source)), held);
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

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void test_burst(struct lab *lab)
{
    const uint32_t number = LAB_CLIENT + 100 * lab->program;
    char source[16], other[16];
    double start = now();
    struct frame frame;
    unsigned int i;
    bool right = true;

    snprintf(source, sizeof(source), "%s", ip4(number));
    snprintf(other, sizeof(other), "%s", ip4(number + 1));
    ok(burst_of(lab, source, 20) == 20, "a burst of 20 requests is answered");
    frame_from(&frame, source);
    /* A second refills one request. */
    i = burst_of(lab, source, 20);
    ok(i <= now() - start && lab_passes(lab, &frame, MC_COUNT_PASS_RATE),
       "after the burst requests are passed");
    ok(lab_right(lab, &(struct lab_case){SEND("get hit none hit\r\n"), FROM(source), PASS(RATE)}),
       "a get of several keys is one request");
    for (i = 0; i < 30; i++)
        right &= lab_right(
            lab, &(struct lab_case){SEND("set hit 0 0 1\r\nx\r\n"), FROM(other), PASS(COMMAND)});
    ok(right && burst_of(lab, other, 20) == 20,
       "another source has a limit of its own, and passed requests do not count");
    while (!is_answered(lab, source) && now() - start <= 60)
        ;
    ok(now() - start < 60, "with time the first source is answered again");
}

/* A minute refills less than one request. */
static void test_sources6(void)
{
    static const struct loader_guard all = {.allow = MC_ALLOW_ALL, .rate = 1, .burst = 50};
    unsigned int first, second;
    struct lab lab;

    open_lab(&lab, &all);
    first = burst_of(&lab, "2001:db8:0:1::1", 40);
    second = burst_of(&lab, "2001:db8:0:1:8000::2", 40);
    ok(first == 40 && second >= 10 && second < 40, "a /64 of public IPv6 shares one limit");
    ok(burst_of(&lab, "2001:db8:0:2::1", 40) == 40, "another /64 has a limit of its own");
    ok(burst_of(&lab, "fd77::1", 40) == 40 && burst_of(&lab, "fd77::2", 40) == 40 &&
           burst_of(&lab, "fe80::1", 40) == 40 && burst_of(&lab, "fe80::2", 40) == 40,
       "each local IPv6 address has a limit of its own");
    lab_close(&lab);
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

    frame_from(&frame, NULL);
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
    lab.item->flags |= MC_ITEM_CHUNKED;
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
        answered += is_answered(&lab, NULL);
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
    bool right = from(lab, source, true) && from(lab, other, false);

    lab->program = LOADER_TC;
    loader_set_tc(lab->loader, true, true);
    right &= from(lab, source, true) && from(lab, other, false);
    lab->program = LOADER_XDP;
    loader_set_tc(lab->loader, true, false);
    return right;
}

static void test_reload_limits(struct lab *lab, struct guard *guard, const char *source)
{
    struct frame frame;
    unsigned int n;

    frame_from(&frame, source);
    guard->loader.amplification = 1;
    replace(lab, guard, source, false);
    ok(lab_passes(lab, &frame, MC_COUNT_PASS_AMPLIFICATION),
       "amplification= counts once it is set");
    guard->loader.amplification = 0;
    guard->loader.rate = 1;
    guard->loader.burst = 1000000;
    replace(lab, guard, source, false);
    ok(is_answered(lab, source), "a bucket of a million is used");
    guard->loader.burst = 10;
    replace(lab, guard, source, false);
    n = burst_of(lab, source, 30);
    ok(n >= 9 && n < 30, "rate= counts once it is set (%u were answered)", n);
    guard->loader.rate = 0;
    replace(lab, guard, source, false);
    ok(burst_of(lab, source, 30) == 30, "and not once it is removed");
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

/* Whether the largest value is answered whose reply is `times` the request, and no larger one. */
static bool boundary(struct lab *lab, unsigned int times, const char *text)
{
    static char value[2048], reply[4096];
    size_t room = (MC_UDP_HEADER + strlen(text)) * times - MC_UDP_HEADER, nvalue = 0;
    bool right;

    while (reply_of(reply, sizeof(reply), nvalue + 1) <= room)
        nvalue++;
    memset(value, 'v', sizeof(value));
    lab_clear(lab);
    lab_put(lab, "large", 5, value, nvalue);
    right = reply_of(reply, sizeof(reply), nvalue) == room && lab_replies(lab, text, reply);
    lab_clear(lab);
    lab_put(lab, "large", 5, value, nvalue + 1);
    return right && lab_leaves(lab, text, MC_COUNT_PASS_AMPLIFICATION);
}

static void test_three_times(struct lab *lab)
{
    ok(boundary(lab, 3, "get large\r\n") && boundary(lab, 3, "get no large none\r\n"),
       "amplification=3: replies up to three times the request are answered, for one key and "
       "several");
}

static void test_thirty_times(struct lab *lab)
{
    ok(boundary(lab, 30, "get large\r\n") && boundary(lab, 30, "get no large none\r\n"),
       "amplification=30: replies up to thirty times the request are answered");
}

/* --- all protocols, and misses -------------------------------------------------------- */

#define BINARY(opcode, nkey, key)                                                                  \
    "\x80" opcode "\0" nkey "\0\0\0\0\0\0\0" nkey "\0\0\0\0\0\0\0\0\0\0\0\0" key

static const struct {
    const char *name;
    struct lab_bytes text;
} verbs[] = {
    {"gets", LAB_BYTES("gets hit\r\n")},
    {"mg", LAB_BYTES("mg hit v\r\n")},
    {"a binary get", LAB_BYTES(BINARY("\0", "\3", "hit"))},
};

/* The source may send 20 requests. */
static void test_verbs(struct lab *lab)
{
    for (size_t i = 0; i < COUNT(verbs); i++) {
        uint32_t number = LAB_CLIENT + 10 + 100 * lab->program + (uint32_t)i;
        struct lab_case row = {.send = {verbs[i].text}, FROM("8.8.8.8"), PASS(ALLOW)};
        struct frame frame;
        unsigned int n = 0;
        bool right = lab_right(lab, &row);

        row.from = ip4(number);
        lab_frame(&frame, &row);
        right &= lab_is_answered(lab, &frame);
        ok(right, "%s: allow= is the same", verbs[i].name);
        while (n < 40 && lab_is_answered(lab, &frame))
            n++;
        ok(n >= 19 && n < 39 && lab_passes(lab, &frame, MC_COUNT_PASS_RATE),
           "%s: rate= is the same", verbs[i].name);
    }
}

/* The shortest request of each kind, and one whose key is as long as "Not found". */
static const struct {
    const char *name;
    struct lab_bytes text;
    int more; /* bytes that a miss has more than its request, 0: none */
} misses[] = {
    {"get", LAB_BYTES("get a\n"), 0},
    {"gets", LAB_BYTES("gets a\n"), 0},
    {"mg", LAB_BYTES("mg a v\n"), 0},
    {"a binary Get", LAB_BYTES(BINARY("\0", "\1", "a")), 8},
    {"a binary Get of nine bytes", LAB_BYTES(BINARY("\0", "\t", "abcdefghi")), 0},
    {"a binary GetK", LAB_BYTES(BINARY("\x0c", "\1", "a")), 0},
};

/* For every kind of miss, by its UDP header, how many bytes more than its request it has. */
static void test_misses(struct lab *lab)
{
    for (size_t i = 0; i < COUNT(misses); i++) {
        struct frame frame, out;
        int more;

        frame_request(&frame, misses[i].text.at, misses[i].text.n);
        lab_run(lab, lab->program, &frame, &out);
        more = (out.bytes[38] << 8 | out.bytes[39]) - (frame.bytes[38] << 8 | frame.bytes[39]);
        ok(lab_is_answered(lab, &frame) && (misses[i].more ? more == misses[i].more : more <= 0),
           "%s: a miss has at most %d bytes more than its request", misses[i].name, misses[i].more);
    }
}

/* With amplification=1 no reply is larger than its request. */
static void test_once(struct lab *lab)
{
    ok(lab_replies(lab, "get a\r\n", "END\r\n"), "amplification=1: a miss is answered");
    ok(lab_leaves(lab, GET_HIT, MC_COUNT_PASS_AMPLIFICATION),
       "amplification=1: a hit longer than its request is passed");
    for (size_t i = 0; i < COUNT(verbs); i++)
        ok(lab_right(lab, &(struct lab_case){.send = {verbs[i].text}, PASS(AMPLIFICATION)}),
           "%s: amplification= is the same", verbs[i].name);
    for (size_t i = 0; i < COUNT(misses); i++) {
        struct frame frame;

        frame_request(&frame, misses[i].text.at, misses[i].text.n);
        ok(misses[i].more ? lab_passes(lab, &frame, MC_COUNT_PASS_AMPLIFICATION)
                          : lab_is_answered(lab, &frame),
           "amplification=1: a miss of %s is %s", misses[i].name,
           misses[i].more ? "passed" : "answered");
    }
}

static void test_rates(struct lab *lab)
{
    test_burst(lab);
    test_verbs(lab);
}

int main(void)
{
    memcpy(by_list.prefixes, listed, sizeof(listed));
    test_allow(&by_list);
    for (size_t i = 0; i < COUNT(allows); i++)
        test_allow(&allows[i]);
    test_both(&(struct loader_guard){0}, test_misses);
    test_sources6();
    test_many();
    test_reload();
    test_both(&(struct loader_guard){.rate = 1, .burst = 20}, test_rates);
    test_two_cpus();
    test_time();
    test_both(&(struct loader_guard){.amplification = 1}, test_once);
    test_both(&(struct loader_guard){.amplification = 3}, test_three_times);
    test_both(&(struct loader_guard){.amplification = 30}, test_thirty_times);
    return done();
}
