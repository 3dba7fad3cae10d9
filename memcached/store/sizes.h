/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sizes: how many linked items there are of each size, in steps of SIZES_STEP
 * bytes. Counted only if asked for. Any thread, no lock.
 */
#ifndef STORE_SIZES_H
#define STORE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum { SIZES_STEP = 32 };

struct sizes {
    uint64_t *counts; /* [n]: above n - 1 steps up to n; NULL: not counted */
    uint64_t nsteps;
};

/* Items to item_max bytes. 0 or -ENOMEM. */
int sizes_init(struct sizes *sizes, uint64_t item_max);
void sizes_fini(struct sizes *sizes);
void sizes_add(struct sizes *sizes, uint64_t nbytes, int64_t change);
/* The next step above *size, a multiple of SIZES_STEP, that items have. */
bool sizes_next(const struct sizes *sizes, uint64_t *size, uint64_t *count);

#endif
