/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/mover.h"

#include "store/event.h"
#include "store/flash_item.h"
#include "store/flash_reserve.h"
#include "store/internal.h"
#include "store/reclaim.h"
#include "store/store_mover.h"
#include "store/tuning.h"
#include "store/verbs.h"

enum {
    SLICE_CHUNKS = 128,      /* looked at before the thread sleeps */
    SLICE_BYTES = 256 << 10, /* copied before it does */
    SLICE_US = 50,           /* how long it then sleeps */
    BUSY_US = 1000,          /* for the first rounds on a page that is not free yet, */
    BUSY_DOUBLES = 16,       /* rounds after which it is twice as long, */
    BUSY_ROUNDS = 64,        /* up to this one, */
    BUSY_MAX_US = 16000,     /* and for a late one */
    DELETE_ROUNDS = 100,     /* after which held items with parts are deleted */
    GIVE_UP_ROUNDS = 1000,   /* and their page is left to its class */
    IDLE_US = 1000000,       /* between two looks at the classes */
    EVICT_TRIES = 64,        /* items evicted for one chunk */
    MIN_PAGES = 2,           /* of a class that can give one */
    ANY_CLASS = MC_CLASSES,  /* as a source: the mover finds one */
};

/* The result of an attempt to empty a chunk. */
enum outcome {
    CHUNK_FREE,     /* it is empty, or will be when its item's holders let go */
    CHUNK_BUSY,     /* try again later */
    CHUNK_NO_SPARE, /* there is no chunk to move to */
};

/* The owner of a chunk: an item, as itself or as a part. */
struct owner {
    struct mc_item *item;
    uint64_t hash;
    struct lock *stripe; /* held */
    bool part;
    uint32_t index;
};

/* --- one chunk ------------------------------------------------------------- */

/* Finds out who has the chunk, and takes its stripe. Under the lock of the slab class. */
static enum outcome identify(struct store *store, uint32_t ref, struct owner *owner)
{
    struct mc_item *item = heap_at(&store->heap, ref);
    /* Acquire: pairs with the release of who filled in what the flags tell of. */
    unsigned int flags = __atomic_load_n(&item->flags, __ATOMIC_ACQUIRE);

    owner->part = flags & MC_ITEM_CHUNK;
    if (flags & MC_ITEM_SLABBED)
        return CHUNK_FREE;
    if (owner->part) {
        const struct item_chunk *chunk = (const struct item_chunk *)item;

        owner->index = chunk->index;
        item = heap_at(&store->heap, chunk->owner);
        flags = __atomic_load_n(&item->flags, __ATOMIC_ACQUIRE);
    }
    if (!(flags & MC_ITEM_LINKED))
        return CHUNK_BUSY;
    owner->item = item;
    owner->hash = hash_key(store->control, item_key(item));
    owner->stripe = table_stripe(&store->table, owner->hash);
    return CHUNK_BUSY;
}

/* True: the owner's stripe is held. Otherwise *outcome says why not. */
static bool find_owner(struct store *store, uint32_t ref, struct owner *owner,
                       enum outcome *outcome)
{
    struct slab_class *class = &store->slabs.classes[store->mover.from];
    bool held;

    *owner = (struct owner){0};
    lock_take(&class->lock, LOCK_SLAB);
    *outcome = identify(store, ref, owner);
    held = owner->stripe && lock_try(owner->stripe, LOCK_STRIPE);
    lock_release(&class->lock, LOCK_SLAB);
    return held;
}

/* The item's new chunk takes its place in table and LRU. Under the stripe. */
static void move_item(struct store *store, struct mc_item *item, const struct table_spot *spot,
                      uint32_t to)
{
    struct lru *lru = &store->lrus[lru_class_of(item)];
    struct mc_item *copy = heap_at(&store->heap, to);
    bool compound = item->flags & ITEM_COMPOUND;

    item_move(store, copy, item);
    lock_take(&lru->lock, LOCK_LRU);
    table_replace(spot, to);
    lru_replace(lru, &store->heap, item, copy);
    item_clear_flags(item, MC_ITEM_LINKED | MC_ITEM_SIZED);
    lock_release(&lru->lock, LOCK_LRU);
    atomic_count(&store->mover.counts.rescues);
    if (compound)
        slab_free(&store->slabs, heap_ref(&store->heap, item)); /* the rest is the copy's */
    else
        item_put(store, item);
}

static void move_part(struct store *store, const struct owner *owner, uint32_t ref, uint32_t to)
{
    item_move_part(store, owner->item, owner->index, to);
    slab_free(&store->slabs, ref);
    atomic_count(&store->mover.counts.chunk_rescues);
}

