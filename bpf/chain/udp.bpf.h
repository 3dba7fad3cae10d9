/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_udp: datagrams that are no plain get, and packets whose bytes cannot be parsed. Each write
 * in a datagram closes its gate for settings.settle, since its reply is not recognised.
 */
#ifndef MC_CHAIN_UDP_BPF_H
#define MC_CHAIN_UDP_BPF_H

#include "bpf/chain/parse_run.bpf.h"
#include "bpf/chain/tcp.bpf.h"
#include "bpf/packet/udp.bpf.h"

/* Parses a datagram to memcached's port. 0: it cannot be followed. */
static __always_inline int udp_follow(struct xdp_md *ctx, const struct chain_scratch *scratch,
                                      struct parse_run *run)
{
    u64 l4[L4_TEXT / 8];

    if (bpf_xdp_load_bytes(ctx, scratch->l4, l4, L4_BYTES))
        return 0;
    run->at = scratch->l4 + L4_TEXT;
    run->end = scratch->l4 + l4_length(l4);
    if (run->end <= run->at && l4_length(l4))
        return 1; /* no server reads it */
    if (run->end > scratch->nframe || bpf_xdp_load_bytes(ctx, scratch->l4, l4, sizeof(l4)) ||
        !l4_is_first(l4) || !l4_is_only(l4))
        return 0;
    run->timed = 1;
    req_init(&run->request, PARSER_ANY);
    run_in(ctx, run);
    return !(run->events & REQ_LOST) && req_between(&run->request);
}

__attribute__((noinline)) int chain_udp(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct parse_run *run = run_get();
    u64 now = bpf_ktime_get_ns();

    if (!scratch || !run)
        return tcp_unfollowed(now);
    run_begin(run, now);
    return udp_follow(ctx, scratch, run) ? 0 : tcp_unfollowed(now);
}

/* Closes the gates of the keys that the packet writes; chain_scratch describes the packet. */
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
