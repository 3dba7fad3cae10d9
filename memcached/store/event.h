/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event: reports what the store does to the watchers (struct store_events). Without a watcher it
 * costs one load and one branch.
 */
#ifndef STORE_EVENT_H
#define STORE_EVENT_H

#include "store/internal.h"

static inline bool event_wanted(const struct store *store, enum store_event_kind kind)
{
    return __builtin_expect(__atomic_load_n(store->events.wanted, __ATOMIC_RELAXED) & kind, 0);
}

/* Starts without watchers. */
void event_init(struct store *store);
/*
 * STORE_EVENT_ITEM: the item leaves, by `type`. `bucket` is flash's, -1: none. Its key may be read:
 * it is held, or in the table and under its stripe.
 */
void event_item(struct store *store, const char *type, const struct mc_item *item, int bucket,
                rel_time now);
/* STORE_EVENT_SYSTEM: the words of a line, "type=slab_move src=%u dst=%u". */
void event_system(struct store *store, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
