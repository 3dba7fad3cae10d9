/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The crawler: which items it frees, which items it passes to a viewer, and that it does both
 * correctly while other threads write, evict, flush and grow the table. The store's clock is at
 * least LATER; the tests store their items at EARLIER.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "store/internal.h"
#include "store/store_list.h"
#include "store/store_mover.h"
#include "store/store_tuning.h"
#include "t/unit/store_fixture.h"

enum { EARLIER = 100, OVER = 500, LATER = 1000, MANY = 20000 };

static void open_with(struct fixture *f, struct store_config *config)
{
    config->clock.base_ns -= LATER * 1000000000ull;
    config->tuning.crawler_sleep_us = 0;
    fixture_open(f, config);
    if (store_crawler_start(f->store) != 0) {
        printf("Bail out! no crawler\n");
        exit(1);
    }
}

static void open_default(struct fixture *f)
{
    struct store_config config;

    fixture_defaults(&config);
    open_with(f, &config);
}

static void close_all(struct fixture *f)
{
    store_crawler_stop(f->store);
    fixture_close(f);
}

static struct store_stats stats_of(struct fixture *f)
{
    struct store_stats stats;

    store_stats(f->store, &stats);
    return stats;
}

static void wait_idle(struct fixture *f)
{
    while (stats_of(f).lru_crawler_running)
        sched_yield();
}

static void put(struct store_local *local, const char *prefix, unsigned int number, size_t n,
                rel_time expiry)
{
    static const char filler[200000];
    char name[64];
    struct slice key = {name, (size_t)sprintf(name, "%s-%u", prefix, number)};

    fixture_store(local, STORE_SET, key, (struct slice){filler, n}, expiry, 0, EARLIER, NULL);
}

static uint64_t number_of(struct fixture *f, unsigned int clsid)
{
    struct store_class_stats stats;

    store_class_stats(f->store, clsid, EARLIER, &stats);
    return stats.number;
}

/* --- freeing --------------------------------------------------------------- */

static void test_frees(struct fixture *f)
{
    for (unsigned int i = 0; i < MANY; i++)
        put(f->local, i % 2 ? "dead" : "live", i, 10, i % 2 ? OVER : i % 4 ? 0 : 1000 * LATER);
    for (unsigned int i = 0; i < 100; i++)
        put(f->local, "other", i, 300, OVER);
    ok(store_crawl(f->store, 1ull << 1) == STORE_CRAWL_STARTED, "a crawl starts");
    wait_idle(f);
    ok(number_of(f, 1) == MANY / 2, "a crawl frees the expired items, and no others");
    ok(stats_of(f).curr_items == MANY / 2 + 100, "a crawl leaves other classes alone");
    ok(stats_of(f).crawler_items_checked == MANY && stats_of(f).crawler_reclaimed == MANY / 2,
       "the items checked and freed are counted");
    ok(stats_of(f).expired_unfetched == MANY / 2,
       "the freed items that were never read are counted");
    ok(stats_of(f).lru_crawler_starts == 1, "the start of a crawl is counted");
    store_crawl(f->store, STORE_ALL_CLASSES);
    wait_idle(f);
    ok(stats_of(f).curr_items == MANY / 2,
       "a crawl of all classes frees the expired items of each");
    ok(stats_of(f).crawler_items_checked == MANY + MANY / 2 + 100, "a crawl checks each item once");
    store_flush(f->local, 0, LATER);
    store_crawl(f->store, STORE_ALL_CLASSES);
    wait_idle(f);
    ok(stats_of(f).curr_items == 0 && stats_of(f).bytes == 0, "a crawl frees flushed items, too");
}

