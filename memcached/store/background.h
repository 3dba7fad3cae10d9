/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * background: a thread of the store that works in rounds and sleeps between them.
 */
#ifndef STORE_BACKGROUND_H
#define STORE_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct background {
    pthread_t thread;
    pthread_mutex_t mutex; /* a leaf */
    pthread_cond_t wake;
    bool running, stop, woken; /* under the mutex */
};

/* 0 or -errno. */
int background_init(struct background *background);
/* Stopped before. */
void background_fini(struct background *background);
/* The body runs until background_sleep tells it to stop. 0 or -errno; -EALREADY. */
int background_start(struct background *background, void *(*body)(void *), void *context);
/* Waits until the body has returned. Legal if it does not run. */
void background_stop(struct background *background);
/* Ends the sleep, or the next one. Any thread, under any lock. */
void background_wake(struct background *background);
/* For the body: sleeps for at most `us` microseconds. Returns whether to stop. */
bool background_sleep(struct background *background, uint64_t us);

#endif
