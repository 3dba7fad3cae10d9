/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/spiller.h"

#include <errno.h>
#include <signal.h>

#include "store/external.h"

enum { MIN_SLEEP_MS = 1, MAX_SLEEP_MS = 100 };

/* Waits; returns whether to stop. */
static bool sleep_ms(struct spiller *spiller, unsigned int ms)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&spiller->mutex);
    while (!spiller->stop &&
           pthread_cond_timedwait(&spiller->wake, &spiller->mutex, &until) != ETIMEDOUT)
        continue;
    stop = spiller->stop;
    pthread_mutex_unlock(&spiller->mutex);
    return stop;
}

static void run(struct store *store, unsigned int (*round)(struct store *store, rel_time now))
{
    unsigned int ms = MIN_SLEEP_MS;

    do {
        if (round(store, clock_now(&store->config.clock)) > 0)
            ms = MIN_SLEEP_MS;
        else if (ms < MAX_SLEEP_MS)
            ms *= 2;
    } while (!sleep_ms(&store->spiller, ms));
}

static void *run_spill(void *store)
{
    run(store, spill_round);
    return NULL;
}

static void *run_compact(void *store)
{
    run(store, compact_round);
    return NULL;
}

static void stop(struct spiller *spiller)
{
    pthread_mutex_lock(&spiller->mutex);
    __atomic_store_n(&spiller->stop, true, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&spiller->wake);
    pthread_mutex_unlock(&spiller->mutex);
}

/* The threads take no signals: those are for the server's main thread. */
static int create_threads(struct store *store)
{
    struct spiller *spiller = &store->spiller;
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&spiller->spill, NULL, run_spill, store);
    if (!error) {
        error = pthread_create(&spiller->compact, NULL, run_compact, store);
        if (error) {
            stop(spiller);
            pthread_join(spiller->spill, NULL);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int store_spiller_start(struct store *store)
{
    struct spiller *spiller = &store->spiller;
    pthread_condattr_t attr;
    int error;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&spiller->mutex, NULL);
    pthread_cond_init(&spiller->wake, &attr);
    pthread_condattr_destroy(&attr);
    spiller->stop = false;
    error = create_threads(store);
    spiller->running = error == 0;
    return -error;
}

void store_spiller_stop(struct store *store)
{
    struct spiller *spiller = &store->spiller;

    if (!spiller->running)
        return;
    stop(spiller);
    pthread_join(spiller->spill, NULL);
    pthread_join(spiller->compact, NULL);
    pthread_cond_destroy(&spiller->wake);
    pthread_mutex_destroy(&spiller->mutex);
    spiller->running = false;
}
