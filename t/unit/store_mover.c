/* SPDX-License-Identifier: BSD-3-Clause */
/* The page mover: what happens to the items in a page that leaves its class. */
#include "store/store_mover.h"

#include <errno.h>

#include "store/internal.h"
#include "t/unit/store_fixture.h"

enum { NOW = 100, MANY_STEPS = 100000, SIZE = 1000, LARGE = 300000, NLARGE = 6 };

struct bed {
    struct fixture f;
    unsigned int clsid; /* of values of SIZE bytes */
    char value[SIZE + 1];
};

static void open_bed_of(struct bed *bed, uint64_t megabytes, bool evict, uint32_t chunk_max)
{
    struct store_config config;

    fixture_defaults(&config);
    config.memory_limit = megabytes << 20;
    config.chunk_max = chunk_max;
    config.evict = evict;
    config.tuning.lru_segmented = false;
    fixture_open(&bed->f, &config);
    memset(bed->value, 'v', SIZE);
    bed->value[SIZE] = '\0';
    bed->clsid = slab_class_of_size(&bed->f.store->slabs, SIZE + 70);
    bed->f.store->mover.on = true;
}

static void open_bed(struct bed *bed, uint64_t megabytes, bool evict)
{
    open_bed_of(bed, megabytes, evict, 128 << 10);
}

static void name_key(char out[32], unsigned int i)
{
    snprintf(out, 32, "key-%u", i);
}

static bool set(struct bed *bed, unsigned int i)
{
    char key[32];

    name_key(key, i);
    snprintf(bed->value, 16, "%010u", i);
    bed->value[10] = 'v';
    return fixture_set(&bed->f, key, bed->value, NOW) == STORE_DONE;
}

static bool has(struct bed *bed, unsigned int i)
{
    char key[32];

    name_key(key, i);
    snprintf(bed->value, 16, "%010u", i);
    bed->value[10] = 'v';
    return fixture_has(&bed->f, key, bed->value, NOW);
}

static unsigned int count_there(struct bed *bed, unsigned int n)
{
    unsigned int there = 0;

    for (unsigned int i = 0; i < n; i++) {
        struct mc_item *item;
        char key[32];

        name_key(key, i);
        item = store_peek(bed->f.local, fixture_slice(key), NOW, &(struct store_fetched){0});
        there += item != NULL;
        if (item)
            store_put(bed->f.local, item);
    }
    return there;
}

static void delete (struct bed *bed, unsigned int i)
{
    char key[32];

    name_key(key, i);
    store_delete(bed->f.local, fixture_slice(key), 0, NOW);
}

static uint64_t npages(struct bed *bed, unsigned int clsid)
{
    struct slab_stats stats;

    slab_class_stats(&bed->f.store->slabs, clsid, &stats);
    return stats.total_pages;
}

static unsigned int per_page(struct bed *bed)
{
    return bed->f.store->slabs.classes[bed->clsid].per_page;
}

static struct store_stats stats_of(struct bed *bed)
{
    struct store_stats stats;

    store_stats(bed->f.store, &stats);
    return stats;
}

/* Lets the mover work until it is idle, or that many rounds on one page. */
static void let_move(struct bed *bed, unsigned int nrounds, rel_time now)
{
    struct mover *mover = &bed->f.store->mover;

    for (int i = 0; i < MANY_STEPS && mover->job != 0 && (!mover->page || mover->nrounds < nrounds);
         i++)
        mover_step(bed->f.store, now);
}

static void test_answers(struct bed *bed)
{
    struct store *store;
    int n;

    store = bed->f.store;
    n = (int)store_nclasses(store);
    for (unsigned int i = 0; i < 2 * per_page(bed); i++)
        set(bed, i);
    ok(store_reassign(store, 1, 1) == STORE_REASSIGN_SAME,
       "a move from a class to itself is refused");
    ok(store_reassign(store, -2, 1) == STORE_REASSIGN_BAD_CLASS &&
           store_reassign(store, n + 1, 1) == STORE_REASSIGN_BAD_CLASS &&
           store_reassign(store, 1, n + 1) == STORE_REASSIGN_BAD_CLASS &&
           store_reassign(store, 1, -1) == STORE_REASSIGN_BAD_CLASS,
       "a class that does not exist is refused");
    ok(store_reassign(store, 1, 2) == STORE_REASSIGN_NO_SPARE &&
           store_reassign(store, 0, 1) == STORE_REASSIGN_NO_SPARE,
       "a class with one page and an empty pool have no page to spare");
    ok(store_reassign(store, -1, (int)bed->clsid) == STORE_REASSIGN_BAD_CLASS,
       "a move from any class is refused if none has a page to spare");
    ok(store_reassign(store, -1, 1) == STORE_REASSIGN_OK &&
           store_reassign(store, -1, 2) == STORE_REASSIGN_BUSY &&
           stats_of(bed).slab_reassign_running,
       "a second move is refused while one runs");
    let_move(bed, 1000, NOW);
    ok(npages(bed, 1) == 1 && npages(bed, bed->clsid) == 1 && stats_of(bed).slabs_moved == 1 &&
           !stats_of(bed).slab_reassign_running,
       "the move completes");
    store->mover.on = false;
    ok(store_reassign(store, -1, 2) == STORE_REASSIGN_OFF, "without the mover a move is refused");
}

