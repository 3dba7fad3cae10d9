/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * countdown: a latch that calls back when several operations, in any threads, have ended.
 *
 * It begins at 1, for the initiator; each operation that is started adds one. The thread that
 * reaches 0 calls `done`, and must not touch the countdown afterwards.
 */
#ifndef BASE_COUNTDOWN_H
#define BASE_COUNTDOWN_H

#include <stdbool.h>
#include <stdint.h>

struct countdown {
    uint32_t nleft; /* atomic */
    void (*done)(void *context);
    void *context;
};

static inline void countdown_begin(struct countdown *countdown, void (*done)(void *context),
                                   void *context)
{
    *countdown = (struct countdown){1, done, context};
}

static inline void countdown_add(struct countdown *countdown)
{
    __atomic_fetch_add(&countdown->nleft, 1, __ATOMIC_RELAXED);
}

/* One operation has ended. True: it was the last, and what all of them wrote is visible. */
static inline bool countdown_end(struct countdown *countdown)
{
    return __atomic_sub_fetch(&countdown->nleft, 1, __ATOMIC_ACQ_REL) == 0;
}

#endif
