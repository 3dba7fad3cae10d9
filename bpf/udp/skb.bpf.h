/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * skb: a request's packet as TC has it behind XDP: the mark of XDP, its headers, its checks, and
 * how it is turned into the reply.
 */
#ifndef MC_SKB_BPF_H
#define MC_SKB_BPF_H

#include <linux/pkt_cls.h>

#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/guard.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/return_path.bpf.h"
#include "bpf/packet/udp.bpf.h"
#include "bpf/udp/frame.bpf.h"

static __always_inline int tc_pass(struct scratch *scratch, enum verdict reason)
{
    count_reason(scratch, reason);
    return TC_ACT_UNSPEC;
}

/* Whether a packet has metadata, of XDP or of another program, in which a mark could be. */
static __always_inline int tc_has_metadata(struct __sk_buff *skb)
{
    return (void *)(long)skb->data_meta + MARK_BYTES <= (void *)(long)skb->data;
}

/*
 * How many bytes of a packet are before those that TC sees. Generic XDP copies frames with little
 * head room, and the copy forgets the length of its Ethernet header (Linux 6.12 to 6.18): TC then
 * sees the packet from behind it, and looks for metadata 14 bytes too far back. That is seen by the
 * type in the Ethernet header. Behind that header is IP, or a second tag: the stack has taken the
 * first one off.
 */
static __always_inline u32 tc_no_mac_header(struct __sk_buff *skb)
{
    const void *data = (void *)(long)skb->data, *ip = data;

    if (data + ETH_HLEN > (void *)(long)skb->data_end || LOAD16(data + 12) == skb->protocol)
        return 0;
    if (skb->vlan_present && type_is_tag(skb->protocol))
        ip += TAG_BYTES;
    return LOAD8(ip) == 0x45 || LOAD8(ip) >> 4 == 6 ? ETH_HLEN : 0;
}

/*
 * Whether XDP has left the mark that says that TC is to answer: then it has let the source through,
 * and has charged it.
 */
static __always_inline int tc_is_marked(struct __sk_buff *skb, u32 no_mac)
{
    const void *mark = (void *)(long)skb->data_meta;

    if (mark + MARK_BYTES > (void *)(long)skb->data)
        return 0;
    return (no_mac ? LOAD32(mark + MARK_AGAIN - ETH_HLEN) : LOAD32(mark)) == MARK_FOR_TC;
}

/* The headers of a packet, loaded into the room for the reply. */
struct tc_headers {
    char link[24];
    char ip[IP6_BYTES + L4_TEXT + 8];
};

/*
 * Loads the headers. The stack has taken the outer tag from the frame and keeps it beside the
 * packet, where a reply takes it along. 0: it is no packet that could be ours.
 */
static __always_inline int tc_load(struct __sk_buff *skb, struct scratch *scratch,
                                   struct tc_headers *headers)
{
    struct offsets offsets = OFFSETS(0, 0);
    u16 type;

    if (bpf_skb_load_bytes_relative(skb, 0, headers->link, sizeof(headers->link),
                                    BPF_HDR_START_MAC))
        return 0;
    type = LOAD16(headers->link + 12);
    if (type_is_tag(type) && skb->vlan_present) {
        type = LOAD16(headers->link + ETH_HLEN + 2);
        offsets.ip += TAG_BYTES;
    }
    offsets.v6 = type == bpf_htons(ETH_P_IPV6);
    if (!offsets.v6 && type != bpf_htons(ETH_P_IP))
        return 0;
    scratch->offsets = offsets;
    return !bpf_skb_load_bytes_relative(skb, offsets.ip, headers->ip, IP4_BYTES + L4_CHECKED,
                                        BPF_HDR_START_MAC) &&
           (!offsets.v6 || !bpf_skb_load_bytes_relative(skb, offsets.ip, headers->ip,
                                                        IP6_BYTES + L4_CHECKED, BPF_HDR_START_MAC));
}

static __always_inline u32 tc_vlan(struct __sk_buff *skb, const struct tc_headers *headers,
                                   struct offsets offsets)
{
    if (!skb->vlan_present)
        return 0;
    return vlan_id(skb->vlan_proto, bpf_htons(skb->vlan_tci)) | link_vlan(headers->link, offsets)
                                                                    << 16;
}

