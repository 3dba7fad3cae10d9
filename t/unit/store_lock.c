/* SPDX-License-Identifier: BSD-3-Clause */
/* The store's mutex and its ranks. */
#include <pthread.h>

#include "store/lock.h"
#include "t/lib/tap.h"

enum { NTHREADS = 6, ROUNDS = 100000 };

struct shared {
    struct lock lock;
    unsigned long counter; /* plain: only the lock makes it right */
};

static void *count_up(void *context)
{
    struct shared *shared = context;

    for (int i = 0; i < ROUNDS; i++) {
        lock_take(&shared->lock, LOCK_SLAB);
        shared->counter++;
        lock_release(&shared->lock, LOCK_SLAB);
    }
    return NULL;
}

static void test_exclusion(void)
{
    struct shared shared = {.counter = 0};
    pthread_t threads[NTHREADS];

    for (int i = 0; i < NTHREADS; i++)
        pthread_create(&threads[i], NULL, count_up, &shared);
    for (int i = 0; i < NTHREADS; i++)
        pthread_join(threads[i], NULL);
    ok(shared.counter == NTHREADS * ROUNDS, "one thread at a time is inside");
    ok(shared.lock.state == 0, "and the lock is free afterwards");
}

static void test_try(void)
{
    struct lock lock = {0};

    ok(lock_try(&lock, LOCK_STRIPE), "a free lock is had for the asking");
    ok(!lock_try(&lock, LOCK_STRIPE), "a held one is not");
    lock_release(&lock, LOCK_STRIPE);
    ok(lock_try(&lock, LOCK_STRIPE), "and is again after its release");
    lock_release(&lock, LOCK_STRIPE);
}

static void test_ranks(void)
{
    struct lock stripe = {0}, lru = {0};

    lock_take(&lru, LOCK_LRU);
    ok(lock_in_order(LOCK_SLAB), "a lock of a higher rank may be waited for");
    ok(!lock_in_order(LOCK_STRIPE) && !lock_in_order(LOCK_LRU),
       "one of a lower or of the same rank may not");
    ok(lock_try(&stripe, LOCK_STRIPE), "but it may be tried");
    lock_release(&stripe, LOCK_STRIPE);
    lock_release(&lru, LOCK_LRU);
    ok(lock_in_order(LOCK_FLUSH), "who holds nothing may wait for any");
}

int main(void)
{
    test_exclusion();
    test_try();
    test_ranks();
    return done();
}
