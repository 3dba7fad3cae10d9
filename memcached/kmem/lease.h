/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lease: limits how long the kernel answers for a server that does not run.
 *
 * Every second the server renews the lease, the time until which the kernel may answer
 * (mc_control.lease). A server that is stopped, frozen or stuck does not renew it, and after
 * `stall` seconds the kernel passes all its packets. When the server runs again, the kernel answers
 * from the next renewal on.
 *
 * When a server ends, in any way, its lease ends before clients can notice: the thread that renews
 * the lease has a robust list (get_robust_list(2)) that points to the lease. The kernel walks the
 * list when the thread releases its memory, which each thread does before it releases its files;
 * the last thread that does closes the sockets.
 *
 * Called by one thread; lease_stalls by any thread.
 */
#ifndef KMEM_LEASE_H
#define KMEM_LEASE_H

#include <stdint.h>

struct mc_control;

struct lease {
    struct mc_control *control;
    uint32_t holder;   /* the thread */
    uint64_t stall_ns; /* 0: the kernel answers as long as its programs are attached */
    uint64_t last_ns;  /* of the last renewal */
    uint64_t nstalls;
    void *list_before; /* the thread's robust list */
};

/*
 * stall: in seconds. If it is not 0, the kernel answers nothing until lease_begin. The thread must
 * use no robust mutex: this replaces its robust list.
 */
void lease_init(struct lease *lease, struct mc_control *control, unsigned int stall);
/* By the same thread, before the lease's memory is freed. */
void lease_fini(struct lease *lease);
/* For the start, which may take longer than `stall` until it is renewed: that is no stall. */
void lease_begin(struct lease *lease);
/*
 * To be called at the end of the start, and every second from then on. Logs it if the server was
 * stopped for too long.
 */
void lease_renew(struct lease *lease);
/* How often the server was stopped for too long. */
uint64_t lease_stalls(const struct lease *lease);

#endif
