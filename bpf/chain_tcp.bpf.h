/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_tcp: what clients say over TCP, and what else they say than a get over UDP.
 */
#ifndef MC_CHAIN_TCP_BPF_H
#define MC_CHAIN_TCP_BPF_H

#include "bpf/chain_maps.bpf.h"
#include "bpf/gate.bpf.h"

/* Closes the gates of what the packet writes, as chain_work describes it. */
static __always_inline int chain_invalidate(struct xdp_md *ctx, struct chain_work *work)
{
    gate_enter(&all, bpf_ktime_get_ns());
    chain_count(work, CHAIN_UNFOLLOWED);
    return XDP_PASS;
}

/* Opens those whose replies leave in a segment of the server's. */
SEC("tc")
int follow_replies(struct __sk_buff *skb)
{
    return -1; /* TC_ACT_UNSPEC: on to the next */
}

#endif
