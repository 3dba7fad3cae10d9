/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/background.h"

#include <errno.h>
#include <time.h>

#include "base/thread.h"

int background_init(struct background *background)
{
    pthread_condattr_t attr;
    int error = pthread_mutex_init(&background->mutex, NULL);

    if (error)
        return -error;
    error = pthread_condattr_init(&attr);
    if (!error) {
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        error = pthread_cond_init(&background->wake, &attr);
        pthread_condattr_destroy(&attr);
    }
    if (error)
        pthread_mutex_destroy(&background->mutex);
    background->running = background->stop = background->woken = false;
    return -error;
}

void background_fini(struct background *background)
{
    pthread_cond_destroy(&background->wake);
    pthread_mutex_destroy(&background->mutex);
}

int background_start(struct background *background, void *(*body)(void *), void *context)
{
    int error = -EALREADY;

    pthread_mutex_lock(&background->mutex);
    if (!background->running) {
        background->stop = false;
        error = thread_start(&background->thread, body, context);
        background->running = error == 0;
    }
    pthread_mutex_unlock(&background->mutex);
    return error;
}

void background_stop(struct background *background)
{
    bool running;

    pthread_mutex_lock(&background->mutex);
    running = background->running;
    background->stop = true;
    pthread_cond_signal(&background->wake);
    pthread_mutex_unlock(&background->mutex);
    if (!running)
        return;
    pthread_join(background->thread, NULL);
    background->running = false;
}

void background_wake(struct background *background)
{
    pthread_mutex_lock(&background->mutex);
    background->woken = true;
    pthread_cond_signal(&background->wake);
    pthread_mutex_unlock(&background->mutex);
}

bool background_sleep(struct background *background, uint64_t us)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(us / 1000000);
    until.tv_nsec += (long)(us % 1000000) * 1000;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&background->mutex);
    while (!background->stop && !background->woken &&
           pthread_cond_timedwait(&background->wake, &background->mutex, &until) != ETIMEDOUT)
        continue;
    background->woken = false;
    stop = background->stop;
    pthread_mutex_unlock(&background->mutex);
    return stop;
}
