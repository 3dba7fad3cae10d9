/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flash_write: the thread that writes values to flash. It takes items from the tails of the cold
 * LRU segments, when their class has little memory left or when they have not been used for long,
 * and puts items on flash into their place.
 */
#include <stdlib.h>

#include "store/event.h"
#include "store/flash_item.h"
#include "store/flash_reserve.h"
#include "store/reclaim.h"
#include "store/verbs.h"

enum {
    BATCH = 8,             /* items that are held at once: eviction gives up after some held ones */
    LOOKS = 256,           /* items that are looked at for them */
    ROUND_STEPS = 512,     /* items of one class in a round */
    PIECES = 16,           /* of a value, for which no memory is asked */
    SPARE_BYTES = 4 << 20, /* a burst of new values that finds memory */
    SPARE_PART = 4,        /* of a class at most */
    LAST_PAGES = 8,        /* from which on classes get pages for it */
    BALANCE_STEPS = 2 * BATCH,
};

/* One round: its rules, and the items of a class that it has chosen. */
struct flash_write_pass {
    struct store *store;
    struct store_flash_rules rules;
    rel_time now;
    bool low;           /* the class has too little free memory: age does not matter */
    unsigned int donor; /* a class that will give a page, 0: none */
    struct mc_item *items[BATCH];
    size_t nitems;
};

/* --- choosing -------------------------------------------------------------- */

static bool is_worth_it(const struct flash_write_pass *pass, const struct mc_item *item)
{
    uint64_t nbytes = item_bytes(item);

    return !item_is_on_flash(item) && nbytes > pass->rules.item_size &&
           nbytes > item_head_bytes(item) + sizeof(struct flash_at);
}

/* Under the stripe and the lock of the class. */
static bool is_due(struct flash_write_pass *pass, struct mc_item *item, uint64_t hash)
{
    struct store *store = pass->store;
    struct table_spot spot;

    if (!table_find_ref(&store->table, hash, heap_ref(&store->heap, item), &spot))
        return false;
    verb_take_reads(item, &spot, pass->now);
    if (item->flags & MC_ITEM_ACTIVE ||
        flush_is_dead_at(item, spot.head, flush_epoch(store), pass->now))
        return false;
    return pass->low || item_age(item, pass->now) >= pass->rules.item_age;
}

/* Leaves items unheld, for other threads that evict in the class meanwhile. */
static size_t batch_limit(const struct flash_write_pass *pass, const struct lru *lru)
{
    uint64_t half = lru->lists[LRU_HOT].nitems + lru->lists[LRU_WARM].nitems;

    half = (half + lru->lists[LRU_COLD].nitems) / 2;
    return pass->low && half < BATCH ? half : BATCH;
}

/* Chooses items at the cold tail of a class, and holds them. */
static void choose(struct flash_write_pass *pass, unsigned int clsid)
{
    struct store *store = pass->store;
    struct lru *lru = &store->lrus[clsid];
    struct mc_item *item;
    size_t limit;

    pass->nitems = 0;
    lock_take(&lru->lock, LOCK_LRU);
    limit = batch_limit(pass, lru);
    item = lru_tail(lru, &store->heap, LRU_COLD);
    for (int i = 0; item && i < LOOKS && pass->nitems < limit; i++) {
        uint64_t hash = hash_key(store->control, item_key(item));
        struct lock *stripe = table_stripe(&store->table, hash);

        if (is_worth_it(pass, item) && lock_try(stripe, LOCK_STRIPE)) {
            if (is_due(pass, item, hash)) {
                verb_hold(item);
                pass->items[pass->nitems++] = item;
            }
            lock_release(stripe, LOCK_STRIPE);
        }
        item = lru_before(&store->heap, item);
    }
    lock_release(&lru->lock, LOCK_LRU);
}

/* --- writing ---------------------------------------------------------------- */

static enum flash_bucket bucket_of(const struct flash_write_pass *pass, const struct mc_item *item)
{
    rel_time exptime = __atomic_load_n(&item->exptime, __ATOMIC_RELAXED);

    if (exptime != 0 && exptime - pass->now < pass->rules.low_ttl)
        return FLASH_LOWTTL;
    return __atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_CHUNKED ? FLASH_CHUNKED
                                                                             : FLASH_DEFAULT;
}

/* Writes a held item as an object. False: it cannot be. */
static bool write_object(const struct flash_write_pass *pass, const struct mc_item *item,
                         struct flash_at *at)
{
    struct store *store = pass->store;
    bool chunked = __atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_CHUNKED;
    uint32_t npieces = chunked ? item_nparts(store, item) : 1;
    struct iovec few[2 + PIECES];
    struct iovec *iov = npieces > PIECES ? malloc((2 + npieces) * sizeof(*iov)) : few;
    uint8_t nkey = item->nkey;
    size_t offset = 0;
    struct slice piece;
    bool written;
    int n = 2;

