/* SPDX-License-Identifier: BSD-3-Clause */
/* Which items are evicted when memory is short, and what the maintainer moves. */
#include "store/internal.h"
#include "store/store_tuning.h"
#include "t/unit/store_fixture.h"

enum {
    NOW = 100,
    BIG = 66560, /* twelve values of that size fill a page, */
    FEW = 900,   /* and of this one a thousand; */
    FLOOD = 400, /* so many of them are more than a round of the maintainer moves from hot */
    ROUNDS = 60,
};

static void open_small(struct fixture *f, struct store_config *config, uint64_t megabytes)
{
    fixture_defaults(config);
    config->memory_limit = megabytes << 20;
    fixture_open(f, config);
}

/* Stores a value of n bytes under "PREFIX-NUMBER". */
static enum store_result put_sized(struct fixture *f, const char *prefix, unsigned int number,
                                   size_t n, rel_time expiry, rel_time now)
{
    char name[64];
    struct slice key = {name, (size_t)sprintf(name, "%s-%u", prefix, number)};
    enum store_result result;
    struct mc_item *item = store_reserve(f->local, key, 0, expiry, n, now, &result);

    if (!item)
        return result;
    memset((char *)item_at(f->local, item, 0).ptr, 'x', n);
    return store_commit(f->local, item, STORE_SET, 0, now, NULL);
}

static bool is_there(struct fixture *f, const char *prefix, unsigned int number, rel_time now)
{
    char name[64];
    struct slice key = {name, (size_t)sprintf(name, "%s-%u", prefix, number)};
    struct mc_item *item = store_get(f->local, key, now);

    if (item)
        store_put(f->local, item);
    return item != NULL;
}

static struct store_stats stats_of(struct fixture *f)
{
    struct store_stats stats;

    store_stats(f->store, &stats);
    return stats;
}

static struct store_class_stats class_of(struct fixture *f, unsigned int clsid, rel_time now)
{
    struct store_class_stats stats;

    store_class_stats(f->store, clsid, now, &stats);
    return stats;
}

static void test_one_eviction_for_each_set(bool segmented)
{
    struct store_config config;
    struct fixture f;
    unsigned int stored = 0;

    fixture_defaults(&config);
    config.memory_limit = 3 << 20;
    config.tuning.lru_segmented = segmented;
    fixture_open(&f, &config);
    while (stats_of(&f).evictions == 0)
        put_sized(&f, "big", stored++, BIG, 0, NOW);
    ok(stored == 37, "36 values of 66560 bytes fit into 3 megabytes");
    for (unsigned int i = 0; i < 39; i++)
        put_sized(&f, "big", stored++, BIG, 0, NOW);
    ok(stats_of(&f).evictions == 40 && class_of(&f, 31, NOW).evicted == 40,
       "each set into full memory evicts one item, of class 31");
    ok(!is_there(&f, "big", 39, NOW) && is_there(&f, "big", 40, NOW),
       "the items that were stored first are evicted");
    ok(stats_of(&f).evicted_unfetched == 40, "the evicted items were never read");
    fixture_close(&f);
}

static void test_read_items_stay(bool segmented)
{
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    config.memory_limit = 2 << 20;
    config.tuning.lru_segmented = segmented;
    fixture_open(&f, &config);
    put_sized(&f, "read", 0, BIG, 0, NOW);
    put_sized(&f, "once", 0, BIG, 0, NOW);
    is_there(&f, "once", 0, NOW);
    for (unsigned int i = 0; i < 500; i++) {
        is_there(&f, "read", 0, NOW);
        put_sized(&f, "new", i, BIG, 0, NOW);
    }
    ok(is_there(&f, "read", 0, NOW) && !is_there(&f, "once", 0, NOW),
       "%s: an item that is read again and again outlives 500 others, one read once does not",
       segmented ? "segmented" : "flat");
    fixture_close(&f);
}

static uint64_t in_segment(struct fixture *f, enum lru_segment segment)
{
    return f->store->lrus[31].lists[segment].nitems;
}

static void open_s3_fifo(struct fixture *f, struct store_config *config)
{
    fixture_defaults(config);
    config->memory_limit = 2 << 20;
    config->s3_fifo = true;
    fixture_open(f, config);
}

