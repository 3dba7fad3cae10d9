/* SPDX-License-Identifier: BSD-3-Clause */
/* spiller: the two threads of flash storage: one writes values out, one compacts pages. */
#ifndef STORE_SPILLER_H
#define STORE_SPILLER_H

#include <pthread.h>
#include <stdbool.h>

struct spiller {
    pthread_t spill, compact;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop; /* atomic, and under the mutex */
    bool running;
};

#endif
