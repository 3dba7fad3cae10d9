/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/spiller.h"

#include "store/external.h"

enum { MIN_SLEEP_US = 500, MAX_SLEEP_US = 100000 };

static void run(struct store *store, struct background *background,
                unsigned int (*round)(struct store *store, rel_time now))
{
    uint64_t us = MIN_SLEEP_US;

    do {
        if (round(store, clock_now(&store->config.clock)) > 0)
            us = MIN_SLEEP_US;
        else if (us < MAX_SLEEP_US)
            us *= 2;
    } while (!background_sleep(background, us));
}

static void *run_spill(void *context)
{
    struct store *store = context;

    run(store, &store->spiller.spill, spill_round);
    return NULL;
}

static void *run_compact(void *context)
{
    struct store *store = context;

    run(store, &store->spiller.compact, compact_round);
    return NULL;
}

int spiller_init(struct spiller *spiller)
{
    int error = background_init(&spiller->spill);

    if (!error) {
        error = background_init(&spiller->compact);
        if (error)
            background_fini(&spiller->spill);
    }
    return error;
}

void spiller_fini(struct spiller *spiller)
{
    background_fini(&spiller->spill);
    background_fini(&spiller->compact);
}

int store_spiller_start(struct store *store)
{
    int error;

    store->slabs.spill = &store->spiller.spill;
    error = background_start(&store->spiller.spill, run_spill, store);

    if (!error)
        error = background_start(&store->spiller.compact, run_compact, store);
    return error;
}

void store_spiller_stop(struct store *store)
{
    __atomic_store_n(&store->spiller.stop, true, __ATOMIC_RELAXED);
    background_stop(&store->spiller.spill);
    background_stop(&store->spiller.compact);
}