static void test_tocrawl(struct fixture *f)
{
    for (unsigned int i = 0; i < 1000; i++)
        put(f->local, "k", i, 10, OVER);
    for (unsigned int i = 0; i < 50; i++)
        put(f->local, "k", i, 300, 0);
    store_set_crawler_tocrawl(f->store, 70);
    store_crawl(f->store, STORE_ALL_CLASSES);
    wait_idle(f);
    ok(stats_of(f).crawler_reclaimed == 70 && stats_of(f).crawler_items_checked == 120,
       "a crawl checks at most tocrawl items of a class");
    for (unsigned int i = 0; i < 30; i++) {
        store_crawl(f->store, 1ull << 1);
        wait_idle(f);
    }
    ok(number_of(f, 1) == 0, "the next crawl continues where the last one ended");
}

static void test_large(struct fixture *f)
{
    unsigned int largest;

    largest = f->store->slabs.largest;
    for (unsigned int i = 0; i < 10; i++) {
        struct slice key = fixture_slice(i % 2 ? "small" : "chunked");
        char *value = calloc(1, 900000);

        fixture_store(f->local, STORE_SET, key, (struct slice){value, i % 2 ? 10 : 900000}, OVER, 0,
                      EARLIER, NULL);
        free(value);
    }
    store_crawl(f->store, 1ull << largest);
    wait_idle(f);
    ok(stats_of(f).curr_items == 1 && number_of(f, largest) == 0,
       "an item in chunks belongs to the largest class");
}

static void test_answers(void)
{
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    fixture_open(&f, &config);
    ok(store_crawl(f.store, 2) == STORE_CRAWL_OFF && !store_crawler_running(f.store),
       "without its thread the crawler is off");
    ok(store_crawler_start(f.store) == 0 && store_crawler_start(f.store) == -EALREADY,
       "the thread starts once");
    ok(store_crawl(f.store, 0) == STORE_CRAWL_EMPTY, "a crawl of no class does not start");
    store_set_crawler_sleep(f.store, 1000000);
    for (unsigned int i = 0; i < 5000; i++)
        put(f.local, "k", i, 10, 0);
    ok(store_crawl(f.store, 2) == STORE_CRAWL_STARTED &&
           store_crawl(f.store, 2) == STORE_CRAWL_BUSY,
       "a second crawl is refused while one runs");
    ok(stats_of(&f).lru_crawler_running, "the statistics show a running crawl");
    store_crawler_stop(f.store);
    ok(!stats_of(&f).lru_crawler_running && store_crawl(f.store, 2) == STORE_CRAWL_OFF,
       "a stop interrupts the crawler's sleep");
    store_crawler_stop(f.store);
    store_set_crawler_sleep(f.store, 0);
    ok(store_crawler_start(f.store) == 0 && store_crawl(f.store, 2) == STORE_CRAWL_STARTED,
       "a restarted crawler crawls again");
    wait_idle(&f);
    close_all(&f);
}

/* --- viewing --------------------------------------------------------------- */

enum { KEYS = 1 << 17, REFUSES = 50 };

/* A viewer that counts the items it gets under "PREFIX-NUMBER". Each of REFUSES items it refuses
 * `refuse` times. */
struct viewer {
    char prefix;
    unsigned int seen[KEYS];
    unsigned int nshown, nfull, refuse;
    _Atomic bool hold; /* it accepts no items for now */
    bool enough;
    struct store_shown last;
    char key[256];
    _Atomic int ended; /* 0 not yet, 1 completely, 2 incompletely */
};

static enum store_taken take(void *context, const struct store_shown *shown)
{
    struct viewer *viewer = context;

    if (viewer->hold || (viewer->nshown % REFUSES == 0 && viewer->refuse > viewer->nfull)) {
        viewer->nfull++;
        return STORE_FULL;
    }
    viewer->nfull = 0;
    if (!shown)
        return STORE_TAKEN;
    viewer->last = *shown;
    memcpy(viewer->key, shown->key.ptr, shown->key.len);
    viewer->key[shown->key.len] = '\0';
    if (viewer->key[0] == viewer->prefix && viewer->key[1] == '-')
        viewer->seen[strtoul(viewer->key + 2, NULL, 10) % KEYS]++;
    viewer->nshown++;
    return viewer->enough ? STORE_ENOUGH : STORE_TAKEN;
}