static void test_rescue(struct bed *bed)
{
    unsigned int n, half, wrong = 0;
    struct store_stats stats;

    n = 3 * per_page(bed);
    half = n / 2;
    for (unsigned int i = 0; i < n; i++)
        set(bed, i);
    for (unsigned int i = 0; i < n; i += 2)
        delete (bed, i);
    ok(store_reassign(bed->f.store, (int)bed->clsid, 0) == STORE_REASSIGN_OK,
       "a move to the pool is accepted");
    let_move(bed, 1000, NOW);
    stats = stats_of(bed);
    ok(npages(bed, bed->clsid) == 2 && stats.slab_global_page_pool == 1, "the pool has the page");
    for (unsigned int i = 0; i < n; i++)
        wrong += i % 2 ? !has(bed, i) : count_there(bed, 0) != 0;
    ok(wrong == 0 && stats.slab_reassign_rescues >= per_page(bed) / 2 - 1 &&
           stats.curr_items == half && stats.evictions == 0 &&
           stats.slab_reassign_evictions_nomem == 0,
       "the page's items are in other chunks of the class, with their values");
    for (unsigned int i = 0; i < n; i += 2)
        wrong += !set(bed, i);
    ok(wrong == 0 && stats_of(bed).slab_global_page_pool == 0 && npages(bed, bed->clsid) == 3,
       "a class that needs a page takes it from the pool");
}

/* Moved items are evicted in the order in which they were used. */
static void test_order(struct bed *bed)
{
    unsigned int n, survivors = 0;

    n = 2 * per_page(bed);
    for (unsigned int i = 0; i < n; i++)
        set(bed, i);
    for (unsigned int i = n / 2; i < n; i++)
        delete (bed, i);
    for (unsigned int i = n / 2; i < n; i++)
        set(bed, i);
    for (unsigned int i = n / 2; i < n; i += 2)
        delete (bed, i);
    for (unsigned int i = 0; i < n / 2; i += 2)
        delete (bed, i);
    store_reassign(bed->f.store, (int)bed->clsid, 1);
    let_move(bed, 1000, NOW);
    ok(npages(bed, bed->clsid) == 1 && stats_of(bed).evictions == 0, "two half pages become one");
    for (unsigned int i = 0; i < n / 4; i++)
        set(bed, n + i);
    for (unsigned int i = n / 2 + 1; i < n; i += 2)
        survivors += has(bed, i);
    ok(survivors >= n / 4 - 2, "the oldest items are evicted first, moved or not");
}

static void test_full(void)
{
    struct store_stats stats;
    unsigned int n;
    struct bed bed;

    open_bed(&bed, 3, true);
    n = 3 * per_page(&bed);
    for (unsigned int i = 0; i < n; i++)
        set(&bed, i);
    store_reassign(bed.f.store, (int)bed.clsid, 1);
    let_move(&bed, 1000, NOW);
    stats = stats_of(&bed);
    ok(npages(&bed, bed.clsid) == 2 && count_there(&bed, n) == n - per_page(&bed) &&
           count_there(&bed, per_page(&bed)) == 0,
       "a full class evicts as many of its oldest items as fit into a page");
    ok(stats.slab_reassign_evictions_nomem == per_page(&bed) && stats.evictions == per_page(&bed),
       "the evicted items are counted");
    fixture_close(&bed.f);
    open_bed(&bed, 3, false);
    for (unsigned int i = 0; i < n; i++)
        set(&bed, i);
    store_reassign(bed.f.store, (int)bed.clsid, 1);
    let_move(&bed, 10000, NOW);
    ok(npages(&bed, bed.clsid) == 3 && count_there(&bed, n) == n && stats_of(&bed).slabs_moved == 0,
       "under -M the page stays and no item is lost");
    delete (&bed, 0);
    ok(set(&bed, n), "the page gives chunks again");
    fixture_close(&bed.f);
}