static void test_s3_fifo(struct fixture *f)
{
    put_sized(f, "read", 0, BIG, 0, NOW);
    is_there(f, "read", 0, NOW);
    for (unsigned int i = 0; i < 500; i++)
        put_sized(f, "new", i, BIG, 0, NOW);
    ok(in_segment(f, LRU_COLD) == 1 && in_segment(f, LRU_HOT) == 23 && is_there(f, "read", 0, NOW),
       "S3-FIFO: an item that was read once outlives 500 others, in cold");
    put_sized(f, "never", 0, BIG, 0, NOW);
    ok(in_segment(f, LRU_COLD) == 1, "a new one begins in hot");
    put_sized(f, "new", 476, BIG, 0, NOW);
    ok(in_segment(f, LRU_COLD) == 2, "one that comes back soon after its eviction in cold");
    put_sized(f, "new", 476, BIG, 0, NOW);
    put_sized(f, "never", 0, BIG, 0, NOW);
    ok(in_segment(f, LRU_COLD) == 2, "a new value stays in the segment of the old one");
    store_set_lru_segmented(f->store, false);
    maintainer_round(f->store, NOW);
    for (unsigned int i = 0; i < 500; i++)
        put_sized(f, "flat", i, BIG, 0, NOW);
    ok(in_segment(f, LRU_HOT) == 0 && !is_there(f, "new", 476, NOW),
       "the flat mode goes before it");
}

/* Most of the memory is full of what was read; then other items are read. */
static void test_s3_fifo_main_queue(struct fixture *f)
{
    unsigned int kept = 0, old = 0;

    for (unsigned int i = 0; i < 40; i++) {
        put_sized(f, "a", i, BIG, 0, NOW);
        is_there(f, "a", i, NOW);
    }
    for (unsigned int i = 30; i < 36; i++)
        is_there(f, "a", i, NOW);
    for (unsigned int i = 0; i < 40; i++) {
        put_sized(f, "b", i, BIG, 0, NOW);
        is_there(f, "b", i, NOW);
        for (unsigned int j = 30; i % 4 == 0 && j < 36; j++)
            is_there(f, "a", j, NOW);
    }
    for (unsigned int i = 0; i < 40; i++)
        *(i >= 30 && i < 36 ? &kept : &old) += is_there(f, "a", i, NOW);
    ok(kept == 6 && old == 0, "in cold, what is read again stays and the rest leaves in turn");
    ok(in_segment(f, LRU_WARM) == 0, "warm is not used");
    maintainer_round(f->store, NOW);
    ok(stats_of(f).curr_items == 24, "the maintainer evicts nothing");
}

/* Marks the key's slot as the kernel does. */
static void kernel_mark(struct fixture *f, struct slice key)
{
    uint64_t hash = hash_key(f->store->control, key);
    struct lock *stripe = table_stripe(&f->store->table, hash);
    struct table_spot spot;

    lock_take(stripe, LOCK_STRIPE);
    if (table_find(&f->store->table, hash, key, &spot))
        fixture_kernel_read(spot.bucket, spot.slot);
    lock_release(stripe, LOCK_STRIPE);
}

static void test_kernel_marks_s3_fifo(struct fixture *f)
{
    put_sized(f, "kernel", 0, BIG, 0, NOW);
    kernel_mark(f, SLICE("kernel-0"));
    for (unsigned int i = 0; i < 500; i++)
        put_sized(f, "new", i, BIG, 0, NOW);
    ok(in_segment(f, LRU_COLD) == 1 && is_there(f, "kernel", 0, NOW),
       "S3-FIFO: an item that the kernel has served once goes to cold");
}

static void test_kernel_marks(struct fixture *f)
{
    put_sized(f, "kernel", 0, BIG, 0, NOW);
    for (unsigned int i = 0; i < 500; i++) {
        kernel_mark(f, SLICE("kernel-0"));
        put_sized(f, "new", i, BIG, 0, NOW);
    }
    ok(is_there(f, "kernel", 0, NOW), "an item that only the kernel serves is not evicted");
    for (unsigned int i = 0; i < 500; i++) {
        put_sized(f, "new", i, BIG, 0, NOW + i);
        maintainer_round(f->store, NOW + i);
    }
    ok(!is_there(f, "kernel", 0, NOW + 500), "an item that the kernel no longer serves is evicted");
}

