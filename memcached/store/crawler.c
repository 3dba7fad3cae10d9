/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/crawler.h"

#include <inttypes.h>
#include <stdlib.h>

#include "store/event.h"
#include "store/internal.h"
#include "store/reclaim.h"
#include "store/tuning.h"
#include "store/verbs.h"

#define WHOLE (1ull << TABLE_WALK_BITS)

enum {
    PAUSE_ITEMS = 1000,    /* between two sleeps, as in memcached */
    BUCKETS_AS_ITEM = 64,  /* empty buckets that cost as much as an item */
    ROUND_BUCKETS = 4096,  /* then the other walk has its turn */
    PATIENCE_MS = 30000,   /* with a viewer that takes nothing */
    ROOM_MS = 20,          /* a viewer's wait, which a stop waits for too */
    RECORDS_BYTES = 16384, /* to begin with */
    IDLE_US = 1000000000,  /* a request ends it */
    AHEAD = 60,            /* seconds: classes that are due then go with those that are now */
};

/* --- asking ---------------------------------------------------------------- */

bool store_crawler_running(struct store *store)
{
    return __atomic_load_n(&store->crawler.on, __ATOMIC_RELAXED);
}

enum store_crawl store_crawl(struct store *store, uint64_t classes)
{
    struct crawler *crawler = &store->crawler;
    enum store_crawl result = STORE_CRAWL_STARTED;

    pthread_mutex_lock(&crawler->mutex);
    if (!crawler->on)
        result = STORE_CRAWL_OFF;
    else if (crawler->freeing)
        result = STORE_CRAWL_BUSY;
    else if (classes == 0)
        result = STORE_CRAWL_EMPTY;
    if (result == STORE_CRAWL_STARTED) {
        crawler->free_classes |= classes;
        crawler->freeing = true;
        __atomic_store_n(&crawler->busy, true, __ATOMIC_RELAXED);
        background_wake(&crawler->background);
    }
    pthread_mutex_unlock(&crawler->mutex);
    return result;
}

enum store_crawl store_show(struct store *store, uint64_t classes,
                            const struct store_viewer *viewer)
{
    struct crawler *crawler = &store->crawler;
    enum store_crawl result = STORE_CRAWL_STARTED;

    pthread_mutex_lock(&crawler->mutex);
    if (!crawler->on)
        result = STORE_CRAWL_OFF;
    else if (crawler->showing)
        result = STORE_CRAWL_BUSY;
    else if (classes == 0)
        result = STORE_CRAWL_EMPTY;
    if (result == STORE_CRAWL_STARTED) {
        crawler->show_classes = classes;
        crawler->viewer = *viewer;
        crawler->showing = true;
        __atomic_store_n(&crawler->busy, true, __ATOMIC_RELAXED);
        background_wake(&crawler->background);
    }
    pthread_mutex_unlock(&crawler->mutex);
    return result;
}

void crawler_consider(struct store *store, rel_time now)
{
    struct crawler *crawler = &store->crawler;
    bool first = crawler->considered == 0;
    uint64_t sets[MC_CLASSES], due = 0, soon = 0;

    if (now == crawler->considered || !store_crawler_running(store))
        return;
    crawler->considered = now;
    stats_sets(store, sets);
    pthread_mutex_lock(&crawler->mutex);
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        rel_time wait = forecast_wait(&crawler->forecasts[clsid], sets[clsid], now);

        due |= (uint64_t)(wait == 0 || first) << clsid;
        soon |= (uint64_t)(wait <= AHEAD || first) << clsid;
    }
    if (due && crawler->on && !crawler->freeing && !crawler->free.walk.active) {
        crawler->free_classes |= soon;
        __atomic_store_n(&crawler->busy, true, __ATOMIC_RELAXED);
        background_wake(&crawler->background);
    }
    pthread_mutex_unlock(&crawler->mutex);
}

/* --- walks ----------------------------------------------------------------- */

/*
 * Whether the page of an item can have something of the classes. An item in chunks counts in the
 * largest class, and its own chunk can be in any.
 */
