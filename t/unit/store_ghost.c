/* SPDX-License-Identifier: BSD-3-Clause */
/* Which keys S3-FIFO remembers, and for how long. */
#include "store/ghost.h"

#include "store/hash.h"
#include "t/unit/store_fixture.h"

enum { CACHE = 64 << 20, NBUCKETS = 1 << 10, CELLS = NBUCKETS * GHOST_BUCKET_CELLS };

/* The hash of a key by its number: any bits. */
static uint64_t hash_of(uint64_t number)
{
    return mc_hash_end(number * 0x9e3779b97f4a7c15ull, 8);
}

static unsigned int count_known(struct ghost *ghost, uint64_t first, uint64_t n, uint32_t nbuckets)
{
    unsigned int known = 0;

    for (uint64_t i = first; i < first + n; i++)
        known += ghost_take(ghost, hash_of(i), nbuckets);
    return known;
}

static void test_one_key(void)
{
    struct ghost ghost;

    ok(ghost_init(&ghost, CACHE) == 0, "there is memory");
    ok(!ghost_take(&ghost, hash_of(1), NBUCKETS), "a key that was never evicted is not known");
    ghost_note(&ghost, hash_of(1), NBUCKETS);
    ok(ghost_take(&ghost, hash_of(1), NBUCKETS), "one that was is known");
    ok(!ghost_take(&ghost, hash_of(1), NBUCKETS), "once");
    ghost_note(&ghost, 5, NBUCKETS);
    ok(ghost_take(&ghost, 5, NBUCKETS), "a hash whose upper half is 0 is known as others are");
    ok(!ghost_take(&ghost, 5, NBUCKETS), "and forgotten as they are");
    ghost_fini(&ghost);
    ghost_note(&ghost, 1, NBUCKETS);
    ok(!ghost_take(&ghost, 1, NBUCKETS), "without memory no key is known");
}

static void test_how_long(void)
{
    struct ghost ghost;
    unsigned int young, old;

    ghost_init(&ghost, CACHE);
    for (uint64_t i = 0; i < 8 * CELLS; i++)
        ghost_note(&ghost, hash_of(i), NBUCKETS);
    young = count_known(&ghost, 8 * CELLS - CELLS / 8, CELLS / 8, NBUCKETS);
    old = count_known(&ghost, 0, 4 * CELLS, NBUCKETS);
    ok(young > CELLS / 8 * 8 / 10, "of the keys evicted last most are known");
    ok(old < 4 * CELLS / 20, "of those long before few are");
    ok(count_known(&ghost, 1 << 20, 8 * CELLS, NBUCKETS) == 0, "none that was never evicted is");
    ghost_fini(&ghost);
}

static void test_limit(void)
{
    struct ghost ghost;

    ghost_init(&ghost, 1 << 20);
    for (uint64_t i = 0; i < 100000; i++)
        ghost_note(&ghost, hash_of(i), UINT32_MAX);
    ok(count_known(&ghost, 0, 100000, UINT32_MAX) <= (1 << 20) / GHOST_SHARE,
       "a small cache has cells by its memory, however many buckets there are");
    ghost_fini(&ghost);
}

int main(void)
{
    test_one_key();
    test_how_long();
    test_limit();
    return done();
}
