/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/event.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_BYTES = 256 };

void event_init(struct store *store)
{
    static const uint32_t nothing = 0;

    store->events = (struct store_events){.wanted = &nothing};
}

void store_set_events(struct store *store, const struct store_events *events)
{
    if (events)
        store->events = *events;
    else
        event_init(store);
}

void event_item(struct store *store, const char *type, const struct mc_item *item, int bucket,
                rel_time now)
{
    rel_time expiry = __atomic_load_n(&item->exptime, __ATOMIC_RELAXED);
    const struct store_item_event event = {
        .type = type,
        .key = item_key(item),
        .fetched = __atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_FETCHED,
        .ttl = expiry == 0    ? -1
               : expiry > now ? (int64_t)expiry - now
                              : 0,
        .idle = item_age(item, now),
        .clsid = lru_class_of(item),
        .bucket = bucket,
    };

    if (event_wanted(store, STORE_EVENT_ITEM))
        store->events.item(store->events.context, &event);
}

void event_system(struct store *store, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;
    int n;

    if (!event_wanted(store, STORE_EVENT_SYSTEM))
        return;
    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n > 0) {
        size_t len = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;

        store->events.system(store->events.context, (struct slice){text, len});
    }
}