static void give_way(void *context, unsigned int ms)
{
    (void)context;
    (void)ms;
    sched_yield();
}

static void note_end(void *context, bool whole)
{
    ((struct viewer *)context)->ended = whole ? 1 : 2;
}

static struct viewer *viewer_new(char prefix)
{
    struct viewer *viewer = calloc(1, sizeof(*viewer));

    viewer->prefix = prefix;
    return viewer;
}

static enum store_crawl show(struct fixture *f, uint64_t classes, struct viewer *viewer)
{
    const struct store_viewer calls = {viewer, take, give_way, note_end};

    return store_show(f->store, classes, &calls);
}

static void wait_end(const struct viewer *viewer)
{
    while (!viewer->ended)
        sched_yield();
}

/* Whether the viewer got each of the first n keys exactly once. */
static bool once_each(const struct viewer *viewer, unsigned int n)
{
    for (unsigned int i = 0; i < n; i++) {
        if (viewer->seen[i] != 1) {
            diag("the viewer got %c-%u %u times", viewer->prefix, i, viewer->seen[i]);
            return false;
        }
    }
    return true;
}

static void test_views(struct fixture *f)
{
    struct viewer *viewer = viewer_new('k');

    for (unsigned int i = 0; i < MANY; i++)
        put(f->local, "k", i, i % 10 ? 10 : 300, 0);
    for (unsigned int i = 0; i < 1000; i++)
        put(f->local, "dead", i, 10, OVER);
    ok(show(f, STORE_ALL_CLASSES, viewer) == STORE_CRAWL_STARTED, "a view starts");
    wait_end(viewer);
    ok(viewer->ended == 1 && viewer->nshown == MANY && once_each(viewer, MANY),
       "a viewer gets each live item once");
    free(viewer);
    viewer = viewer_new('k');
    show(f, 1ull << 1, viewer);
    wait_end(viewer);
    ok(viewer->nshown == MANY - MANY / 10 && viewer->last.clsid == 1,
       "a viewer of one class gets that class's items");
    ok(stats_of(f).curr_items == MANY + 1000 && stats_of(f).crawler_reclaimed == 0,
       "a view frees nothing");
    free(viewer);
    viewer = viewer_new('k');
    viewer->enough = true;
    show(f, STORE_ALL_CLASSES, viewer);
    wait_end(viewer);
    ok(viewer->nshown == 1 && viewer->ended == 2, "a viewer that has enough gets no more items");
    free(viewer);
}

static void test_record(struct fixture *f)
{
    struct viewer *viewer = viewer_new('k');
    uint64_t cas = 0;

    fixture_store(f->local, STORE_SET, fixture_slice("thekey"), fixture_slice("value"), 5 * LATER,
                  0, EARLIER, &cas);
    show(f, STORE_ALL_CLASSES, viewer);
    wait_end(viewer);
    ok(strcmp(viewer->key, "thekey") == 0 && viewer->last.key.len == 6, "the record has the key");
    ok(viewer->last.exptime == 5 * LATER && viewer->last.last_use == EARLIER,
       "the record has the expiry and the last use");
    ok(viewer->last.cas == cas && viewer->last.clsid == 1,
       "an item's record has its CAS id and class");
    ok(viewer->last.size == MC_ITEM_HEADER + 6 + 6 + 5 + 2 && !viewer->last.fetched,
       "the record has the size");
    viewer->ended = 0;
    fixture_has(f, "thekey", "value", EARLIER + 1);
    show(f, STORE_ALL_CLASSES, viewer);
    wait_end(viewer);
    ok(viewer->last.fetched && viewer->last.last_use == EARLIER + 1,
       "the record says that the item was read");
    viewer->ended = 0;
    fixture_set(f, "thekey", "other", EARLIER);
    f->store->table.buckets[0].accessed = 0;
    for (uint32_t i = 0; i < table_nbuckets(&f->store->table); i++)
        f->store->table.buckets[i].accessed = f->store->table.buckets[i].tags ? 0xff : 0;
    show(f, STORE_ALL_CLASSES, viewer);
    wait_end(viewer);
    ok(viewer->last.fetched && viewer->last.last_use >= LATER,
       "the record says that the kernel read the item");
    free(viewer);
}

