/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain: the seven programs of BMC's paper (Ghigoff et al., NSDI 2021, figure 5), in front of any
 * memcached. doc/chain.md says what each does; they call one another by tail calls, and pass on
 * what they know in the scratch memory of their CPU. Two more are not in the paper: mc_follow is
 * the part of mc_update_cache that follows TCP, and mc_answer_large runs on TC ingress behind XDP.
 *
 * In doubt a program passes the packet exactly as it came, and invalidates what the packet might
 * have written.
 */
#include "bpf/packet/udp.bpf.h"

#include "bpf/answer/reply.bpf.h"
#include "bpf/chain/classify.bpf.h"
#include "bpf/chain/fill.bpf.h"
#include "bpf/chain/gate.bpf.h"
#include "bpf/chain/get.bpf.h"
#include "bpf/chain/large.bpf.h"
#include "bpf/chain/maps.bpf.h"
#include "bpf/chain/outstanding.bpf.h"
#include "bpf/chain/replies.bpf.h"
#include "bpf/chain/sender.bpf.h"
#include "bpf/chain/udp.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/return_path.bpf.h"
#include "bpf/shared/chain.h"
#include "bpf/udp/frame.bpf.h"
#include "bpf/udp/skb.bpf.h"

enum { CALL_HASH_KEYS, CALL_PREPARE_PACKET, CALL_WRITE_REPLY, CALL_INVALIDATE_CACHE, XDP_CALLS };
enum { CALL_UPDATE_CACHE, CALL_FOLLOW_REPLIES, TC_CALLS };

int mc_hash_keys(struct xdp_md *ctx);
int mc_prepare(struct xdp_md *ctx);
int mc_write_reply(struct xdp_md *ctx);
int mc_invalidate(struct xdp_md *ctx);
int mc_update_cache(struct __sk_buff *skb);

/*
 * The kernel empties both arrays when their last descriptor is closed: then tail calls fail, and
 * all packets pass.
 */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(u32));
    __uint(max_entries, XDP_CALLS);
    __array(values, int(void *));
} mc_xdp_calls SEC(".maps") = {
    .values = {[CALL_HASH_KEYS] = (void *)&mc_hash_keys,
               [CALL_PREPARE_PACKET] = (void *)&mc_prepare,
               [CALL_WRITE_REPLY] = (void *)&mc_write_reply,
               [CALL_INVALIDATE_CACHE] = (void *)&mc_invalidate},
};

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(u32));
    __uint(max_entries, TC_CALLS);
    __array(values, int(void *));
} mc_tc_calls SEC(".maps") = {
    .values = {[CALL_UPDATE_CACHE] = (void *)&mc_update_cache,
               [CALL_FOLLOW_REPLIES] = (void *)&mc_follow},
};

/* --- XDP ------------------------------------------------------------------------- */

/*
 * What mc_rx_filter does with a packet. RX_LOOK: it is no plain get, and classify_ingress looks at
 * it.
 */
enum rx { RX_PASS, RX_GET, RX_LOOK };

/* Of a frame with tags, as frame_check. */
static __always_inline enum verdict rx_tagged(struct xdp_md *ctx, const void *data,
                                              struct scratch **scratch)
{
    u32 nlink;
    u16 type = frame_untag(data, &nlink);

    if (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6))
        return type_is_tag(type) ? HEAD_ODD : HEAD_FOREIGN;
    *scratch = scratch_get();
    return frame_check_any(ctx, nlink, type == bpf_htons(ETH_P_IPV6));
}

/* What frame_check says of a frame: a HEAD_* or a reason. */
static __always_inline enum verdict rx_check(struct xdp_md *ctx, struct scratch **scratch)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

    switch (frame_type(data, end)) {
    case FRAME_OURS4:
        return frame_check(ctx, OFFSETS(0, 0), 1, scratch);
    case FRAME_OURS6:
        return frame_check(ctx, OFFSETS(0, 1), 1, scratch);
    case FRAME_IP4: /* most of what comes is of TCP */
        return ip_has_other_port(data + ETH_HLEN, end, 0, 0) ? HEAD_FOREIGN : HEAD_ODD;
    case FRAME_IP6:
        return ip_has_other_port(data + ETH_HLEN, end, 1, 0) ? HEAD_FOREIGN : HEAD_ODD;
    case FRAME_TAGGED:
        return rx_tagged(ctx, data, scratch);
    case FRAME_SHORT:
        return HEAD_ODD;
    case FRAME_OTHER:
        break;
    }
    return HEAD_FOREIGN;
}