/* Whether an item that was read so often is there when the first item is evicted. */
static bool outlives(unsigned int kernel, unsigned int server, bool server_first)
{
    struct store_config config;
    unsigned int i, stored = 0;
    struct fixture f;
    bool lives;

    fixture_defaults(&config);
    config.memory_limit = 2 << 20;
    config.tuning.lru_segmented = false;
    fixture_open(&f, &config);
    put_sized(&f, "read", 0, BIG, 0, NOW);
    for (i = 0; server_first && i < server; i++)
        is_there(&f, "read", 0, NOW);
    for (i = 0; i < kernel; i++)
        kernel_mark(&f, SLICE("read-0"));
    for (i = 0; !server_first && i < server; i++)
        is_there(&f, "read", 0, NOW);
    while (stats_of(&f).evictions == 0)
        put_sized(&f, "new", stored++, BIG, 0, NOW);
    lives = is_there(&f, "read", 0, NOW);
    fixture_close(&f);
    return lives;
}

static void test_reads_count_the_same(void)
{
    ok(!outlives(0, 1, false) && !outlives(1, 0, false),
       "one read, by the server or by the kernel, does not keep an item from eviction");
    ok(outlives(0, 2, false) && outlives(2, 0, false) && outlives(3, 0, false),
       "two reads do, by the server or by the kernel");
    ok(outlives(1, 1, false) && outlives(1, 1, true), "so does one read by each");
}

/* More is stored between two rounds than a round moves from one LRU segment. */
static void test_warm_beside_a_flood(struct fixture *f)
{
    unsigned int stored = 0, clsid;
    const struct lru *lru;
    struct mc_item *item;
    rel_time now;

    put_sized(f, "read", 0, FEW, 0, NOW);
    is_there(f, "read", 0, NOW);
    item = store_get(f->local, SLICE("read-0"), NOW);
    clsid = lru_class_of(item);
    store_put(f->local, item);
    lru = &f->store->lrus[clsid];
    for (now = NOW; stats_of(f).evictions == 0; now++) {
        for (unsigned int i = 0; i < FLOOD; i++)
            put_sized(f, "new", stored++, FEW, 0, now);
        maintainer_round(f->store, now);
    }
    ok(lru->lists[LRU_WARM].nitems == 1, "an item that was read is in warm when memory is full");
    for (rel_time end = now + ROUNDS; now < end; now++) {
        for (unsigned int i = 0; i < FLOOD; i++)
            put_sized(f, "new", stored++, FEW, 0, now);
        maintainer_round(f->store, now);
    }
    ok(lru->lists[LRU_WARM].nitems == 0 && lru->lists[LRU_HOT].nitems > 0 &&
           !is_there(f, "read", 0, now),
       "it is evicted, while hot has more than a round moves");
}

static void test_held_items(struct fixture *f)
{
    struct mc_item *held;

    put_sized(f, "held", 0, BIG, 0, NOW);
    held = store_get(f->local, SLICE("held-0"), NOW);
    for (unsigned int i = 0; i < 100; i++)
        put_sized(f, "new", i, BIG, 0, NOW);
    ok(stats_of(f).curr_items == 12 && item_at(f->local, held, 0).ptr[BIG - 1] == 'x' &&
           is_there(f, "held", 0, NOW),
       "a held item is skipped, and does not stop eviction");
    store_put(f->local, held);
}

static void test_all_held(struct fixture *f)
{
    struct mc_item *held[12];
    enum store_result result = STORE_DONE;
    bool all = true;

    for (unsigned int i = 0; i < 12; i++) {
        char name[32];

        put_sized(f, "h", i, BIG, 0, NOW);
        held[i] = store_get(f->local, (struct slice){name, (size_t)sprintf(name, "h-%u", i)}, NOW);
    }
    result = put_sized(f, "new", 0, BIG, 0, NOW);
    ok(result == STORE_NO_MEMORY && class_of(f, 31, NOW).outofmemory == 1,
       "with all items held a set is refused");
    for (unsigned int i = 0; i < 12; i++) {
        all &= is_there(f, "h", i, NOW);
        store_put(f->local, held[i]);
    }
    ok(all && put_sized(f, "new", 0, BIG, 0, NOW) == STORE_DONE,
       "a set succeeds when the items are released");
}