static bool wants_page(const struct store *store, uint64_t classes, uint32_t ref)
{
    return (classes >> slab_class_of_ref(&store->slabs, ref) | classes >> store->slabs.largest) & 1;
}

static bool wants_item(const struct walk *walk, const struct mc_item *item)
{
    return walk->classes >> lru_class_of(item) & 1;
}

static void step_walk(struct walk *walk, uint64_t width)
{
    walk->position += (uint32_t)width;
    walk->covered += width;
}

static void begin_walk(struct walk *walk, uint64_t classes)
{
    walk->active = true;
    walk->classes = classes;
    walk->covered = 0;
}

/* What a round hands to its visits. */
struct round {
    struct store *store;
    rel_time now;
    unsigned int nitems, nbuckets;
};

static bool round_goes_on(const struct round *round)
{
    return round->nitems < PAUSE_ITEMS && round->nbuckets < ROUND_BUCKETS;
}

/* --- freeing ---------------------------------------------------------------- */

static void begin_free(struct store *store, uint64_t classes)
{
    struct free_walk *free = &store->crawler.free;
    uint32_t tocrawl = tuned_crawler_tocrawl(store);

    begin_walk(&free->walk, classes);
    free->began = clock_now(&store->config.clock);
    memset(free->found, 0, sizeof(free->found));
    for (unsigned int clsid = 0; clsid < MC_CLASSES; clsid++)
        free->left[clsid] = tocrawl ? tocrawl : UINT64_MAX;
}

static bool wants_free(void *context, uint32_t ref)
{
    const struct round *round = context;

    return wants_page(round->store, round->store->crawler.free.walk.classes, ref);
}

static bool visit_free(void *context, struct mc_item *item, const struct table_spot *spot)
{
    struct round *round = context;
    struct store *store = round->store;
    struct free_walk *free = &store->crawler.free;
    unsigned int clsid = lru_class_of(item);

    if (!wants_item(&free->walk, item) || free->left[clsid] == 0)
        return false;
    free->left[clsid]--;
    free->found[clsid].seen++;
    store->crawler.counts[clsid].checked++;
    round->nitems++;
    if (!flush_is_dead_at(item, spot->head, flush_epoch(store), round->now)) {
        forecast_count(&free->found[clsid], item->exptime, round->now);
        return false;
    }
    verb_take_reads(item, spot, round->now);
    free->found[clsid].dead++;
    store->crawler.counts[clsid].reclaimed++;
    store->crawler.counts[clsid].unfetched += !(item->flags & MC_ITEM_FETCHED);
    reclaim_unlink(store, item, hash_key(store->control, item_key(item)), spot);
    return true;
}

/* Adds what a round counted; each item by itself would take the classes' cache lines away. */
static void add_counts(struct store *store)
{
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        struct lru *lru = &store->lrus[clsid];
        struct crawl_counts *from = &store->crawler.counts[clsid];

        if (from->checked == 0)
            continue;
        __atomic_fetch_add(&lru->counts.crawler_items_checked, from->checked, __ATOMIC_RELAXED);
        __atomic_fetch_add(&lru->counts.crawler_reclaimed, from->reclaimed, __ATOMIC_RELAXED);
        if (from->unfetched) {
            lock_take(&lru->lock, LOCK_LRU);
            lru->counts.expired_unfetched += from->unfetched;
            lock_release(&lru->lock, LOCK_LRU);
        }
        *from = (struct crawl_counts){0};
    }
}

static bool free_is_done(const struct store *store)
{
    const struct free_walk *free = &store->crawler.free;

    if (free->walk.covered >= WHOLE)
        return true;
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++)
        if ((free->walk.classes >> clsid & 1) && free->left[clsid] > 0)
            return false;
    return true;
}

/* Under the mutex. */
static void update_busy(struct crawler *crawler)
{
    bool busy =
        crawler->freeing || crawler->showing || crawler->free_classes || crawler->free.walk.active;

    __atomic_store_n(&crawler->busy, busy, __ATOMIC_RELAXED);
}

