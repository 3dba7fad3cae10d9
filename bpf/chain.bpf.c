/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain: the seven programs of BMC's paper (Ghigoff et al., NSDI 2021, figure 5), in front of any
 * memcached. doc/chain.md says what each does; they call one another in tail calls, and hand on
 * what they know in the memory of their CPU.
 *
 * Doubt means to pass the packet exactly as it came, and to invalidate what it might have written.
 */
#include "bpf/chain.h"
#include "bpf/chain_find.bpf.h"
#include "bpf/chain_maps.bpf.h"
#include "bpf/chain_replies.bpf.h"
#include "bpf/chain_udp.bpf.h"
#include "bpf/frame.bpf.h"
#include "bpf/gate.bpf.h"
#include "bpf/kernel.bpf.h"
#include "bpf/packet.bpf.h"
#include "bpf/request.bpf.h"

/* On to the next filter, under clsact and TCX alike. */
enum { TC_NEXT = -1 };

enum { CALL_HASH_KEYS, CALL_PREPARE_PACKET, CALL_WRITE_REPLY, CALL_INVALIDATE_CACHE, XDP_CALLS };
enum { CALL_UPDATE_CACHE, CALL_FOLLOW_REPLIES, TC_CALLS };

int hash_keys(struct xdp_md *ctx);
int prepare_packet(struct xdp_md *ctx);
int write_reply(struct xdp_md *ctx);
int invalidate_cache(struct xdp_md *ctx);
int update_cache(struct __sk_buff *skb);

/* The kernel empties both when their last descriptor is closed: then no program does anything. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(u32));
    __uint(max_entries, XDP_CALLS);
    __array(values, int(void *));
} xdp_calls SEC(".maps") = {
    .values = {[CALL_HASH_KEYS] = (void *)&hash_keys,
               [CALL_PREPARE_PACKET] = (void *)&prepare_packet,
               [CALL_WRITE_REPLY] = (void *)&write_reply,
               [CALL_INVALIDATE_CACHE] = (void *)&invalidate_cache},
};

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(u32));
    __uint(max_entries, TC_CALLS);
    __array(values, int(void *));
} tc_calls SEC(".maps") = {
    .values = {[CALL_UPDATE_CACHE] = (void *)&update_cache,
               [CALL_FOLLOW_REPLIES] = (void *)&follow_replies},
};

SEC("xdp")
int rx_filter(struct xdp_md *ctx)
{
    if (find_coming(ctx) != KIND_NONE) {
        bpf_tail_call(ctx, &xdp_calls, CALL_INVALIDATE_CACHE);
        gate_enter(&all, bpf_ktime_get_ns());
    }
    return XDP_PASS;
}

SEC("xdp")
int hash_keys(struct xdp_md *ctx)
{
    bpf_tail_call(ctx, &xdp_calls, CALL_PREPARE_PACKET);
    return XDP_PASS;
}

SEC("xdp")
int prepare_packet(struct xdp_md *ctx)
{
    bpf_tail_call(ctx, &xdp_calls, CALL_WRITE_REPLY);
    return XDP_PASS;
}

SEC("xdp")
int write_reply(struct xdp_md *ctx)
{
    return XDP_PASS;
}

SEC("xdp")
int invalidate_cache(struct xdp_md *ctx)
{
    struct chain_work *work = chain_work_get();

    return work ? chain_invalidate(ctx, work) : XDP_PASS;
}

SEC("tc")
int tx_filter(struct __sk_buff *skb)
{
    if (find_leaving(skb) != KIND_NONE)
        bpf_tail_call(skb, &tc_calls, CALL_UPDATE_CACHE);
    return TC_NEXT;
}

SEC("tc")
int update_cache(struct __sk_buff *skb)
{
    struct chain_work *work = chain_work_get();

    if (work && work->kind == KIND_TCP)
        bpf_tail_call(skb, &tc_calls, CALL_FOLLOW_REPLIES);
    return TC_NEXT;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
