/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_udp: what clients say over UDP that is no plain get, and packets whose bytes we cannot
 * follow. Each command of a datagram closes its gate for as long as it may be under way.
 */
#ifndef MC_CHAIN_UDP_BPF_H
#define MC_CHAIN_UDP_BPF_H

#include "bpf/chain/feed.bpf.h"
#include "bpf/chain/tcp.bpf.h"

enum { UDP_BYTES = 8 };

/* A datagram to our port. 0: it cannot be followed. */
static __always_inline int udp_follow(struct xdp_md *ctx, const struct chain_scratch *scratch,
                                      struct feed *feed)
{
    u16 head[(UDP_BYTES + MC_UDP_HEADER) / 2];

    if (bpf_xdp_load_bytes(ctx, scratch->l4 + 4, head, 4))
        return 0;
    feed->at = scratch->l4 + UDP_BYTES + MC_UDP_HEADER;
    feed->end = scratch->l4 + bpf_ntohs(head[0]);
    if (feed->end <= feed->at && head[0])
        return 1; /* no server reads on */
    if (feed->end > scratch->nframe || bpf_xdp_load_bytes(ctx, scratch->l4, head, sizeof(head)) ||
        head[5] || head[6] != bpf_htons(1))
        return 0;
    feed->timed = 1;
    req_init(&feed->request);
    feed_in(ctx, feed);
    return !(feed->events & REQ_LOST) && req_between(&feed->request);
}

__attribute__((noinline)) int chain_udp(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct feed *feed = feed_get();
    u64 now = bpf_ktime_get_ns();

    if (!scratch || !feed)
        return tcp_unfollowed(now);
    feed_begin(feed, now);
    return udp_follow(ctx, scratch, feed) ? 0 : tcp_unfollowed(now);
}

/* Closes the gates of what the packet writes, as chain_scratch describes it. */
static __always_inline int chain_invalidate(struct xdp_md *ctx, struct chain_scratch *scratch)
{
    if (scratch->kind == KIND_TCP)
        chain_tcp(ctx);
    else if (scratch->kind == KIND_UDP)
        chain_udp(ctx);
    else
        tcp_unfollowed(bpf_ktime_get_ns());
    return XDP_PASS;
}

#endif