static void test_held(struct bed *bed)
{
    struct mc_item *held[8];
    unsigned int n, npage;
    bool same = true;

    npage = per_page(bed);
    n = 2 * npage;
    for (unsigned int i = 0; i < n; i++)
        set(bed, i);
    for (unsigned int i = 8; i < npage; i++)
        delete (bed, i);
    for (unsigned int i = 0; i < 8; i++) {
        char key[32];

        name_key(key, i);
        held[i] = store_get(bed->f.local, fixture_slice(key), NOW);
    }
    for (unsigned int i = npage; i < npage + 16; i++)
        delete (bed, i);
    store_reassign(bed->f.store, (int)bed->clsid, 1);
    let_move(bed, 3, NOW);
    ok(npages(bed, bed->clsid) == 2 && stats_of(bed).slab_reassign_running &&
           stats_of(bed).slab_reassign_busy_items > 0,
       "a page waits for the holders of its items");
    for (unsigned int i = 0; i < 8; i++) {
        char want[16];

        snprintf(want, sizeof(want), "%010u", i);
        same &= has(bed, i) && memcmp(item_at(bed->f.local, held[i], 0).ptr, want, 10) == 0;
        set(bed, i);
        store_put(bed->f.local, held[i]);
    }
    ok(same, "holders and new readers have the value");
    let_move(bed, 1000, NOW);
    ok(npages(bed, bed->clsid) == 1 && stats_of(bed).slab_reassign_busy_deletes == 0,
       "when the items are released the page moves");
}

static void test_unfinished(struct bed *bed)
{
    enum store_result result;
    struct mc_item *item;
    unsigned int n;

    n = 2 * per_page(bed);
    item = store_reserve(bed->f.local, fixture_slice("slow"), 0, 0, SIZE, NOW, &result);
    for (unsigned int i = 1; i < n; i++)
        set(bed, i);
    for (unsigned int i = 1; i < n / 2; i++)
        delete (bed, i);
    delete (bed, n - 1);
    store_reassign(bed->f.store, (int)bed->clsid, 1);
    let_move(bed, 5, NOW);
    memset((char *)item_at(bed->f.local, item, 0).ptr, 's', SIZE);
    ok(npages(bed, bed->clsid) == 2, "a page waits for a value that is still received");
    store_commit(bed->f.local, item, STORE_SET, 0, NOW, NULL);
    let_move(bed, 1000, NOW);
    memset(bed->value, 's', SIZE);
    ok(npages(bed, bed->clsid) == 1 && fixture_has(&bed->f, "slow", bed->value, NOW),
       "when the value is complete it moves with the page");
}

static void test_endless(struct bed *bed)
{
    enum store_result result;
    struct mc_item *items[2];

    for (unsigned int i = 0; i < 2; i++) {
        items[i] = store_reserve(bed->f.local, fixture_slice("slow"), 0, 0, SIZE, NOW, &result);
        for (unsigned int n = 1; i == 0 && n < per_page(bed); n++)
            set(bed, n);
    }
    store_reassign(bed->f.store, (int)bed->clsid, 1);
    let_move(bed, 1000, NOW);
    ok(npages(bed, bed->clsid) == 2 && !stats_of(bed).slab_reassign_running,
       "a page whose value is never complete is left to its class");
    for (unsigned int i = 0; i < 2; i++)
        store_discard(bed->f.local, items[i]);
}

static char *large_value(unsigned int i)
{
    char *value = malloc(LARGE + 1);

    for (unsigned int at = 0; at < LARGE; at++)
        value[at] = (char)('a' + (at / 7 + i) % 26);
    value[LARGE] = '\0';
    return value;
}

static bool large(struct bed *bed, unsigned int i, bool store)
{
    char *value = large_value(i), key[32];
    bool good;

    name_key(key, i);
    good = store ? fixture_set(&bed->f, key, value, NOW) == STORE_DONE
                 : fixture_has(&bed->f, key, value, NOW);
    free(value);
    return good;
}

