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

enum { EDGES_MOST = 8 };

/* Translates the edge of a block at `at` of the frame. Not 0: a helper failed. */
__attribute__((noinline)) int skb_put_edge(struct __sk_buff *skb, u32 l4, u32 at, int ingress)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u32 from, to;

    if (!tcp || bpf_skb_load_bytes(skb, at, &from, sizeof(from)))
        return -1;
    to = bpf_ntohl(from);
    to = bpf_htonl(ingress ? delta_ack_rx(&tcp->delta, to) : delta_edge_tx(&tcp->delta, to));
    return skb_put_number(skb, l4, at, from, to);
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
    skb_find_option(skb, l4, OPTION_SACK);
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
