/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/flush.h"

#include "store/external.h"
#include "store/internal.h"
#include "store/reclaim.h"

uint8_t flush_epoch(const struct store *store)
{
    return __atomic_load_n(&store->control->epoch, __ATOMIC_RELAXED);
}

void flush_init(struct store *store)
{
    store->flush = (struct flush){.oldest = flush_epoch(store)};
}

uint8_t flush_new_epoch(const struct store *store, uint8_t epoch, rel_time now)
{
    bool hidden =
        !store->config.cas && now <= __atomic_load_n(&store->flush.hidden_until, __ATOMIC_RELAXED);

    return hidden ? (uint8_t)(epoch - 1) : epoch;
}

/* --- sweeps -------------------------------------------------------------- */

struct sweep {
    struct store *store;
    rel_time now;
    unsigned int nchecked;
};

static bool sweep_item(void *context, struct mc_item *item, uint64_t hash,
                       const struct table_spot *spot)
{
    struct sweep *sweep = context;
    struct store *store = sweep->store;
    struct lru *lru = &store->lrus[lru_class_of(item)];
    bool dead =
        flush_is_dead(item, flush_epoch(store), sweep->now) || external_is_lost(store, item);

    sweep->nchecked++;
    __atomic_fetch_add(&lru->counts.crawler_items_checked, 1, __ATOMIC_RELAXED);
    if (!dead)
        return false;
    __atomic_fetch_add(&lru->counts.crawler_reclaimed, 1, __ATOMIC_RELAXED);
    reclaim_unlink(store, item, hash, spot);
    return true;
}

/* After a whole sweep that began in `epoch` the table holds nothing older. */
static void sweep_done(struct store *store, uint8_t epoch)
{
    struct flush *flush = &store->flush;
    uint8_t now = flush_epoch(store);
    /* Under -C the epoch before is still given to what is hidden. */
    uint8_t oldest = store->config.cas ? epoch : (uint8_t)(epoch - 1);

    if ((uint8_t)(now - oldest) < (uint8_t)(now - flush->oldest))
        flush->oldest = oldest;
}

unsigned int flush_sweep(struct store *store, uint32_t nlines, rel_time now)
{
    struct flush *flush = &store->flush;
    struct sweep sweep = {.store = store, .now = now};

    if (!flush->sweeping) {
        if (flush->sweep_epoch == flush_epoch(store))
            return 0;
        flush->sweeping = true;
        flush->sweep_epoch = flush_epoch(store);
        flush->sweep_next = 0;
    }
    /* A split moves items only to a line behind all that there were: none is missed. */
    while (nlines-- > 0 && flush->sweep_next < table_nlines(&store->table))
        table_sweep(&store->table, flush->sweep_next++, sweep_item, &sweep);
    if (flush->sweep_next >= table_nlines(&store->table)) {
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
    uint8_t epoch = flush_epoch(store);

    if ((uint8_t)(epoch + 1) == flush->oldest) {
        struct sweep sweep = {.store = store, .now = now};

        for (uint32_t i = 0; i < table_nlines(&store->table); i++)
            table_sweep(&store->table, i, sweep_item, &sweep);
        sweep_done(store, epoch);
    }
    __atomic_store_n(&flush->hidden_until, hidden_until, __ATOMIC_RELAXED);
    /* Sequentially consistent: before anything that our caller answers. */
    __atomic_store_n(&store->control->epoch, (uint8_t)(epoch + 1), __ATOMIC_SEQ_CST);
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
