/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forecast: when a class is worth another crawl. Each crawl counts the live items by the minute in
 * which they expire; the next one is due when a hundredth of them have expired. Items stored since
 * are not in these counts: once they are half as many as there were, the class is crawled after
 * some minutes in any case, the sooner the more items the last crawl found dead.
 *
 * Pure: no locks, no clock.
 */
#ifndef STORE_FORECAST_H
#define STORE_FORECAST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { FORECAST_MINUTES = 60 }; /* the longest time between two crawls of what changes */

/* What one crawl found in a class. */
struct forecast_found {
    uint64_t seen, dead;
    uint64_t soon[FORECAST_MINUTES]; /* alive, expires in that minute from now */
};

/* The state of a class. All zero: nothing is known. */
struct forecast {
    rel_time since;            /* the last crawl, or when the class was first looked at */
    uint64_t live;             /* items then */
    uint64_t stored;           /* a count of sets, then */
    unsigned int expiry_min;   /* by what was counted; FORECAST_MINUTES: not soon */
    uint64_t expected;         /* items that will be dead then */
    unsigned int turnover_min; /* for what was stored since */
};

/* The number of dead items from which a crawl is worth it. */
uint64_t forecast_worth(uint64_t live);
void forecast_count(struct forecast_found *found, rel_time exptime, rel_time now);
void forecast_learn(struct forecast *forecast, const struct forecast_found *found, uint64_t stored,
                    rel_time now);
/* Seconds until the class is due, if no more is stored than `stored` says; 0: now. */
rel_time forecast_wait(struct forecast *forecast, uint64_t stored, rel_time now);

#endif
