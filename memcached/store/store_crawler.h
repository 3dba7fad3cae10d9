/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_crawler: the crawler: a thread that walks over all items, to free those that are dead, for
 * those who ask and, by what it has learned of the items' expiry, for the maintainer; or to show
 * all that are alive. It does one walk of each kind at a time, and neither waits for the other.
 */
#ifndef STORE_STORE_CRAWLER_H
#define STORE_STORE_CRAWLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/slice.h"

struct store;

/* 0 or -errno; -EALREADY. */
int store_crawler_start(struct store *store);
/* Ends the walks that it is at before they are complete. */
void store_crawler_stop(struct store *store);
bool store_crawler_running(struct store *store);

#define STORE_ALL_CLASSES (~(uint64_t)1) /* as a set of classes: all but 0 */

enum store_crawl {
    STORE_CRAWL_STARTED,
    STORE_CRAWL_OFF,   /* no thread */
    STORE_CRAWL_BUSY,  /* it is at something of the kind that somebody asked for */
    STORE_CRAWL_EMPTY, /* no class */
};

/* An item as it was found: what is to be read of it is copied. */
struct store_shown {
    struct slice key;
    bool binary_key, fetched;
    rel_time exptime, last_use;
    uint64_t cas; /* 0 under -C */
    unsigned int clsid;
    size_t size; /* header, key, suffix, value, tail */
};

enum store_taken {
    STORE_TAKEN,
    STORE_FULL,   /* ask again: there is no room now */
    STORE_ENOUGH, /* nobody wants more */
};

/* Who is shown items. The functions are called by the crawler's thread, under no lock. */
struct store_viewer {
    void *context;
    /* shown is NULL once behind the last item. Never waits. */
    enum store_taken (*take)(void *context, const struct store_shown *shown);
    /* Waits until there may be room, or the time is over. */
    void (*wait)(void *context, unsigned int ms);
    /* The last call. whole: each item that was there all the time was shown, exactly once. */
    void (*end)(void *context, bool whole);
};

/*
 * Has what is dead in the classes (bit n: class n) freed, of each class at most as many items
 * looked at as crawler_tocrawl says.
 */
enum store_crawl store_crawl(struct store *store, uint64_t classes);
/*
 * Shows the live items of the classes. Who takes nothing for half a minute is shown no more, so
 * that others get their turn. The viewer is called only after STORE_CRAWL_STARTED.
 */
enum store_crawl store_show(struct store *store, uint64_t classes,
                            const struct store_viewer *viewer);

#endif