/* Reports a crawl to the watchers in memcached's format, which has a line for each LRU list. */
static void report(struct store *store, unsigned int clsid, const struct forecast_found *found,
                   const struct forecast *before, struct forecast *after, rel_time now)
{
    event_system(store,
                 "type=lru_crawler crawler=%u lru=all low_mark=%" PRIu64 " next_reclaims=%" PRIu64
                 " since_run=%" PRIu32 " next_run=%" PRIu32 " elapsed=%" PRIu32 " examined=%" PRIu64
                 " reclaimed=%" PRIu64,
                 clsid, forecast_worth(after->live), after->expected,
                 before->since ? now - before->since : 0, forecast_wait(after, after->stored, now),
                 now - store->crawler.free.began, found->seen, found->dead);
}

static void end_free(struct store *store, rel_time now)
{
    struct crawler *crawler = &store->crawler;
    uint64_t classes = crawler->free.walk.classes;
    struct forecast before[MC_CLASSES], after[MC_CLASSES];
    uint64_t sets[MC_CLASSES];

    stats_sets(store, sets);
    pthread_mutex_lock(&crawler->mutex);
    memcpy(before, crawler->forecasts, sizeof(before));
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        if (classes >> clsid & 1)
            forecast_learn(&crawler->forecasts[clsid], &crawler->free.found[clsid], sets[clsid],
                           now);
    }
    memcpy(after, crawler->forecasts, sizeof(after));
    pthread_mutex_unlock(&crawler->mutex);
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++)
        if ((classes >> clsid & 1) && crawler->free.found[clsid].seen > 0)
            report(store, clsid, &crawler->free.found[clsid], &before[clsid], &after[clsid], now);
    pthread_mutex_lock(&crawler->mutex);
    crawler->free.walk.active = false;
    crawler->freeing = crawler->free_classes != 0 && crawler->freeing;
    update_busy(crawler);
    pthread_mutex_unlock(&crawler->mutex);
}

/* Returns how much was done, in items. */
static unsigned int free_round(struct store *store, rel_time now)
{
    struct free_walk *free = &store->crawler.free;
    struct round round = {.store = store, .now = now};
    const struct table_walker walker = {&round, wants_free, visit_free};

    while (round_goes_on(&round) && !free_is_done(store)) {
        step_walk(&free->walk, table_walk(&store->table, free->walk.position, &walker));
        round.nbuckets++;
    }
    add_counts(store);
    if (free_is_done(store))
        end_free(store, now);
    return round.nitems + round.nbuckets / BUCKETS_AS_ITEM + 1;
}

/* --- showing ---------------------------------------------------------------- */

/* A record is a struct store_shown, whose key has no pointer yet, and the key behind it. */
static size_t record_bytes(size_t nkey)
{
    size_t align = _Alignof(struct store_shown);

    return sizeof(struct store_shown) + (nkey + align - 1) / align * align;
}

static struct store_shown *record_at(const struct show_walk *show, size_t offset)
{
    return (struct store_shown *)(void *)(show->records + offset);
}

static bool wants_show(void *context, uint32_t ref)
{
    const struct round *round = context;

    return wants_page(round->store, round->store->crawler.show.walk.classes, ref);
}

static bool visit_show(void *context, struct mc_item *item, const struct table_spot *spot)
{
    struct round *round = context;
    struct store *store = round->store;
    struct show_walk *show = &store->crawler.show;
    struct store_shown *record = record_at(show, show->used);

    if (!wants_item(&show->walk, item) ||
        flush_is_dead_at(item, spot->head, flush_epoch(store), round->now))
        return false;
    if (show->size - show->used < record_bytes(item->nkey)) {
        show->overrun = true;
        return false;
    }
    verb_take_reads(item, spot, round->now);
    *record = (struct store_shown){
        .key = {NULL, item->nkey},
        .binary_key = item_has_binary_key(item),
        .fetched = item->flags & MC_ITEM_FETCHED,
        .exptime = item->exptime,
        .last_use = item->time,
        .cas = store->config.cas ? item->cas : 0,
        .clsid = lru_class_of(item),
        .size = item_bytes(item),
    };
    memcpy(record + 1, item->wire, item->nkey);
    show->used += record_bytes(item->nkey);
    return false;
}

