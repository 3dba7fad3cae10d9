/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * load: what the in-kernel generator and its user side share.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <linux/types.h>

enum {
    LOAD_FRAME_MAX = 512,
    LOAD_TRIM = 8, /* bytes behind the request that the generator cuts off, with an ifindex */
    LOAD_PICKS = 1 << 20, /* indices that were drawn before the run, for what is not uniform, */
    LOAD_PICKS_ROW = 16,  /* as they lie in the map, which has rows of whole words */
};

#define LOAD_UNIFORM 0xffffffffu

/* What one CPU sends; written by user space before the run, `sent` read during it. */
struct load_state {
    __u8 frame[LOAD_FRAME_MAX]; /* a whole request, headers included */
    __u32 nframe;
    __u32 key_tail; /* offset of the key's last eight bytes */
    __u32 nkeys;
    __u32 miss;        /* BENCH_MISS or 0 */
    __u32 ifindex;     /* to send through, 0: call the server's program */
    __u32 turn;        /* of the next pick; LOAD_UNIFORM: draw below nkeys */
    __u32 sum;         /* of what UDP's checksum covers but is the same in all requests, */
    __u32 tail_shift;  /* and by how many bits that of the key's last eight bytes is shifted */
    __u64 interval_ns; /* between requests, 0: as fast as it goes */
    __u64 due_ns;      /* CLOCK_MONOTONIC of the next request */
    __u64 random;
    __u64 sent;
};

/* What came back, counted for each CPU. */
struct load_replies {
    __u64 hits;
    __u64 misses;
    __u64 other;
};

#endif
