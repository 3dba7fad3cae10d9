/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maintainer: the thread that works ahead of requests, so that they need not wait: it keeps the LRU
 * segments in proportion, frees dead items at their tails, sweeps the table after a flush, and
 * starts the crawler.
 */
#ifndef STORE_MAINTAINER_H
#define STORE_MAINTAINER_H

#include <stdint.h>

#include "base/clock.h"
#include "store/background.h"

struct store;

struct maintainer {
    struct background background;
    uint64_t njuggles; /* classes looked at; written by the thread, read by all (relaxed) */
};

/* One round over everything; returns how much there was to do. The thread's body, for tests too. */
unsigned int maintainer_round(struct store *store, rel_time now);

#endif
