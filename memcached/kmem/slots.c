/* SPDX-License-Identifier: BSD-3-Clause */
#include "kmem/slots.h"

#include <errno.h>
#include <stdlib.h>

int slots_init(struct slots *slots, struct mc_tcp_slot *memory, uint32_t n)
{
    *slots = (struct slots){.memory = memory, .n = n, .nfree = n};
    slots->free = malloc(n * sizeof(*slots->free));
    if (!slots->free)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        memory[i].boundary = MC_TCP_NONE;
        slots->free[i] = i;
    }
    pthread_mutex_init(&slots->lock, NULL);
    return 0;
}

void slots_fini(struct slots *slots)
{
    if (!slots->free)
        return;
    pthread_mutex_destroy(&slots->lock);
    free(slots->free);
}

struct mc_tcp_slot *slots_get(struct slots *slots, struct mc_tcp_tag *tag)
{
    struct mc_tcp_slot *slot = NULL;

    pthread_mutex_lock(&slots->lock);
    if (slots->nfree > 0) {
        tag->slot = slots->free[slots->first];
        slot = &slots->memory[tag->slot];
        slots->first = (slots->first + 1) % slots->n;
        slots->nfree--;
    }
    pthread_mutex_unlock(&slots->lock);
    if (!slot)
        return NULL;
    __atomic_store_n(&slot->answered, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->outstanding, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->lost, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->ack_due, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->last_ack_seen, 0, __ATOMIC_RELAXED);
    tag->generation = slot->generation;
    return slot;
}

void slots_put(struct slots *slots, struct mc_tcp_slot *slot)
{
    __atomic_store_n(&slot->boundary, MC_TCP_NONE, __ATOMIC_RELAXED);
    /* Release: a program that sees the next connection's first boundary sees its generation. */
    __atomic_store_n(&slot->generation, slot->generation + 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&slots->lock);
    slots->free[(slots->first + slots->nfree) % slots->n] = (uint32_t)(slot - slots->memory);
    slots->nfree++;
    pthread_mutex_unlock(&slots->lock);
}
