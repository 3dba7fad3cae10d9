/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/flash_threads.h"

#include "store/flash_item.h"

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

static void *run_writer(void *context)
{
    struct store *store = context;

    run(store, &store->flash_threads.write, flash_write_round);
    return NULL;
}

static void *run_compact(void *context)
{
    struct store *store = context;

    run(store, &store->flash_threads.compact, flash_compact_round);
    return NULL;
}

int flash_threads_init(struct flash_threads *flash_threads)
{
    int error = background_init(&flash_threads->write);

    if (!error) {
        error = background_init(&flash_threads->compact);
        if (error)
            background_fini(&flash_threads->write);
    }
    return error;
}

void flash_threads_fini(struct flash_threads *flash_threads)
{
    background_fini(&flash_threads->write);
    background_fini(&flash_threads->compact);
}

int store_flash_start(struct store *store)
{
    int error;

    store->slabs.flash_writer = &store->flash_threads.write;
    error = background_start(&store->flash_threads.write, run_writer, store);

    if (!error)
        error = background_start(&store->flash_threads.compact, run_compact, store);
    return error;
}

void store_flash_stop(struct store *store)
{
    __atomic_store_n(&store->flash_threads.stop, true, __ATOMIC_RELAXED);
    background_stop(&store->flash_threads.write);
    background_stop(&store->flash_threads.compact);
}
