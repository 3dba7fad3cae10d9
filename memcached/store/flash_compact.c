/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flash_compact: the thread that moves the used objects out of fragmented pages, so that those
 * become free, before the oldest page is evicted with all its objects.
 */
#include <inttypes.h>

#include "store/event.h"
#include "store/flash_item.h"
#include "store/reclaim.h"

struct compact_pass {
    struct store *store;
    rel_time now;
    bool drop;     /* values that were not read since they went to flash */
    bool reported; /* its start, to the watchers, for whom the following fields are */
    struct flash_at last;
    uint64_t rescues, lost, skipped; /* before */
};

/* --- reports to watchers ------------------------------------------------------ */

static uint64_t read_count(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

/* At each object: the first one names the page. */
static void report_start(struct compact_pass *pass, const struct flash_at *at)
{
    struct store *store = pass->store;

    pass->last = *at;
    if (pass->reported)
        return;
    pass->reported = true;
    pass->rescues = read_count(&store->compact_rescues);
    pass->lost = read_count(&store->compact_lost);
    pass->skipped = read_count(&store->compact_skipped);
    event_system(store, "type=compact_start id=%" PRIu32 " version=%" PRIu32, at->page,
                 at->version);
    event_system(store, "type=compact_read_start id=%" PRIu32 " offset=0", at->page);
}

/* At the end of the page, offset: of its last object. */
static void report_end(const struct compact_pass *pass)
{
    struct store *store = pass->store;

    if (!pass->reported)
        return;
    event_system(store,
                 "type=compact_read_end id=%" PRIu32 " offset=%" PRIu32 " rescues=%" PRIu64
                 " lost=%" PRIu64 " skipped=%" PRIu64,
                 pass->last.page, pass->last.offset,
                 read_count(&store->compact_rescues) - pass->rescues,
                 read_count(&store->compact_lost) - pass->lost,
                 read_count(&store->compact_skipped) - pass->skipped);
    event_system(store, "type=compact_end id=%" PRIu32, pass->last.page);
}

/* --- objects ------------------------------------------------------------------ */

static bool same_place(const struct flash_at *a, const struct flash_at *b)
{
    return a->page == b->page && a->version == b->version && a->offset == b->offset;
}

/* The item on flash of an object, if it is still the value of its key. Under the stripe. */
static struct mc_item *find_owner(const struct compact_pass *pass, struct slice name, uint64_t hash,
                                  const struct flash_at *at, struct table_spot *spot)
{
    struct mc_item *item = table_find(&pass->store->table, hash, name, spot);

    return item && item_is_on_flash(item) && same_place(flash_item_place(item), at) ? item : NULL;
}

/*
 * Points an item to the new place of its object. Its holders may be reading the old place, so while
 * it has some another item takes its place. Under the stripe.
 */
static bool move_owner(const struct compact_pass *pass, struct mc_item *old,
                       const struct table_spot *spot, const struct flash_at *at)
{
    struct store *store = pass->store;
    struct mc_item *item;

    /* Acquire: pairs with the release of the last holder that let go. */
    if (__atomic_load_n(&old->refcount, __ATOMIC_ACQUIRE) == 1) {
        flash_drop(store->config.flash, flash_item_place(old), flash_item_nbytes(old));
        *flash_item_place(old) = *at;
        item_clear_flags(old, MC_ITEM_READ);
        return true;
    }
    item = flash_item_new(store, old, at, pass->now);
    if (!item)
        return false;
    flash_item_swap(store, item, old, spot, lru_segment_of(old));
    item_put(store, old);
    return true;
}

/* What to do with an object. */
enum outcome { OBJECT_DEAD, OBJECT_SKIPPED, OBJECT_RESCUE };

static enum outcome judge(const struct compact_pass *pass, struct slice name, uint64_t hash,
                          const struct flash_at *at)
{
    struct store *store = pass->store;
    struct lock *stripe = table_stripe(&store->table, hash);
    enum outcome outcome = OBJECT_DEAD;
    struct table_spot spot;
    struct mc_item *item;

    lock_take(stripe, LOCK_STRIPE);
    item = find_owner(pass, name, hash, at, &spot);
    if (item && flush_is_dead_at(item, spot.head, flush_epoch(store), pass->now)) {
        reclaim_unlink(store, item, hash, &spot);
    } else if (item && pass->drop && !(item->flags & MC_ITEM_READ)) {
        outcome = OBJECT_SKIPPED;
        reclaim_unlink(store, item, hash, &spot);
    } else if (item) {
        outcome = OBJECT_RESCUE;
    }
    lock_release(stripe, LOCK_STRIPE);
    return outcome;
}

static void rescue(struct compact_pass *pass, struct slice name, uint64_t hash,
                   const struct flash_at *from, const char *bytes, uint32_t nbytes)
{
    const struct iovec iov = {(void *)(uintptr_t)bytes, nbytes};
    struct store *store = pass->store;
    struct lock *stripe = table_stripe(&store->table, hash);
    struct mc_item *old;
    struct table_spot spot;
    struct flash_at to;
    bool moved;

    if (!flash_write(store->config.flash, FLASH_COMPACT, &iov, 1, &to)) {
        atomic_count(&store->compact_lost);
        return;
    }
    lock_take(stripe, LOCK_STRIPE);
    old = find_owner(pass, name, hash, from, &spot);
    moved = old && move_owner(pass, old, &spot, &to);
    lock_release(stripe, LOCK_STRIPE);
    if (moved) {
        atomic_count(&store->compact_rescues);
    } else {
        flash_drop(store->config.flash, &to, nbytes);
        atomic_count(&store->compact_lost);
    }
}

static bool visit(void *context, const struct flash_at *at, const char *bytes, uint32_t nbytes)
{
    struct compact_pass *pass = context;
    struct slice name = {bytes + 1, (uint8_t)bytes[0]};
    uint64_t hash;

    report_start(pass, at);
    if (name.len == 0 || name.len > MC_KEY_MAX || name.len >= nbytes)
        return true;
    hash = hash_key(pass->store->control, name);
    switch (judge(pass, name, hash, at)) {
    case OBJECT_DEAD:
        break;
    case OBJECT_SKIPPED:
        atomic_count(&pass->store->compact_skipped);
        break;
    case OBJECT_RESCUE:
        rescue(pass, name, hash, at, bytes, nbytes);
        break;
    }
    return !__atomic_load_n(&pass->store->flash_threads.stop, __ATOMIC_RELAXED);
}

/*
 * Nothing is dropped as long as a page has holes enough: moving what is used out of it frees space
 * as well.
 */
unsigned int flash_compact_round(struct store *store, rel_time now)
{
    struct compact_pass pass = {.store = store, .now = now};
    struct flash *flash = store->config.flash;
    uint32_t nfree = flash_nfree(flash);
    struct store_flash_rules rules;
    bool done;

    store_flash_rules(store, &rules);
    if (nfree >= rules.compact_under)
        return 0;
    done = flash_compact(flash, rules.max_frag, visit, &pass);
    if (!done && rules.drop_unread && nfree < rules.drop_under) {
        pass.drop = true;
        done = flash_compact_oldest(flash, visit, &pass);
    }
    report_end(&pass);
    if (done)
        background_wake(&store->flash_threads.write);
    return done;
}
