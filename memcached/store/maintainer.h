/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maintainer: the thread that does what need not wait for a request, so that requests need not wait
 * for it: LRU segments in
 * proportion, dead items freed at their tails and, after a flush or by the crawler, elsewhere.
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
