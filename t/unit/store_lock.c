/* SPDX-License-Identifier: BSD-3-Clause */
/* The store's mutex and its ranks. */
#include <pthread.h>

#include "store/lock.h"
#include "t/lib/tap.h"

enum { NTHREADS = 6, ROUNDS = 100000 };

struct shared {
    struct lock lock;
    unsigned long counter; /* not atomic: only the lock makes it right */
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
    ok(shared.counter == NTHREADS * ROUNDS, "one thread at a time holds the lock");
    ok(shared.lock.state == 0, "the lock is free afterwards");
}

static void test_try(void)
{
    struct lock lock = {0};

    ok(lock_try(&lock, LOCK_STRIPE), "try takes a free lock");
    ok(!lock_try(&lock, LOCK_STRIPE), "try does not take a held lock");
    lock_release(&lock, LOCK_STRIPE);
    ok(lock_try(&lock, LOCK_STRIPE), "try takes the lock after its release");
    lock_release(&lock, LOCK_STRIPE);
}

static void test_ranks(void)
{
    struct lock stripe = {0}, lru = {0};

    lock_take(&lru, LOCK_LRU);
    ok(lock_in_order(LOCK_SLAB), "a thread may wait for a lock of a higher rank");
    ok(!lock_in_order(LOCK_STRIPE) && !lock_in_order(LOCK_LRU),
       "a thread may not wait for a lock of a lower or the same rank");
    ok(lock_try(&stripe, LOCK_STRIPE), "a thread may try a lock of any rank");
    lock_release(&stripe, LOCK_STRIPE);
    lock_release(&lru, LOCK_LRU);
    ok(lock_in_order(LOCK_FLUSH), "a thread that holds no lock may wait for any");
}

int main(void)
{
    test_exclusion();
    test_try();
    test_ranks();
    return done();
}