/* Two pages of the smallest class, so that the headers of large items can be moved. */
static void fill_smallest(struct bed *bed)
{
    unsigned int n = 2 * bed->f.store->slabs.classes[1].per_page - NLARGE;
    char key[32];

    for (unsigned int i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "tiny-%u", i);
        fixture_set(&bed->f, key, "x", NOW);
    }
    for (unsigned int i = 0; i < n * 2 / 3; i++) {
        snprintf(key, sizeof(key), "tiny-%u", i);
        store_delete(bed->f.local, fixture_slice(key), 0, NOW);
    }
}

static unsigned int set_parts(struct bed *bed)
{
    unsigned int wrong = 0;

    for (unsigned int i = 0; i < 2 * NLARGE; i++)
        wrong += !large(bed, i, true);
    for (unsigned int i = 1; i < 2 * NLARGE; i += 2)
        delete (bed, i);
    return wrong;
}

static unsigned int wrong_parts(struct bed *bed)
{
    unsigned int wrong = 0;

    for (unsigned int i = 0; i < 2 * NLARGE; i += 2)
        wrong += !large(bed, i, false);
    return wrong;
}

static void test_parts(struct bed *bed)
{
    struct store_stats stats;
    unsigned int wrong;

    wrong = set_parts(bed);
    fill_smallest(bed);
    mover_ask(bed->f.store, bed->f.store->slabs.largest, 0);
    let_move(bed, 1000, NOW);
    mover_ask(bed->f.store, 1, 0);
    let_move(bed, 1000, NOW);
    stats = stats_of(bed);
    ok(stats.slabs_moved == 2 && stats.slab_reassign_chunk_rescues > 0 &&
           stats.slab_reassign_rescues == NLARGE && stats.evictions == 0,
       "parts are moved, and the headers that refer to them are moved too");
    ok(wrong == 0 && wrong_parts(bed) == 0, "the values are unchanged");
    mover_ask(bed->f.store, 1, 0);
    let_move(bed, 1000, NOW);
    for (unsigned int i = 0; i < 2 * NLARGE; i += 2)
        delete (bed, i);
    wrong = set_parts(bed);
    ok(wrong == 0 && wrong_parts(bed) == 0, "all moved parts were freed and can be used again");
}

/* Parts that hold references to other parts. */
static void test_nested_parts(void)
{
    struct store_stats stats;
    unsigned int wrong;
    struct bed bed;

    open_bed_of(&bed, 64, true, 1 << 10);
    wrong = set_parts(&bed);
    for (unsigned int i = 0; i < 2; i++) {
        mover_ask(bed.f.store, bed.f.store->slabs.largest, 0);
        let_move(&bed, 1000, NOW);
    }
    stats = stats_of(&bed);
    ok(stats.slabs_moved == 2 && stats.slab_reassign_chunk_rescues > 0 && stats.evictions == 0,
       "pages of nested parts are moved");
    ok(wrong == 0 && wrong_parts(&bed) == 0, "the values of nested parts are unchanged");
    fixture_close(&bed.f);
}

/* Whether a key has its value until `expiry`, and not longer. */
static bool ends_at(struct bed *bed, const char *key, const char *value, rel_time expiry)
{
    return fixture_has(&bed->f, key, value, expiry - 1) && fixture_has(&bed->f, key, NULL, expiry);
}

static const void *place_of(struct bed *bed, const char *key)
{
    struct mc_item *item = store_get(bed->f.local, fixture_slice(key), NOW);
    const void *place = item ? item_at(bed->f.local, item, 0).ptr : NULL;

    if (item)
        store_put(bed->f.local, item);
    return place;
}

/* Moves pages of the class until the key's value lies elsewhere. */
static bool moves(struct bed *bed, const char *key, unsigned int clsid)
{
    const void *before = place_of(bed, key);

    for (int i = 0; i < 8 && place_of(bed, key) == before; i++) {
        mover_ask(bed->f.store, clsid, 0);
        let_move(bed, 1000, NOW);
    }
    return before && place_of(bed, key) && place_of(bed, key) != before;
}

/* Marks the key's slot as the kernel does. */
static void mark(struct bed *bed, const char *key)
{
    struct table *table = &bed->f.store->table;
    struct table_spot spot;

    if (table_find(table, hash_key(table->control, fixture_slice(key)), fixture_slice(key), &spot))
        fixture_kernel_read(spot.bucket, spot.slot);
}

