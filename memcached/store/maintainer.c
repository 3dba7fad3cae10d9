/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/maintainer.h"

#include <errno.h>
#include <signal.h>

#include "store/internal.h"
#include "store/reclaim.h"

enum {
    STEPS = 200,        /* judgements for one class in a round: bounds how long its lock is held */
    SWEEP_LINES = 4096, /* lines of the table in a round */
    MIN_SLEEP_MS = 2,
    MAX_SLEEP_MS = 500,
};

unsigned int maintainer_round(struct store *store, rel_time now)
{
    unsigned int work;

    store_tick(store, now);
    /* Failing is no harm: whoever needs the memory finds out. */
    slab_provide(&store->slabs);
    work = flush_sweep(store, SWEEP_LINES, now);
    crawler_consider(store, now);
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++) {
        work += reclaim_balance(store, clsid, STEPS, now);
        count(&store->maintainer.njuggles);
    }
    return work;
}

/* Waits; returns whether to stop. */
static bool sleep_ms(struct maintainer *maintainer, unsigned int ms)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&maintainer->mutex);
    while (!maintainer->stop &&
           pthread_cond_timedwait(&maintainer->wake, &maintainer->mutex, &until) != ETIMEDOUT)
        continue;
    stop = maintainer->stop;
    pthread_mutex_unlock(&maintainer->mutex);
    return stop;
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
    } while (!sleep_ms(&store->maintainer, ms));
    return NULL;
}

/* The thread takes no signals: those are for the server's main thread. */
static int create_thread(struct store *store)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&store->maintainer.thread, NULL, run, store);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int store_maintainer_start(struct store *store)
{
    struct maintainer *maintainer = &store->maintainer;
    pthread_condattr_t attr;
    int error;

    if (maintainer->running)
        return -EALREADY;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&maintainer->mutex, NULL);
    pthread_cond_init(&maintainer->wake, &attr);
    pthread_condattr_destroy(&attr);
    maintainer->stop = false;
    error = create_thread(store);
    maintainer->running = error == 0;
    return -error;
}

void store_maintainer_stop(struct store *store)
{
    struct maintainer *maintainer = &store->maintainer;

    if (!maintainer->running)
        return;
    pthread_mutex_lock(&maintainer->mutex);
    maintainer->stop = true;
    pthread_cond_signal(&maintainer->wake);
    pthread_mutex_unlock(&maintainer->mutex);
    pthread_join(maintainer->thread, NULL);
    pthread_cond_destroy(&maintainer->wake);
    pthread_mutex_destroy(&maintainer->mutex);
    maintainer->running = false;
}
