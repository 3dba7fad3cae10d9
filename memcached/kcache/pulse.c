/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/pulse.h"

#include <inttypes.h>
#include <time.h>

#include "base/log.h"
#include "bpf/layout.h"

static const uint64_t second_ns = 1000000000;

/* The clock that the kernel programs read. */
static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * second_ns + (uint64_t)ts.tv_nsec;
}

void pulse_init(struct pulse *pulse, struct mc_control *control, unsigned int stall)
{
    *pulse = (struct pulse){.control = control, .stall_ns = stall * second_ns};
    __atomic_store_n(&control->lease_ns, stall ? 0 : UINT64_MAX, __ATOMIC_RELEASE);
}

void pulse_beat(struct pulse *pulse)
{
    uint64_t now = now_ns();

    if (pulse->stall_ns == 0)
        return;
    __atomic_store_n(&pulse->control->lease_ns, now + pulse->stall_ns, __ATOMIC_RELEASE);
    if (pulse->last_ns && now - pulse->last_ns > pulse->stall_ns) {
        __atomic_store_n(&pulse->nstalls, pulse->nstalls + 1, __ATOMIC_RELAXED);
        log_say("bmc: the server was stopped or stuck for %" PRIu64 " s; after %" PRIu64
                " s the kernel left all requests to it, and now goes on",
                (now - pulse->last_ns) / second_ns, pulse->stall_ns / second_ns);
    }
    pulse->last_ns = now;
}

uint64_t pulse_stalls(const struct pulse *pulse)
{
    return __atomic_load_n(&pulse->nstalls, __ATOMIC_RELAXED);
}