static void test_long_chains(void)
{
    struct viewer *viewer = viewer_new('k');
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    config.hashpower = TABLE_MIN_POWER;
    config.expand = false;
    open_with(&f, &config);
    for (unsigned int i = 0; i < 100000; i++)
        put(f.local, "k", i, 10, i % 3 ? 0 : OVER);
    show(&f, STORE_ALL_CLASSES, viewer);
    wait_end(viewer);
    ok(viewer->ended == 1 && viewer->nshown == 100000 - 33334,
       "a bucket is viewed however many items it has");
    ok(stats_of(&f).crawler_items_checked == viewer->nshown,
       "each item of a long bucket is counted once");
    store_crawl(f.store, STORE_ALL_CLASSES);
    wait_idle(&f);
    ok(stats_of(&f).curr_items == 100000 - 33334 &&
           stats_of(&f).crawler_items_checked - viewer->nshown == 100000,
       "each expired item of a long bucket is freed");
    store_flush(f.local, 0, LATER);
    store_crawl(f.store, STORE_ALL_CLASSES);
    wait_idle(&f);
    ok(stats_of(&f).curr_items == 0 && f.store->table.noverflow_used == 0,
       "all items of long buckets are freed after a flush");
    free(viewer);
    close_all(&f);
}

static void test_slow_viewers(struct fixture *f)
{
    struct viewer *viewer = viewer_new('k'), *second = viewer_new('k');

    for (unsigned int i = 0; i < MANY; i++)
        put(f->local, "k", i, 10, i % 2 ? OVER : 0);
    viewer->hold = true;
    show(f, STORE_ALL_CLASSES, viewer);
    ok(show(f, STORE_ALL_CLASSES, second) == STORE_CRAWL_BUSY && !second->ended,
       "a second viewer is refused while one is served");
    ok(store_crawl(f->store, STORE_ALL_CLASSES) == STORE_CRAWL_STARTED,
       "a crawl starts while a viewer accepts nothing");
    while (stats_of(f).curr_items > MANY / 2)
        sched_yield();
    ok(viewer->nshown == 0, "a crawl ends while a viewer accepts nothing");
    viewer->refuse = 3;
    viewer->hold = false;
    wait_end(viewer);
    ok(viewer->ended == 1 && viewer->nshown == MANY / 2,
       "a viewer that accepts items again gets all of them");
    viewer->hold = true;
    viewer->ended = 0;
    show(f, STORE_ALL_CLASSES, viewer);
    store_crawler_stop(f->store);
    ok(viewer->ended == 2, "a stop of the crawler ends the view as incomplete");
    store_crawler_start(f->store);
    show(f, STORE_ALL_CLASSES, second);
    wait_end(second);
    ok(second->ended == 1, "the next viewer gets all items");
    f->store->crawler.patience_ms = 1;
    viewer->ended = 0;
    show(f, STORE_ALL_CLASSES, viewer);
    wait_end(viewer);
    ok(viewer->ended == 2, "a viewer that accepts nothing for too long is ended");
    second->ended = second->nshown = 0;
    show(f, STORE_ALL_CLASSES, second);
    wait_end(second);
    ok(second->ended == 1 && second->nshown == MANY / 2, "the viewer after it gets all items");
    free(viewer);
    free(second);
}

/* --- beside other threads ---------------------------------------------------- */

struct writer {
    struct fixture *f;
    unsigned int number;
    _Atomic bool *stop;
    pthread_t id;
};

