/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tuning: the fields of struct store_config that change while the store is in use. They are written
 * by whoever tunes and read by everybody, without order: who reads a moment late, or one of two
 * that belong together, makes a decision that was right a moment ago.
 */
#ifndef STORE_TUNING_H
#define STORE_TUNING_H

#include "store/internal.h"

static inline bool tuned_lru_segmented(const struct store *store)
{
    return __atomic_load_n(&store->config.lru_segmented, __ATOMIC_RELAXED);
}

/* Flat mode goes before it. */
static inline bool tuned_s3_fifo(const struct store *store)
{
    return store->config.s3_fifo && tuned_lru_segmented(store);
}

static inline bool tuned_temp(const struct store *store)
{
    return __atomic_load_n(&store->config.temp, __ATOMIC_RELAXED);
}

static inline uint32_t tuned_temporary_ttl(const struct store *store)
{
    return __atomic_load_n(&store->config.temporary_ttl, __ATOMIC_RELAXED);
}

/* Of hot or warm: the share of its class, and the age relative to that of cold's tail. */
static inline unsigned int tuned_pct(const struct store *store, enum lru_segment segment)
{
    const struct store_config *config = &store->config;

    return __atomic_load_n(segment == LRU_HOT ? &config->hot_pct : &config->warm_pct,
                           __ATOMIC_RELAXED);
}

static inline double tuned_max_factor(const struct store *store, enum lru_segment segment)
{
    const struct store_config *config = &store->config;
    double factor;

    __atomic_load(segment == LRU_HOT ? &config->hot_max_factor : &config->warm_max_factor, &factor,
                  __ATOMIC_RELAXED);
    return factor;
}

static inline uint32_t tuned_crawler_sleep_us(const struct store *store)
{
    return __atomic_load_n(&store->config.crawler_sleep_us, __ATOMIC_RELAXED);
}

static inline uint32_t tuned_crawler_tocrawl(const struct store *store)
{
    return __atomic_load_n(&store->config.crawler_tocrawl, __ATOMIC_RELAXED);
}

#endif