/* An item of several pieces that somebody holds. */
static enum outcome wait_for_holders(struct store *store, const struct owner *owner,
                                     const struct table_spot *spot)
{
    if (store->mover.nrounds >= DELETE_ROUNDS && store->config.evict) {
        atomic_count(&store->mover.counts.busy_deletes);
        reclaim_unlink(store, owner->item, owner->hash, spot);
    }
    return CHUNK_BUSY;
}

/* Under the owner's stripe. */
static enum outcome move_owner(struct store *store, const struct owner *owner, uint32_t ref,
                               rel_time now)
{
    struct mover *mover = &store->mover;
    struct mc_item *item = owner->item;
    struct table_spot spot;

    if (!table_find_ref(&store->table, owner->hash, heap_ref(&store->heap, item), &spot))
        return CHUNK_BUSY;
    verb_take_reads(item, &spot, now);
    if (flush_is_dead_at(item, spot.head, flush_epoch(store), now) ||
        flash_item_is_lost(store, item)) {
        atomic_count(&mover->counts.inline_reclaim);
        reclaim_unlink(store, item, owner->hash, &spot);
        return CHUNK_FREE;
    }
    /* Acquire: pairs with the release of the last holder that let go. */
    if (item->flags & ITEM_COMPOUND && __atomic_load_n(&item->refcount, __ATOMIC_ACQUIRE) > 1)
        return wait_for_holders(store, owner, &spot);
    if (!mover->spare)
        return CHUNK_NO_SPARE;
    if (owner->part)
        move_part(store, owner, ref, mover->spare);
    else
        move_item(store, item, &spot, mover->spare);
    mover->spare = 0;
    return CHUNK_FREE;
}

/* Deletes an item that cannot be moved. */
static void delete_owner(struct store *store, const struct owner *owner)
{
    struct table_spot spot;

    if (!table_find_ref(&store->table, owner->hash, heap_ref(&store->heap, owner->item), &spot))
        return;
    atomic_count(&store->mover.counts.evictions_nomem);
    reclaim_unlink(store, owner->item, owner->hash, &spot);
}

static bool is_free(const struct store *store, uint32_t ref)
{
    const struct mc_item *chunk = heap_at(&store->heap, ref);

    return __atomic_load_n(&chunk->flags, __ATOMIC_RELAXED) & MC_ITEM_SLABBED;
}

/*
 * Finds a chunk to move to, by eviction if need be, until there is one or `ref` itself has become
 * free. Evicted items may be in the page that is being emptied, and give no such chunk. False:
 * nothing can be evicted.
 */
static bool find_spare(struct store *store, uint32_t ref, rel_time now)
{
    struct mover *mover = &store->mover;

    mover->spare = slab_alloc_spare(&store->slabs, mover->from);
    for (int i = 0; i < EVICT_TRIES && !mover->spare && !is_free(store, ref); i++) {
        if (!store->config.evict || !reclaim_evict(store, mover->from, now))
            return false;
        atomic_count(&mover->counts.evictions_nomem);
        mover->spare = slab_alloc_spare(&store->slabs, mover->from);
    }
    return true;
}

static enum outcome move_chunk(struct store *store, uint32_t ref, rel_time now)
{
    struct owner owner;
    enum outcome outcome;
    bool hope;

    if (!find_owner(store, ref, &owner, &outcome))
        return outcome;
    outcome = move_owner(store, &owner, ref, now);
    lock_release(owner.stripe, LOCK_STRIPE);
    if (outcome != CHUNK_NO_SPARE)
        return outcome;
    hope = find_spare(store, ref, now);
    if (!find_owner(store, ref, &owner, &outcome))
        return outcome;
    outcome = move_owner(store, &owner, ref, now);
    if (outcome == CHUNK_NO_SPARE && !hope && store->config.evict)
        delete_owner(store, &owner);
    lock_release(owner.stripe, LOCK_STRIPE);
    return outcome == CHUNK_NO_SPARE ? CHUNK_BUSY : outcome;
}

/* --- one page -------------------------------------------------------------- */

static void finish(struct store *store)
{
    struct mover *mover = &store->mover;

    if (mover->spare)
        slab_free(&store->slabs, mover->spare);
    mover->spare = 0;
    mover->page = 0;
    __atomic_store_n(&mover->job, 0, __ATOMIC_RELEASE);
}