static bool was_used(struct bed *bed, const char *key)
{
    struct store_fetched fetched = {0};
    struct mc_item *item = store_peek(bed->f.local, fixture_slice(key), NOW, &fetched);

    if (item)
        store_put(bed->f.local, item);
    return item && fetched.used;
}

/* Items that the kernel has served keep their accessed mark when their page moves. */
static void test_mark(struct bed *bed)
{
    unsigned int n, nmarked = 0, used = 0, wrong = 0;
    char key[32];

    n = 2 * per_page(bed);
    for (unsigned int i = 0; i < n; i++)
        set(bed, i);
    for (unsigned int i = 0; i < n; i += 2)
        delete (bed, i);
    for (unsigned int i = 1; i < n; i += 4) {
        name_key(key, i);
        mark(bed, key);
        nmarked++;
    }
    mover_ask(bed->f.store, bed->clsid, 0);
    let_move(bed, 1000, NOW);
    for (unsigned int i = 1; i < n; i += 2) {
        bool is;

        name_key(key, i);
        is = was_used(bed, key);
        used += is;
        wrong += is && i % 4 != 1;
    }
    ok(stats_of(bed).slabs_moved == 1 && used == nmarked && wrong == 0,
       "the kernel's accessed marks move with the items (%u of %u)", used, nmarked);
}

static void test_expiry(struct bed *bed)
{
    char *value = large_value(0), middle[SIZE + 1] = {0};
    struct store_local *local;

    local = bed->f.local;
    memset(middle, 'm', SIZE);
    fixture_store(local, STORE_SET, SLICE("small"), SLICE("v"), NOW + 50, 0, NOW, NULL);
    fixture_store(local, STORE_SET, SLICE("middle"), fixture_slice(middle), NOW + 60, 0, NOW, NULL);
    fixture_store(local, STORE_SET, SLICE("large"), fixture_slice(value), NOW + 70, 0, NOW, NULL);
    for (unsigned int i = 0; i < 2 * per_page(bed); i++)
        set(bed, i);
    for (unsigned int i = 0; i < per_page(bed); i++)
        delete (bed, i);
    set_parts(bed);
    fill_smallest(bed);
    ok(moves(bed, "small", 1) && moves(bed, "middle", bed->clsid) &&
           moves(bed, "large", bed->f.store->slabs.largest),
       "a small, a middle and a large value move");
    ok(ends_at(bed, "small", "v", NOW + 50) && ends_at(bed, "middle", middle, NOW + 60) &&
           ends_at(bed, "large", value, NOW + 70),
       "each of them expires at its time");
    free(value);
}

static void test_held_parts(struct bed *bed)
{
    unsigned int first;
    struct mc_item *held;
    struct mover *mover;

    set_parts(bed);
    mover = &bed->f.store->mover;
    held = store_get(bed->f.local, fixture_slice("key-0"), NOW);
    first = slab_page_of_ref(&bed->f.store->slabs,
                             heap_ref(&bed->f.store->heap, item_at(bed->f.local, held, 0).ptr));
    /* Until it is the page that has parts of the held item. */
    for (int i = 0; i < 8 && mover->page != first; i++) {
        mover_ask(bed->f.store, bed->f.store->slabs.largest, 0);
        let_move(bed, 90, NOW);
    }
    ok(mover->page == first && large(bed, 0, false),
       "parts are not moved while their item is held");
    let_move(bed, 200, NOW);
    ok(stats_of(bed).slab_reassign_busy_deletes == 1 && fixture_has(&bed->f, "key-0", NULL, NOW),
       "an item that is held for too long is deleted");
    store_put(bed->f.local, held);
    let_move(bed, 1000, NOW);
    ok(mover->job == 0 && stats_of(bed).slabs_moved > 0, "its page moves when it is released");
}

static void test_limit(struct bed *bed)
{
    struct store_stats stats;
    uint32_t active;
    uint64_t malloced;
    unsigned int n;

    n = 16 * per_page(bed);
    for (unsigned int i = 0; i < n; i++)
        set(bed, i);
    ok(store_set_memory_limit(bed->f.store, 10 << 20) == 0, "a lower limit is accepted");
    for (int i = 0; i < MANY_STEPS && slab_excess(&bed->f.store->slabs) > 0; i++)
        mover_step(bed->f.store, NOW);
    store_slab_totals(bed->f.store, &malloced, &active);
    stats = stats_of(bed);
    ok(malloced == 10 << 20 && stats.memory_limit == 10 << 20 && stats.slab_global_page_pool == 0,
       "pages above a lower limit are freed");
    ok(count_there(bed, n) == 10 * per_page(bed) && has(bed, n - 1), "the newest items are kept");
    set(bed, n);
    store_set_memory_limit(bed->f.store, 20 << 20);
    for (unsigned int i = 0; i < 20 * per_page(bed); i++)
        set(bed, i);
    store_slab_totals(bed->f.store, &malloced, &active);
    ok(malloced == 20 << 20 && count_there(bed, 20 * per_page(bed)) >= 20 * per_page(bed) - 1,
       "a higher limit is used");
}

