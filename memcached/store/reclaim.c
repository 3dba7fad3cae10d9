/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/reclaim.h"

#include "store/event.h"
#include "store/flash_item.h"
#include "store/tuning.h"
#include "store/verbs.h"

enum {
    TAIL_TRIES = 5,    /* items whose stripe is taken, before a tail is given up */
    DEAD_LOOKS = 5,    /* items that a set looks at */
    VICTIM_STEPS = 32, /* judgements on the way to one eviction */
    FORCED_STEPS = 4,  /* of those the last, which evict active items as well */
    HELD_STEPS = 8,    /* held items that are met, before an LRU segment is given up */
    ALLOC_TRIES = 64,  /* other threads may take what was freed for us */
};

enum aim {
    AIM_BALANCE, /* move, and free what is dead */
    AIM_EVICT,   /* free what is at the tail of cold as well */
    AIM_FORCE,   /* free what is at the tail */
};

enum step { STEP_NONE, STEP_MOVED, STEP_HELD, STEP_FREED };

/* --- one item ------------------------------------------------------------ */

/* Under the stripe and the LRU lock. */
static void unlink_locked(struct store *store, struct mc_item *item, uint64_t hash,
                          const struct table_spot *spot)
{
    table_remove(&store->table, hash, spot);
    lru_unlink(&store->lrus[lru_class_of(item)], &store->heap, item);
    item_clear_flags(item, MC_ITEM_LINKED);
}

void reclaim_unlink(struct store *store, struct mc_item *item, uint64_t hash,
                    const struct table_spot *spot)
{
    struct lru *lru = &store->lrus[lru_class_of(item)];

    lock_take(&lru->lock, LOCK_LRU);
    unlink_locked(store, item, hash, spot);
    lock_release(&lru->lock, LOCK_LRU);
    item_put(store, item);
}

static enum step free_item(struct store *store, struct mc_item *item, uint64_t hash,
                           const struct table_spot *spot)
{
    bool last = __atomic_load_n(&item->refcount, __ATOMIC_RELAXED) == 1;

    unlink_locked(store, item, hash, spot);
    item_put(store, item);
    return last ? STEP_FREED : STEP_MOVED;
}

static enum step evict(struct store *store, struct lru *lru, struct mc_item *item, uint64_t hash,
                       const struct table_spot *spot, rel_time now)
{
    lru->counts.evicted++;
    lru->counts.evicted_nonzero += item->exptime != 0;
    lru->counts.evicted_unfetched += !(item->flags & MC_ITEM_FETCHED);
    lru->counts.evicted_active += (item->flags & MC_ITEM_ACTIVE) != 0;
    lru->evicted_time = item_age(item, now);
    if (__builtin_expect(tuned_automove(store) == 2, 0))
        mover_evicted(store, lru_class_of(item));
    if (lru_segment_of(item) == LRU_HOT && tuned_s3_fifo(store))
        ghost_note(&store->ghost, hash, table_nbuckets(&store->table));
    if (event_wanted(store, STORE_EVENT_ITEM))
        event_item(store, "eviction", item, -1, now);
    return free_item(store, item, hash, spot);
}

static enum step move(struct store *store, struct lru *lru, struct mc_item *item,
                      enum lru_segment to)
{
    enum lru_segment from = lru_segment_of(item);

    if (from == to)
        lru->counts.moves_within_lru++;
    else if (to == LRU_WARM)
        lru->counts.moves_to_warm++;
    else
        lru->counts.moves_to_cold++;
    item_clear_flags(item, MC_ITEM_ACTIVE);
    lru_move(lru, &store->heap, item, to);
    return STEP_MOVED;
}

/*
 * Judges an item by S3-FIFO: hot is its small queue, from which an item that was read goes to cold,
 * the main queue, and another is evicted. In cold one that was read stays, as if it were new.
 */
static enum step judge_s3_fifo(struct store *store, struct lru *lru, struct mc_item *item,
                               uint64_t hash, const struct table_spot *spot, enum aim aim,
                               rel_time now)
{
    enum lru_segment segment = lru_segment_of(item);
    unsigned int read = segment == LRU_HOT ? MC_ITEM_FETCHED | MC_ITEM_ACTIVE : MC_ITEM_ACTIVE;

    if (segment == LRU_WARM || item->flags & read)
        return move(store, lru, item, LRU_COLD);
    return aim == AIM_EVICT ? evict(store, lru, item, hash, spot, now) : STEP_NONE;
}

