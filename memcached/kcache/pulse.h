/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pulse: how long the kernel answers for a server that does not run.
 *
 * The server says every second until when the kernel may answer (mc_control.lease). One that is
 * stopped, frozen or stuck says nothing, and after `stall` seconds its packets are passed, as those
 * of any other server. When it goes on, so does the kernel, at the next beat.
 *
 * One that ends, in whatever way, takes its lease along before clients can learn of it: the thread
 * that gives leases has a robust list (get_robust_list(2)) that leads to the lease. The kernel goes
 * through the list when the thread lets go of its memory, which each thread does before it lets go
 * of its files, and sockets are closed by the last thread that does.
 *
 * Called by one thread; pulse_stalls by any.
 */
#ifndef KCACHE_PULSE_H
#define KCACHE_PULSE_H

#include <stdint.h>

struct mc_control;

struct pulse {
    struct mc_control *control;
    uint32_t holder;   /* the thread */
    uint64_t stall_ns; /* 0: the kernel answers as long as its programs are attached */
    uint64_t last_ns;  /* of the beats */
    uint64_t nstalls;
    void *list_before; /* the thread's robust list */
};

/*
 * stall: in seconds. The kernel answers nothing until the first beat, if it is not 0. The thread
 * must use no robust mutex, as its robust list is this one from now on.
 */
void pulse_init(struct pulse *pulse, struct mc_control *control, unsigned int stall);
/* By the same thread: the lease's memory is about to go. */
void pulse_fini(struct pulse *pulse);
/* Every second that it runs. Says on stderr that the server was still for too long, if it was. */
void pulse_beat(struct pulse *pulse);
/* How often the server was still for too long. */
uint64_t pulse_stalls(const struct pulse *pulse);

#endif