static __always_inline enum rx rx_look(struct xdp_md *ctx)
{
    struct scratch *scratch = NULL;
    enum verdict rc = rx_check(ctx, &scratch);

    if (rc == HEAD_FOREIGN)
        return RX_PASS;
    if (rc == HEAD_ODD || rc == HEAD_REMOTE || !scratch)
        return RX_LOOK;
    scratch->for_tc = rc == HEAD_HIDDEN;
    if (likely(rc == HEAD_GET || rc == HEAD_HIDDEN))
        return RX_GET;
    count_reason(scratch, rc);
    return RX_LOOK;
}

SEC("xdp")
int mc_rx_filter(struct xdp_md *ctx)
{
    enum rx rx = rx_look(ctx);

    if (rx == RX_GET) {
        bpf_tail_call(ctx, &mc_xdp_calls, CALL_HASH_KEYS);
        rx = RX_LOOK;
    }
    if (rx == RX_LOOK && classify_ingress(ctx) != KIND_NONE) {
        bpf_tail_call(ctx, &mc_xdp_calls, CALL_INVALIDATE_CACHE);
        gate_enter(&whole_table, bpf_ktime_get_ns());
    }
    return XDP_PASS;
}

/* Leaves a get to the server, for that reason: it will have one reply. */
__attribute__((noinline)) int get_leave(struct xdp_md *ctx, u32 why)
{
    struct chain_scratch *chain = chain_scratch_get();
    struct scratch *scratch = scratch_get();

    if (!scratch || !chain)
        return XDP_PASS;
    get_count(scratch, chain, why);
    get_describe(scratch, chain);
    outstanding_note_get(ctx);
    return XDP_PASS;
}

/* Leaves it to TC, which may answer it: its reply has no room here, or this is not all of it. */
static __always_inline int get_to_tc(struct xdp_md *ctx)
{
    return xdp_mark(ctx) ? XDP_PASS : get_leave(ctx, PASS_ROOM);
}

SEC("xdp")
int mc_hash_keys(struct xdp_md *ctx)
{
    struct chain_scratch *chain;
    struct scratch *scratch = scratch_get();
    int rc, why = PASS_ERROR;

    if (!scratch)
        return XDP_PASS;
    rc = chain_get_one(ctx, scratch, &why);
    if (rc == STEP_MANY) {
        chain = chain_scratch_get();
        rc = chain_get_many(ctx);
        why = chain ? chain->missing : PASS_ERROR;
    }
    if (rc == STEP_END) {
        bpf_tail_call(ctx, &mc_xdp_calls, CALL_PREPARE_PACKET);
        return XDP_PASS;
    }
    if (rc == STEP_MISS)
        return get_leave(ctx, why);
    count_reason(scratch, rc);
    chain = chain_scratch_get();
    if (!chain)
        return XDP_PASS;
    get_describe(scratch, chain);
    bpf_tail_call(ctx, &mc_xdp_calls, CALL_INVALIDATE_CACHE);
    gate_enter(&whole_table, bpf_ktime_get_ns());
    return XDP_PASS;
}

/* The length of the reply's frame. */
static __always_inline u64 reply_frame_size(const struct scratch *scratch)
{
    return frame_size(reply_size(scratch), scratch->nframe);
}

/*
 * Makes room for the reply, and takes none away: so the packet can be what it was, byte by byte,
 * until the reply is written.
 */
SEC("xdp")
int mc_prepare(struct xdp_md *ctx)
{
    struct scratch *scratch = scratch_get();
    int grow, at_head, rc;

    if (!scratch)
        return XDP_PASS;
    rc = guard_reply(scratch);
    if (unlikely(rc))
        return get_leave(ctx, rc);
    if (unlikely(scratch->for_tc))
        return get_to_tc(ctx);
    grow = (int)reply_frame_size(scratch) - (int)scratch->nframe;
    at_head = grow > 0 && grow <= REPLY_HEADROOM && !bpf_xdp_adjust_head(ctx, -grow);
    if (grow > 0 && !at_head && bpf_xdp_adjust_tail(ctx, grow))
        return get_to_tc(ctx);
    bpf_tail_call(ctx, &mc_xdp_calls, CALL_WRITE_REPLY);
    if (grow > 0 && (at_head ? bpf_xdp_adjust_head(ctx, grow) : bpf_xdp_adjust_tail(ctx, -grow)))
        return XDP_ABORTED;
    return XDP_PASS;
}

