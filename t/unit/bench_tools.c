/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts on which the benchmarks' figures depend: the histogram, the choice of keys, keys and
 * replies. */
#include <math.h>
#include <string.h>

#include "bench/hist.h"
#include "bench/items.h"
#include "bench/keys.h"
#include "bench/pick.h"
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
    n = items_reply(&items, 1, text);
    ok(n == 38 && memcmp(text, "VALUE kkkkkkkkaaaaaaab 0 3\r\nbcd\r\nEND\r\n", n) == 0,
       "a reply has the value of its key");
    items_key(&items, 1 | BENCH_MISS, text);
    ok(memcmp(text, "kkkkkkkkiaaaaaab", 16) == 0, "a key for misses is not among the stored keys");
    items_fini(&items);
}

int main(void)
{
    test_histogram();
    test_choice();
    test_items();
    return done();
}
