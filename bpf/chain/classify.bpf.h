/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_classify: what kind of packet the chain sees, and where TCP or UDP begins in it.
 *
 * Every packet that the server may accept is classified: with IP options, extension headers, VLAN
 * tags. The programs recognise plain packets themselves and call this for all others, so this may
 * be slow. In doubt a packet is KIND_UNFOLLOWED.
 */
#ifndef MC_CHAIN_CLASSIFY_BPF_H
#define MC_CHAIN_CLASSIFY_BPF_H

#include "bpf/chain/maps.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/ext6.bpf.h"
#include "bpf/packet/headers.bpf.h"

enum { EXTENSIONS_MAX = 6 };

/* The EtherType behind VLAN tags: KIND_UDP for IP, else KIND_NONE or KIND_UNFOLLOWED. */
static __always_inline enum chain_kind classify_ip(struct packet packet,
                                                   struct chain_scratch *scratch)
{
    u16 tags[2 * 2 + 1];
    u64 n = 0;

    if (packet_load(packet, ETH_HLEN - 2, tags, sizeof(tags)))
        return KIND_NONE; /* too short for IP */
    if (type_is_tag(tags[0]))
        n = type_is_tag(tags[2]) ? 2 : 1;
    if (n == 2 && type_is_tag(tags[4]))
        return KIND_UNFOLLOWED;
    tags[0] = n ? tags[n == 2 ? 4 : 2] : tags[0];
    if (tags[0] != bpf_htons(ETH_P_IP) && tags[0] != bpf_htons(ETH_P_IPV6))
        return KIND_NONE;
    scratch->l3 = ETH_HLEN + TAG_BYTES * n;
    scratch->v6 = tags[0] == bpf_htons(ETH_P_IPV6);
    return KIND_UDP;
}

/*
 * A fragment; later: it is not the first. KIND_UDP for the first one, which has the ports. A later
 * one counts if the first arrived before it; a first one that arrives afterwards closes everything
 * itself.
 */
static __always_inline enum chain_kind
classify_fragment(struct packet packet, struct chain_scratch *scratch, int later, u32 id)
{
    u64 address[4] = {0, 0, 0, 0};
    u64 sum;

    if (scratch->v6 ? packet_load(packet, scratch->l3 + 8, address, 32)
                    : packet_load(packet, scratch->l3 + 12, address, 8))
        return KIND_NONE;
    sum = mc_hash_word(address[0], control.seed[0]) + mc_hash_word(address[1], control.seed[1]) +
          mc_hash_word(address[2], control.seed[2]) + mc_hash_word(address[3], control.seed[3]) +
          mc_hash_word(id, control.seed[4]);
    scratch->packet_id = mc_hash_end(sum, sizeof(address));
    scratch->fragment = later ? FRAGMENT_LATER : FRAGMENT_FIRST;
    return later ? KIND_FRAGMENT : KIND_UDP;
}

static __always_inline enum chain_kind classify_ip4(struct packet packet,
                                                    struct chain_scratch *scratch)
{
    u64 head[2];
    u16 fragment;
    u32 nip;

    if (packet_load(packet, scratch->l3, head, 12))
        return KIND_NONE;
    nip = ((u8)head[0] & 15) * 4;
    scratch->proto = head[1] >> 8;
    if (!protocol_has_ports(scratch->proto))
        return KIND_NONE;
    if (((u8)head[0] >> 4) != 4 || nip < IP4_BYTES)
        return KIND_NONE; /* the stack drops it */
    scratch->l4 = scratch->l3 + nip;
    fragment = (u16)(head[0] >> 48);
    if (fragment & bpf_htons(0x3fff))
        return classify_fragment(packet, scratch, fragment & bpf_htons(0x1fff),
                                 head[0] >> 32 & 0xffff);
    return KIND_UDP;
}

/* Moves on behind an extension header: KIND_UDP if another one, UDP or TCP may follow. */
static __always_inline enum chain_kind classify_extension(struct packet packet,
                                                          struct chain_scratch *scratch)
{
    u8 head[8] __attribute__((aligned(8))), next = scratch->proto;
    enum fragment fragment;
    u32 n;

