/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * ring: what the server and the program that fills its AF_XDP rings share: which ring takes what
 * comes by which queue, and how much is in it.
 *
 * The kernel drops what it cannot put into a full ring, and decides that when the program has
 * ended. So the program counts what it has put there, the server what it has given back, and what
 * would find the ring full goes up the stack.
 */
#ifndef MC_RING_H
#define MC_RING_H

#include <linux/types.h>

enum {
    MC_RINGS = 64,        /* in all, */
    MC_RING_PORTS = 16,   /* of so many interfaces */
    MC_RING_SIZE = 1024,  /* frames that a ring takes before the server has given one back */
    MC_RING_FRAME = 1600, /* bytes of the longest */
};

/* Each count in a cache line of its own. */
struct mc_ring {
    __u64 put; /* frames; by the program, on the CPU that polls the queue */
    __u64 pad[7];
    __u64 taken; /* by the server */
    __u64 pad2[7];
};

/* What comes by queue i < n of this interface goes to ring `first` + i. */
struct mc_ring_port {
    __u32 ifindex, first, n;
};

#endif
