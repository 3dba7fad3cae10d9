/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_large: TC ingress answers the gets that XDP leaves to it: all of their keys are in the
 * table, but the driver's frame has no room for the reply, or XDP does not see the whole packet.
 *
 * XDP records no ask for such a get, so one that is not answered here either is recorded here. Here
 * it is also visible, as it is not to XDP, that a packet consists of several datagrams.
 */
#ifndef MC_CHAIN_LARGE_BPF_H
#define MC_CHAIN_LARGE_BPF_H

#include "bpf/chain/classify.bpf.h"
#include "bpf/chain/get.bpf.h"
#include "bpf/chain/maps.bpf.h"
#include "bpf/chain/outstanding.bpf.h"
#include "bpf/chain/tcp.bpf.h"
#include "bpf/udp/skb.bpf.h"

/*
 * Fills chain_scratch with the header offsets of a plain request, as classify() does for any
 * packet.
 */
static __always_inline void get_describe(const struct scratch *scratch, struct chain_scratch *chain)
{
    chain->l3 = scratch->offsets.ip;
    chain->l4 = offsets_l4(scratch_offsets(scratch));
    chain->nframe = scratch->nframe;
    chain->proto = IPPROTO_UDP;
    chain->v6 = scratch->offsets.v6;
    chain->kind = KIND_UDP;
}

/* Leaves a get to the server after all, and records the ask: it will have one reply. */
__attribute__((noinline)) int large_leave(struct __sk_buff *skb)
{
    struct chain_scratch *chain = chain_scratch_get();
    struct scratch *scratch = scratch_get();
    struct outstanding_id id;

    if (!scratch || !chain)
        return TC_ACT_UNSPEC;
    get_describe(scratch, chain);
    if (!outstanding_read(packet_mac(skb), chain, 1, &id))
        outstanding_note(outstanding_hash(&id), OUTSTANDING_GET, 0, 0);
    return TC_ACT_UNSPEC;
}

/* Looks up a get's keys again. STEP_END with the reply; any other outcome has been counted. */
__attribute__((noinline)) int large_look(struct __sk_buff *skb)
{
    struct chain_scratch *chain = chain_scratch_get();
    struct scratch *scratch = scratch_get();
    enum verdict rc;

    if (!scratch || !chain)
        return STEP_MISS;
    rc = request_load(packet_mac(skb), scratch, NGET);
    if (!rc)
        rc = request_check(packet_mac(skb), scratch, TEXT_GET);
    if (!rc)
        rc = get_all(scratch, chain);
    if (rc == STEP_MISS)
        get_count(scratch, chain, chain->missing);
    else if (rc != STEP_END)
        count_reason(scratch, rc);
    return rc;
}

/*
 * A packet of several TCP segments or datagrams, as a sender on this host makes one (GSO) or the
 * stack joins them before generic XDP (GRO). XDP has parsed the TCP segments as one. Of datagrams
 * it has seen only the first one's header, and has taken the others for the rest of that one; so
 * they may be any write.
 */
__attribute__((noinline)) int large_joined(struct __sk_buff *skb)
{
    struct chain_scratch *chain = chain_scratch_get();

    if (chain && classify(packet_mac(skb), chain, 1) != KIND_NONE && chain->kind != KIND_TCP)
        tcp_unfollowed(bpf_ktime_get_ns());
    return 0;
}

SEC("tc")
int mc_answer_large(struct __sk_buff *skb)
{
    struct tc_headers *headers;
    struct scratch *scratch;
    enum verdict rc;
    u32 no_mac;
    int act;

    if (unlikely(skb->gso_size))
        large_joined(skb);
    if (!tc_has_metadata(skb))
        return TC_ACT_UNSPEC;
    no_mac = tc_no_mac_header(skb);
    if (!tc_is_marked(skb, no_mac))
        return TC_ACT_UNSPEC;
    scratch = scratch_get();
    if (!scratch)
        return TC_ACT_UNSPEC;
    headers = (struct tc_headers *)scratch->reply;
    scratch->nframe = skb->len + no_mac;
    if (!tc_load(skb, scratch, headers))
        return TC_ACT_UNSPEC;
    rc = scratch->offsets.v6 ? tc_check(skb, scratch, headers, 1, 1, no_verb)
                             : tc_check(skb, scratch, headers, 0, 1, no_verb);
    if (rc != HEAD_GET || skb->pkt_type != PACKET_HOST)
        return large_leave(skb);
    if (large_look(skb) != STEP_END)
        return large_leave(skb);
    act = tc_reply(skb, no_mac, scratch->checksum_partial);
    if (act == TC_ACT_UNSPEC)
        return large_leave(skb);
    skb->tc_index = CHAIN_SEEN;
    return act;
}

#endif
