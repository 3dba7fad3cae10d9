/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meta: gets and deletes with conditions: values that are stale and values that somebody has been
 * told to store again. Both are marks of the item, changed under its stripe.
 */
#include "store/reclaim.h"
#include "store/verbs.h"

/*
 * Changes expiry and marks of an item that is in the table, at one moment: the kernel sees both or
 * neither.
 */
static void change(struct mc_item *item, const struct table_spot *spot, rel_time expiry,
                   unsigned int marks)
{
    table_begin(spot->head);
    __atomic_store_n(&item->exptime, expiry, __ATOMIC_RELAXED);
    item_set_flags(item, marks);
    table_end(spot->head);
}

static bool is_due(const struct store_fetch *how, rel_time expiry)
{
    return how->recache && expiry != 0 && expiry < how->recache_before;
}

/*
 * Puts an empty value where none is, which the caller has won: the kernel must not answer others
 * with it as if it were what is stored. false: no memory.
 */
static bool vivify(struct store_local *local, struct key *key, struct slice name,
                   const struct store_fetch *how, rel_time now)
{
    enum store_result result;
    struct mc_item *old;
    struct mc_item *item = item_new(local->store, name, 0, how->vivify_expiry, 0, now, &result);

    if (!item)
        return false;
    if (how->binary_key)
        store_mark_binary_key(item);
    item_set_flags(item, MC_ITEM_WON);
    if (!key_link(local, key, item, how->new_cas, now, &old)) {
        item_put(local->store, item);
        return false;
    }
    count(&local->counts.total_items);
    key->found = table_find(&local->store->table, key->hash, name, &key->spot);
    return true;
}

/* What the kernel programs answered was a use, too. */
static void take_kernel_use(struct mc_item *item, const struct table_spot *spot)
{
    unsigned int reads = table_take_reads(spot);

    if (reads)
        item_mark_reads(item, reads);
}

static void describe(const struct store_local *local, const struct mc_item *item,
                     struct store_fetched *out)
{
    *out = (struct store_fetched){
        .cas = item_cas(local, item),
        .old_expiry = item->exptime,
        .expiry = item->exptime,
        .last_use = item->time,
        .clsid = lru_class_of(item),
        .used = item->flags & MC_ITEM_FETCHED,
        .stale = item->flags & MC_ITEM_STALE,
        .was_won = item->flags & MC_ITEM_WON,
    };
}

/* Does to the found item what the get asks for, and holds it. Under the stripe. */
static void fetch(struct store_local *local, struct key *key, const struct store_fetch *how,
                  bool created, rel_time now, struct store_fetched *out)
{
    bool touches = how->touch && !created;
    struct mc_item *item = key->found;

    take_kernel_use(item, &key->spot);
    describe(local, item, out);
    out->created = created;
    out->was_won &= !created;
    if (touches)
        out->expiry = how->expiry;
    out->won =
        created || (!out->was_won &&
                    (out->stale || is_due(how, how->recache_old ? out->old_expiry : out->expiry)));
    if (touches || (out->won && !created))
        change(item, &key->spot, out->expiry, out->won ? MC_ITEM_WON : 0);
    if (how->unseen)
        verb_hold(item);
    else
        verb_hit(item, now);
}

static void count_fetch(struct store_local *local, const struct mc_item *item, bool touch)
{
    struct store_counts *counts = &local->counts.counts;

    if (item && touch) {
        count(&counts->touch_cmds);
        count(&counts->classes[lru_class_of(item)].touch_hits);
        return;
    }
    count(&counts->get_cmds);
    count(item ? &local->counts.lru_hits[item->clsid] : &counts->get_misses);
}

struct mc_item *store_fetch(struct store_local *local, struct slice name,
                            const struct store_fetch *how, rel_time now, struct store_fetched *out,
                            enum store_result *result)
{
    bool created = false;
    struct key key;

    *result = STORE_MISS;
    key_open_live(local, name, now, &key);
    if (!key.found && how->vivify) {
        created = vivify(local, &key, name, how, now);
        *result = created ? STORE_DONE : STORE_NO_MEMORY;
    }
    if (key.found)
        fetch(local, &key, how, created, now, out);
    count_fetch(local, key.found, how->touch);
    key_close(local->store, &key);
    return key.found;
}

struct mc_item *store_peek(struct store_local *local, struct slice name, rel_time now,
                           struct store_fetched *out)
{
    struct key key;

    key_open_live(local, name, now, &key);
    if (key.found) {
        take_kernel_use(key.found, &key.spot);
        describe(local, key.found, out);
        verb_hold(key.found);
    }
    key_leave(&key);
    return key.found;
}

/* Leaves the item to readers, as stale. Under the stripe. */
static void invalidate(struct store *store, struct key *key, const struct store_removal *how)
{
    struct mc_item *item = key->found;
    uint64_t cas = how->new_cas ? how->new_cas : verb_next_cas(store);

    table_begin(key->spot.head);
    item_clear_flags(item, MC_ITEM_WON);
    item_set_flags(item, MC_ITEM_STALE);
    __atomic_store_n(&item->cas, cas, __ATOMIC_RELAXED);
    if (how->touch)
        __atomic_store_n(&item->exptime, how->expiry, __ATOMIC_RELAXED);
    table_end(key->spot.head);
}

enum store_result store_remove(struct store_local *local, struct slice name,
                               const struct store_removal *how, rel_time now)
{
    struct store_counts *counts = &local->counts.counts;
    enum store_result result = STORE_DONE;
    struct key key;

    key_open_live(local, name, now, &key);
    if (!key.found) {
        result = STORE_MISS;
    } else if (how->compare && verb_cas_differs(local->store, key.found, how->cas)) {
        result = STORE_EXISTS;
    } else if (how->invalidate) {
        invalidate(local->store, &key, how);
    } else {
        count(&counts->classes[lru_class_of(key.found)].delete_hits);
        reclaim_unlink(local->store, key.found, key.hash, &key.spot);
    }
    key_leave(&key);
    if (result != STORE_DONE)
        count(&counts->delete_misses);
    return result;
}
