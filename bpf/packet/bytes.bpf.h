/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * bytes: eight bytes at a time: searching them, and all copying but that of items (lookup.bpf.h).
 */
#ifndef MC_BYTES_BPF_H
#define MC_BYTES_BPF_H

#include "bpf/packet/base.bpf.h"

#define MASK_BYTES 0x0101010101010101ull
#define MASK_TOPS  0x8080808080808080ull

/* Top bits of the bytes of `word` below 0x21: exact up to and including the lowest. */
static __always_inline u64 bytes_blank(u64 word)
{
    return (word - 0x21 * MASK_BYTES) & ~word & MASK_TOPS;
}

/* Top bits of the bytes that are 0: exact up to and including the lowest. */
static __always_inline u64 bytes_zero(u64 word)
{
    return (word - MASK_BYTES) & ~word & MASK_TOPS;
}

/* How many bytes lie below the lowest of such bits; tops is not 0. */
static __always_inline u64 bytes_below(u64 tops)
{
    return (((((tops - 1) & ~tops) & MASK_BYTES) * MASK_BYTES) >> 56) - 1;
}

static __always_inline void copy16(void *to, const void *from)
{
    STORE64(to, LOAD64(from));
    STORE64(to + 8, LOAD64(from + 8));
}

static __always_inline void copy64(void *to, const void *from)
{
    copy16(to, from);
    copy16(to + 16, from + 16);
    copy16(to + 32, from + 32);
    copy16(to + 48, from + 48);
}

/*
 * Copies n bytes (n <= most) between two values of maps in blocks of 64: what is behind them, up to
 * 63 bytes, too.
 */
static __always_inline void copy_over(void *to, const void *from, u64 n, const u64 most)
{
    u64 i;

    for (i = 0; i < most / 64 + 1; i++) {
        barrier_var(
            n); /* in a register: a load from the stack in each round costs as much as the rest */
        if (64 * i >= n)
            break;
        copy64(to + 64 * i, from + 64 * i);
    }
}

/*
 * Copies n bytes (8 <= n <= LOAD_DIRECT) of a frame's first buffer, from `at` (at most 127) on. 0:
 * it does not have them. A helper takes as long as the rest of a short request's parsing.
 */
enum { LOAD_DIRECT = 128 };

static __always_inline int xdp_load_direct(struct xdp_md *ctx, u64 at, void *to, u64 n)
{
    void *from = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *last;
    u64 words = n / 8, i;

    bound_mask(at, 127);
    from += at;
    at = n - 8;
    bound_mask(at, LOAD_DIRECT - 1);
    last = from + at;
    if (last + 8 > end)
        return 0;
    for (i = 0; i < LOAD_DIRECT / 8; i++) {
        if (i >= words)
            break;
        if (from + 8 * i + 8 > end)
            return 0;
        STORE64(to + 8 * i, LOAD64(from + 8 * i));
    }
    STORE64(to + at, LOAD64(last));
    return 1;
}

/*
 * Copies n bytes (9 <= n <= most) by blocks, the last one over bytes of the one before. 0: the
 * frame is shorter than the caller made it.
 */
static __always_inline int copy_blocks(void *to, void *end, const char *from, u64 n, const u64 most)
{
    void *last;
    u64 blocks = n / 64, i, at;

    if (n >= 64) {
        for (i = 0; i < most / 64; i++) {
            if (i >= blocks)
                break;
            if (to + 64 * i + 64 > end)
                return 0;
            copy64(to + 64 * i, from + 64 * i);
        }
        at = n - 64;
        clamp_or_zero(at, most - 64);
        last = to + at;
        if (last + 64 > end)
            return 0;
        copy64(last, from + at);
    } else if (n >= 32) {
        at = n - 32;
        bound_mask(at, 31);
        last = to + at;
        if (to + 32 > end || last + 32 > end)
            return 0;
        copy16(to, from);
        copy16(to + 16, from + 16);
        copy16(last, from + at);
        copy16(last + 16, from + at + 16);
    } else if (n >= 16) {
        at = n - 16;
        bound_mask(at, 15);
        last = to + at;
        if (to + 16 > end || last + 16 > end)
            return 0;
        copy16(to, from);
        copy16(last, from + at);
    } else {
        at = n - 8;
        bound_mask(at, 7);
        last = to + at;
        if (to + 8 > end || last + 8 > end)
            return 0;
        STORE64(to, LOAD64(from));
        STORE64(last, LOAD64(from + at));
    }
    return 1;
}

#endif
