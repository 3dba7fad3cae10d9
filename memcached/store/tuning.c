/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/tuning.h"

void store_tuning(struct store *store, struct store_tuning *out)
{
    *out = (struct store_tuning){
        .lru_segmented = tuned_lru_segmented(store),
        .temp = tuned_temp(store),
        .hot_pct = tuned_pct(store, LRU_HOT),
        .warm_pct = tuned_pct(store, LRU_WARM),
        .hot_max_factor = tuned_max_factor(store, LRU_HOT),
        .warm_max_factor = tuned_max_factor(store, LRU_WARM),
        .temporary_ttl = tuned_temporary_ttl(store),
        .crawler_sleep_us = tuned_crawler_sleep_us(store),
        .crawler_tocrawl = tuned_crawler_tocrawl(store),
        .automove = tuned_automove(store),
        .automove_ratio = tuned_automove_ratio(store),
    };
}

void store_tune_lru(struct store *store, unsigned int hot_pct, unsigned int warm_pct,
                    double hot_max_factor, double warm_max_factor)
{
    struct store_tuning *tuning = &store->config.tuning;

    __atomic_store_n(&tuning->hot_pct, hot_pct, __ATOMIC_RELAXED);
    __atomic_store_n(&tuning->warm_pct, warm_pct, __ATOMIC_RELAXED);
    __atomic_store(&tuning->hot_max_factor, &hot_max_factor, __ATOMIC_RELAXED);
    __atomic_store(&tuning->warm_max_factor, &warm_max_factor, __ATOMIC_RELAXED);
}

void store_set_lru_segmented(struct store *store, bool segmented)
{
    __atomic_store_n(&store->config.tuning.lru_segmented, segmented, __ATOMIC_RELAXED);
}

void store_set_temporary(struct store *store, bool temp, uint32_t ttl)
{
    if (temp)
        __atomic_store_n(&store->config.tuning.temporary_ttl, ttl, __ATOMIC_RELAXED);
    __atomic_store_n(&store->config.tuning.temp, temp, __ATOMIC_RELAXED);
}

void store_set_crawler_sleep(struct store *store, uint32_t us)
{
    __atomic_store_n(&store->config.tuning.crawler_sleep_us, us, __ATOMIC_RELAXED);
}

void store_set_crawler_tocrawl(struct store *store, uint32_t nitems)
{
    __atomic_store_n(&store->config.tuning.crawler_tocrawl, nitems, __ATOMIC_RELAXED);
}

void store_set_automove(struct store *store, unsigned int mode)
{
    __atomic_store_n(&store->config.tuning.automove, mode, __ATOMIC_RELAXED);
}

void store_set_automove_ratio(struct store *store, double ratio)
{
    __atomic_store(&store->config.tuning.automove_ratio, &ratio, __ATOMIC_RELAXED);
}