SEC("xdp")
int mc_write_reply(struct xdp_md *ctx)
{
    struct scratch *scratch = scratch_get();
    u64 n;

    if (!scratch)
        return XDP_PASS;
    n = reply_frame_size(scratch);
    if (unlikely(!xdp_write_reply(ctx, scratch))) {
        scratch->counts.count[MC_COUNT_PASS_ERROR]++;
        return XDP_ABORTED;
    }
    /* What is left behind a reply is padding, if the frame cannot be cut. */
    if (unlikely(n < scratch->nframe))
        bpf_xdp_adjust_tail(ctx, (int)n - (int)scratch->nframe);
    scratch->counts.count[MC_COUNT_ANSWERED_XDP]++;
    scratch->counts.class_hits[0] += scratch->nhits;
    count_payload(scratch, (u64)scratch->nreply - REPLY_TEXT);
    return XDP_TX;
}

SEC("xdp")
int mc_invalidate(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();

    if (!scratch)
        return XDP_PASS;
    return chain_invalidate(ctx, scratch);
}

/* --- TC ---------------------------------------------------------------------------- */

/* What leaves from another port, as far as the first bytes say so. Doubt says no. */
static __always_inline int tx_is_other(struct __sk_buff *skb)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const void *ip = data + ETH_HLEN;

    if (ip > end)
        return 0;
    if (LOAD16(data + 12) == bpf_htons(ETH_P_IP))
        return ip_has_other_port(ip, end, 0, 1);
    return LOAD16(data + 12) == bpf_htons(ETH_P_IPV6) && ip_has_other_port(ip, end, 1, 1);
}

/*
 * What the server sends leaves by another port than its own, which a rule of this machine has put
 * there, or in a tunnel. So what comes that way is read by the server as well, and is not seen.
 */
__attribute__((noinline)) int tx_no_mac_header(struct __sk_buff *skb)
{
    struct bpf_sock *sk = sender_of(skb);

    if (sk && !settings.any_socket && sender_is_here(sk))
        tcp_unfollowed(bpf_ktime_get_ns());
    return 0;
}

/* Whether what classify_egress has looked at is a fragment, in which no port need be. */
static __always_inline int tx_is_fragment(void)
{
    const struct chain_scratch *scratch = chain_scratch_get();

    return !scratch || scratch->fragment != FRAGMENT_NONE;
}

SEC("tc")
int mc_tx_filter(struct __sk_buff *skb)
{
    return_path_egress(skb, sender_is_udp);
    if (skb->tc_index == CHAIN_SEEN)
        return TC_ACT_UNSPEC;
    if (tx_is_other(skb)) {
        if (unlikely(sender_has_port(skb->sk)))
            tx_no_mac_header(skb);
    } else if (classify_egress(skb) != KIND_NONE) {
        bpf_tail_call(skb, &mc_tc_calls, CALL_UPDATE_CACHE);
    } else if (unlikely(sender_has_port(skb->sk)) && !tx_is_fragment()) {
        tx_no_mac_header(skb);
    }
    return TC_ACT_UNSPEC;
}

SEC("tc")
int mc_update_cache(struct __sk_buff *skb)
{
    struct chain_scratch *scratch = chain_scratch_get();

    if (!scratch || (scratch->kind != KIND_TCP && scratch->kind != KIND_UDP))
        return TC_ACT_UNSPEC;
    if (!settings.any_socket && !sender_is_server(skb, scratch->proto) &&
        !sender_accepts(skb, scratch)) {
        chain_count(scratch, CHAIN_FOREIGN);
        return TC_ACT_UNSPEC;
    }
    skb->tc_index = CHAIN_SEEN;
    if (scratch->kind == KIND_TCP)
        bpf_tail_call(skb, &mc_tc_calls, CALL_FOLLOW_REPLIES);
    if (scratch->kind == KIND_UDP)
        fill_reply(skb);
    return TC_ACT_UNSPEC;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
