/* SPDX-License-Identifier: BSD-3-Clause */
/* list: which items a class holds, for `stats cachedump`. */
#include "store/internal.h"
#include "store/store_list.h"
#include "store/verbs.h"

/* Items looked at under the lock of the class, dead ones included: some milliseconds. */
enum { LIST_STEPS = 1 << 17 };

/* A record is this and the key. */
struct record {
    uint32_t nvalue;
    rel_time exptime;
    uint8_t nkey;
};

enum { RECORD_HEAD = 9 }; /* without padding */

static void put_record(char *out, const struct record *record, const char *key)
{
    memcpy(out, &record->nvalue, 4);
    memcpy(out + 4, &record->exptime, 4);
    out[8] = (char)record->nkey;
    memcpy(out + RECORD_HEAD, key, record->nkey);
}

bool store_list_next(struct slice *records, struct store_listed *out)
{
    if (records->len == 0)
        return false;
    memcpy(&out->nvalue, records->ptr, 4);
    memcpy(&out->exptime, records->ptr + 4, 4);
    out->key = (struct slice){records->ptr + RECORD_HEAD, (uint8_t)records->ptr[8]};
    records->ptr += RECORD_HEAD + out->key.len;
    records->len -= RECORD_HEAD + out->key.len;
    return true;
}

struct listing {
    struct store *store;
    char *out;
    size_t size, used;
    uint64_t limit; /* items still to list */
    unsigned int steps;
    rel_time now;
    uint8_t epoch;
};

/*
 * Whether the item is text, alive, and so to be listed. Its expiry is all that may change without
 * the lock of its class.
 */
static bool is_shown(const struct listing *list, const struct mc_item *item, rel_time exptime)
{
    bool expired = exptime != 0 && exptime <= list->now;

    return item->epoch == list->epoch && !expired && !item_has_binary_key(item);
}

/* False: that was enough. */
static bool list_item(struct listing *list, const struct mc_item *item)
{
    const struct record record = {
        .nvalue = item_length(list->store, item),
        .exptime = __atomic_load_n(&item->exptime, __ATOMIC_RELAXED),
        .nkey = item->nkey,
    };

    if (list->steps-- == 0)
        return false;
    if (!is_shown(list, item, record.exptime))
        return true;
    if (list->limit == 0 || list->size - list->used < RECORD_HEAD + (size_t)record.nkey)
        return false;
    put_record(list->out + list->used, &record, item->wire);
    list->used += RECORD_HEAD + (size_t)record.nkey;
    list->limit--;
    return true;
}

size_t store_list(struct store *store, unsigned int clsid, uint64_t limit, rel_time now, char *out,
                  size_t size)
{
    struct lru *lru = &store->lrus[clsid];
    struct listing list = {
        .store = store,
        .out = out,
        .size = size,
        .limit = limit ? limit : UINT64_MAX,
        .steps = LIST_STEPS,
        .now = now,
    };
    bool more = true;

    verb_begin(store, now);
    list.epoch = flush_epoch(store);
    lock_take(&lru->lock, LOCK_LRU);
    for (int i = 0; i < LRU_SEGMENTS; i++) {
        const struct mc_item *item = lru_head(lru, &store->heap, (enum lru_segment)i);

        for (; item && more; item = lru_after(&store->heap, item))
            more = list_item(&list, item);
    }
    lock_release(&lru->lock, LOCK_LRU);
    return list.used;
}