/* With ulimit -v there is little address space. */
static void test_limit_of_addresses(struct bed *bed)
{
    bed->f.store->heap.max_extents = 640 / MC_EXTENT_PAGES;
    ok(store_set_memory_limit(bed->f.store, 500 << 20) == 0,
       "a limit for which there are addresses is accepted");
    ok(store_set_memory_limit(bed->f.store, 1 << 30) == -ERANGE,
       "one for which there are none is refused");
}

static void test_limit_with_pool(struct bed *bed)
{
    uint32_t nbuckets = 2 * (MC_PAGE_BYTES / 42), npages;
    struct slab_stats stats;

    for (unsigned int i = 0; i < 16 * per_page(bed); i++)
        set(bed, i);
    for (int i = 0; i < 3; i++) {
        store_reassign(bed->f.store, (int)bed->clsid, 0);
        let_move(bed, MANY_STEPS, NOW);
    }
    npages = slab_npages(&bed->f.store->slabs);
    ok(slab_npool(&bed->f.store->slabs) == 3, "three pages are in the pool");
    slab_count_table(&bed->f.store->slabs, &nbuckets, 0);
    for (int i = 0; i < MANY_STEPS && slab_excess(&bed->f.store->slabs) > 0; i++)
        mover_step(bed->f.store, NOW);
    slab_class_stats(&bed->f.store->slabs, bed->clsid, &stats);
    ok(slab_npages(&bed->f.store->slabs) == npages - 2 && slab_npool(&bed->f.store->slabs) == 1 &&
           stats.total_pages == 13,
       "what the hash table takes comes from the pool while it has pages");
}

/* A class that had nothing gets a page when the others have all of the limit. */
static void test_beyond_limit(struct bed *bed)
{
    struct store_stats stats;

    for (unsigned int i = 0; i < 16 * per_page(bed); i++)
        set(bed, i);
    fixture_set(&bed->f, "small", "x", NOW);
    ok(slab_npages(&bed->f.store->slabs) == 17 && slab_excess(&bed->f.store->slabs) == 0,
       "a class's first page beyond the limit takes none from another");
    store_reassign(bed->f.store, (int)bed->clsid, 1);
    let_move(bed, MANY_STEPS, NOW);
    for (int i = 0; i < 10; i++) {
        mover_step(bed->f.store, NOW);
        let_move(bed, MANY_STEPS, NOW);
    }
    stats = stats_of(bed);
    ok(stats.slabs_moved == 1 && npages(bed, bed->clsid) == 15 && npages(bed, 1) == 2,
       "one page moves when one is asked for, and stays where it went");
    store_reassign(bed->f.store, (int)bed->clsid, 0);
    let_move(bed, MANY_STEPS, NOW);
    ok(slab_npages(&bed->f.store->slabs) == 16 && slab_npool(&bed->f.store->slabs) == 0,
       "a page that comes free makes up for the one beyond");
    store_reassign(bed->f.store, (int)bed->clsid, 0);
    let_move(bed, MANY_STEPS, NOW);
    ok(slab_npages(&bed->f.store->slabs) == 16 && slab_npool(&bed->f.store->slabs) == 1,
       "the next one goes to the pool");
}

/* One page is beyond the limit, and then the table takes two. */
static void test_table_beyond_limit(struct bed *bed)
{
    uint32_t nbuckets = 0;

    slab_count_table(&bed->f.store->slabs, &nbuckets, 0);
    for (unsigned int i = 0; i < 16 * per_page(bed); i++)
        set(bed, i);
    fixture_set(&bed->f, "small", "x", NOW);
    nbuckets = 2 * (MC_PAGE_BYTES / 42);
    ok(slab_excess(&bed->f.store->slabs) == 2, "what the hash table takes is given up");
    for (int i = 0; i < MANY_STEPS && slab_excess(&bed->f.store->slabs) > 0; i++)
        mover_step(bed->f.store, NOW);
    ok(slab_npages(&bed->f.store->slabs) == 15 && npages(bed, 1) == 1, "and no page more");
    store_set_memory_limit(bed->f.store, 12 << 20);
    ok(slab_excess(&bed->f.store->slabs) == 5, "a limit that is set anew counts all pages");
}