/* Overwrites its part of the stable keys, stores and deletes others, evicts, reads. */
static void *write_on(void *context)
{
    struct writer *writer = context;
    struct store_local *local = store_local_new(writer->f->store);
    unsigned int n = 0;

    while (!*writer->stop) {
        char name[32];
        struct slice key = {name, (size_t)sprintf(name, "new-%u", n % 4096 * 2 + writer->number)};
        struct mc_item *item;

        put(local, "k", n % (MANY / 2) * 2 + writer->number, 10 + n % 200, 0);
        put(local, "new", n % 4096 * 2 + writer->number, 10 + n % 700, n % 3 ? 0 : OVER);
        if (n % 5 == 0)
            store_delete(local, key, 0, EARLIER);
        item = store_get(local, key, EARLIER);
        if (item)
            store_put(local, item);
        n++;
    }
    store_local_free(local);
    return NULL;
}

/* Leaves every class that the writers use some pages of free chunks, so that nothing is evicted. */
static void leave_free_chunks(struct fixture *f)
{
    for (unsigned int i = 0; i < 10 * MANY; i++)
        put(f->local, "spare", i, 10 + i % 200, 0);
    for (unsigned int i = 0; i < 10 * MANY; i++) {
        char name[32];
        struct slice key = {name, (size_t)sprintf(name, "spare-%u", i)};

        store_delete(f->local, key, 0, EARLIER);
    }
}

static void *grow_on(void *context)
{
    struct writer *writer = context;
    struct store_local *local = store_local_new(writer->f->store);

    for (unsigned int n = 0; !*writer->stop && n < 400000; n++)
        put(local, "fill", n, 1, 0);
    store_local_free(local);
    return NULL;
}

/* Fewer keys than the stable ones are in the table at first, so it grows by half or more during the
 * views. */
static void test_beside_writers(void)
{
    _Atomic bool stop = false;
    struct writer writers[3];
    struct store_config config;
    struct fixture f;
    unsigned int nshows = 0, nwrong = 0;
    uint32_t nbuckets;

    fixture_defaults(&config);
    config.hashpower = TABLE_MIN_POWER;
    config.memory_limit = 256ull << 20;
    open_with(&f, &config);
    store_mover_start(f.store);
    for (unsigned int i = 0; i < MANY; i++)
        put(f.local, "k", i, 10, 0);
    nbuckets = table_nbuckets(&f.store->table);
    leave_free_chunks(&f);
    for (unsigned int i = 0; i < 3; i++) {
        writers[i] = (struct writer){.f = &f, .number = i, .stop = &stop};
        pthread_create(&writers[i].id, NULL, i < 2 ? write_on : grow_on, &writers[i]);
    }
    while (nshows < 5 || table_nbuckets(&f.store->table) < 4 * nbuckets ||
           stats_of(&f).slabs_moved < 5) {
        struct viewer *viewer = viewer_new('k');

        show(&f, STORE_ALL_CLASSES, viewer);
        store_crawl(f.store, STORE_ALL_CLASSES);
        store_reassign(f.store, 2 + (int)nshows % 2, 0);
        wait_end(viewer);
        nwrong += viewer->ended != 1 || !once_each(viewer, MANY);
        nshows++;
        free(viewer);
    }
    stop = true;
    for (unsigned int i = 0; i < 3; i++)
        pthread_join(writers[i].id, NULL);
    ok(nwrong == 0 && stats_of(&f).evictions == 0,
       "beside writers, growth and pages that move, each of %u views has each key once", nshows);
    store_mover_stop(f.store);
    wait_idle(&f);
    store_flush(f.local, 0, LATER);
    store_crawl(f.store, STORE_ALL_CLASSES);
    wait_idle(&f);
    ok(stats_of(&f).curr_items == 0, "afterwards a crawl can free all items");
    close_all(&f);
}

