/* SPDX-License-Identifier: BSD-3-Clause */
#include "kmem/lease.h"

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
 * A robust list of one entry. It is in shared memory, because a process that the OOM killer ends
 * may lose its private memory first.
 */
static void set_robust_list_to_lease(struct lease *lease)
{
    struct mc_control *control = lease->control;
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
    syscall(SYS_get_robust_list, 0, &lease->list_before, &size);
    if (syscall(SYS_set_robust_list, head, sizeof(*head)) != 0)
        log_write(
            "bmc: set_robust_list: %s: the kernel may answer for a moment after the server was "
            "killed",
            strerror(errno));
}

void lease_init(struct lease *lease, struct mc_control *control, unsigned int stall)
{
    *lease = (struct lease){
        .control = control,
        .holder = (uint32_t)gettid(),
        .stall_ns = stall * second_ns,
    };
    __atomic_store_n(&control->lease, stall ? 0 : MC_LEASE_EVER | lease->holder, __ATOMIC_RELEASE);
    set_robust_list_to_lease(lease);
}

void lease_fini(struct lease *lease)
{
    syscall(SYS_set_robust_list, lease->list_before, sizeof(struct robust_list_head));
}

static void extend(struct lease *lease, uint64_t now)
{
    __atomic_store_n(&lease->control->lease, mc_lease(now + lease->stall_ns, lease->holder),
                     __ATOMIC_RELEASE);
}

void lease_begin(struct lease *lease)
{
    if (lease->stall_ns)
        extend(lease, now_ns());
}

void lease_renew(struct lease *lease)
{
    uint64_t now = now_ns();

    if (lease->stall_ns == 0)
        return;
    extend(lease, now);
    if (lease->last_ns && now - lease->last_ns > lease->stall_ns) {
        __atomic_store_n(&lease->nstalls, lease->nstalls + 1, __ATOMIC_RELAXED);
        log_write("bmc: the server was stopped or stuck for %" PRIu64 " s; after %" PRIu64
                  " s the kernel passed all requests to it; now the kernel answers again",
                  (now - lease->last_ns) / second_ns, lease->stall_ns / second_ns);
    }
    lease->last_ns = now;
}

uint64_t lease_stalls(const struct lease *lease)
{
    return __atomic_load_n(&lease->nstalls, __ATOMIC_RELAXED);
}
