/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tail: hands segments of TCP to and from the server's port to the programs of bpf/tcp. Only the
 * entry programs *_both do: a program with a tail call pays for it in each of its functions, even
 * where it does not make the call. Without tcp=on the others are loaded.
 */
#ifndef MC_TAIL_BPF_H
#define MC_TAIL_BPF_H

#include "bpf/answer/get.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ext6.bpf.h"
#include "bpf/packet/flow.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/sender.bpf.h"
#include "bpf/packet/sieve.bpf.h"

enum { TAIL_INGRESS, TAIL_EGRESS, TAILS };

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u32);
} mc_tcp_xdp_prog SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, TAILS);
    __type(key, u32);
    __type(value, u32);
} mc_tcp_tc_progs SEC(".maps");

/*
 * Whether a client's segment of the form in which requests come mostly (segment_read in bpf/tcp)
 * has none that is answered, by its first bytes: most of what is passed on a connection that is
 * followed. XDP notes and counts nothing of it.
 */
static __always_inline int segment_asks_nothing(const void *ip, const void *end, u64 v6)
{
    const u16 form = bpf_htons((TCP_STAMPED / 4) << 12 | TCP_PSH | TCP_ACK);
    const void *l4 = ip + ip_bytes(v6);
    u32 traffic = v6 ? LOAD8(ip + 1) >> 4 : LOAD8(ip + 1);

    if (l4 + TCP_STAMPED > end || (LOAD16(l4 + 12) | bpf_htons(TCP_PSH)) != form ||
        LOAD32(l4 + 20) != TCP_TIMESTAMPS || (traffic & 3) == 3)
        return 0;
    if (l4 + TCP_STAMPED + sizeof(u32) > end)
        return 1;
    return text_kind(LOAD32(l4 + TCP_STAMPED)) == HEAD_FOREIGN;
}

/*
 * Does not return if the segment is of a connection that is followed, and may have a request.
 * Generic XDP answers none: it cuts frames wrongly.
 */
static __always_inline void xdp_tail(struct xdp_md *ctx, u64 v6)
{
    const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    const void *ip = data + ETH_HLEN;

    if (!sieve_is_empty(0) && !xdp_generic && ip_is_our_tcp(ip, end, v6, 0) &&
        !segment_asks_nothing(ip, end, v6) && sieve_keeps(ip, v6, 0))
        bpf_tail_call(ctx, &mc_tcp_xdp_prog, 0);
}

/* TCP, or what may be in front of it. */
static __always_inline int may_be_tcp(u8 protocol, u64 v6)
{
    return protocol == IPPROTO_TCP || (protocol != IPPROTO_UDP && v6 && is_extension(protocol));
}

/* Whether a packet of IP may be TCP, wherever its bytes are. */
static __always_inline int skb_may_be_tcp(struct __sk_buff *skb, u64 v6)
{
    u8 protocol = 0;

    return !bpf_skb_load_bytes(skb, ETH_HLEN + (v6 ? 6 : 9), &protocol, sizeof(protocol)) &&
           may_be_tcp(protocol, v6);
}

/* A replaced socket's connection mostly has no entry any more: what was held is dropped there. */
static __always_inline int tc_keeps(const struct __sk_buff *skb, const void *ip, const void *end,
                                    u64 v6, u32 tail)
{
    int egress = tail == TAIL_EGRESS;

    return ip_is_our_tcp(ip, end, v6, egress) &&
           (sieve_keeps(ip, v6, egress) || (egress && sender_is_aside(skb)));
}

/* Whether no segment at all concerns the programs of bpf/tcp. */
static __always_inline int tc_is_idle(const struct __sk_buff *skb, u32 tail)
{
    return tail == TAIL_EGRESS ? sieve_is_empty(1) && !sender_is_aside(skb) : sieve_is_empty(0);
}

/*
 * Only what is TCP, or on ingress ICMP, since what follows the call is left out, and not what the
 * sieve says is of no followed connection. IPv4's options and IPv6's extension headers move the
 * ports: then the programs look for them. 1: it is TCP, and passes.
 */
static __always_inline int tc_tail(struct __sk_buff *skb, const u32 tail)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const void *ip = data + ETH_HLEN;
    u64 v6 = skb->protocol == bpf_htons(ETH_P_IPV6);

    if (tc_is_idle(skb, tail) || (!v6 && skb->protocol != bpf_htons(ETH_P_IP)))
        return 0;
    if (tail == TAIL_INGRESS && data + IP6_BYTES <= end && has_no_mac_header(data, skb->protocol)) {
        if (!may_be_tcp(ip_protocol(data, v6), v6))
            return 0;
    } else if (ip + IP6_BYTES + 4 <= end) {
        if (LOAD16(data + 12) != skb->protocol)
            return 0;
        /* Behind a call that failed Linux 6.12.117 takes no pointer into the packet any more. */
        if (tail == TAIL_INGRESS && ip_protocol(ip, v6) == (v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
            bpf_tail_call(skb, &mc_tcp_tc_progs, tail);
            return 0;
        }
        if (!may_be_tcp(ip_protocol(ip, v6), v6))
            return 0;
        if (v6 ? ip_protocol(ip, 1) == IPPROTO_TCP && !tc_keeps(skb, ip, end, 1, tail)
               : LOAD8(ip) == 0x45 && !tc_keeps(skb, ip, end, 0, tail))
            return 1;
    } else if (!skb_may_be_tcp(skb, v6)) {
        return 0;
    }
    bpf_tail_call(skb, &mc_tcp_tc_progs, tail);
    return 0;
}

#endif