/* What becomes of a live item without holders. */
static enum step judge_live(struct store *store, struct lru *lru, struct mc_item *item,
                            uint64_t hash, const struct table_spot *spot, enum aim aim,
                            rel_time now)
{
    enum lru_segment again = tuned_lru_segmented(store) ? LRU_WARM : LRU_COLD;
    bool active = item->flags & MC_ITEM_ACTIVE;

    if (aim == AIM_FORCE)
        return evict(store, lru, item, hash, spot, now);
    if (lru_segment_of(item) != LRU_TEMP && tuned_s3_fifo(store))
        return judge_s3_fifo(store, lru, item, hash, spot, aim, now);
    switch (lru_segment_of(item)) {
    case LRU_HOT:
    case LRU_WARM:
        return move(store, lru, item, active ? again : LRU_COLD);
    case LRU_COLD:
        if (active)
            return move(store, lru, item, again);
        break;
    case LRU_TEMP:
        /* A touch gave it a later expiry, so it would block the tail. */
        if (!lru_is_temporary(item, tuned_temporary_ttl(store), now))
            return move(store, lru, item, LRU_COLD);
        break;
    case LRU_SEGMENTS:
        break;
    }
    return aim == AIM_EVICT ? evict(store, lru, item, hash, spot, now) : STEP_NONE;
}

/* Held for so long that it is unlinked; its memory stays until the holder lets go. */
static bool is_stuck(const struct store *store, const struct mc_item *item, rel_time now)
{
    return store->config.tail_repair_time != 0 &&
           item_age(item, now) > store->config.tail_repair_time;
}

/* Under the stripe and the LRU lock. */
static enum step free_dead(struct store *store, struct lru *lru, struct mc_item *item,
                           uint64_t hash, const struct table_spot *spot)
{
    lru->counts.reclaimed++;
    lru->counts.expired_unfetched += !(item->flags & MC_ITEM_FETCHED);
    return free_item(store, item, hash, spot);
}

/* Under the stripe and the LRU lock. */
static enum step judge(struct store *store, struct lru *lru, struct mc_item *item, uint64_t hash,
                       enum aim aim, rel_time now)
{
    struct table_spot spot;
    bool linked = table_find_ref(&store->table, hash, heap_ref(&store->heap, item), &spot);

    assert(linked);
    if (!linked)
        return STEP_NONE;
    verb_take_reads(item, &spot, now);
    /* A stub whose value is lost stays until its memory is needed: its get counts as such. */
    if (flush_is_dead_at(item, spot.head, flush_epoch(store), now) ||
        (aim != AIM_BALANCE && flash_item_is_lost(store, item)))
        return free_dead(store, lru, item, hash, &spot);
    if (aim != AIM_BALANCE && __atomic_load_n(&item->refcount, __ATOMIC_RELAXED) > 1) {
        if (is_stuck(store, item, now)) {
            lru->counts.tailrepairs++;
            return free_item(store, item, hash, &spot);
        }
        lru_move(lru, &store->heap, item, lru_segment_of(item));
        return STEP_HELD;
    }
    return judge_live(store, lru, item, hash, &spot, aim, now);
}

/* Judges the item nearest to a tail whose stripe is free. Under the LRU lock. */
static enum step judge_tail(struct store *store, struct lru *lru, enum lru_segment segment,
                            enum aim aim, rel_time now)
{
    struct mc_item *item = lru_tail(lru, &store->heap, segment);

    for (int i = 0; item && i < TAIL_TRIES; i++) {
        uint64_t hash = hash_key(store->control, item_key(item));
        struct lock *stripe = table_stripe(&store->table, hash);

        if (lock_try(stripe, LOCK_STRIPE)) {
            enum step step = judge(store, lru, item, hash, aim, now);

            lock_release(stripe, LOCK_STRIPE);
            return step;
        }
        lru->counts.lrutail_reflocked++;
        item = lru_before(&store->heap, item);
    }
    return STEP_NONE;
}

void reclaim_dead(struct store *store, unsigned int clsid, rel_time now)
{
    struct lru *lru = &store->lrus[clsid];
    struct mc_item *item, *next;
    struct table_spot spot;

    lock_take(&lru->lock, LOCK_LRU);
    item = lru_tail(lru, &store->heap, LRU_COLD);
    for (int i = 0; item && i < DEAD_LOOKS; i++, item = next) {
        uint64_t hash = hash_key(store->control, item_key(item));
        struct lock *stripe = table_stripe(&store->table, hash);

        next = lru_before(&store->heap, item);
        if (!lock_try(stripe, LOCK_STRIPE))
            continue;
        if (table_find_ref(&store->table, hash, heap_ref(&store->heap, item), &spot) &&
            flush_is_dead_at(item, spot.head, flush_epoch(store), now))
            free_dead(store, lru, item, hash, &spot);
        lock_release(stripe, LOCK_STRIPE);
    }
    lock_release(&lru->lock, LOCK_LRU);
}

/* --- eviction ------------------------------------------------------------ */

static bool over_share(const struct lru *lru, enum lru_segment segment, unsigned int percent)
{
    return lru->lists[segment].nbytes * 100 > lru_bytes(lru) * percent;
}

/* The LRU segment to evict from, LRU_SEGMENTS: none. given_up has a bit for each. */
static enum lru_segment victim_lru_segment(const struct store *store, const struct lru *lru,
                                           unsigned int given_up)
{
    static const enum lru_segment order[] = {LRU_COLD, LRU_HOT, LRU_WARM, LRU_TEMP};
    bool warm_first = over_share(lru, LRU_WARM, tuned_pct(store, LRU_WARM));
    bool hot_first = tuned_s3_fifo(store) && over_share(lru, LRU_HOT, tuned_pct(store, LRU_HOT));

    for (size_t i = 0; i < LRU_SEGMENTS; i++) {
        enum lru_segment segment = order[i];

        if (segment == LRU_COLD && hot_first && !(given_up & 1u << LRU_HOT))
            segment = LRU_HOT;
        if (segment == LRU_HOT && warm_first && !(given_up & 1u << LRU_WARM))
            segment = LRU_WARM;
        if (lru->lists[segment].nitems > 0 && !(given_up & 1u << segment))
            return segment;
    }
    return LRU_SEGMENTS;
}

