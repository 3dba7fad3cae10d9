/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: the store's mutex, four bytes, after Drepper, "Futexes Are Tricky", section 6. Uncontended
 * it is one atomic operation each way; contended it spins for a moment and then sleeps in the
 * kernel.
 *
 * The order in which locks may be taken is enum lock_rank. Builds with asserts check that a thread
 * waits only for a rank above all that it holds. lock_try never waits and so may go against the
 * order.
 */
#ifndef STORE_LOCK_H
#define STORE_LOCK_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_rank {
    LOCK_FLUSH,   /* the epoch and its bookkeeping */
    LOCK_GROWTH,  /* the number of buckets of the table */
    LOCK_STRIPE,  /* some buckets of the table and the items they reach */
    LOCK_LRU,     /* the LRU lists of a class */
    LOCK_SLAB,    /* the free chunks of a class */
    LOCK_PAGES,   /* the page counts of all classes */
    LOCK_MAPPING, /* calls to the provider */
    LOCK_MEMORY,  /* the pool of overflow buckets */
    LOCK_LOCALS,  /* the list of threads' handles */
    LOCK_RANKS
};

struct lock {
    uint32_t state; /* 0 free, 1 held, 2 held and somebody may sleep */
};

/* The slow halves. */
void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

#ifdef NDEBUG
static inline void lock_note(enum lock_rank rank, int change)
{
    (void)rank;
    (void)change;
}
#else
/* Counts what this thread holds; asserts that it releases what it took. */
void lock_note(enum lock_rank rank, int change);
/* Whether this thread holds nothing of this rank or above. */
bool lock_in_order(enum lock_rank rank);
#endif

static inline bool lock_try(struct lock *lock, enum lock_rank rank)
{
    uint32_t free = 0;

    if (!__atomic_compare_exchange_n(&lock->state, &free, 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    lock_note(rank, 1);
    return true;
}

static inline void lock_take(struct lock *lock, enum lock_rank rank)
{
    uint32_t free = 0;

    assert(lock_in_order(rank));
    if (!__atomic_compare_exchange_n(&lock->state, &free, 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        lock_wait(lock);
    lock_note(rank, 1);
}

static inline void lock_release(struct lock *lock, enum lock_rank rank)
{
    lock_note(rank, -1);
    if (__atomic_exchange_n(&lock->state, 0, __ATOMIC_RELEASE) == 2)
        lock_wake(lock);
}

#endif