static void test_no_evictions(void)
{
    struct store_config config;
    struct fixture f;
    unsigned int n = 0;
    bool all = true;

    fixture_defaults(&config);
    config.memory_limit = 2 << 20;
    config.evict = false;
    fixture_open(&f, &config);
    while (put_sized(&f, "m", n, BIG, 0, NOW) == STORE_DONE)
        n++;
    for (unsigned int i = 0; i < n; i++)
        all &= is_there(&f, "m", i, NOW);
    ok(n == 24 && all && stats_of(&f).evictions == 0,
       "-M refuses new items and keeps the old ones");
    ok(put_sized(&f, "m", 3, BIG, 0, NOW) == STORE_NO_MEMORY && is_there(&f, "m", 3, NOW),
       "a set that finds no memory keeps the older value");
    store_delete(f.local, SLICE("m-0"), 0, NOW);
    ok(put_sized(&f, "e", 0, BIG, NOW + 5, NOW) == STORE_DONE &&
           put_sized(&f, "e", 1, BIG, 0, NOW + 4) == STORE_NO_MEMORY,
       "a delete makes room");
    for (unsigned int i = 1; i < n; i++)
        store_touch(f.local, SLICE("m-1"), NOW + 5, NOW);
    ok(put_sized(&f, "e", 1, BIG, 0, NOW + 5) == STORE_DONE, "an expired item makes room");
    fixture_close(&f);
}

static void test_tiny_limits(void)
{
    bool fine = true;

    for (uint64_t megabytes = 1; megabytes <= 4; megabytes++) {
        struct store_config config;
        struct fixture f;

        open_small(&f, &config, megabytes);
        for (unsigned int round = 0; round < 3; round++) {
            for (size_t n = 1; n < 500000; n = n * 5 / 4 + 1)
                fine &= put_sized(&f, "t", (unsigned int)n, n, 0, NOW) == STORE_DONE &&
                        is_there(&f, "t", (unsigned int)n, NOW);
        }
        fixture_close(&f);
    }
    ok(fine, "with limits of 1 to 4 megabytes each class can store");
}

static void test_append_in_full_memory(struct fixture *f)
{
    bool fine = true;

    fixture_set(f, "log", "", NOW);
    for (unsigned int i = 0; i < 9000; i++) {
        put_sized(f, "fill", i, 40, 0, NOW);
        if (i % 1000 == 0)
            fine &= fixture_store(f->local, STORE_APPEND, SLICE("log"), SLICE("x"), 0, 0, NOW,
                                  NULL) == STORE_DONE;
        is_there(f, "fill", i, NOW);
    }
    ok(fine, "append finds memory when all is in use");
}

static void test_temporary(void)
{
    struct store_config config;
    struct fixture f;
    struct store_class_stats stats;

    fixture_defaults(&config);
    config.tuning.temp = true;
    fixture_open(&f, &config);
    put_sized(&f, "t", 0, 10, NOW + 61, NOW);
    put_sized(&f, "t", 1, 10, NOW + 62, NOW);
    put_sized(&f, "t", 2, 10, 0, NOW);
    stats = class_of(&f, 1, NOW);
    ok(stats.number_temp == 1 && stats.number_hot == 2,
       "items that expire soon go to the temporary LRU segment");
    maintainer_round(f.store, NOW + 61);
    ok(class_of(&f, 1, NOW).number_temp == 0, "expired items of the temporary segment are freed");
    put_sized(&f, "t", 3, 10, NOW + 100, NOW + 61);
    store_touch(f.local, SLICE("t-3"), 0, NOW + 61);
    maintainer_round(f.store, NOW + 61);
    stats = class_of(&f, 1, NOW);
    ok(stats.number_temp == 0 && is_there(&f, "t", 3, NOW + 200),
       "an item touched to a later expiry leaves the temporary segment");
    fixture_close(&f);
}

static void test_maintainer_balances(struct fixture *f)
{
    struct store_class_stats stats;

    for (unsigned int i = 10; i < 50; i++) {
        put_sized(f, "b", i, BIG, 0, NOW);
        if (i % 4 == 0) {
            is_there(f, "b", i, NOW);
            is_there(f, "b", i, NOW);
        }
    }
    ok(class_of(f, 31, NOW).number_hot == 40, "new items are hot");
    maintainer_round(f->store, NOW);
    stats = class_of(f, 31, NOW);
    ok(stats.number_hot == 8, "the maintainer leaves a fifth of them hot");
    ok(stats.number_warm == 8 && stats.number_cold == 24,
       "items that were read again become warm, the others cold");
    ok(stats.moves_to_warm == 8 && stats.moves_to_cold == 24, "moves between segments are counted");
    is_there(f, "b", 10, NOW);
    is_there(f, "b", 10, NOW);
    maintainer_round(f->store, NOW);
    ok(class_of(f, 31, NOW).number_warm == 9,
       "a cold item that is read again becomes warm at the tail");
    ok(class_of(f, 31, NOW).hits_to_cold == 2, "hits are counted by LRU segment");
    maintainer_round(f->store, NOW + 100);
    put_sized(f, "late", 0, BIG, 0, NOW + 100);
    maintainer_round(f->store, NOW + 130);
    ok(class_of(f, 31, NOW + 130).number_hot == 0,
       "an item is hot for at most a fifth of the age of the coldest");
}

