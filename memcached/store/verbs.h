/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs: what store.c and write.c share.
 */
#ifndef STORE_VERBS_H
#define STORE_VERBS_H

#include "store/internal.h"

/* Before each verb, under no lock. */
static inline void verb_begin(struct store *store, rel_time now)
{
    rel_time at = __atomic_load_n(&store->control->flush_at, __ATOMIC_RELAXED);

    if (__builtin_expect(at != 0 && now >= at, 0))
        flush_apply(store, now);
}

/* A key under its stripe. */
struct key {
    uint64_t hash;
    struct lock *stripe;
    struct table_spot spot; /* of found */
    struct mc_item *found;  /* what the table has, dead or alive; NULL: nothing */
    uint32_t epoch;         /* read once: see flush.h */
    bool live;
};

/* Takes the stripe and looks; key_close, or key_leave, gives the stripe back. */
void key_open(struct store *store, struct slice name, rel_time now, struct key *key);
/* key_open that removes and counts a dead item; a live one has room for another holder. */
void key_open_live(struct store_local *local, struct slice name, rel_time now, struct key *key);
/* May let the table grow. */
void key_close(struct store *store, struct key *key);
/* For verbs that add no item. */
static inline void key_leave(struct key *key)
{
    lock_release(key->stripe, LOCK_STRIPE);
}
/*
 * Makes `item` what the key has; its hold becomes the table's. `cas` is its id, 0: the next one.
 * *old is then for the caller to put, outside the stripe. false: no memory, nothing has changed.
 */
bool key_link(struct store_local *local, struct key *key, struct mc_item *item, uint64_t cas,
              rel_time now, struct mc_item **old);

/* The next id that no value has had. */
uint64_t verb_next_cas(struct store *store);
bool verb_cas_differs(const struct store *store, const struct mc_item *item, uint64_t cas);
/* Marks a hit, and holds the item. Under the stripe. */
void verb_hit(struct mc_item *item, rel_time now);
void verb_hold(struct mc_item *item);
/* The kernel's answers count as the server's own do. */
static inline void verb_take_reads(struct mc_item *item, const struct table_spot *spot,
                                   rel_time now)
{
    unsigned int reads = table_take_reads(spot);

    if (reads) {
        item_mark_reads(item, reads);
        item_set_time(item, now);
    }
}
/* A new expiry of an item that is in the table. Under the stripe. */
void verb_set_expiry(struct mc_item *item, const struct table_spot *spot, rel_time expiry);

/*
 * Puts `item` into table and LRU in the place of `old`, whose table hold goes to the caller. The
 * item's hold becomes the table's. Under the stripe.
 */
void verb_swap(struct store *store, struct mc_item *item, struct mc_item *old,
               const struct table_spot *spot, uint32_t epoch, rel_time now);

/* Adds up counters; `from` may be changing. */
void stats_add(struct local_counts *sum, const struct local_counts *from);
/* The sets of each class since the start, resets or not. */
void stats_sets(struct store *store, uint64_t sets[MC_CLASSES]);

#endif
