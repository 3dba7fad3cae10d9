/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "kmem/slots.h"
#include "t/lib/tap.h"

enum { N = 5, NTHREADS = 4, ROUNDS = 20000 };

static void test_one_thread(void)
{
    struct mc_tcp_slot memory[N] = {{0}}, *taken[N];
    struct mc_tcp_tag tags[N], tag;
    struct slots slots;
    bool none = true, numbered = true, distinct = true;

    ok(slots_init(&slots, memory, N) == 0, "slots are set up");
    for (uint32_t i = 0; i < N; i++) {
        taken[i] = slots_get(&slots, &tags[i]);
        none &= taken[i]->boundary == MC_TCP_NONE;
        numbered &= taken[i] == &memory[tags[i].slot] && taken[i]->generation == tags[i].generation;
        for (uint32_t j = 0; j < i; j++)
            distinct &= tags[i].slot != tags[j].slot;
    }
    ok(distinct, "each connection has another slot");
    ok(numbered, "its tag has the slot's number and generation");
    ok(none, "it has no boundary");
    ok(!slots_get(&slots, &tag), "when all slots are in use there is none");
    taken[2]->boundary = 7;
    taken[2]->answered = 3;
    slots_put(&slots, taken[2]);
    ok(memory[tags[2].slot].boundary == MC_TCP_NONE, "a slot that is given back has no boundary");
    ok(slots_get(&slots, &tag) == taken[2] && tag.slot == tags[2].slot, "it is used again,");
    ok(tag.generation != tags[2].generation && taken[2]->generation == tag.generation,
       "with another generation");
    ok(taken[2]->answered == 0, "for a connection on which nothing was answered");
    slots_put(&slots, taken[4]);
    slots_put(&slots, taken[0]);
    ok(slots_get(&slots, &tag) == taken[4] && slots_get(&slots, &tag) == taken[0],
       "the slot that has been free for longest is used first");
    slots_fini(&slots);
}

/* --- threads ------------------------------------------------------------------ */

struct shared {
    struct slots slots;
    struct mc_tcp_slot memory[N];
    unsigned int holders[N]; /* of each slot */
    unsigned int nwrong;
};

static void *take_and_give(void *arg)
{
    struct shared *shared = arg;
    struct mc_tcp_slot *slot;
    struct mc_tcp_tag tag;

    for (int i = 0; i < ROUNDS; i++) {
        slot = slots_get(&shared->slots, &tag);
        if (!slot)
            continue;
        if (__atomic_add_fetch(&shared->holders[tag.slot], 1, __ATOMIC_RELAXED) != 1 ||
            slot->boundary != MC_TCP_NONE || slot->generation != tag.generation)
            __atomic_add_fetch(&shared->nwrong, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->boundary, (uint64_t)i, __ATOMIC_RELEASE);
        __atomic_sub_fetch(&shared->holders[tag.slot], 1, __ATOMIC_RELAXED);
        slots_put(&shared->slots, slot);
    }
    return NULL;
}

static void test_threads(void)
{
    struct shared *shared = calloc(1, sizeof(*shared));
    pthread_t threads[NTHREADS];
    struct mc_tcp_tag tag;
    unsigned int n = 0;

    slots_init(&shared->slots, shared->memory, N - 2);
    for (int i = 0; i < NTHREADS; i++)
        pthread_create(&threads[i], NULL, take_and_give, shared);
    for (int i = 0; i < NTHREADS; i++)
        pthread_join(threads[i], NULL);
    ok(shared->nwrong == 0, "threads never have the same slot");
    while (slots_get(&shared->slots, &tag))
        n++;
    ok(n == N - 2, "and give all of them back");
    slots_fini(&shared->slots);
    free(shared);
}

int main(void)
{
    test_one_thread();
    test_threads();
    return done();
}