/* Of threads that run and that have ended, since the last reset. */
static void test_hits_of_threads(struct fixture *f)
{
    struct store_local *other;

    put_sized(f, "b", 1, BIG, 0, NOW);
    is_there(f, "b", 1, NOW);
    other = store_local_new(f->store);
    store_put(other, store_get(other, fixture_slice("b-1"), NOW));
    ok(class_of(f, 31, NOW).hits_to_hot == 2, "the hits of all threads count");
    store_local_free(other);
    ok(class_of(f, 31, NOW).hits_to_hot == 2, "those of a thread that has ended, too");
    store_reset_stats(f->store);
    ok(class_of(f, 31, NOW).hits_to_hot == 0, "a reset sets the hits of a class to zero");
    is_there(f, "b", 1, NOW);
    ok(class_of(f, 31, NOW).hits_to_hot == 1, "from which they count on");
}

static uint64_t nsized(const struct fixture *f)
{
    uint64_t size = 0, count, sum = 0;

    while (store_size_count(f->store, &size, &count))
        sum += count;
    return sum;
}

static void test_moves_change_no_sizes(struct fixture *f)
{
    for (unsigned int i = 0; i < 10; i++)
        put_sized(f, "before", i, BIG, 0, NOW);
    store_track_sizes(f->store, true);
    for (unsigned int i = 0; i < 10; i++)
        put_sized(f, "since", i, BIG, 0, NOW);
    maintainer_round(f->store, NOW);
    ok(class_of(f, 31, NOW).moves_to_cold > 10,
       "items from before and after the start of size counting moved");
    ok(nsized(f) == 10, "only items stored since the start of size counting are counted");
}

static void test_flush_sweeps(struct fixture *f)
{
    struct store_stats stats;

    for (unsigned int i = 0; i < 1000; i++)
        put_sized(f, "s", i, 10, 0, NOW);
    store_flush(f->local, 0, NOW + 60);
    for (int i = 0; i < 5; i++)
        maintainer_round(f->store, NOW + 60);
    stats = stats_of(f);
    ok(stats.curr_items == 0 && stats.bytes == 0, "a sweep frees all flushed items");
    ok(f->store->flush.oldest == f->store->control->epoch, "a swept epoch can be used again");
}

static void test_thread(struct fixture *f)
{
    ok(store_maintainer_start(f->store) == 0 && store_maintainer_start(f->store) < 0,
       "the maintainer starts once");
    store_maintainer_stop(f->store);
    store_maintainer_stop(f->store);
    ok(store_maintainer_start(f->store) == 0, "the maintainer starts again after a stop");
    store_maintainer_stop(f->store);
}

/* Runs a test in a store of so many megabytes; 0: under S3-FIFO. */
static void in_small(void (*test)(struct fixture *f), uint64_t megabytes)
{
    struct store_config config;
    struct fixture f;

    if (megabytes)
        open_small(&f, &config, megabytes);
    else
        open_s3_fifo(&f, &config);
    test(&f);
    fixture_close(&f);
}

int main(void)
{
    test_one_eviction_for_each_set(true);
    test_one_eviction_for_each_set(false);
    test_read_items_stay(true);
    test_read_items_stay(false);
    in_small(test_s3_fifo, 0);
    in_small(test_s3_fifo_main_queue, 0);
    in_small(test_kernel_marks, 2);
    test_reads_count_the_same();
    in_small(test_warm_beside_a_flood, 2);
    in_small(test_kernel_marks_s3_fifo, 0);
    in_small(test_held_items, 1);
    in_small(test_all_held, 1);
    test_no_evictions();
    test_tiny_limits();
    in_small(test_append_in_full_memory, 1);
    test_temporary();
    in_small(test_maintainer_balances, 4);
    in_small(test_hits_of_threads, 4);
    in_small(test_moves_change_no_sizes, 4);
    with_fixture(test_flush_sweeps);
    with_fixture(test_thread);
    return done();
}
