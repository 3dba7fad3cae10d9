/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/sizes.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t step_of(uint64_t nbytes)
{
    return (nbytes + SIZES_STEP - 1) / SIZES_STEP;
}

/* Pairs with the release of sizes_start. */
static uint64_t *counts_of(const struct sizes *sizes)
{
    return __atomic_load_n(&sizes->counts, __ATOMIC_ACQUIRE);
}

void sizes_init(struct sizes *sizes, uint64_t item_max)
{
    /* The limit is of memcached's items; ours may come out a little larger. */
    *sizes = (struct sizes){.nsteps = 2 * step_of(item_max) + 1};
}

void sizes_fini(struct sizes *sizes)
{
    free(sizes->counts);
    *sizes = (struct sizes){0};
}

int sizes_start(struct sizes *sizes)
{
    uint64_t *none = NULL;
    uint64_t *counts = counts_of(sizes);

    if (!counts) {
        counts = calloc(sizes->nsteps, sizeof(*counts));
        if (!counts)
            return -ENOMEM;
        /* Another thread may have been faster. */
        if (!__atomic_compare_exchange_n(&sizes->counts, &none, counts, false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            free(counts);
    }
    __atomic_store_n(&sizes->on, true, __ATOMIC_RELEASE);
    return 0;
}

void sizes_stop(struct sizes *sizes)
{
    __atomic_store_n(&sizes->on, false, __ATOMIC_RELAXED);
}

void sizes_add(struct sizes *sizes, uint64_t nbytes, int64_t change)
{
    uint64_t *counts = counts_of(sizes);
    uint64_t step = step_of(nbytes);

    if (counts && step < sizes->nsteps)
        __atomic_fetch_add(&counts[step], (uint64_t)change, __ATOMIC_RELAXED);
}

bool sizes_next(const struct sizes *sizes, uint64_t *size, uint64_t *count)
{
    const uint64_t *counts = counts_of(sizes);

    if (!counts)
        return false;
    for (uint64_t step = *size / SIZES_STEP + 1; step < sizes->nsteps; step++) {
        uint64_t n = __atomic_load_n(&counts[step], __ATOMIC_RELAXED);

        if (n > 0) {
            *size = step * SIZES_STEP;
            *count = n;
            return true;
        }
    }
    return false;
}
