/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_stats: the counters of a store: of all threads, of each slab class, and of items by size.
 */
#ifndef STORE_STORE_STATS_H
#define STORE_STORE_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "bpf/shared/layout.h"

struct store;

/* Counters of one slab class, as memcached names them. */
struct store_class_counts {
    uint64_t set_cmds, get_hits, touch_hits, delete_hits, incr_hits, decr_hits, cas_hits,
        cas_badval;
};

struct store_counts {
    uint64_t get_cmds, get_misses, get_expired, get_flushed, touch_cmds, touch_misses,
        delete_misses, incr_misses, decr_misses, cas_misses, flush_cmds;
    uint64_t get_extstore, get_aborted_extstore, get_oom_extstore, recache_from_extstore,
        miss_from_extstore, badcrc_from_extstore;
    struct store_class_counts classes[MC_CLASSES]; /* [0]: not of any class */
};

struct store_stats {
    struct store_counts counts;              /* of all threads */
    uint64_t curr_items, total_items, bytes; /* bytes: header, key, suffix, value, tail */
    uint64_t evictions, reclaimed, expired_unfetched, evicted_unfetched, evicted_active,
        crawler_reclaimed, crawler_items_checked, lrutail_reflocked;
    uint64_t moves_to_cold, moves_to_warm, moves_within_lru, direct_reclaims, lru_bumps_dropped,
        lru_maintainer_juggles;
    uint64_t slab_global_page_pool, malloc_fails;
    uint64_t lru_crawler_starts;
    bool lru_crawler_running;
    uint64_t slab_reassign_rescues, slab_reassign_chunk_rescues, slab_reassign_evictions_nomem,
        slab_reassign_inline_reclaim, slab_reassign_busy_items, slab_reassign_busy_deletes,
        slabs_moved;
    bool slab_reassign_running;
    uint32_t hash_power_level;
    uint64_t hash_bytes;
    bool hash_is_expanding;
    uint64_t memory_limit;
};
void store_stats(struct store *store, struct store_stats *out);

struct store_class_stats {
    /* slabs */
    uint32_t chunk_size, chunks_per_page;
    uint64_t total_pages, total_chunks, used_chunks, free_chunks;
    /* items */
    uint64_t number, number_hot, number_warm, number_cold, number_temp;
    rel_time age, age_hot, age_warm; /* of the tail of each LRU segment */
    uint64_t mem_requested, evicted, evicted_nonzero, evicted_time, outofmemory, tailrepairs,
        reclaimed, expired_unfetched, evicted_unfetched, evicted_active, crawler_reclaimed,
        crawler_items_checked, lrutail_reflocked, moves_to_cold, moves_to_warm, moves_within_lru,
        direct_reclaims, hits_to_hot, hits_to_warm, hits_to_cold, hits_to_temp;
};
/* Classes are 1 to the returned number. */
unsigned int store_nclasses(const struct store *store);
void store_class_stats(struct store *store, unsigned int clsid, rel_time now,
                       struct store_class_stats *out);
/* Pages malloced, bytes ("total_malloced"), and classes with a page. */
void store_slab_totals(struct store *store, uint64_t *total_malloced, uint32_t *active_slabs);
bool store_tracks_sizes(const struct store *store);
/*
 * Counts the items that are linked from now on by size, or stops to. Items that were counted stay
 * so until they are unlinked. 0 or -ENOMEM.
 */
int store_track_sizes(struct store *store, bool on);
/*
 * Items by size in steps of 32 bytes: the next step above *size that items have. False: there is
 * none. For all of them begin with 0.
 */
bool store_size_count(const struct store *store, uint64_t *size, uint64_t *count);
void store_reset_stats(struct store *store);

#endif
