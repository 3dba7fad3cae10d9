/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/prefault.h"

#include "store/internal.h"

/* No thread waits for this: one that needs memory wakes the thread. */
enum { IDLE_US = 1000000 };

bool prefault_round(struct store *store)
{
    bool heap = slab_prefault(&store->slabs) == 0;
    bool table = table_prefault(&store->table) == 0;

    return heap && table;
}

static void *run(void *context)
{
    struct store *store = context;

    do {
        if (prefault_round(store))
            table_retry(&store->table);
    } while (!background_sleep(&store->prefault, IDLE_US));
    return NULL;
}

int store_prefault_start(struct store *store)
{
    int error = background_start(&store->prefault, run, store);

    if (!error) {
        store->slabs.prefault = &store->prefault;
        store->table.prefault = &store->prefault;
    }
    return error;
}

void store_prefault_stop(struct store *store)
{
    background_stop(&store->prefault);
    store->slabs.prefault = NULL;
    store->table.prefault = NULL;
}
