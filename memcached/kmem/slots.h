/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots: hands out the slots of TCP connections (bpf/shared/tcp.h). A slot that is given back waits
 * behind all free ones until it is used again.
 *
 * Any thread.
 */
#ifndef KMEM_SLOTS_H
#define KMEM_SLOTS_H

#include <pthread.h>
#include <stdint.h>

#include "bpf/shared/tcp.h"

struct slots {
    struct mc_tcp_slot *memory;
    uint32_t n;
    pthread_mutex_t lock;  /* of what follows; a leaf */
    uint32_t *free;        /* a ring of n numbers, */
    uint32_t first, nfree; /* of which these are free slots */
};

/* memory: n slots, which the programs may see already. 0 or -ENOMEM. */
int slots_init(struct slots *slots, struct mc_tcp_slot *memory, uint32_t n);
void slots_fini(struct slots *slots);
/*
 * Takes a slot. It has no boundary yet, and a generation that no connection before had with it,
 * until 2^32 of them. NULL: all are in use.
 */
struct mc_tcp_slot *slots_get(struct slots *slots, struct mc_tcp_tag *tag);
/* Withdraws the boundary and gives the slot back. */
void slots_put(struct slots *slots, struct mc_tcp_slot *slot);

#endif