/* The number of items that `stats sizes` counts. */
static uint64_t sized(struct fixture *f)
{
    uint64_t size = 0, count, sum = 0;

    while (store_size_count(f->store, &size, &count))
        sum += count;
    return sum;
}

/* The number of items of a class that `stats cachedump` lists. */
static uint64_t listed(struct fixture *f, unsigned int clsid)
{
    static char out[4 << 20];
    struct slice records = {out, store_list(f->store, clsid, 0, LATER, out, sizeof(out))};
    struct store_listed item;
    uint64_t n = 0;

    while (store_list_next(&records, &item))
        n += item.key.len >= 3 && item.key.ptr[0] == 'e';
    return n;
}

static void test_beside_evictions(void)
{
    struct store_config config;
    struct fixture f;
    uint64_t nlisted = 0;

    fixture_defaults(&config);
    config.memory_limit = 8ull << 20;
    config.track_sizes = true;
    open_with(&f, &config);
    store_maintainer_start(f.store);
    for (unsigned int n = 0; stats_of(&f).evictions < 20000; n++) {
        for (unsigned int i = 0; i < 500; i++)
            put(f.local, "e", (n * 500 + i) % KEYS, 100 + i % 3 * 300, i % 2 ? OVER : 0);
        store_crawl(f.store, STORE_ALL_CLASSES);
        nlisted += listed(&f, 1 + n % 10);
    }
    wait_idle(&f);
    store_maintainer_stop(f.store);
    ok(nlisted > 0 && sized(&f) == stats_of(&f).curr_items,
       "beside crawls and evictions items can be listed, and are counted by size");
    ok(stats_of(&f).crawler_reclaimed > 0, "a crawl frees expired items while others are evicted");
    store_flush(f.local, 0, LATER);
    store_crawl(f.store, STORE_ALL_CLASSES);
    wait_idle(&f);
    ok(stats_of(&f).curr_items == 0 && stats_of(&f).bytes == 0 && sized(&f) == 0,
       "afterwards a crawl can free all items");
    close_all(&f);
}

static void test_maintainer(void)
{
    struct fixture f;

    open_default(&f);
    maintainer_round(f.store, EARLIER);
    wait_idle(&f);
    ok(stats_of(&f).lru_crawler_starts == 1, "at first the maintainer starts a crawl");
    for (unsigned int i = 0; i < 1000; i++)
        put(f.local, "k", i, 10, i % 2 ? OVER : 0);
    for (unsigned int i = 0; i < 1000; i++) {
        struct slice key;
        char name[32];

        key = (struct slice){name, (size_t)sprintf(name, "k-%u", i)};
        store_put(f.local, store_get(f.local, key, EARLIER)); /* so that no tail is dead */
    }
    maintainer_round(f.store, LATER);
    ok(!stats_of(&f).lru_crawler_running && stats_of(&f).lru_crawler_starts == 1,
       "the maintainer does not crawl new items at once");
    maintainer_round(f.store, LATER * 2);
    wait_idle(&f);
    ok(stats_of(&f).lru_crawler_starts == 2 && stats_of(&f).curr_items == 500,
       "some minutes later the maintainer starts another");
    store_crawler_stop(f.store);
    for (unsigned int i = 0; i < 1000; i++)
        put(f.local, "k", i, 10, OVER);
    maintainer_round(f.store, LATER * 10);
    ok(stats_of(&f).lru_crawler_starts == 2,
       "the maintainer starts no crawl when the crawler is off");
    fixture_close(&f);
}

static void in_store(void (*test)(struct fixture *f))
{
    struct fixture f;

    open_default(&f);
    test(&f);
    close_all(&f);
}

int main(void)
{
    in_store(test_frees);
    in_store(test_tocrawl);
    in_store(test_large);
    test_answers();
    in_store(test_views);
    in_store(test_record);
    test_long_chains();
    in_store(test_slow_viewers);
    test_beside_writers();
    test_beside_evictions();
    test_maintainer();
    return done();
}
