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
    STORE_CRAWL_BUSY,  /* a walk of this kind that somebody asked for has not ended */
    STORE_CRAWL_EMPTY, /* no class */
};

/* A copy of what is shown of an item. */
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
    STORE_FULL,   /* there is no room now: call again */
    STORE_ENOUGH, /* the viewer wants no more items */
};

/* The receiver of items. The functions are called by the crawler's thread, under no lock. */
struct store_viewer {
    void *context;
    /* After the last item it is called once with NULL. Never waits. */
    enum store_taken (*take)(void *context, const struct store_shown *shown);
    /* Waits until there may be room, for at most `ms`. */
    void (*wait)(void *context, unsigned int ms);
    /* The last call. whole: each item that existed during the whole walk was shown, once. */
    void (*end)(void *context, bool whole);
};

/*
 * Has the dead items of the classes (bit n: class n) freed; of each class at most crawler_tocrawl
 * items are looked at.
 */
enum store_crawl store_crawl(struct store *store, uint64_t classes);
/*
 * Shows the live items of the classes. A viewer that takes nothing for half a minute is dropped, so
 * that others get their turn. The viewer is called only after STORE_CRAWL_STARTED.
 */
enum store_crawl store_show(struct store *store, uint64_t classes,
                            const struct store_viewer *viewer);

#endif
