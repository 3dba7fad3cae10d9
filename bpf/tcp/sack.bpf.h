/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_sack: translates the blocks of selective acknowledgements.
 */
#ifndef MC_TCP_SACK_BPF_H
#define MC_TCP_SACK_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/tcp.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/put.bpf.h"

enum { OPTION_END = 0, OPTION_NOP = 1, OPTION_SACK = 5, OPTIONS_MOST = 40, EDGES_MOST = 8 };

/* Translates the edge of a block at `at` of the frame. Not 0: a helper failed. */
__attribute__((noinline)) int skb_put_edge(struct __sk_buff *skb, u32 l4, u32 at, int ingress)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u32 from, to;

    if (!tcp || bpf_skb_load_bytes(skb, at, &from, sizeof(from)))
        return -1;
    to = bpf_ntohl(from);
    to = bpf_htonl(ingress ? delta_ack_rx(&tcp->delta, to) : delta_edge_tx(&tcp->delta, to));
    return bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0) ||
           bpf_l4_csum_replace(skb, l4 + 16, 0, sum_change(from, to, (at - l4) & 1), 0);
}

/*
 * Looks for the option that has blocks: tcp->option becomes its place in TCP's header, and
 * tcp->noption its length; 0: there is none.
 */
__attribute__((noinline)) int skb_find_blocks(struct __sk_buff *skb, u32 l4)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u8 option[2];
    u32 i;

    if (!tcp)
        return 0;
    tcp->option = TCP_BYTES;
    tcp->noption = 0;
    for (i = 0; i < OPTIONS_MOST; i++) {
        if (tcp->option + 2 > tcp->segment.nheader ||
            bpf_skb_load_bytes(skb, l4 + tcp->option, option, sizeof(option)) ||
            option[0] == OPTION_END)
            return 0;
        if (option[0] == OPTION_NOP) {
            tcp->option++;
            continue;
        }
        if (option[1] < 2 || tcp->option + option[1] > tcp->segment.nheader)
            return 0; /* the stack stops there, too */
        if (option[0] == OPTION_SACK) {
            tcp->noption = option[1];
            return 0;
        }
        tcp->option += option[1];
    }
    return 0;
}

/*
 * Translates the blocks of a segment whose options are not timestamps alone; tcp->shift says how.
 * Not 0: the packet cannot be translated.
 */
__attribute__((noinline)) int skb_put_blocks(struct __sk_buff *skb, u32 l4, int ingress)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u32 i;

    if (!tcp)
        return -1;
    skb_find_blocks(skb, l4);
    for (i = 0; i < EDGES_MOST; i++) {
        if (6 + 4 * i > tcp->noption)
            return 0;
        if (skb_put_edge(skb, l4, l4 + tcp->option + 2 + 4 * i, ingress))
            return -1;
    }
    return 0;
}

/* Whether a segment may have blocks. */
static __always_inline int segment_has_blocks(const struct tcp_segment *segment)
{
    return segment->nheader > (segment->has_timestamps ? L4_TEXT : TCP_BYTES);
}

#endif
