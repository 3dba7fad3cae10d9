/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal: what a store is made of. Private to this folder.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include "store/crawler.h"
#include "store/flash_threads.h"
#include "store/flush.h"
#include "store/ghost.h"
#include "store/hash.h"
#include "store/heap.h"
#include "store/item.h"
#include "store/lru.h"
#include "store/maintainer.h"
#include "store/mover.h"
#include "store/sizes.h"
#include "store/slab.h"
#include "store/store.h"
#include "store/store_events.h"
#include "store/store_flash.h"
#include "store/store_items.h"
#include "store/store_stats.h"
#include "store/table.h"

/* What a thread counts; uint64_t throughout, so that it adds up as an array. */
struct local_counts {
    struct store_counts counts; /* without get_hits */
    uint64_t lru_hits[256];     /* get hits, by mc_item.clsid: class and LRU segment */
    uint64_t total_items;
};

struct store_local {
    struct local_counts counts; /* written by the owner, read by all (relaxed) */
    struct store *store;
    struct store_local *next;
    enum store_absence absence; /* see store_absence() */
    uint32_t nloads;            /* values that came from flash */
} __attribute__((aligned(64)));

struct store {
    struct store_config config;
    bool segmented_at_start; /* config.tuning.lru_segmented may be changed since */
    struct mc_control *control;
    struct heap heap;
    struct slabs slabs;
    struct table table;
    struct lru lrus[MC_CLASSES];
    struct sizes sizes;
    struct ghost ghost; /* of S3-FIFO */
    struct flush flush;
    struct maintainer maintainer;
    struct mover mover;
    struct background prefault;
    struct store_events events; /* see event.h */
    struct crawler crawler;

    struct flash_threads flash_threads;
    struct lock flash_lock; /* of the rules */
    struct store_flash_rules flash_rules;
    uint64_t
        nflash_items[MC_CLASSES]; /* items on flash, by the class of what stays in memory; atomic */
    uint32_t recache_rate;        /* of the rules; atomic */
    uint64_t compact_lost, compact_rescues, compact_skipped; /* atomic */

    uint64_t last_cas __attribute__((aligned(64))); /* atomic */

    struct lock locals_lock __attribute__((aligned(64))); /* guards what follows */
    struct store_local *locals;
    struct local_counts retired;  /* of threads that have ended */
    struct local_counts baseline; /* the counts at the last reset */
};

/* Only the owner writes, so it needs no read-modify-write; pairs with the sums of stats.c. */
static inline void count(uint64_t *counter)
{
    __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

/* Counts where several threads write. */
static inline void atomic_count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
