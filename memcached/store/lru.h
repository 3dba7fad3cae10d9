/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lru: the lists in which the items of a class wait for eviction, and what the class counts. Only
 * lists: reclaim.h decides which item goes where.
 *
 * hot takes new items, warm those that were read again, cold the rest and the victims, temp those
 * that expire soon. Without LRU segments all are in cold.
 *
 * An item's links belong to the lock of its class. Its clsid is written under that lock and the
 * stripe of the key, and may be read under either.
 */
#ifndef STORE_LRU_H
#define STORE_LRU_H

#include <stdint.h>

#include "store/heap.h"
#include "store/item.h"
#include "store/lock.h"
#include "store/sizes.h"

enum lru_segment { LRU_HOT, LRU_WARM, LRU_COLD, LRU_TEMP, LRU_SEGMENTS };

struct lru_list {
    uint32_t head, tail; /* references */
    uint64_t nitems, nbytes;
};

struct lru_counts {
    uint64_t evicted, evicted_nonzero, outofmemory, reclaimed, expired_unfetched, evicted_unfetched,
        evicted_active, tailrepairs, crawler_reclaimed, crawler_items_checked, lrutail_reflocked,
        moves_to_cold, moves_to_warm, moves_within_lru, direct_reclaims;
};

struct lru {
    struct lock lock;
    struct lru_list lists[LRU_SEGMENTS];
    struct lru_counts counts;
    struct sizes *sizes;   /* of the store, or NULL */
    uint32_t evicted_time; /* seconds that the last evicted item had not been used */
} __attribute__((aligned(64)));

static inline unsigned int lru_class_of(const struct mc_item *item)
{
    return item->clsid & (MC_CLASSES - 1);
}

static inline enum lru_segment lru_segment_of(const struct mc_item *item)
{
    return (enum lru_segment)(item->clsid / MC_CLASSES);
}

/* Whether an item expires within `ttl` seconds. */
static inline bool lru_is_temporary(const struct mc_item *item, rel_time ttl, rel_time now)
{
    return item->exptime != 0 && item->exptime <= (uint64_t)now + ttl;
}

/* All under the class's lock; the first two under the stripe of the item as well. */

/* Puts an item that is in no list at the head of an LRU segment. */
void lru_link(struct lru *lru, const struct heap *heap, struct mc_item *item,
              enum lru_segment segment);
/* To the head of an LRU segment, perhaps the one that it is in. */
void lru_move(struct lru *lru, const struct heap *heap, struct mc_item *item,
              enum lru_segment segment);
void lru_unlink(struct lru *lru, const struct heap *heap, struct mc_item *item);
/* Puts the copy of an item where the item is. */
void lru_replace(struct lru *lru, const struct heap *heap, const struct mc_item *item,
                 struct mc_item *copy);
/* NULL: empty. */
struct mc_item *lru_tail(const struct lru *lru, const struct heap *heap, enum lru_segment segment);
/* Seconds since that item was last used; 0: empty. */
rel_time lru_tail_age(const struct lru *lru, const struct heap *heap, enum lru_segment segment,
                      rel_time now);
struct mc_item *lru_head(const struct lru *lru, const struct heap *heap, enum lru_segment segment);
struct mc_item *lru_after(const struct heap *heap, const struct mc_item *item);
/* The item before it, towards the head. */
struct mc_item *lru_before(const struct heap *heap, const struct mc_item *item);
/* Bytes of all LRU segments. */
uint64_t lru_bytes(const struct lru *lru);

#endif
