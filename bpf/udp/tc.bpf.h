/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tc: the program behind XDP, on TC ingress. It answers what XDP has marked: requests whose reply
 * does not fit into the driver's frame. All else passes at the cost of one test.
 */
#ifndef MC_TC_BPF_H
#define MC_TC_BPF_H

#include "bpf/answer/get.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/guard.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/udp.bpf.h"
#include "bpf/udp/sender.bpf.h"
#include "bpf/udp/skb.bpf.h"
#include "bpf/udp/tail.bpf.h"

/*
 * Most of what goes to others, by what the first bytes say, without a call. Doubt says no. A frame
 * whose link header is not in sight does not have the type there.
 */
static __always_inline int tc_is_foreign(struct __sk_buff *skb)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const void *ip = data + ETH_HLEN;

    if (ip + IP4_BYTES > end || LOAD16(data + 12) != skb->protocol)
        return 0;
    if (skb->protocol == bpf_htons(ETH_P_IP))
        return ip_protocol(ip, 0) != L4_PROTOCOL || ip_has_other_port(ip, end, 0, 0);
    return skb->protocol == bpf_htons(ETH_P_IPV6) &&
           (ip_protocol(ip, 1) != L4_PROTOCOL || ip_has_other_port(ip, end, 1, 0));
}

static __always_inline int tc_packet(struct __sk_buff *skb)
{
    struct tc_headers *headers;
    struct scratch *scratch;
    int marked, act;
    enum verdict rc;
    u32 no_mac;

    if (!tc_has_metadata(skb) && (!tc_alone || tc_is_foreign(skb)))
        return TC_ACT_UNSPEC;
    no_mac = tc_no_mac_header(skb);
    marked = tc_is_marked(skb, no_mac);
    if (!marked && !tc_alone)
        return TC_ACT_UNSPEC;
    scratch = scratch_get();
    if (!scratch || !skb_is_for_one(skb))
        return TC_ACT_UNSPEC;
    headers = (struct tc_headers *)scratch->reply;
    scratch->nframe = skb->len + no_mac;
    if (!tc_load(skb, scratch, headers))
        return TC_ACT_UNSPEC;
    rc = scratch->offsets.v6 ? tc_check(skb, scratch, headers, 1, marked, text_is_verb)
                             : tc_check(skb, scratch, headers, 0, marked, text_is_verb);
    if (rc != HEAD_GET && rc != HEAD_VERB)
        return TC_ACT_UNSPEC;
    rc = packet_answer(packet_mac(skb), scratch, rc);
    if (rc != STEP_END)
        return tc_pass(scratch, rc);
    act = tc_reply(skb, no_mac, scratch->checksum_partial);
    if (act == TC_ACT_REDIRECT)
        reply_read(scratch);
    return act;
}

SEC("tc")
int mc_tc(struct __sk_buff *skb)
{
    return tc_packet(skb);
}

SEC("tc")
int mc_tc_both(struct __sk_buff *skb)
{
    return tc_tail(skb, TAIL_INGRESS) ? TC_ACT_UNSPEC : tc_packet(skb);
}

/* On TC egress: by which path the stack sends the server's replies. */
SEC("tc")
int mc_learn_paths(struct __sk_buff *skb)
{
    return_path_egress(skb, sender_is_server);
    return TC_ACT_UNSPEC;
}

SEC("tc")
int mc_learn_both(struct __sk_buff *skb)
{
    if (!tc_tail(skb, TAIL_EGRESS) && control.port) /* udp=off: there is none */
        return_path_egress(skb, sender_is_server);
    return TC_ACT_UNSPEC;
}

#endif
