/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "store/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at the lock before a thread goes to sleep: most holders are done in less. */
enum { SPINS = 200 };

void lock_wait(struct lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        uint32_t free = 0;

        if (__atomic_load_n(&lock->state, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&lock->state, &free, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return;
    }
    /* From here on the state is 2, also when we get the lock: others may still sleep. */
    while (__atomic_exchange_n(&lock->state, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void lock_wake(struct lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#ifndef NDEBUG
static __thread int held[LOCK_RANKS];

void lock_note(enum lock_rank rank, int change)
{
    held[rank] += change;
    assert(held[rank] >= 0);
}

bool lock_in_order(enum lock_rank rank)
{
    for (int above = (int)rank; above < LOCK_RANKS; above++)
        if (held[above] > 0)
            return false;
    return true;
}
#endif