    if (!iov)
        return false;
    iov[0] = (struct iovec){&nkey, 1};
    iov[1] = (struct iovec){(void *)(uintptr_t)item->wire, nkey};
    while ((piece = item_piece(store, item, offset)).len > 0) {
        iov[n++] = (struct iovec){(void *)(uintptr_t)piece.ptr, piece.len};
        offset += piece.len;
    }
    written = flash_write(store->config.flash, bucket_of(pass, item), iov, n, at);
    if (iov != few)
        free(iov);
    return written;
}

/* Replaces an item that has been written by one on flash, unless its key has another by now. */
static bool replace(const struct flash_write_pass *pass, struct mc_item *old,
                    const struct flash_at *at)
{
    struct store *store = pass->store;
    uint64_t hash = hash_key(store->control, item_key(old));
    struct lock *stripe = table_stripe(&store->table, hash);
    struct mc_item *item = NULL;
    struct table_spot spot;

    lock_take(stripe, LOCK_STRIPE);
    if (table_find_ref(&store->table, hash, heap_ref(&store->heap, old), &spot)) {
        item = flash_item_new(store, old, at, pass->now);
        if (item)
            flash_item_swap(store, item, old, &spot, LRU_COLD);
    }
    lock_release(stripe, LOCK_STRIPE);
    if (item)
        item_put(store, old);
    else
        flash_drop(store->config.flash, at, flash_item_nbytes(old));
    return item != NULL;
}

static void report_written(const struct flash_write_pass *pass, const struct mc_item *item)
{
    if (event_wanted(pass->store, STORE_EVENT_ITEM))
        event_item(pass->store, "extwrite", item, (int)bucket_of(pass, item), pass->now);
}

static unsigned int write_chosen(struct flash_write_pass *pass)
{
    unsigned int nwritten = 0;

    for (size_t i = 0; i < pass->nitems; i++) {
        struct flash_at at;

        if (write_object(pass, pass->items[i], &at) && replace(pass, pass->items[i], &at)) {
            report_written(pass, pass->items[i]);
            nwritten++;
        }
        item_put(pass->store, pass->items[i]);
    }
    return nwritten;
}

/* --- the classes ------------------------------------------------------------- */

/*
 * Free chunks that a class should have: as configured, or a share of its chunks, but at least as
 * many as can be stored before this thread runs again.
 */
static uint64_t wanted_chunks(const struct flash_write_pass *pass, unsigned int clsid,
                              const struct slab_stats *slab)
{
    uint64_t all = slab->total_pages * slab->chunks_per_page;
    uint64_t ratio = (uint64_t)(pass->rules.free_ratio * (double)all);
    uint64_t least = SPARE_BYTES / slab->chunk_size;
    uint64_t wanted = pass->rules.free_chunks[clsid];

    if (wanted == 0) {
        least = least > all / SPARE_PART ? all / SPARE_PART : least;
        wanted = ratio > least ? ratio : least;
    }
    return clsid == pass->donor ? wanted + slab->chunks_per_page : wanted;
}

/*
 * How many chunks a class lacks. The last pages go to it before they are needed, so that values
 * begin to leave memory while it still has room for new ones.
 */
static uint64_t lacking_chunks(const struct flash_write_pass *pass, unsigned int clsid)
{
    struct store *store = pass->store;
    struct slab_stats slab;
    uint64_t wanted;

    slab_class_stats(&store->slabs, clsid, &slab);
    wanted = slab_room(&store->slabs) < LAST_PAGES ? wanted_chunks(pass, clsid, &slab) : 0;
    slab_keep(&store->slabs, clsid, wanted);
    while (slab.free_chunks < wanted && slab_pool_give(&store->slabs, clsid))
        slab.free_chunks += slab.chunks_per_page;
    return wanted > slab.free_chunks ? wanted - slab.free_chunks : 0;
}

static unsigned int flash_write_class(struct flash_write_pass *pass, unsigned int clsid)
{
    unsigned int nwritten = 0;
    uint64_t lacking = lacking_chunks(pass, clsid);

    pass->low = lacking > 0;
    while (nwritten < ROUND_STEPS && (pass->low || pass->rules.item_age != UINT32_MAX)) {
        unsigned int n;

        /* The maintainer may be asleep after a burst, which is all in the hot LRU segment. */
        if (pass->low)
            reclaim_balance(pass->store, clsid, BALANCE_STEPS, pass->now);
        choose(pass, clsid);
        n = write_chosen(pass);
        nwritten += n;
        if (n == 0 || (pass->low && nwritten >= lacking))
            break;
    }
    return nwritten;
}

unsigned int flash_write_round(struct store *store, rel_time now)
{
    struct flash_write_pass pass = {.store = store, .now = now};
    unsigned int nwritten = 0;
    bool compacts;

    store_flash_rules(store, &pass.rules);
    compacts = flash_nfree(store->config.flash) < pass.rules.compact_under;
    flash_hold(store->config.flash, compacts ? pass.rules.max_frag : 0);
    pass.donor = flash_reserve_round(store, &pass.rules);
    for (unsigned int clsid = store->slabs.nclasses; clsid >= 1; clsid--)
        if (store->slabs.classes[clsid].size > pass.rules.item_size)
            nwritten += flash_write_class(&pass, clsid);
    return nwritten;
}
