/* SPDX-License-Identifier: BSD-3-Clause */
/* stats: adds up the counters of threads, classes and LRU lists. */
#include <stdlib.h>

#include "store/flash_item.h"
#include "store/verbs.h"

enum { NCOUNTS = sizeof(struct local_counts) / sizeof(uint64_t) };

static uint64_t get(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void stats_add(struct local_counts *sum, const struct local_counts *from)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *at = (const uint64_t *)from;

    for (size_t i = 0; i < NCOUNTS; i++)
        to[i] += __atomic_load_n(&at[i], __ATOMIC_RELAXED);
}

static void subtract(struct local_counts *from, const struct local_counts *less)
{
    uint64_t *to = (uint64_t *)from;
    const uint64_t *at = (const uint64_t *)less;

    for (size_t i = 0; i < NCOUNTS; i++)
        to[i] -= at[i];
}

/* All threads since the start. Under the locals' lock. */
static void sum_locals(const struct store *store, struct local_counts *sum)
{
    *sum = store->retired;
    for (const struct store_local *local = store->locals; local; local = local->next)
        stats_add(sum, &local->counts);
}

void stats_sets(struct store *store, uint64_t sets[MC_CLASSES])
{
    struct local_counts sum;

    lock_take(&store->locals_lock, LOCK_LOCALS);
    sum_locals(store, &sum);
    lock_release(&store->locals_lock, LOCK_LOCALS);
    for (unsigned int clsid = 0; clsid < MC_CLASSES; clsid++)
        sets[clsid] = sum.counts.classes[clsid].set_cmds;
}

static void since_reset(struct store *store, struct local_counts *sum)
{
    lock_take(&store->locals_lock, LOCK_LOCALS);
    sum_locals(store, sum);
    subtract(sum, &store->baseline);
    lock_release(&store->locals_lock, LOCK_LOCALS);
    for (unsigned int i = 0; i < 256; i++)
        sum->counts.classes[i & (MC_CLASSES - 1)].get_hits += sum->lru_hits[i];
}

/*
 * Sums the hits of one class's LRU segments alone: adding up all counters takes longer than the
 * rest.
 */
static void hits_since_reset(struct store *store, unsigned int clsid, struct store_class_stats *out)
{
    uint64_t hits[LRU_SEGMENTS];
    const struct store_local *local;

    lock_take(&store->locals_lock, LOCK_LOCALS);
    for (unsigned int segment = 0; segment < LRU_SEGMENTS; segment++) {
        unsigned int i = segment * MC_CLASSES + clsid;

        hits[segment] = store->retired.lru_hits[i] - store->baseline.lru_hits[i];
        for (local = store->locals; local; local = local->next)
            hits[segment] += get(&local->counts.lru_hits[i]);
    }
    lock_release(&store->locals_lock, LOCK_LOCALS);
    out->hits_to_hot = hits[LRU_HOT];
    out->hits_to_warm = hits[LRU_WARM];
    out->hits_to_cold = hits[LRU_COLD];
    out->hits_to_temp = hits[LRU_TEMP];
}

/* A class's lists and counts, as of one moment. */
static void read_lru(struct store *store, unsigned int clsid, struct lru *out)
{
    struct lru *lru = &store->lrus[clsid];

    lock_take(&lru->lock, LOCK_LRU);
    memcpy(out->lists, lru->lists, sizeof(out->lists));
    out->evicted_time = lru->evicted_time;
    for (size_t i = 0; i < sizeof(out->counts) / sizeof(uint64_t); i++)
        ((uint64_t *)&out->counts)[i] =
            __atomic_load_n((uint64_t *)&lru->counts + i, __ATOMIC_RELAXED);
    lock_release(&lru->lock, LOCK_LRU);
}

static void add_lru(struct store_stats *out, const struct lru *lru)
{
    const struct lru_counts *counts = &lru->counts;

    for (int i = 0; i < LRU_SEGMENTS; i++)
        out->curr_items += lru->lists[i].nitems;
    out->bytes += lru_bytes(lru);
    out->evictions += counts->evicted;
    out->reclaimed += counts->reclaimed;
    out->expired_unfetched += counts->expired_unfetched;
    out->evicted_unfetched += counts->evicted_unfetched;
    out->evicted_active += counts->evicted_active;
    out->crawler_reclaimed += counts->crawler_reclaimed;
    out->crawler_items_checked += counts->crawler_items_checked;
    out->lrutail_reflocked += counts->lrutail_reflocked;
    out->moves_to_cold += counts->moves_to_cold;
    out->moves_to_warm += counts->moves_to_warm;
    out->moves_within_lru += counts->moves_within_lru;
    out->direct_reclaims += counts->direct_reclaims;
}

static void add_mover(struct store *store, struct store_stats *out)
{
    const struct mover *mover = &store->mover;
    const struct mover_counts *counts = &mover->counts;

    out->slab_reassign_rescues = get(&counts->rescues);
    out->slab_reassign_chunk_rescues = get(&counts->chunk_rescues);
    out->slab_reassign_evictions_nomem = get(&counts->evictions_nomem);
    out->slab_reassign_inline_reclaim = get(&counts->inline_reclaim);
    out->slab_reassign_busy_items = get(&counts->busy_items);
    out->slab_reassign_busy_deletes = get(&counts->busy_deletes);
    out->slabs_moved = get(&counts->moved);
    out->slab_reassign_running = __atomic_load_n(&mover->job, __ATOMIC_RELAXED) != 0;
    out->slab_global_page_pool = mover_pool(store);
}

