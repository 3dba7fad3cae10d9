/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sizes: how many linked items there are of each size, in steps of SIZES_STEP bytes. Counts only
 * while it is on: a thread that adds an item asks sizes_on, and must remember that it did until it
 * takes the item off. Any thread, no lock.
 */
#ifndef STORE_SIZES_H
#define STORE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum { SIZES_STEP = 32 };

struct sizes {
    uint64_t *counts; /* [n]: above n - 1 steps up to n; NULL: it never was on; atomic */
    uint64_t nsteps;
    bool on; /* atomic */
};

/* Items to item_max bytes. It is off. */
void sizes_init(struct sizes *sizes, uint64_t item_max);
void sizes_fini(struct sizes *sizes);
/* 0 or -ENOMEM. */
int sizes_start(struct sizes *sizes);
void sizes_stop(struct sizes *sizes);

/* Pairs with sizes_start, which has the counts ready before. */
static inline bool sizes_on(const struct sizes *sizes)
{
    return __atomic_load_n(&sizes->on, __ATOMIC_ACQUIRE);
}

void sizes_add(struct sizes *sizes, uint64_t nbytes, int64_t change);
/* The next step above *size, a multiple of SIZES_STEP, that items have. */
bool sizes_next(const struct sizes *sizes, uint64_t *size, uint64_t *count);

#endif
