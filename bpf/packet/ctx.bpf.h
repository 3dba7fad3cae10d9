/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * ctx: a packet, whichever kind of program has it.
 *
 * Programs of XDP and of TC load a packet's bytes by different helpers. What both need takes a
 * struct packet, by value and inlined: `from` is a constant wherever one is made, so that nothing
 * is decided at run time.
 */
#ifndef MC_CTX_BPF_H
#define MC_CTX_BPF_H

#include "bpf/packet/base.bpf.h"

/* What a program of TC says: on to the next filter, under clsact and TCX alike. */
enum { TC_NEXT = -1 };

/* Who has it, and what its byte 0 is. */
enum packet_from {
    PACKET_XDP, /* the frame's first byte */
    PACKET_TC,  /* the first byte that TC sees, mostly the same */
    PACKET_MAC, /* of TC: the frame's first byte, also where TC sees only what follows it */
};

struct packet {
    void *ctx; /* struct xdp_md or struct __sk_buff */
    enum packet_from from;
};

static __always_inline struct packet packet_xdp(struct xdp_md *ctx)
{
    return (struct packet){ctx, PACKET_XDP};
}

static __always_inline struct packet packet_tc(struct __sk_buff *skb)
{
    return (struct packet){skb, PACKET_TC};
}

static __always_inline struct packet packet_mac(struct __sk_buff *skb)
{
    return (struct packet){skb, PACKET_MAC};
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

    BOUND(at, 127);
    from += at;
    at = n - 8;
    BOUND(at, LOAD_DIRECT - 1);
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

/* Loads n bytes from `at` on. Not 0: the packet does not have them. */
static __always_inline long packet_load(struct packet packet, u64 at, void *to, u64 n)
{
    if (packet.from == PACKET_XDP)
        return bpf_xdp_load_bytes(packet.ctx, at, to, n);
    if (packet.from == PACKET_TC)
        return bpf_skb_load_bytes(packet.ctx, at, to, n);
    return bpf_skb_load_bytes_relative(packet.ctx, at, to, n, BPF_HDR_START_MAC);
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
        BOUND(at, 2047);
        last = to + at;
        if (last + 64 > end)
            return 0;
        copy64(last, from + at);
    } else if (n >= 32) {
        at = n - 32;
        BOUND(at, 31);
        last = to + at;
        if (to + 32 > end || last + 32 > end)
            return 0;
        copy16(to, from);
        copy16(to + 16, from + 16);
        copy16(last, from + at);
        copy16(last + 16, from + at + 16);
    } else if (n >= 16) {
        at = n - 16;
        BOUND(at, 15);
        last = to + at;
        if (to + 16 > end || last + 16 > end)
            return 0;
        copy16(to, from);
        copy16(last, from + at);
    } else {
        at = n - 8;
        BOUND(at, 7);
        last = to + at;
        if (to + 8 > end || last + 8 > end)
            return 0;
        STORE64(to, LOAD64(from));
        STORE64(last, LOAD64(from + at));
    }
    return 1;
}

#endif
