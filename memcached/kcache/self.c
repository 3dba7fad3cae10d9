/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/self.h"

#include <stdint.h>

void self_publish(struct mc_control *control, const struct mc_self *self)
{
    uint32_t next = !control->self_now;

    control->self[next] = *self;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&control->v4, self->n4 ? self->v4[0] : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&control->station,
                     self->nstations && !(self->tags_hidden && self->nvlans) ? self->stations[0]
                                                                             : MC_NO_STATION,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&control->packet_over, self->mtu ? self->mtu + 1 : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&control->self_now, next, __ATOMIC_RELEASE);
}
