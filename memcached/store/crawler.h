/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crawler: the thread behind store_crawl and store_show.
 *
 * It walks the table, not the LRU lists. Under one stripe it looks at the items of one bucket,
 * which are few, and takes the lock of a class only to free an item. The walk keeps no position in
 * a list that other threads change: items that are overwritten, evicted or moved to another chunk
 * meanwhile do not disturb it, and each item that stays is visited exactly once (table_walk). The
 * price is that one class costs a look at all buckets: the class of an item follows from the page
 * that its reference is in, so items of other classes are not read.
 *
 * Between a thousand items it sleeps as long as it is told. A viewer's records are copied under the
 * stripe and passed on after it; a viewer without room is called again, without lock or hold.
 *
 * Locks: its mutex guards what others ask; only that of the background thread comes behind it.
 */
#ifndef STORE_CRAWLER_H
#define STORE_CRAWLER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared/layout.h"
#include "store/background.h"
#include "store/forecast.h"
#include "store/store_crawler.h"

/* The way around the table, of the crawler's thread alone. */
struct walk {
    bool active;
    uint64_t classes;
    uint32_t position;
    uint64_t covered; /* of all positions, since it began */
};

struct crawl_counts {
    uint32_t checked, reclaimed, unfetched;
};

struct free_walk {
    struct walk walk;
    bool asked_for; /* not only by the maintainer; under the mutex */
    rel_time began;
    uint64_t left[MC_CLASSES]; /* items that may still be looked at */
    struct forecast_found found[MC_CLASSES];
};

struct show_walk {
    struct walk walk;
    struct store_viewer viewer;
    char *records;
    size_t size, used, next; /* bytes */
    bool overrun;            /* a bucket has more than fits */
    uint64_t full_since;     /* milliseconds; 0: the viewer took the last one */
};

struct crawler {
    pthread_mutex_t control; /* start and stop come one at a time */
    struct background background;

    pthread_mutex_t mutex; /* guards the following */
    bool on;               /* atomic to read */
    uint64_t free_classes; /* asked for and not begun */
    uint64_t show_classes;
    bool freeing, showing; /* asked for by a user, begun or not */
    struct store_viewer viewer;
    struct forecast forecasts[MC_CLASSES];

    uint64_t nstarts;                       /* atomic */
    bool busy;                              /* atomic: there is a walk */
    struct crawl_counts counts[MC_CLASSES]; /* for the statistics, of this round */
    unsigned int patience_ms;               /* with a viewer who takes nothing */
    unsigned int unslept;                   /* work since the last pause */
    rel_time considered;                    /* of the maintainer; 0: never */
    struct free_walk free;
    struct show_walk show;
};

struct store;

/* 0 or -errno. */
int crawler_init(struct store *store);
/* After the thread has been stopped. */
void crawler_fini(struct store *store);
/*
 * Lets the thread crawl the classes that are worth it, and at first all. By the maintainer, any
 * number of times.
 */
void crawler_consider(struct store *store, rel_time now);

#endif