/* Whether it is a get or another verb for us; counts one that is ours but none. */
static __always_inline enum verdict tc_check(struct __sk_buff *skb, struct scratch *scratch,
                                             const struct tc_headers *headers, u64 v6, int marked,
                                             request_verb *is_verb)
{
    const void *ip = headers->ip, *l4 = ip + ip_bytes(v6);
    enum verdict rc, kind;

    if (!ip_has_no_options(ip, v6, L4_PROTOCOL) || port_to(l4) != control.port ||
        !ip_is_to_us(ip, v6))
        return HEAD_FOREIGN;
    kind = request_precheck(ip, v6, scratch->nframe - scratch->offsets.ip, is_verb);
    rc = kind == HEAD_GET || kind == HEAD_VERB ? VERDICT_OK : kind;
    if (rc == VERDICT_OK)
        rc = mac_check(MACS(headers->link), skb->ifindex);
    if (rc == HEAD_HIDDEN)
        rc = VERDICT_OK;
    if (skb->gso_size) /* several datagrams, of which only the first one's header is there */
        rc = PASS_PACKET;
    if (rc == VERDICT_OK && !vlan_is_ours(tc_vlan(skb, headers, scratch_offsets(scratch))))
        rc = PASS_MAC;
    if (ip_is_own(ip, v6) && skb->ifindex != LOOPBACK_IFINDEX)
        rc = PASS_SOURCE;
    if (rc == VERDICT_OK && control.flush_at && second_reached(control.flush_at))
        rc = PASS_EXPIRED;
    if (rc == VERDICT_OK && !marked)
        rc = guard_source(ip, v6);
    if (rc == VERDICT_OK) {
        scratch->saved.back = return_path(headers->link, ip, v6, skb->ifindex,
                                          tc_vlan(skb, headers, scratch_offsets(scratch)));
        rc = scratch->saved.back ? VERDICT_OK : PASS_WAY;
    }
    if (rc == VERDICT_OK && !marked)
        rc = guard_rate(ip, v6);
    if (rc != VERDICT_OK) {
        count_reason(scratch, rc);
        return rc;
    }
    scratch->ntext = udp_ntext(l4);
    scratch->checksum_partial = l4_checksum_is_partial(ip, v6);
    headers_save(&scratch->saved, headers->link, ip, (struct offsets){ETH_HLEN + TAG_BYTES, v6},
                 SAVED_WORDS(v6));
    return kind;
}

/*
 * Makes the packet a frame of nframe bytes, from its Ethernet header on. TC_ACT_UNSPEC: it cannot
 * be, and is as it was; TC_ACT_SHOT: nor is it that.
 */
static __always_inline int tc_resize(struct __sk_buff *skb, u64 nframe, u32 no_mac)
{
    u32 before = skb->len;

    if (nframe - no_mac != before && bpf_skb_change_tail(skb, nframe - no_mac, 0))
        return TC_ACT_UNSPEC;
    if (no_mac && bpf_skb_change_head(skb, ETH_HLEN, 0))
        return nframe - no_mac < before || bpf_skb_change_tail(skb, before, 0) ? TC_ACT_SHOT
                                                                               : TC_ACT_UNSPEC;
    return TC_ACT_OK;
}

/* Turns the packet around, whose first `hidden` bytes are not in sight; ends it without a reply. */
__attribute__((noinline)) int tc_reply(struct __sk_buff *skb, u32 no_mac, int partial)
{
    struct scratch *scratch = scratch_get();
    enum verdict rc;
    u64 nframe;
    int act;

    if (!scratch)
        return TC_ACT_UNSPEC;
    if (scratch->nreply == REPLY_TEXT) {
        count_silence(scratch, MC_COUNT_ANSWERED_TC);
        return TC_ACT_SHOT;
    }
    rc = guard_reply(scratch);
    if (rc)
        return tc_pass(scratch, rc);
    reply_headers(scratch, partial);
    nframe = frame_size(reply_size(scratch), scratch->nframe);
    act = tc_resize(skb, nframe, no_mac);
    if (act == TC_ACT_UNSPEC)
        return tc_pass(scratch, PASS_ROOM);
    bound_size(nframe, 2047);
    if (act == TC_ACT_SHOT ||
        bpf_skb_store_bytes(skb, 0, scratch->reply + reply_start(scratch), nframe, 0)) {
        scratch->counts.count[MC_COUNT_PASS_ERROR]++;
        return TC_ACT_SHOT;
    }
    scratch->counts.count[MC_COUNT_ANSWERED_TC]++;
    count_payload(scratch, (u64)scratch->nreply - REPLY_TEXT);
    count_hits(scratch);
    return bpf_redirect(skb->ifindex, 0);
}

#endif
