/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* ring: what the program that fills an AF_XDP ring and the one that empties it share. */
#ifndef BENCH_RING_H
#define BENCH_RING_H

#include <linux/types.h>

/* Requests that were put into the ring, and how many of these have been taken out again. */
struct ring_credit {
    __u64 put, taken;
};

enum { RING_SIZE = 2048 /* requests */ };

#endif
