/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_list: the items of one slab class as a list, for `stats cachedump`.
 */
#ifndef STORE_STORE_LIST_H
#define STORE_STORE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/slice.h"

struct store;

struct store_listed {
    struct slice key;
    uint32_t nvalue; /* without the tail */
    rel_time exptime;
};
/*
 * Lists up to `limit` (0: any number) live items of a class with text keys: records of at most
 * `size` bytes, returned in `out` for store_list_next. Of each LRU segment the newest first, hot
 * before warm, cold and temp. The lock of the class is held for the call, so the number of items
 * looked at is bounded. A record is shorter than its key and 10 bytes.
 */
size_t store_list(struct store *store, unsigned int clsid, uint64_t limit, rel_time now, char *out,
                  size_t size);
/* Takes the next item off; its key points into `out` of store_list. False: no more. */
bool store_list_next(struct slice *records, struct store_listed *out);

#endif
