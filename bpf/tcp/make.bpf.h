/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_make: makes whole packets of a packet that TC has: a reply, a bare acknowledgement.
 */
#ifndef MC_TCP_MAKE_BPF_H
#define MC_TCP_MAKE_BPF_H

#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/tcp.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/unstamped.bpf.h"

/* Marks packets that the programs send themselves for the one on egress. Set before the load. */
const volatile __u32 tcp_mark = 0;

/* Keeps the headers of a packet without IP options in `scratch`: nip bytes from IP on. */
static __always_inline int skb_save(struct __sk_buff *skb, struct scratch *scratch, u64 v6,
                                    const u32 nip)
{
    u64 link[2];

    if (bpf_skb_load_bytes(skb, 0, link, ETH_HLEN) ||
        bpf_skb_load_bytes(skb, ETH_HLEN, scratch->saved.ip, nip))
        return 0;
    scratch->saved.to = link[0];
    scratch->saved.from = link[0] >> 48 | link[1] << 16;
    scratch->offsets = OFFSETS(0, 0);
    scratch->offsets.v6 = v6;
    scratch->checksum_partial = v6 ? l4_checksum_is_partial(scratch->saved.ip, 1)
                                   : l4_checksum_is_partial(scratch->saved.ip, 0);
    return 1;
}

/* Keeps the headers of such a packet with ntcp bytes of TCP's header. */
static __always_inline int skb_save_headers(struct __sk_buff *skb, struct scratch *scratch,
                                            const u32 ntcp)
{
    return skb->protocol == bpf_htons(ETH_P_IPV6) ? skb_save(skb, scratch, 1, IP6_BYTES + ntcp)
                                                  : skb_save(skb, scratch, 0, IP4_BYTES + ntcp);
}

/* Turns headers of the server's that were kept around, so that those of a reply to them are its. */
static __always_inline void saved_turn(struct scratch *scratch)
{
    struct saved_headers *saved = &scratch->saved;
    u64 first = saved->ip[1], second = saved->ip[2], link = saved->from;
    u32 ports;

    saved->back = saved->to;
    saved->to = link;
    if (scratch->offsets.v6) {
        saved->ip[1] = saved->ip[3];
        saved->ip[2] = saved->ip[4];
        saved->ip[3] = first;
        saved->ip[4] = second;
        ports = saved->ip[5];
        saved->ip[5] = ports >> 16 | ports << 16;
        return;
    }
    ports = second >> 32;
    saved->ip[1] = (u32)first | second << 32;
    saved->ip[2] = first >> 32 | (u64)(ports >> 16 | ports << 16) << 32;
}

/* Makes the packet what stands in `scratch`, with its headers. Not 0: it is lost. */
static __always_inline int tcp_tc_put(struct __sk_buff *skb, struct scratch *scratch)
{
    const struct segment_scratch *tcp = segment_scratch_get();
    u64 nframe = reply_size(scratch), start = reply_start(scratch);

    if (tcp && tcp->unstamped) {
        scratch_narrow(scratch);
        nframe -= WIDER;
        start += WIDER;
    }
    bound_mask(start, 63);
    bound_size(nframe, 2047);
    if (bpf_skb_change_tail(skb, nframe, 0) ||
        bpf_skb_store_bytes(skb, 0, scratch->reply + start, nframe, 0))
        return -1;
    skb->mark = tcp_mark;
    return 0;
}

/* Makes the packet the reply in `scratch`. Not 0: it is lost; the client will ask for it again. */
static __always_inline int tcp_tc_make(struct __sk_buff *skb, struct scratch *scratch)
{
    reply_headers(scratch, scratch->checksum_partial);
    return tcp_tc_put(skb, scratch);
}

/*
 * Makes a packet whose headers were kept, with timestamps or none and no other option, a bare
 * acknowledgement with these numbers, translated otherwise. Not 0: a helper failed; drop the
 * packet.
 */
static __always_inline int skb_make_bare(struct __sk_buff *skb, struct scratch *scratch,
                                         const struct segment_scratch *tcp, u32 seq, u32 ack,
                                         const int ingress)
{
    const struct tcp_segment *segment = &tcp->segment;
    char *out = scratch->reply, *ip = out + ETH_HLEN, *l4;
    u64 v6 = scratch->offsets.v6, n = tcp->unstamped ? TCP_BYTES : L4_TEXT, sum;

    STORE64(out, scratch->saved.to);
    STORE64(out + 6, scratch->saved.from);
    copy_over(ip, scratch->saved.ip, sizeof(scratch->saved.ip), sizeof(scratch->saved.ip));
    l4 = ip + (v6 ? IP6_BYTES : IP4_BYTES);
    STORE32(l4 + 4, bpf_htonl(seq));
    STORE32(l4 + 8, bpf_htonl(ack));
    l4[13] = TCP_ACK;
    STORE16(l4 + 16, 0);
    if (ingress)
        STORE16(l4 + 18, tcp->mark);
    if (tcp->unstamped) {
        l4[12] = OFFSET_NARROW;
        STORE32(l4 + 20, 0); /* in the sum */
        STORE64(l4 + 24, 0);
    } else {
        STORE32(l4 + 20, TCP_TIMESTAMPS);
        STORE32(l4 + 24, bpf_htonl(ingress ? segment->tsval : segment->tsval + MC_TCP_AHEAD));
        STORE32(l4 + 28,
                bpf_htonl(ingress ? timestamp_rx(segment->tsecr, tcp->tsval) : segment->tsecr));
    }
    if (v6) {
        STORE16(ip + 4, bpf_htons(n));
        sum = tcp_pseudo(ip, 1, n);
    } else {
        sum = (u16)~LOAD16(ip + 10) + (u64)(u16)~LOAD16(ip + 2) + bpf_htons(IP4_BYTES + n);
        STORE16(ip + 2, bpf_htons(IP4_BYTES + n));
        STORE16(ip + 10, ~sum_fold(sum) & 0xffff);
        sum = tcp_pseudo(ip, 0, n);
    }
    if (scratch->checksum_partial)
        STORE16(l4 + 16, sum_fold(sum));
    else
        STORE16(l4 + 16, ~sum_fold(sum + tcp_header_sum(l4)) & 0xffff);
    n += ETH_HLEN + (v6 ? IP6_BYTES : IP4_BYTES);
    bound_size(n, 127);
    return bpf_skb_change_tail(skb, n, 0) || bpf_skb_store_bytes(skb, 0, out, n, 0);
}

#endif
