/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts on which the benchmarks' figures depend: the histogram, the choice of keys, keys and
 * replies. */
#include <math.h>
#include <string.h>

#include "bench/hist.h"
#include "bench/items.h"
#include "bench/keys.h"
#include "bench/pick.h"
#include "bench/versions.h"
#include "bench/workload.h"
#include "t/lib/tap.h"

static bool near(double value, double wanted, double share)
{
    return fabs(value - wanted) <= wanted * share;
}

static void test_histogram(void)
{
    struct hist *hist = calloc(2, sizeof(*hist));

    ok(hist_quantile(hist, 0.5) == 0, "an empty histogram has no median");
    for (uint64_t i = 1; i <= 1000000; i++)
        hist_add(&hist[i & 1], i);
    hist_merge(hist, hist + 1);
    ok(hist->count == 1000000 && hist->max == 1000000,
       "merging two histograms keeps count and maximum");
    ok(near((double)hist_quantile(hist, 0.5), 500000, 0.01), "the median is within a percent");
    ok(near((double)hist_quantile(hist, 0.99), 990000, 0.01), "p99 is within a percent");
    ok(hist_quantile(hist, 1) == 1000000, "the last quantile is the maximum");
    hist_add(hist, UINT64_MAX);
    ok(hist_quantile(hist, 1) == UINT64_MAX, "the largest number has a bucket");
    free(hist);
}

static void test_choice(void)
{
    enum { KEYS = 1000, DRAWS = 1000000 };
    uint32_t *seen = calloc(KEYS, sizeof(*seen));
    struct pick pick;
    double harmonic = 0;
    uint32_t least = DRAWS;

    for (int i = 1; i <= KEYS; i++)
        harmonic += pow(i, -0.99);
    pick_init(&pick, PICK_ZIPF, KEYS, 0.99, 1);
    for (int i = 0; i < DRAWS; i++)
        seen[pick_next(&pick)]++;
    ok(near(seen[0], DRAWS / harmonic, 0.02), "zipf draws the first key at its expected frequency");
    ok(near(seen[9], DRAWS / harmonic * pow(10, -0.99), 0.05),
       "zipf draws the tenth key at its expected frequency");
    memset(seen, 0, KEYS * sizeof(*seen));
    pick_init(&pick, PICK_UNIFORM, KEYS, 0, 1);
    for (int i = 0; i < DRAWS; i++)
        seen[pick_next(&pick)]++;
    for (int i = 0; i < KEYS; i++)
        least = seen[i] < least ? seen[i] : least;
    ok(least > 0.8 * DRAWS / KEYS, "uniform draws every key with about the same frequency");
    free(seen);
}

static void test_items(void)
{
    struct items items;
    char text[256];
    size_t n;

    items_init(&items, 16, 3);
    n = items_get(&items, 0x12, text);
    ok(n == 22 && memcmp(text, "get kkkkkkkkaaaaaabc\r\n", n) == 0, "a get names the key");
    items.touch = true;
    n = items_get(&items, 0x12, text);
    ok(n == 24 && memcmp(text, "gat 0 kkkkkkkkaaaaaabc\r\n", n) == 0, "a gat as well");
    n = items_reply(&items, 1, 0, text);
    ok(n == 38 && memcmp(text, "VALUE kkkkkkkkaaaaaaab 0 3\r\nbcd\r\nEND\r\n", n) == 0,
       "a reply has the value of its key");
    items_key(&items, 1 | BENCH_MISS, text);
    ok(memcmp(text, "kkkkkkkkiaaaaaab", 16) == 0, "a key for misses is not among the stored keys");
    items_fini(&items);
}

static void test_parts(void)
{
    static char text[ITEMS_TEXT_MAX], room[ITEMS_TEXT_MAX];
    struct items items;
    int version = -1;
    size_t n;

    items_init(&items, 16, 100);
    n = items_reply(&items, 7, 30, text);
    ok(n == items_reply_length(&items, 7), "a reply's length is known without it");
    ok(items_is_part(&items, 7, 0, text, n, room, &version) && version == 30 % ITEMS_VERSIONS,
       "a reply shows its version");
    version = -1;
    ok(items_is_part(&items, 7, 60, text + 60, 20, room, &version) && version == 4,
       "and so does a part of it");
    ok(!items_is_part(&items, 7, 20, text + 21, 20, room, &version), "which is no other part");
    version = 5;
    ok(!items_is_part(&items, 7, 60, text + 60, 20, room, &version),
       "a reply of two versions is wrong");
    version = -1;
    text[70] ^= 1;
    ok(!items_is_part(&items, 7, 0, text, n, room, &version), "and one with a wrong byte");
    version = -1;
    ok(!items_is_part(&items, 8, 60, text + 60, 50, room, &version), "or longer than it should be");
    items_fini(&items);
}

