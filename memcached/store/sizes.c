/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/sizes.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t step_of(uint64_t nbytes)
{
    return (nbytes + SIZES_STEP - 1) / SIZES_STEP;
}

int sizes_init(struct sizes *sizes, uint64_t item_max)
{
    /* The limit is of memcached's items; ours may come out a little larger. */
    uint64_t nsteps = 2 * step_of(item_max) + 1;

    sizes->counts = calloc(nsteps, sizeof(*sizes->counts));
    sizes->nsteps = sizes->counts ? nsteps : 0;
    return sizes->counts ? 0 : -ENOMEM;
}

void sizes_fini(struct sizes *sizes)
{
    free(sizes->counts);
    *sizes = (struct sizes){0};
}

void sizes_add(struct sizes *sizes, uint64_t nbytes, int64_t change)
{
    uint64_t step = step_of(nbytes);

    if (step < sizes->nsteps)
        __atomic_fetch_add(&sizes->counts[step], (uint64_t)change, __ATOMIC_RELAXED);
}

bool sizes_next(const struct sizes *sizes, uint64_t *size, uint64_t *count)
{
    for (uint64_t step = *size / SIZES_STEP + 1; step < sizes->nsteps; step++) {
        uint64_t n = __atomic_load_n(&sizes->counts[step], __ATOMIC_RELAXED);

        if (n > 0) {
            *size = step * SIZES_STEP;
            *count = n;
            return true;
        }
    }
    return false;
}
