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

/*
 * Puts `item` into table and LRU in the place of `old`, whose table hold goes to the
 * caller. The item's hold becomes the table's. Under the stripe.
 */
void verb_swap(struct store *store, struct mc_item *item, struct mc_item *old,
               const struct table_spot *spot, uint8_t epoch, rel_time now);

/* Adds up counters; `from` may be changing. */
void stats_add(struct local_counts *sum, const struct local_counts *from);

#endif