/* Ends the walk, complete or not. The viewer is called last: it may then start another walk. */
static void end_show(struct store *store, bool whole)
{
    struct crawler *crawler = &store->crawler;
    struct store_viewer viewer = crawler->show.viewer;

    add_counts(store);
    free(crawler->show.records);
    crawler->show.records = NULL;
    crawler->show.walk.active = false;
    pthread_mutex_lock(&crawler->mutex);
    crawler->showing = false;
    update_busy(crawler);
    pthread_mutex_unlock(&crawler->mutex);
    viewer.end(viewer.context, whole);
}

static void begin_show(struct store *store, uint64_t classes, const struct store_viewer *viewer)
{
    struct show_walk *show = &store->crawler.show;

    begin_walk(&show->walk, classes);
    show->walk.position = 0;
    show->viewer = *viewer;
    show->used = show->next = show->full_since = 0;
    show->size = RECORDS_BYTES;
    show->records = malloc(show->size);
    if (!show->records)
        end_show(store, false);
}

/* The records of the next bucket. False: no memory for them. */
static bool fetch_records(struct round *round)
{
    struct show_walk *show = &round->store->crawler.show;
    const struct table_walker walker = {round, wants_show, visit_show};
    uint64_t width;
    char *larger;

    show->used = show->next = 0;
    show->overrun = false;
    width = table_walk(&round->store->table, show->walk.position, &walker);
    round->nbuckets++;
    if (!show->overrun) {
        step_walk(&show->walk, width);
        return true;
    }
    /* A long chain, without room to grow the table. It is walked again. */
    larger = realloc(show->records, show->size * 2);
    if (!larger)
        return false;
    show->records = larger;
    show->size *= 2;
    show->used = 0;
    return true;
}

/* Gives the viewer the next record; after the last one, NULL. */
static enum store_taken show_next(struct crawler *crawler)
{
    struct show_walk *show = &crawler->show;
    struct store_shown *record = record_at(show, show->next);
    enum store_taken taken;

    if (show->next == show->used)
        return show->viewer.take(show->viewer.context, NULL);
    record->key.ptr = (const char *)(record + 1);
    taken = show->viewer.take(show->viewer.context, record);
    if (taken == STORE_TAKEN) {
        crawler->counts[record->clsid].checked++;
        show->next += record_bytes(record->key.len);
    }
    return taken;
}

/* Whether the viewer has had no room for too long. */
static bool is_stuck(struct show_walk *show, unsigned int patience_ms)
{
    uint64_t now = clock_exact_ns() / 1000000;

    if (show->full_since == 0)
        show->full_since = now;
    return now - show->full_since > patience_ms;
}

/* Returns how much was done; 0: there is no room. */
static unsigned int show_round(struct store *store, rel_time now)
{
    struct show_walk *show = &store->crawler.show;
    struct round round = {.store = store, .now = now};

    while (show->walk.active && round_goes_on(&round)) {
        bool last = show->next == show->used && show->walk.covered >= WHOLE;
        enum store_taken taken;

        if (show->next == show->used && !last) {
            if (!fetch_records(&round))
                end_show(store, false);
            continue;
        }
        taken = show_next(&store->crawler);
        if (taken == STORE_FULL) {
            if (is_stuck(show, store->crawler.patience_ms))
                end_show(store, false);
            break;
        }
        show->full_since = 0;
        round.nitems++;
        if (last || taken == STORE_ENOUGH)
            end_show(store, taken == STORE_TAKEN);
    }
    add_counts(store);
    return round.nitems + (round.nbuckets + BUCKETS_AS_ITEM - 1) / BUCKETS_AS_ITEM;
}

/* --- the thread -------------------------------------------------------------- */

