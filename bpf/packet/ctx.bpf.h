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

/* Loads n bytes from `at` on. Not 0: the packet does not have them. */
static __always_inline long packet_load(struct packet packet, u64 at, void *to, u64 n)
{
    if (packet.from == PACKET_XDP)
        return bpf_xdp_load_bytes(packet.ctx, at, to, n);
    if (packet.from == PACKET_TC)
        return bpf_skb_load_bytes(packet.ctx, at, to, n);
    return bpf_skb_load_bytes_relative(packet.ctx, at, to, n, BPF_HDR_START_MAC);
}

#endif
