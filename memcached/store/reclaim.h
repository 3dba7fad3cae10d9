/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reclaim: memory for new items, taken from old ones when there is none left: which items at the
 * tails of the LRU lists are moved, freed or evicted.
 *
 * At the tail an item that was read again since it was last judged (ACTIVE, or the kernel's mark on
 * its slot) goes from hot or cold to warm, in warm back to the head; any other item goes from hot
 * or warm to cold, and in cold it is evicted. Expired and flushed items are freed wherever they are
 * met. Held items free no memory and go back to the head.
 *
 * Locks: under the LRU lock of a class stripes are only tried.
 */
#ifndef STORE_RECLAIM_H
#define STORE_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "bpf/shared/layout.h"

struct store;
struct table_spot;

/*
 * A chunk of at least `size` bytes for an item of LRU class `lru_class`; evicts what it has to. 0:
 * no memory, counted. The caller may hold one stripe.
 */
uint32_t reclaim_alloc(struct store *store, size_t size, unsigned int lru_class, rel_time now);

/*
 * Frees the dead items among the few at the cold tail of a class, as the maintainer does where
 * there is one. The caller may hold one stripe.
 */
void reclaim_dead(struct store *store, unsigned int clsid, rel_time now);

/* Evicts an item of the class, the oldest it can. False: it could not. */
bool reclaim_evict(struct store *store, unsigned int clsid, rel_time now);

/*
 * Keeps the LRU segments of a class in proportion and frees what is dead at the tails; does at most
 * `limit` steps for each of them, so that none waits for another. Returns how many it did.
 */
unsigned int reclaim_balance(struct store *store, unsigned int clsid, unsigned int limit,
                             rel_time now);

/* Takes a linked item out of table and LRU, and drops the table's hold. Under its stripe. */
void reclaim_unlink(struct store *store, struct mc_item *item, uint64_t hash,
                    const struct table_spot *spot);

#endif
