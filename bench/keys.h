/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * keys: how the benchmarks name keys and fill values; both sides include it.
 *
 * Key `index` of `size` bytes is the letter k repeated, then the eight nibbles of the index, the
 * highest first, as the letters a to p: no memory is read to make one, so that what a generator
 * costs does not depend on the number of keys. An index with BENCH_MISS is never stored; those with
 * BENCH_LARGE are the large values of a mix.
 */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include <linux/types.h>

enum {
    BENCH_KEY_TAIL = 8,       /* bytes of a key that the index decides */
    BENCH_PORT_FIRST = 20000, /* UDP ports that in-kernel requests come from */
    BENCH_PORTS = 64,         /* a power of two */
};

#define BENCH_MISS  0x80000000u
#define BENCH_LARGE 0x40000000u

/* The last eight bytes of a key, in memory order on a little-endian CPU. */
static inline __u64 bench_key_tail(__u32 index)
{
    __u64 x = index;

    x = (x << 16 | x) & 0x0000ffff0000ffffull;
    x = (x << 8 | x) & 0x00ff00ff00ff00ffull;
    x = (x << 4 | x) & 0x0f0f0f0f0f0f0f0full;
    return __builtin_bswap64(x + 0x6161616161616161ull);
}

/* A 64-bit linear congruential generator (Knuth's MMIX constants): the
 * number is the next state; use its high bits. */
static inline __u64 bench_random(__u64 state)
{
    return state * 6364136223846793005ull + 1442695040888963407ull;
}

/* Uniform in [0, n), from the high half of a random number. */
static inline __u32 bench_below(__u64 random, __u32 n)
{
    return (__u32)(((random >> 32) * n) >> 32);
}

#endif
