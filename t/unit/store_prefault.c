/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is mapped before it is needed. */
#include <errno.h>

#include "store/internal.h"
#include "store/prefault.h"
#include "t/unit/store_fixture.h"

enum { NOW = 100, PER_EXTENT = MC_TABLE_BUCKETS * TABLE_LOAD / 2 };

static void open_store(struct fixture *f, bool expand)
{
    struct store_config config;

    fixture_defaults(&config);
    config.memory_limit = 256 << 20;
    config.hashpower = TABLE_MIN_POWER;
    config.expand = expand;
    fixture_open(f, &config);
    /* As if the thread ran: the test calls its rounds. */
    f->store->slabs.prefault = f->store->table.prefault = &f->store->prefault;
}

static unsigned int store_some(struct fixture *f, unsigned int from, unsigned int to)
{
    unsigned int wrong = 0;
    char key[32];

    for (unsigned int i = from; i < to; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        wrong += fixture_set(f, key, "value", NOW) != STORE_DONE;
    }
    return wrong;
}

static unsigned int count_missing(struct fixture *f, unsigned int n)
{
    unsigned int missing = 0;
    char key[32];

    for (unsigned int i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        missing += !fixture_has(f, key, "value", NOW);
    }
    return missing;
}

static void test_table(void)
{
    struct fixture f;
    struct store_stats stats;
    unsigned int wrong;

    open_store(&f, true);
    wrong = store_some(&f, 0, 2 * PER_EXTENT);
    ok(wrong == 0 && table_nbuckets(&f.store->table) == MC_TABLE_BUCKETS && f.store->prefault.woken,
       "the table stops growing where it is not mapped, and wakes the prefault thread");
    store_stats(f.store, &stats);
    ok(stats.hash_is_expanding, "the statistics show that the table is to grow");
    ok(prefault_round(f.store) && f.store->table.nmain_extents == 3,
       "the prefault thread maps the table's next extent");
    wrong = store_some(&f, 2 * PER_EXTENT, 3 * PER_EXTENT);
    ok(wrong == 0 && table_nbuckets(&f.store->table) > 2 * MC_TABLE_BUCKETS,
       "the table then continues to grow");
    ok(count_missing(&f, 3 * PER_EXTENT) == 0, "all keys are found");
    fixture_close(&f);
    open_store(&f, false);
    prefault_round(f.store);
    ok(f.store->table.nmain_extents == 1, "a table that does not grow maps no more extents");
    fixture_close(&f);
}

static void test_heap(void)
{
    struct fixture f;
    uint32_t before;

    open_store(&f, true);
    prefault_round(f.store);
    before = f.store->heap.nextents;
    ok(before >= 2, "an extent of the heap is mapped ahead");
    store_some(&f, 0, MC_EXTENT_PAGES * (MC_PAGE_BYTES / 88));
    ok(f.store->prefault.woken, "the first use of the last extent wakes the prefault thread");
    prefault_round(f.store);
    ok(f.store->heap.nextents == before + 1, "the prefault thread maps one more extent");
    ok(store_some(&f, 0, 60 * (MC_PAGE_BYTES / 88)) == 0,
       "a set that is faster than the prefault thread does not fail");
    fixture_close(&f);
}

/* What is mapped and unused is memory that no process has. */
static void test_no_more_than_needed(void)
{
    struct fixture f;

    open_store(&f, true);
    slab_set_limit(&f.store->slabs, UINT64_C(4) << 30);
    /* As if so much were in use. */
    f.store->slabs.high_water = 100 * MC_EXTENT_PAGES - 1;
    f.store->table.control->nbuckets = 100 * MC_TABLE_BUCKETS;
    ok(prefault_round(f.store) && f.store->heap.nextents == 101 &&
           f.store->table.nmain_extents == 102,
       "however much is in use, one extent is mapped ahead, and two of the table");
    f.store->slabs.high_water = 0;
    f.store->table.control->nbuckets = MC_TABLE_BUCKETS;
    fixture_close(&f);
}

/* A provider that is out of memory for now. */
static int (*real_table)(struct provider *, uint32_t, void *);
static int (*real_extent)(struct provider *, uint32_t, void *);

static int no_memory(struct provider *provider, uint32_t index, void *at)
{
    (void)provider;
    (void)index;
    (void)at;
    return -ENOMEM;
}

static void test_no_memory(void)
{
    struct fixture f;

    open_store(&f, true);
    heap_grow(&f.store->heap, 16 / MC_EXTENT_PAGES);
    real_table = f.provider->table;
    real_extent = f.provider->extent;
    f.provider->table = f.provider->extent = no_memory;
    ok(!prefault_round(f.store), "a round without memory fails");
    ok(store_some(&f, 0, 2 * PER_EXTENT) == 0, "the mapped memory is used");
    f.provider->table = real_table;
    f.provider->extent = real_extent;
    ok(prefault_round(f.store), "a round with memory again succeeds");
    store_tick(f.store, NOW + 1);
    store_some(&f, 2 * PER_EXTENT, 3 * PER_EXTENT);
    ok(table_nbuckets(&f.store->table) > 2 * MC_TABLE_BUCKETS, "the table grows again");
    fixture_close(&f);
}

static void test_thread(void)
{
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    config.memory_limit = 256 << 20;
    config.hashpower = TABLE_MIN_POWER;
    fixture_open(&f, &config);
    ok(store_prefault_start(f.store) == 0, "the thread starts");
    ok(store_prefault_start(f.store) == -EALREADY, "the thread starts once");
    ok(store_some(&f, 0, 2 * PER_EXTENT) == 0 && count_missing(&f, 2 * PER_EXTENT) == 0,
       "memory is mapped while it is used up");
    store_prefault_stop(f.store);
    ok(store_some(&f, 2 * PER_EXTENT, 3 * PER_EXTENT) == 0, "sets succeed without the thread");
    fixture_close(&f);
}

int main(void)
{
    test_table();
    test_heap();
    test_no_more_than_needed();
    test_no_memory();
    test_thread();
    return done();
}
