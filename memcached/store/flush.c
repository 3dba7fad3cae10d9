/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/flush.h"

#include "store/flash_item.h"
#include "store/internal.h"
#include "store/reclaim.h"

/* Flushes without a complete sweep, far below 2^32, where mc_is_behind would be wrong. */
enum { FLUSHES_MAX = 1u << 30 };

uint32_t flush_epoch(const struct store *store)
{
    return __atomic_load_n(&store->control->epoch, __ATOMIC_RELAXED);
}

void flush_init(struct store *store)
{
    store->flush = (struct flush){.oldest = flush_epoch(store)};
}

uint8_t flush_new_epoch(const struct store *store, uint32_t epoch, rel_time now)
{
    bool hidden =
        !store->config.cas && now <= __atomic_load_n(&store->flush.hidden_until, __ATOMIC_RELAXED);

    return (uint8_t)(hidden ? epoch - 1 : epoch);
}

/* --- sweeps -------------------------------------------------------------- */

struct sweep {
    struct store *store;
    const struct mc_bucket *head;
    uint32_t epoch;
    rel_time now;
    bool counted; /* as the crawler's */
    unsigned int nchecked;
};

static bool sweep_item(void *context, struct mc_item *item, uint64_t hash,
                       const struct table_spot *spot)
{
    struct sweep *sweep = context;
    struct store *store = sweep->store;
    struct lru *lru = &store->lrus[lru_class_of(item)];
    bool dead = flush_is_dead_at(item, sweep->head, sweep->epoch, sweep->now) ||
                flash_item_is_lost(store, item);

    sweep->nchecked++;
    if (sweep->counted)
        __atomic_fetch_add(&lru->counts.crawler_items_checked, 1, __ATOMIC_RELAXED);
    if (!dead)
        return false;
    if (sweep->counted)
        __atomic_fetch_add(&lru->counts.crawler_reclaimed, 1, __ATOMIC_RELAXED);
    reclaim_unlink(store, item, hash, spot);
    return true;
}

/* Under the stripe of the chain. */
static void clean(struct sweep *sweep, struct mc_bucket *head, uint32_t epoch)
{
    struct store *store = sweep->store;

    sweep->head = head;
    sweep->epoch = epoch;
    table_visit_chain(&store->table, head, sweep_item, sweep);
    /* Under -C the epoch before is still given to what is hidden. */
    table_set_swept(head, store->config.cas ? epoch : epoch - 1);
}

void flush_clean(struct store *store, struct mc_bucket *head, uint32_t epoch, rel_time now)
{
    struct sweep sweep = {.store = store, .now = now};

    clean(&sweep, head, epoch);
}

static void sweep_bucket(struct sweep *sweep, uint32_t index)
{
    struct lock *stripe;
    struct mc_bucket *head = table_bucket(&sweep->store->table, index, &stripe);

    lock_take(stripe, LOCK_STRIPE);
    clean(sweep, head, flush_epoch(sweep->store));
    lock_release(stripe, LOCK_STRIPE);
}

/* After a whole sweep that began in `epoch` no bucket was swept in an earlier one. */
static void sweep_done(struct store *store, uint32_t epoch)
{
    struct flush *flush = &store->flush;
    uint32_t now = flush_epoch(store);
    uint32_t oldest = store->config.cas ? epoch : epoch - 1;

    if (now - oldest < now - flush->oldest)
        flush->oldest = oldest;
}

static void sweep_all(struct store *store, rel_time now)
{
    struct sweep sweep = {.store = store, .now = now, .counted = true};
    uint32_t epoch = flush_epoch(store);

    for (uint32_t i = 0; i < table_nbuckets(&store->table); i++)
        sweep_bucket(&sweep, i);
    sweep_done(store, epoch);
}

void flush_settle(struct store *store, rel_time now)
{
    if (mc_is_behind(flush_epoch(store), store->flush.oldest))
        sweep_all(store, now);
}

unsigned int flush_sweep(struct store *store, uint32_t nbuckets, rel_time now)
{
    struct flush *flush = &store->flush;
    struct sweep sweep = {.store = store, .now = now, .counted = true};

    if (!flush->sweeping) {
        if (flush->sweep_epoch == flush_epoch(store))
            return 0;
        flush->sweeping = true;
        flush->sweep_epoch = flush_epoch(store);
        flush->sweep_next = 0;
    }
    /* A split moves items only to a bucket behind all that there were: none is missed. */
    while (nbuckets-- > 0 && flush->sweep_next < table_nbuckets(&store->table))
        sweep_bucket(&sweep, flush->sweep_next++);
    if (flush->sweep_next >= table_nbuckets(&store->table)) {
        flush->sweeping = false;
        lock_take(&flush->lock, LOCK_FLUSH);
        sweep_done(store, flush->sweep_epoch);
        lock_release(&flush->lock, LOCK_FLUSH);
    }
    return sweep.nchecked;
}

/* --- flushes ------------------------------------------------------------- */

/* Under the flush lock. */
static void advance(struct store *store, rel_time hidden_until, rel_time now)
{
    struct flush *flush = &store->flush;
    uint32_t epoch = flush_epoch(store);

    if (epoch - flush->oldest >= FLUSHES_MAX)
        sweep_all(store, now);
    __atomic_store_n(&flush->hidden_until, hidden_until, __ATOMIC_RELAXED);
    /* Sequentially consistent: before anything that our caller answers. */
    __atomic_store_n(&store->control->epoch, epoch + 1, __ATOMIC_SEQ_CST);
    /* Release: a kernel program that no longer sees the delay sees the epoch. */
    __atomic_store_n(&store->control->flush_at, 0, __ATOMIC_RELEASE);
}

void flush_now(struct store *store, rel_time now)
{
    lock_take(&store->flush.lock, LOCK_FLUSH);
    advance(store, now, now);
    lock_release(&store->flush.lock, LOCK_FLUSH);
}

void flush_later(struct store *store, rel_time at, rel_time now)
{
    if (at <= now) {
        flush_now(store, now);
        return;
    }
    /* One that is due has taken effect for every reader, and must stay. */
    flush_apply(store, now);
    lock_take(&store->flush.lock, LOCK_FLUSH);
    __atomic_store_n(&store->control->flush_at, at, __ATOMIC_SEQ_CST);
    lock_release(&store->flush.lock, LOCK_FLUSH);
}

void flush_apply(struct store *store, rel_time now)
{
    lock_take(&store->flush.lock, LOCK_FLUSH);
    if (store->control->flush_at != 0 && now >= store->control->flush_at)
        advance(store, 0, now);
    lock_release(&store->flush.lock, LOCK_FLUSH);
}