/* Under the mutex. */
static void begin_free_asked(struct store *store)
{
    struct crawler *crawler = &store->crawler;
    uint64_t classes = crawler->free_classes;

    if (!classes)
        return;
    /* One that the maintainer had begun goes into this one. */
    if (crawler->free.walk.active)
        classes |= crawler->free.walk.classes;
    crawler->free_classes = 0;
    begin_free(store, classes);
    __atomic_fetch_add(&crawler->nstarts, 1, __ATOMIC_RELAXED);
}

static void begin_asked(struct store *store)
{
    struct crawler *crawler = &store->crawler;
    struct store_viewer viewer;
    uint64_t show_classes;

    pthread_mutex_lock(&crawler->mutex);
    begin_free_asked(store);
    show_classes = crawler->show_classes;
    viewer = crawler->viewer;
    crawler->show_classes = 0;
    pthread_mutex_unlock(&crawler->mutex);
    if (show_classes) {
        __atomic_fetch_add(&crawler->nstarts, 1, __ATOMIC_RELAXED);
        begin_show(store, show_classes, &viewer);
    }
}

/* Some work for each walk; returns for how many microseconds to sleep after it. */
static uint64_t do_round(struct store *store)
{
    struct crawler *crawler = &store->crawler;
    rel_time now = clock_now(&store->config.clock);
    unsigned int work = 0;

    if (!crawler->free.walk.active && !crawler->show.walk.active)
        return IDLE_US;
    verb_begin(store, now);
    if (crawler->free.walk.active)
        work += free_round(store, now);
    if (crawler->show.walk.active)
        work += show_round(store, now);
    if (work == 0 && crawler->show.walk.active)
        crawler->show.viewer.wait(crawler->show.viewer.context, ROOM_MS);
    crawler->unslept += work;
    if (crawler->unslept < PAUSE_ITEMS)
        return 0;
    crawler->unslept = 0;
    return tuned_crawler_sleep_us(store);
}

static void *run(void *context)
{
    struct store *store = context;
    struct crawler *crawler = &store->crawler;
    uint64_t us = 0;

    while (!background_sleep(&crawler->background, us)) {
        begin_asked(store);
        us = do_round(store);
    }
    /* A viewer whose walk was accepted gets its last call. */
    begin_asked(store);
    if (crawler->show.walk.active)
        end_show(store, false);
    return NULL;
}

int store_crawler_start(struct store *store)
{
    struct crawler *crawler = &store->crawler;
    int error;

    pthread_mutex_lock(&crawler->control);
    error = background_start(&crawler->background, run, store);
    if (error == 0) {
        pthread_mutex_lock(&crawler->mutex);
        __atomic_store_n(&crawler->on, true, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&crawler->mutex);
    }
    pthread_mutex_unlock(&crawler->control);
    return error;
}

void store_crawler_stop(struct store *store)
{
    struct crawler *crawler = &store->crawler;

    pthread_mutex_lock(&crawler->control);
    pthread_mutex_lock(&crawler->mutex);
    __atomic_store_n(&crawler->on, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&crawler->mutex);
    background_stop(&crawler->background);
    pthread_mutex_lock(&crawler->mutex);
    crawler->free.walk.active = crawler->freeing = false;
    crawler->free_classes = 0;
    update_busy(crawler);
    pthread_mutex_unlock(&crawler->mutex);
    pthread_mutex_unlock(&crawler->control);
}

int crawler_init(struct store *store)
{
    struct crawler *crawler = &store->crawler;
    int error = background_init(&crawler->background);

    if (error)
        return error;
    crawler->patience_ms = PATIENCE_MS;
    error = pthread_mutex_init(&crawler->mutex, NULL);
    if (!error)
        error = pthread_mutex_init(&crawler->control, NULL);
    return -error;
}

void crawler_fini(struct store *store)
{
    assert(!store->crawler.on);
    background_fini(&store->crawler.background);
    pthread_mutex_destroy(&store->crawler.mutex);
    pthread_mutex_destroy(&store->crawler.control);
}
