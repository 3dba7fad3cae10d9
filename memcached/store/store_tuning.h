/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_tuning: the part of struct store_config that can be changed while the store runs.
 */
#ifndef STORE_STORE_TUNING_H
#define STORE_STORE_TUNING_H

#include <stdbool.h>
#include <stdint.h>

struct store;

struct store_tuning {
    bool lru_segmented;             /* hot, warm, cold, temp; false: one LRU for each class */
    bool temp;                      /* the temp LRU is on */
    unsigned int hot_pct, warm_pct; /* of a class's memory */
    double hot_max_factor, warm_max_factor; /* of the age of cold's tail */
    uint32_t temporary_ttl;                 /* seconds */
    uint32_t crawler_sleep_us;              /* between a thousand items */
    uint32_t crawler_tocrawl;               /* items of a class in one crawl, 0: all */
    unsigned int automove; /* 0: off, 1: by evictions and ages, 2: at each eviction */
    double automove_ratio; /* of two classes' ages below which a page moves */
};

/* The present values. */
void store_tuning(struct store *store, struct store_tuning *out);
void store_tune_lru(struct store *store, unsigned int hot_pct, unsigned int warm_pct,
                    double hot_max_factor, double warm_max_factor);
/* false: from now on all items go to cold, and the maintainer moves the others there. */
void store_set_lru_segmented(struct store *store, bool lru_segmented);
/* For items that are stored from now on. */
void store_set_temporary(struct store *store, bool temp, uint32_t ttl);
void store_set_crawler_sleep(struct store *store, uint32_t us);
void store_set_crawler_tocrawl(struct store *store, uint32_t nitems);
void store_set_automove(struct store *store, unsigned int mode);
void store_set_automove_ratio(struct store *store, double ratio);

#endif