static void finish_moved(struct store *store)
{
    struct mover *mover = &store->mover;

    atomic_count(&mover->counts.moved);
    event_system(store, "type=slab_move src=%u dst=%u", mover->from, mover->to);
    mover->avoid = 0;
    finish(store);
}

static void give_up(struct store *store)
{
    struct mover *mover = &store->mover;

    slab_page_open(&store->slabs, mover->page);
    mover->avoid = mover->page;
    finish(store);
}

static void begin(struct store *store, uint32_t job)
{
    struct mover *mover = &store->mover;

    mover->from = job >> 8;
    mover->to = (job & 0xff) - 1;
    if (mover->from == ANY_CLASS)
        mover->from = mover_any_source(store, mover->to);
    else if (mover->from == 0 && slab_pool_give(&store->slabs, mover->to)) {
        finish_moved(store);
        return;
    }
    if (mover->from)
        mover->page = slab_page_pick(&store->slabs, mover->from, mover->avoid);
    if (!mover->page) {
        finish(store);
        return;
    }
    mover->ncarved = slab_page_close(&store->slabs, mover->page);
    mover->next = mover->nrounds = 0;
}

/* At the end of a round over the page. Returns how long to wait for the next one. */
static uint64_t end_round(struct store *store)
{
    struct mover *mover = &store->mover;

    if (slab_page_take(&store->slabs, mover->page, mover->to)) {
        finish_moved(store);
        return 0;
    }
    mover->next = 0;
    if (++mover->nrounds == GIVE_UP_ROUNDS ||
        (mover->nrounds >= DELETE_ROUNDS && !store->config.evict)) {
        give_up(store);
        return 0;
    }
    return mover->nrounds < BUSY_ROUNDS ? BUSY_US << mover->nrounds / BUSY_DOUBLES : BUSY_MAX_US;
}

static uint64_t move_slice(struct store *store, rel_time now)
{
    struct mover *mover = &store->mover;
    uint32_t size = store->slabs.classes[mover->from].size;
    uint32_t first = slab_page_ref(&store->slabs, mover->page);
    unsigned int ncopied = 0;

    for (unsigned int i = 0; i < SLICE_CHUNKS && mover->next < mover->ncarved; i++) {
        uint32_t ref = first + mover->next++ * (size >> store->heap.ref_shift);

        if (move_chunk(store, ref, now) == CHUNK_BUSY)
            atomic_count(&mover->counts.busy_items);
        ncopied += size;
        if (ncopied >= SLICE_BYTES)
            break;
    }
    return mover->next < mover->ncarved ? SLICE_US : end_round(store);
}

/* --- which page -------------------------------------------------------------- */

static uint64_t npages_of(struct store *store, unsigned int clsid)
{
    struct slab_stats stats;

    slab_class_stats(&store->slabs, clsid, &stats);
    return stats.total_pages;
}

