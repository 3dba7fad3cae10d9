/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/pulse.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "bpf/shared/layout.h"

static const uint64_t second_ns = 1000000000;

/* The clock that the kernel programs read. */
static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * second_ns + (uint64_t)ts.tv_nsec;
}

/*
 * A list of one. It is in shared memory, too: a process that is killed for want of memory may lose
 * its own before.
 */
static void lead_to_lease(struct pulse *pulse)
{
    struct mc_control *control = pulse->control;
    struct robust_list_head *head = (struct robust_list_head *)control->robust;
    struct robust_list *entry = (struct robust_list *)(head + 1);
    char *holder = (char *)&control->lease + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0);
    size_t size;

    _Static_assert(sizeof(*head) + sizeof(*entry) == sizeof(control->robust), "they fill it");
    *entry = (struct robust_list){&head->list};
    *head = (struct robust_list_head){
        .list = {entry},
        .futex_offset = holder - (char *)entry,
    };
    syscall(SYS_get_robust_list, 0, &pulse->list_before, &size);
    if (syscall(SYS_set_robust_list, head, sizeof(*head)) != 0)
        log_say("bmc: set_robust_list: %s: the kernel may answer for a moment after a kill",
                strerror(errno));
}

void pulse_init(struct pulse *pulse, struct mc_control *control, unsigned int stall)
{
    *pulse = (struct pulse){
        .control = control,
        .holder = (uint32_t)gettid(),
        .stall_ns = stall * second_ns,
    };
    __atomic_store_n(&control->lease, stall ? 0 : MC_LEASE_EVER | pulse->holder, __ATOMIC_RELEASE);
    lead_to_lease(pulse);
}

void pulse_fini(struct pulse *pulse)
{
    syscall(SYS_set_robust_list, pulse->list_before, sizeof(struct robust_list_head));
}

void pulse_beat(struct pulse *pulse)
{
    uint64_t now = now_ns();

    if (pulse->stall_ns == 0)
        return;
    __atomic_store_n(&pulse->control->lease, mc_lease(now + pulse->stall_ns, pulse->holder),
                     __ATOMIC_RELEASE);
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
