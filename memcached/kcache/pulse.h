/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pulse: how long the kernel answers for a server that does not run.
 *
 * The server says every second until when the kernel may answer (mc_control.lease_ns). One that
 * is stopped, frozen, stuck or dead says nothing, and after `stall` seconds its packets are
 * passed, as those of any other server. When it goes on, so does the kernel, at the next beat.
 *
 * Called by one thread; pulse_stalls by any.
 */
#ifndef KCACHE_PULSE_H
#define KCACHE_PULSE_H

#include <stdint.h>

struct mc_control;

struct pulse {
    struct mc_control *control;
    uint64_t stall_ns; /* 0: the kernel answers as long as its programs are attached */
    uint64_t last_ns;  /* of the beats */
    uint64_t nstalls;
};

/* stall: in seconds. The kernel answers nothing until the first beat, if it is not 0. */
void pulse_init(struct pulse *pulse, struct mc_control *control, unsigned int stall);
/* Every second that it runs. Says on stderr that the server was still for too long, if it was. */
void pulse_beat(struct pulse *pulse);
/* How often the server was still for too long. */
uint64_t pulse_stalls(const struct pulse *pulse);

#endif
