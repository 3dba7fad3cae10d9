/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_find: what a packet of any form is to the chain, and where TCP or UDP begins in it.
 *
 * What comes is followed whatever it looks like: with IP options, extension headers, tags. The
 * programs look at what is plain themselves, and ask here about all else, so this may be slow. In
 * doubt a packet is one that cannot be followed.
 */
#ifndef MC_CHAIN_FIND_BPF_H
#define MC_CHAIN_FIND_BPF_H

#include "bpf/chain_maps.bpf.h"
#include "bpf/kernel.bpf.h"
#include "bpf/packet.bpf.h"

enum { PROTOCOL_TCP = 6, PROTOCOL_ICMP6 = 58, EXTENSIONS_MAX = 6 };

/* IPv6's extension headers by the number that the header before them has. */
enum {
    NEXT_HOP_BY_HOP = 0,
    NEXT_ROUTING = 43,
    NEXT_FRAGMENT = 44,
    NEXT_AUTHENTICATION = 51,
    NEXT_DESTINATION = 60,
    NEXT_MOBILITY = 135,
};

/* Of a packet: n bytes at `at` of the frame. Not 0: it does not have them. */
typedef long load_bytes(void *ctx, u32 at, void *to, u32 n);

static __always_inline long load_xdp(void *ctx, u32 at, void *to, u32 n)
{
    return bpf_xdp_load_bytes(ctx, at, to, n);
}

static __always_inline long load_skb(void *ctx, u32 at, void *to, u32 n)
{
    return bpf_skb_load_bytes(ctx, at, to, n);
}

static __always_inline int protocol_is_ours(u8 protocol)
{
    return protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP;
}

/* Behind tags: KIND_UDP for IP, else KIND_NONE or KIND_UNFOLLOWED. */
static __always_inline enum chain_kind find_ip(void *ctx, struct chain_work *work, load_bytes *load)
{
    u16 tags[2 * 2 + 1];
    u64 n = 0;

    if (load(ctx, FRAME_IP - 2, tags, sizeof(tags)))
        return KIND_NONE; /* too short for IP */
    if (type_is_tag(tags[0]))
        n = type_is_tag(tags[2]) ? 2 : 1;
    if (n == 2 && type_is_tag(tags[4]))
        return KIND_UNFOLLOWED;
    tags[0] = n ? tags[n == 2 ? 4 : 2] : tags[0];
    if (tags[0] != TYPE_IP4 && tags[0] != TYPE_IP6)
        return KIND_NONE;
    work->l3 = FRAME_IP + TAG_BYTES * n;
    work->v6 = tags[0] == TYPE_IP6;
    return KIND_UDP;
}

static __always_inline enum chain_kind find_ip4(void *ctx, struct chain_work *work,
                                                load_bytes *load)
{
    u64 head[2];
    u32 nip;

    if (load(ctx, work->l3, head, 12))
        return KIND_NONE;
    nip = ((u8)head[0] & 15) * 4;
    work->proto = head[1] >> 8;
    if (!protocol_is_ours(work->proto))
        return KIND_NONE;
    if (((u8)head[0] >> 4) != 4 || nip < IP4_BYTES)
        return KIND_UNFOLLOWED;
    work->l4 = work->l3 + nip;
    if ((u16)(head[0] >> 48) & bpf_htons(0x3fff))
        return KIND_FRAGMENT;
    return KIND_UDP;
}

/* The next header behind an extension header: its kind, KIND_UDP for one more or for UDP or TCP. */
static __always_inline enum chain_kind find_extension(void *ctx, struct chain_work *work,
                                                      load_bytes *load)
{
    u8 head[8], next = work->proto;

    if (load(ctx, work->l4, head, sizeof(head)))
        return KIND_UNFOLLOWED;
    work->proto = head[0];
    switch (next) {
    case NEXT_HOP_BY_HOP:
    case NEXT_ROUTING:
    case NEXT_DESTINATION:
    case NEXT_MOBILITY:
        work->l4 += 8 + head[1] * 8;
        return KIND_UDP;
    case NEXT_AUTHENTICATION:
        work->l4 += 8 + head[1] * 4;
        return KIND_UDP;
    case NEXT_FRAGMENT:
        work->l4 += 8;
        if (work->proto == PROTOCOL_ICMP6)
            return KIND_NONE;
        /* One that is whole is what it is; of others only the first says what it is. */
        return head[2] || head[3] & 0xf9 ? KIND_FRAGMENT : KIND_UDP;
    default:
        return KIND_NONE;
    }
}

static __always_inline enum chain_kind find_ip6(void *ctx, struct chain_work *work,
                                                load_bytes *load)
{
    enum chain_kind kind = KIND_UDP;
    u64 head;
    int i;

    if (load(ctx, work->l3, &head, sizeof(head)))
        return KIND_NONE;
    work->proto = head >> 48;
    work->l4 = work->l3 + IP6_BYTES;
    /* Linux 6.1 takes no loop whose first instruction follows a call. */
#pragma unroll
    for (i = 0; i < EXTENSIONS_MAX; i++) {
        if (protocol_is_ours(work->proto) || kind != KIND_UDP)
            return kind;
        kind = find_extension(ctx, work, load);
    }
    return KIND_UNFOLLOWED;
}

/*
 * Fills work for a packet. to_us: it comes, and goes to our port; else it leaves, from our port.
 */
static __always_inline enum chain_kind find(void *ctx, struct chain_work *work, load_bytes *load,
                                            int to_us)
{
    enum chain_kind kind = find_ip(ctx, work, load);
    u16 ports[2];

    if (kind == KIND_UDP)
        kind = work->v6 ? find_ip6(ctx, work, load) : find_ip4(ctx, work, load);
    if (kind == KIND_UDP) {
        if (load(ctx, work->l4, ports, sizeof(ports)))
            kind = KIND_UNFOLLOWED;
        else if (ports[to_us] != control.port)
            kind = KIND_NONE;
        else if (work->proto == PROTOCOL_TCP)
            kind = KIND_TCP;
    }
    work->kind = kind;
    return kind;
}

__attribute__((noinline)) int find_coming(struct xdp_md *ctx)
{
    struct chain_work *work = chain_work_get();

    if (!work)
        return KIND_NONE;
    work->nframe = bpf_xdp_get_buff_len(ctx);
    return find(ctx, work, load_xdp, 1);
}

__attribute__((noinline)) int find_leaving(struct __sk_buff *skb)
{
    struct chain_work *work = chain_work_get();

    if (!work)
        return KIND_NONE;
    work->nframe = skb->len;
    return find(skb, work, load_skb, 0);
}

#endif
