/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/supplier.h"

#include "store/internal.h"

/* Nobody has to wait for this: who needs memory wakes the thread. */
enum { IDLE_US = 1000000 };

bool supplier_round(struct store *store)
{
    bool heap = slab_supply(&store->slabs) == 0;
    bool table = table_supply(&store->table) == 0;

    return heap && table;
}

static void *run(void *context)
{
    struct store *store = context;

    do {
        if (supplier_round(store))
            table_retry(&store->table);
    } while (!background_sleep(&store->supplier, IDLE_US));
    return NULL;
}

int store_supplier_start(struct store *store)
{
    int error = background_start(&store->supplier, run, store);

    if (!error) {
        store->slabs.supplier = &store->supplier;
        store->table.supplier = &store->supplier;
    }
    return error;
}

void store_supplier_stop(struct store *store)
{
    background_stop(&store->supplier);
    store->slabs.supplier = NULL;
    store->table.supplier = NULL;
}