static void test_automove(struct bed *bed)
{
    unsigned int n;

    n = 8 * per_page(bed);
    for (unsigned int i = 0; i < n; i++)
        set(bed, i);
    for (unsigned int i = 0; i < n; i++)
        delete (bed, i);
    for (rel_time now = NOW; now < NOW + 5; now++) {
        mover_step(bed->f.store, now);
        let_move(bed, 1000, now);
    }
    ok(npages(bed, bed->clsid) == 8, "without automove a class keeps its pages");
    store_set_automove(bed->f.store, 1);
    for (rel_time now = NOW; now < NOW + 5; now++)
        for (int i = 0; i < 100; i++)
            mover_step(bed->f.store, now);
    ok(npages(bed, bed->clsid) == 2 && stats_of(bed).slab_global_page_pool == 6,
       "with automove free chunks beyond two and a half pages go to the pool");
}

static void test_automove_2(struct bed *bed)
{
    unsigned int n;

    n = 8 * per_page(bed);
    for (unsigned int i = 0; i < n; i++)
        set(bed, i);
    store_set_automove(bed->f.store, 2);
    for (unsigned int i = 0; i < 4 * NLARGE; i++) {
        large(bed, i, true);
        let_move(bed, 1000, NOW);
    }
    ok(npages(bed, bed->f.store->slabs.largest) >= 3,
       "with automove 2 a class gets a page each time it has to evict");
}

static void test_tail_repair(void)
{
    struct store_config config;
    struct store_class_stats class;
    struct mc_item *held[64];
    struct fixture f;
    static char value[100001];
    unsigned int nheld = 0, clsid;

    memset(value, 'v', 100000);
    for (int repair = 0; repair < 2; repair++) {
        fixture_defaults(&config);
        config.memory_limit = 1 << 20;
        config.tuning.lru_segmented = false;
        config.tail_repair_time = repair ? 10 : 0;
        fixture_open(&f, &config);
        clsid = slab_class_of_size(&f.store->slabs, 100050);
        for (nheld = 0;; nheld++) {
            char key[32];

            name_key(key, nheld);
            if (fixture_set(&f, key, value, NOW) != STORE_DONE)
                break;
            held[nheld] = store_get(f.local, fixture_slice(key), NOW);
        }
        fixture_set(&f, "more", value, NOW + 60);
        store_class_stats(f.store, clsid, NOW, &class);
        ok((class.tailrepairs > 0) == repair &&
               fixture_has(&f, "key-0", repair ? NULL : value, NOW),
           repair ? "with tail_repair_time an item that is held for long is removed from the table"
                  : "without it a held item stays in the table");
        while (nheld > 0)
            store_put(f.local, held[--nheld]);
        ok(fixture_set(&f, "more", value, NOW + 60) == STORE_DONE,
           "a set into the full class succeeds");
        fixture_close(&f);
    }
}

static void in_bed(void (*test)(struct bed *bed), uint64_t megabytes, bool evict)
{
    struct bed bed;

    open_bed(&bed, megabytes, evict);
    test(&bed);
    fixture_close(&bed.f);
}

int main(void)
{
    in_bed(test_answers, 64, true);
    in_bed(test_rescue, 64, true);
    in_bed(test_order, 2, true);
    test_full();
    in_bed(test_held, 64, true);
    in_bed(test_unfinished, 64, true);
    in_bed(test_endless, 64, true);
    in_bed(test_parts, 64, true);
    test_nested_parts();
    in_bed(test_expiry, 64, true);
    in_bed(test_mark, 64, true);
    in_bed(test_held_parts, 64, true);
    in_bed(test_limit, 16, true);
    in_bed(test_limit_of_addresses, 16, true);
    in_bed(test_limit_with_pool, 16, true);
    in_bed(test_beyond_limit, 16, true);
    in_bed(test_table_beyond_limit, 16, true);
    in_bed(test_automove, 16, true);
    in_bed(test_automove_2, 8, true);
    test_tail_repair();
    return done();
}
