/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/local.h"

#include <stdint.h>

void local_publish(struct mc_control *control, const struct mc_local *local)
{
    uint32_t next = !control->local_in_use;

    control->local[next] = *local;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&control->v4, local->n4 ? local->v4[0] : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&control->mac,
                     local->nmacs && !(local->tags_hidden && local->nvlans) ? local->macs[0]
                                                                            : MC_NO_MAC,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&control->packet_over, local->mtu ? local->mtu + 1 : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&control->local_in_use, next, __ATOMIC_RELEASE);
}
