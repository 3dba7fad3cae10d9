/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tuning: the fields of struct store_tuning, which change while the store is in use. The thread
 * that tunes writes them and all threads read them, without order: a thread that reads a moment
 * late, or one of two that belong together, makes a decision that was right a moment ago.
 */
#ifndef STORE_TUNING_H
#define STORE_TUNING_H

#include "store/internal.h"

static inline bool tuned_lru_segmented(const struct store *store)
{
    return __atomic_load_n(&store->config.tuning.lru_segmented, __ATOMIC_RELAXED);
}

/* Flat mode goes before it. */
static inline bool tuned_s3_fifo(const struct store *store)
{
    return store->config.s3_fifo && tuned_lru_segmented(store);
}

static inline bool tuned_temp(const struct store *store)
{
    return __atomic_load_n(&store->config.tuning.temp, __ATOMIC_RELAXED);
}

static inline uint32_t tuned_temporary_ttl(const struct store *store)
{
    return __atomic_load_n(&store->config.tuning.temporary_ttl, __ATOMIC_RELAXED);
}

/*
 * The limits of hot or warm: its share of the class, and its age relative to that of cold's tail.
 */
static inline unsigned int tuned_pct(const struct store *store, enum lru_segment segment)
{
    const struct store_tuning *tuning = &store->config.tuning;

    return __atomic_load_n(segment == LRU_HOT ? &tuning->hot_pct : &tuning->warm_pct,
                           __ATOMIC_RELAXED);
}

static inline double tuned_max_factor(const struct store *store, enum lru_segment segment)
{
    const struct store_tuning *tuning = &store->config.tuning;
    double factor;

    __atomic_load(segment == LRU_HOT ? &tuning->hot_max_factor : &tuning->warm_max_factor, &factor,
                  __ATOMIC_RELAXED);
    return factor;
}

static inline uint32_t tuned_crawler_sleep_us(const struct store *store)
{
    return __atomic_load_n(&store->config.tuning.crawler_sleep_us, __ATOMIC_RELAXED);
}

static inline uint32_t tuned_crawler_tocrawl(const struct store *store)
{
    return __atomic_load_n(&store->config.tuning.crawler_tocrawl, __ATOMIC_RELAXED);
}

static inline unsigned int tuned_automove(const struct store *store)
{
    return __atomic_load_n(&store->config.tuning.automove, __ATOMIC_RELAXED);
}

static inline double tuned_automove_ratio(const struct store *store)
{
    double ratio;

    __atomic_load(&store->config.tuning.automove_ratio, &ratio, __ATOMIC_RELAXED);
    return ratio;
}

#endif
