/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_icmp: what routers say of the server's segments. An ICMP error quotes the segment's first
 * bytes, with numbers of the wire: those of the socket are put in their place, else the socket
 * takes it for a forgery. So it learns of a path that has become narrower, also from the kernel's
 * own replies, which count as the place where they were put in.
 */
#ifndef MC_TCP_ICMP_BPF_H
#define MC_TCP_ICMP_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/put.bpf.h"
#include "bpf/tcp/read.bpf.h"

enum {
    ICMP_BYTES = 8,  /* before what is quoted, */
    ICMP_QUOTES = 8, /* with TCP's header as far as its sequence number */
};

static __always_inline int icmp_is_error(u8 type, u64 v6)
{
    return v6 ? type < 128 : type == 3 || type == 11 || type == 12;
}

/* Where the header of TCP begins that an ICMP error quotes, with its flow; 0: it is no such. */
static __always_inline u32 icmp_read(struct __sk_buff *skb, struct mc_tcp_flow *flow, u32 *seq,
                                     const u64 v6)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const u32 nip = v6 ? IP6_BYTES : IP4_BYTES;
    void *ip = data + ETH_HLEN, *icmp = ip + nip, *quoted = icmp + ICMP_BYTES, *l4 = quoted + nip;

    if (l4 + ICMP_QUOTES > end || LOAD16(data + 12) != skb->protocol ||
        !ip_has_no_options(ip, v6, v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP) ||
        !icmp_is_error(LOAD8(icmp), v6) || ip_protocol(quoted, v6) != IPPROTO_TCP ||
        (!v6 && (LOAD8(quoted) != 0x45 || LOAD16(quoted + 6) & bpf_htons(0x1fff))) ||
        port_from(l4) != (u16)control.tcp_port)
        return 0;
    segment_flow(flow, quoted, l4, v6, 0);
    *seq = bpf_ntohl(LOAD32(l4 + 4));
    return ETH_HLEN + 2 * nip + ICMP_BYTES;
}

/* Translates the number in an ICMP error. What TC returns. */
__attribute__((noinline)) int tcp_icmp(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u64 v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
    struct mc_tcp_delta delta;
    struct mc_tcp_conn *conn;
    u32 l4, sum, from, to, mark, n = skb->len;

    /* Noted by tc_index: it was translated on an interface beneath this one. */
    if (!tcp || is_translation_mark(skb->tc_index) ||
        (!v6 && skb->protocol != bpf_htons(ETH_P_IP)) ||
        bpf_skb_pull_data(skb, n < HEADERS_MOST ? n : HEADERS_MOST))
        return TC_ACT_UNSPEC;
    l4 = v6 ? icmp_read(skb, &tcp->segment.flow, &from, 1)
            : icmp_read(skb, &tcp->segment.flow, &from, 0);
    if (!l4)
        return TC_ACT_UNSPEC;
    conn = conn_find(&tcp->segment.flow);
    if (!conn)
        return TC_ACT_UNSPEC;
    if (!conn_lock(conn, &tcp->segment.flow))
        return TC_ACT_SHOT;
    delta = conn->delta;
    mark = conn_mark(conn);
    conn_unlock(conn);
    if (!delta_is_used(&delta))
        return TC_ACT_UNSPEC;
    to = bpf_htonl(delta_ack_rx(&delta, from));
    sum = ETH_HLEN + (v6 ? IP6_BYTES : IP4_BYTES) + 2;
    if (bpf_skb_store_bytes(skb, l4 + 4, &to, sizeof(to), 0) ||
        bpf_l4_csum_replace(skb, sum, 0, sum_change(bpf_htonl(from), to, 0), 0))
        return TC_ACT_SHOT;
    skb->tc_index = mark;
    return TC_ACT_UNSPEC;
}

#endif