bool mover_ask(struct store *store, unsigned int from, unsigned int to)
{
    uint32_t idle = 0, job = from << 8 | (to + 1);

    if (!__atomic_compare_exchange_n(&store->mover.job, &idle, job, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    background_wake(&store->mover.background);
    return true;
}

unsigned int mover_any_source(struct store *store, unsigned int to)
{
    unsigned int n = store->slabs.nclasses;
    uint32_t next = __atomic_fetch_add(&store->mover.next_source, 1, __ATOMIC_RELAXED);

    for (unsigned int i = 0; i < n; i++) {
        unsigned int clsid = (next + i) % n + 1;

        if (clsid != to && npages_of(store, clsid) >= MIN_PAGES) {
            __atomic_store_n(&store->mover.next_source, clsid, __ATOMIC_RELAXED);
            return clsid;
        }
    }
    return 0;
}

void mover_evicted(struct store *store, unsigned int clsid)
{
    struct mover *mover = &store->mover;

    if (__atomic_load_n(&mover->on, __ATOMIC_RELAXED) &&
        __atomic_load_n(&mover->job, __ATOMIC_RELAXED) == 0)
        mover_ask(store, ANY_CLASS, clsid);
}

/* The class to take a page from when over the limit: with most free pages, else the largest. */
static unsigned int heaviest(struct store *store)
{
    uint64_t most = 0;
    unsigned int best = 0;

    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        struct slab_stats stats;
        uint64_t weight;

        slab_class_stats(&store->slabs, clsid, &stats);
        weight = stats.total_pages + (stats.free_chunks / stats.chunks_per_page << 32);
        if (stats.total_pages >= MIN_PAGES && weight > most) {
            most = weight;
            best = clsid;
        }
    }
    return best;
}

static void take_sample(struct store *store, unsigned int clsid, struct automove_sample *out,
                        rel_time now)
{
    struct lru *lru = &store->lrus[clsid];
    const struct mc_item *tail;
    struct slab_stats slab;

    slab_class_stats(&store->slabs, clsid, &slab);
    out->free_chunks = slab.free_chunks - slab.kept_chunks;
    out->chunks_per_page = slab.chunks_per_page;
    out->npages = slab.total_pages;
    lock_take(&lru->lock, LOCK_LRU);
    out->evicted = lru->counts.evicted;
    tail = lru_tail(lru, &store->heap, LRU_COLD);
    out->age = tail ? item_age(tail, now) : 0;
    lock_release(&lru->lock, LOCK_LRU);
}

/* Whether it has asked for a page. */
static bool consider(struct store *store, rel_time now)
{
    struct automove *automove = &store->mover.automove;
    struct automove_sample samples[MC_CLASSES] = {{0}};
    unsigned int n = store->slabs.nclasses, window = store->config.automove_window;
    struct automove_choice choice;
    unsigned int source;

    slab_trim_pool(&store->slabs);
    source = slab_excess(&store->slabs) > 0 ? heaviest(store) : 0;
    if (source)
        return mover_ask(store, source, 0);
    if (tuned_automove(store) == 0)
        return false;
    for (unsigned int clsid = 1; clsid <= n; clsid++)
        take_sample(store, clsid, &samples[clsid], now);
    choice = automove_choose(automove, samples, n, window, tuned_automove_ratio(store), now);
    if (choice.from == AUTOMOVE_NONE || !flash_reserve_allows(store, choice.from, choice.to))
        return false;
    return mover_ask(store, (unsigned int)choice.from, (unsigned int)choice.to);
}

/* --- the thread ------------------------------------------------------------------ */

uint64_t mover_step(struct store *store, rel_time now)
{
    struct mover *mover = &store->mover;
    uint32_t job = __atomic_load_n(&mover->job, __ATOMIC_ACQUIRE);

    if (mover->page)
        return move_slice(store, now);
    if (job == 0)
        return consider(store, now) ? 0 : IDLE_US;
    begin(store, job);
    return 0;
}

static void *run(void *context)
{
    struct store *store = context;
    uint64_t us = 0;

    while (!background_sleep(&store->mover.background, us))
        us = mover_step(store, clock_now(&store->config.clock));
    return NULL;
}

int mover_init(struct store *store)
{
    return background_init(&store->mover.background);
}

void mover_fini(struct store *store)
{
    background_fini(&store->mover.background);
}

int store_mover_start(struct store *store)
{
    int error = background_start(&store->mover.background, run, store);

    if (!error)
        __atomic_store_n(&store->mover.on, true, __ATOMIC_RELAXED);
    return error;
}

void store_mover_stop(struct store *store)
{
    __atomic_store_n(&store->mover.on, false, __ATOMIC_RELAXED);
    background_stop(&store->mover.background);
}

/* --- requests ------------------------------------------------------------------------ */

/*
 * With flash storage the pool has all pages that classes may still take, as memcached's has: an
 * operator who wants a class to have no more memory moves those away too.
 */
uint32_t mover_pool(struct store *store)
{
    return store->config.flash ? slab_room(&store->slabs) : slab_npool(&store->slabs);
}

static bool has_spare(struct store *store, unsigned int from)
{
    return from == 0 ? mover_pool(store) > 0 : npages_of(store, from) >= MIN_PAGES;
}

enum store_reassign store_reassign(struct store *store, int from, int to)
{
    int n = (int)store->slabs.nclasses;

    if (!__atomic_load_n(&store->mover.on, __ATOMIC_RELAXED))
        return STORE_REASSIGN_OFF;
    if (__atomic_load_n(&store->mover.job, __ATOMIC_RELAXED) != 0)
        return STORE_REASSIGN_BUSY;
    if (from == to)
        return STORE_REASSIGN_SAME;
    if (to < 0 || to > n || from < -1 || from > n)
        return STORE_REASSIGN_BAD_CLASS;
    if (from == -1) {
        from = (int)mover_any_source(store, (unsigned int)to);
        /* memcached's answer in this case. */
        if (from == 0)
            return STORE_REASSIGN_BAD_CLASS;
    }
    if (!has_spare(store, (unsigned int)from))
        return STORE_REASSIGN_NO_SPARE;
    return mover_ask(store, (unsigned int)from, (unsigned int)to) ? STORE_REASSIGN_OK
                                                                  : STORE_REASSIGN_BUSY;
}