static void test_versions(void)
{
    struct versions versions;
    uint32_t version, looked;

    versions_init(&versions, 2, true);
    looked = versions_look(&versions, 1);
    ok(versions_may_be(&versions, 1, looked, 0, 26) &&
           !versions_may_be(&versions, 1, looked, 1, 26),
       "a key has its first value until a write begins");
    ok(versions_begin(&versions, 1, &version) && version == 1 &&
           !versions_begin(&versions, 1, &version),
       "one write of a key follows the other");
    ok(versions_may_be(&versions, 1, versions_look(&versions, 1), 0, 26) &&
           versions_may_be(&versions, 1, looked, 1, 26),
       "while it is written either value is right");
    versions_end(&versions, 1);
    ok(versions_may_be(&versions, 1, looked, 0, 26) &&
           !versions_may_be(&versions, 1, versions_look(&versions, 1), 0, 26),
       "a get that left after the acknowledgement must not see the value before");
    for (int i = 0; i < 26; i++) {
        versions_begin(&versions, 1, &version);
        versions_end(&versions, 1);
    }
    ok(version == 27 && versions_may_be(&versions, 1, 27, 1, 26) &&
           !versions_may_be(&versions, 1, 27, 0, 26),
       "versions are known by their remainders");
    versions_begin(&versions, 0, &version);
    versions_lose(&versions, 0);
    ok(versions_may_be(&versions, 0, versions_look(&versions, 0), 9, 26),
       "after a write whose reply is lost any value is right");
    versions_fini(&versions);
    versions_init(&versions, 1, false);
    looked = versions_look(&versions, 0);
    versions_begin(&versions, 0, &version);
    versions_end(&versions, 0);
    ok(versions_may_be(&versions, 0, looked, 9, 26) &&
           !versions_may_be(&versions, 0, versions_look(&versions, 0), 9, 26),
       "a value of another run is right until a write of this one is acknowledged");
    versions_fini(&versions);
}

static void test_workloads(void)
{
    enum { KEYS = 400000 };
    const struct workload *etc = workload_of("etc"), *usr = workload_of("usr");
    double keys = 0, shorter = 0, eleven = 0, sixteen = 0, over = 0;
    struct items items;

    for (uint32_t i = 0; i < KEYS; i++) {
        size_t value = workload_value(etc, 1, i);

        keys += (double)workload_key(etc, 1, i);
        shorter += value < 15;
        eleven += value == 11;
        over += value > 230; /* the median of the Pareto part: 15 + 616 * (2^0.348 - 1) is 183 */
        sixteen += workload_key(usr, 1, i) == 16;
    }
    /* The mean of the extreme value distribution is that of ETC's keys, less what is cut off. */
    ok(near(keys / KEYS, 36.0, 0.02), "keys of ETC have the mean of their distribution");
    ok(near(shorter / KEYS, 0.44155, 0.01) && near(eleven / KEYS, 0.08989, 0.03),
       "short values of ETC are as frequent as published");
    ok(near(over / KEYS, 0.55845 * pow(1 + 0.348238 * 216 / 214.476, -1 / 0.348238), 0.02),
       "its long values have their generalised Pareto distribution");
    ok(near(sixteen / KEYS, 0.5, 0.01), "half of the keys of USR have 16 bytes");
    items_init_workload(&items, etc, 1);
    ok(items_length(&items, 5) == workload_value(etc, 1, 5) &&
           workload_value(etc, 1, 5) != workload_value(etc, 2, 5),
       "a key's sizes are those of its index and the seed");
    items_fini(&items);
    ok(workload_of("twitter-52")->value == 273 && !workload_of("twitter-53"),
       "a workload has a name");
}

int main(void)
{
    test_parts();
    test_versions();
    test_workloads();
    test_histogram();
    test_choice();
    test_items();
    return done();
}