/* Frees one item of the class; false: it could not. */
static bool reclaim_one(struct store *store, unsigned int clsid, rel_time now)
{
    struct lru *lru = &store->lrus[clsid];
    enum step step = STEP_NONE;
    unsigned int given_up = 0, nheld = 0;

    lock_take(&lru->lock, LOCK_LRU);
    lru->counts.direct_reclaims++;
    for (int i = 0; i < VICTIM_STEPS && step != STEP_FREED; i++) {
        enum lru_segment segment = victim_lru_segment(store, lru, given_up);
        enum aim aim = i < VICTIM_STEPS - FORCED_STEPS ? AIM_EVICT : AIM_FORCE;

        if (segment == LRU_SEGMENTS)
            break;
        step = judge_tail(store, lru, segment, store->config.evict ? aim : AIM_BALANCE, now);
        nheld += step == STEP_HELD;
        if (step == STEP_NONE || (step == STEP_HELD && nheld >= HELD_STEPS))
            given_up |= 1u << segment;
        else
            given_up = 0;
    }
    lock_release(&lru->lock, LOCK_LRU);
    return step == STEP_FREED;
}

bool reclaim_evict(struct store *store, unsigned int clsid, rel_time now)
{
    return reclaim_one(store, clsid, now);
}

static uint32_t alloc_evicting(struct store *store, unsigned int clsid, rel_time now)
{
    for (int i = 0; i < ALLOC_TRIES; i++) {
        uint32_t ref = slab_alloc(&store->slabs, clsid);

        if (ref)
            return ref;
        if (store->config.flash)
            background_wake(&store->flash_threads.write);
        if (!reclaim_one(store, clsid, now))
            return 0;
    }
    return 0;
}

/*
 * For a part of a chunked item whose own class has neither memory nor items to evict, as when it is
 * full of parts of other items: a larger chunk.
 */
static uint32_t alloc_larger(struct store *store, size_t size, unsigned int largest, rel_time now)
{
    for (int i = 0; i < ALLOC_TRIES; i++) {
        for (unsigned int clsid = 1; clsid <= largest; clsid++) {
            bool fits = store->slabs.classes[clsid].size >= size;
            uint32_t ref = fits ? slab_alloc(&store->slabs, clsid) : 0;

            if (ref)
                return ref;
        }
        if (!reclaim_one(store, largest, now))
            return 0;
    }
    return 0;
}

uint32_t reclaim_alloc(struct store *store, size_t size, unsigned int lru_class, rel_time now)
{
    unsigned int clsid = slab_class_of_size(&store->slabs, size);
    uint32_t ref = alloc_evicting(store, clsid, now);

    if (!ref && clsid != lru_class)
        ref = alloc_larger(store, size, lru_class, now);
    if (!ref) {
        struct lru *lru = &store->lrus[lru_class];

        lock_take(&lru->lock, LOCK_LRU);
        lru->counts.outofmemory++;
        lock_release(&lru->lock, LOCK_LRU);
    }
    return ref;
}

/* --- balance ------------------------------------------------------------- */

/* Whether an LRU segment has more than its share of the class, in bytes or in age. */
static bool overfull(const struct store *store, const struct lru *lru, enum lru_segment segment,
                     rel_time now)
{
    if (!tuned_lru_segmented(store) || over_share(lru, segment, tuned_pct(store, segment)))
        return true;
    return lru->lists[LRU_COLD].nitems > 0 &&
           lru_tail_age(lru, &store->heap, segment, now) >
               tuned_max_factor(store, segment) * lru_tail_age(lru, &store->heap, LRU_COLD, now);
}

unsigned int reclaim_balance(struct store *store, unsigned int clsid, unsigned int limit,
                             rel_time now)
{
    static const enum lru_segment order[] = {LRU_HOT, LRU_WARM, LRU_COLD, LRU_TEMP};
    struct lru *lru = &store->lrus[clsid];
    unsigned int nsteps = 0;

    lock_take(&lru->lock, LOCK_LRU);
    for (size_t i = 0; i < LRU_SEGMENTS; i++) {
        enum lru_segment segment = order[i];
        bool shared = segment == LRU_HOT || segment == LRU_WARM;
        unsigned int end = nsteps + limit;

        while (nsteps < end && lru->lists[segment].nitems > 0 &&
               (!shared || overfull(store, lru, segment, now)) &&
               judge_tail(store, lru, segment, AIM_BALANCE, now) != STEP_NONE)
            nsteps++;
    }
    lock_release(&lru->lock, LOCK_LRU);
    return nsteps;
}