    if (packet_load(packet, scratch->l4, head, sizeof(head)))
        return KIND_NONE; /* the stack drops it */
    n = extension_bytes(next, head);
    if (!n)
        return KIND_NONE;
    scratch->l4 += n;
    scratch->proto = head[0];
    if (next != IPPROTO_FRAGMENT)
        return KIND_UDP;
    if (scratch->proto == IPPROTO_ICMPV6)
        return KIND_NONE;
    fragment = extension_fragment(head);
    if (fragment == FRAGMENT_NONE)
        return KIND_UDP;
    return classify_fragment(packet, scratch, fragment == FRAGMENT_LATER, LOAD32(head + 4));
}

static __always_inline enum chain_kind classify_ip6(struct packet packet,
                                                    struct chain_scratch *scratch)
{
    enum chain_kind kind = KIND_UDP;
    u64 head;
    int i;

    if (packet_load(packet, scratch->l3, &head, sizeof(head)))
        return KIND_NONE;
    scratch->proto = head >> 48;
    scratch->l4 = scratch->l3 + IP6_BYTES;
    /* Linux 6.1's verifier rejects a loop whose first instruction follows a call. */
#pragma unroll
    for (i = 0; i < EXTENSIONS_MAX; i++) {
        if (protocol_has_ports(scratch->proto) || kind != KIND_UDP)
            return kind;
        kind = classify_extension(packet, scratch);
    }
    return KIND_UNFOLLOWED;
}

/*
 * Fills chain_scratch for a packet. to_us: it arrives, and counts if it goes to memcached's port;
 * else it leaves, and counts if it comes from that port.
 */
static __always_inline enum chain_kind classify(struct packet packet, struct chain_scratch *scratch,
                                                int to_us)
{
    enum chain_kind kind = classify_ip(packet, scratch);
    u16 ports[2];

    scratch->fragment = FRAGMENT_NONE;
    if (kind == KIND_UDP)
        kind = scratch->v6 ? classify_ip6(packet, scratch) : classify_ip4(packet, scratch);
    if (kind == KIND_UDP) {
        if (packet_load(packet, scratch->l4, ports, sizeof(ports)))
            kind = KIND_NONE; /* the stack drops it */
        else if (ports[to_us] != control.port)
            kind = KIND_NONE;
        else if (scratch->proto == IPPROTO_TCP)
            kind = KIND_TCP;
    }
    scratch->kind = kind;
    return kind;
}

/* Whether a fragment belongs to a packet to memcached's port: 1 if the first fragment did. */
static __always_inline int fragment_is_ours(const struct chain_scratch *scratch,
                                            enum chain_kind kind)
{
    u64 id = scratch->packet_id;
    u8 one = 1;

    if (scratch->fragment == FRAGMENT_LATER)
        return bpf_map_lookup_elem(&mc_fragments, &id) != NULL;
    if (kind == KIND_NONE)
        return 0;
    bpf_map_update_elem(&mc_fragments, &id, &one, BPF_ANY);
    return 1;
}

__attribute__((noinline)) int classify_ingress(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    enum chain_kind kind;

    if (!scratch)
        return KIND_NONE;
    scratch->nframe = bpf_xdp_get_buff_len(ctx);
    kind = classify(packet_xdp(ctx), scratch, 1);
    if (scratch->fragment != FRAGMENT_NONE)
        kind = fragment_is_ours(scratch, kind) ? KIND_FRAGMENT : KIND_NONE;
    scratch->kind = kind;
    return kind;
}

__attribute__((noinline)) int classify_egress(struct __sk_buff *skb)
{
    struct chain_scratch *scratch = chain_scratch_get();

    if (!scratch)
        return KIND_NONE;
    scratch->nframe = skb->len;
    classify(packet_tc(skb), scratch, 0);
    /* Only fragments that arrive matter. */
    return scratch->fragment == FRAGMENT_NONE ? scratch->kind : KIND_NONE;
}

#endif
