/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/maintainer.h"

#include "store/internal.h"
#include "store/reclaim.h"
#include "store/verbs.h"

enum {
    STEPS = 100, /* judgements for one LRU segment in a round: bound how long its lock is held */
    SWEEP_BUCKETS = 4096, /* buckets of the table in a round */
    MIN_SLEEP_MS = 2,
    MAX_SLEEP_MS = 500,
};

unsigned int maintainer_round(struct store *store, rel_time now)
{
    unsigned int work;

    verb_begin(store, now);
    work = flush_sweep(store, SWEEP_BUCKETS, now);
    crawler_consider(store, now);
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        work += reclaim_balance(store, clsid, STEPS, now);
        count(&store->maintainer.njuggles);
    }
    return work;
}

static void *run(void *context)
{
    struct store *store = context;
    unsigned int ms = MIN_SLEEP_MS;

    do {
        if (maintainer_round(store, clock_now(&store->config.clock)) > 0)
            ms = MIN_SLEEP_MS;
        else if (ms < MAX_SLEEP_MS)
            ms *= 2;
    } while (!background_sleep(&store->maintainer.background, ms * 1000));
    return NULL;
}

int store_maintainer_start(struct store *store)
{
    return background_start(&store->maintainer.background, run, store);
}

void store_maintainer_stop(struct store *store)
{
    background_stop(&store->maintainer.background);
}
