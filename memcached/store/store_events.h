/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_events: what a store reports beside the results of its verbs, for the watchers: items that
 * leave it, and what its maintenance threads do.
 */
#ifndef STORE_STORE_EVENTS_H
#define STORE_STORE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/slice.h"

struct store;

enum store_event_kind {
    STORE_EVENT_ITEM = 1 << 0,   /* an item leaves: evicted, written to flash */
    STORE_EVENT_SYSTEM = 1 << 1, /* what the maintenance threads do */
};
struct store_item_event {
    const char *type; /* "eviction", "extwrite" */
    struct slice key;
    bool fetched;
    int64_t ttl;   /* seconds left, -1: it never expires */
    rel_time idle; /* seconds since the last use */
    unsigned int clsid;
    int bucket; /* of extwrite, -1: none */
};
/*
 * The receiver of the events. *wanted is the set of store_event_kind that has watchers, atomic. The
 * functions are called from any thread and also under the store's locks, so they neither wait nor
 * allocate.
 */
struct store_events {
    void *context;
    const uint32_t *wanted;
    void (*item)(void *context, const struct store_item_event *event);
    /* The words of a line, "type=slab_move src=1 dst=2". */
    void (*system)(void *context, struct slice text);
};
/* Before the first thread, or behind the last. NULL: no watchers. */
void store_set_events(struct store *store, const struct store_events *events);

#endif