void store_stats(struct store *store, struct store_stats *out)
{
    struct local_counts sum;
    uint32_t nbuckets = table_nbuckets(&store->table);

    since_reset(store, &sum);
    memset(out, 0, sizeof(*out));
    out->counts = sum.counts;
    out->total_items = sum.total_items;
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        struct lru lru;

        read_lru(store, clsid, &lru);
        add_lru(out, &lru);
    }
    add_mover(store, out);
    out->lru_maintainer_juggles = get(&store->maintainer.njuggles);
    out->lru_crawler_starts = __atomic_load_n(&store->crawler.nstarts, __ATOMIC_RELAXED);
    out->lru_crawler_running = __atomic_load_n(&store->crawler.busy, __ATOMIC_RELAXED);
    /* Counts slots, as memcached counts buckets; one of ours has eight. */
    out->hash_power_level = 31 - (uint32_t)__builtin_clz(nbuckets) + 3;
    out->hash_bytes = table_bytes(&store->table);
    out->hash_is_expanding = table_crowded(&store->table);
    out->memory_limit = slab_limit(&store->slabs) + store->config.allocated_before;
}

static rel_time tail_age(struct store *store, unsigned int clsid, enum lru_segment segment,
                         rel_time now)
{
    struct lru *lru = &store->lrus[clsid];
    rel_time age;

    lock_take(&lru->lock, LOCK_LRU);
    age = lru_tail_age(lru, &store->heap, segment, now);
    lock_release(&lru->lock, LOCK_LRU);
    return age;
}

static void class_lru_stats(const struct lru *lru, struct store_class_stats *out)
{
    const struct lru_counts *counts = &lru->counts;

    out->number_hot = lru->lists[LRU_HOT].nitems;
    out->number_warm = lru->lists[LRU_WARM].nitems;
    out->number_cold = lru->lists[LRU_COLD].nitems;
    out->number_temp = lru->lists[LRU_TEMP].nitems;
    out->number = out->number_hot + out->number_warm + out->number_cold + out->number_temp;
    out->mem_requested = lru_bytes(lru);
    out->evicted = counts->evicted;
    out->evicted_nonzero = counts->evicted_nonzero;
    out->evicted_time = lru->evicted_time;
    out->outofmemory = counts->outofmemory;
    out->tailrepairs = counts->tailrepairs;
    out->reclaimed = counts->reclaimed;
    out->expired_unfetched = counts->expired_unfetched;
    out->evicted_unfetched = counts->evicted_unfetched;
    out->evicted_active = counts->evicted_active;
    out->crawler_reclaimed = counts->crawler_reclaimed;
    out->crawler_items_checked = counts->crawler_items_checked;
    out->lrutail_reflocked = counts->lrutail_reflocked;
    out->moves_to_cold = counts->moves_to_cold;
    out->moves_to_warm = counts->moves_to_warm;
    out->moves_within_lru = counts->moves_within_lru;
    out->direct_reclaims = counts->direct_reclaims;
}

void store_class_stats(struct store *store, unsigned int clsid, rel_time now,
                       struct store_class_stats *out)
{
    struct slab_stats slab;
    struct lru lru;

    memset(out, 0, sizeof(*out));
    slab_class_stats(&store->slabs, clsid, &slab);
    out->chunk_size = slab.chunk_size;
    out->chunks_per_page = slab.chunks_per_page;
    out->total_pages = slab.total_pages;
    out->total_chunks = slab.total_pages * slab.chunks_per_page;
    out->used_chunks = slab.used_chunks;
    out->free_chunks = slab.free_chunks;
    read_lru(store, clsid, &lru);
    class_lru_stats(&lru, out);
    out->age = tail_age(store, clsid, LRU_COLD, now);
    out->age_hot = tail_age(store, clsid, LRU_HOT, now);
    out->age_warm = tail_age(store, clsid, LRU_WARM, now);
    hits_since_reset(store, clsid, out);
}

unsigned int store_nclasses(const struct store *store)
{
    return store->slabs.nclasses;
}

void store_slab_totals(struct store *store, uint64_t *total_malloced, uint32_t *active_slabs)
{
    *total_malloced =
        (uint64_t)slab_npages(&store->slabs) * MC_PAGE_BYTES + store->config.allocated_before;
    *active_slabs = 0;
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        struct slab_stats slab;

        slab_class_stats(&store->slabs, clsid, &slab);
        *active_slabs += slab.total_pages > 0;
    }
}

int store_track_sizes(struct store *store, bool on)
{
    if (on)
        return sizes_start(&store->sizes);
    sizes_stop(&store->sizes);
    return 0;
}

bool store_tracks_sizes(const struct store *store)
{
    return sizes_on(&store->sizes);
}

bool store_size_count(const struct store *store, uint64_t *size, uint64_t *count)
{
    return sizes_next(&store->sizes, size, count);
}

void store_reset_stats(struct store *store)
{
    for (size_t i = 0; i < sizeof(store->mover.counts) / sizeof(uint64_t); i++)
        __atomic_store_n((uint64_t *)&store->mover.counts + i, 0, __ATOMIC_RELAXED);
    lock_take(&store->locals_lock, LOCK_LOCALS);
    sum_locals(store, &store->baseline);
    lock_release(&store->locals_lock, LOCK_LOCALS);
    flash_item_reset_stats(store);
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        struct lru *lru = &store->lrus[clsid];

        lock_take(&lru->lock, LOCK_LRU);
        for (size_t i = 0; i < sizeof(lru->counts) / sizeof(uint64_t); i++)
            __atomic_store_n((uint64_t *)&lru->counts + i, 0, __ATOMIC_RELAXED);
        lru->evicted_time = 0;
        lock_release(&lru->lock, LOCK_LRU);
    }
}
