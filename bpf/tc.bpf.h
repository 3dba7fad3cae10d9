/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tc: the program behind XDP, on TC ingress. It answers what XDP marked: requests whose
 * reply the driver's frame has no room for. Everything else passes at the cost of one test.
 */
#ifndef MC_TC_BPF_H
#define MC_TC_BPF_H

#include <linux/if_packet.h>
#include <linux/pkt_cls.h>

#include "bpf/get.bpf.h"
#include "bpf/guard.bpf.h"
#include "bpf/kernel.bpf.h"
#include "bpf/packet.bpf.h"
#include "bpf/xdp.bpf.h"

/* On to the next filter, under clsact and TCX alike. */
enum { TC_NEXT = -1 };

static __always_inline int tc_pass(struct work *work, u32 reason)
{
    work->counts.count[reason & 31]++;
    return TC_NEXT;
}

/* What XDP may have left in front of a packet that it leaves to us. */
enum tc_mark {
    MARK_NONE,
    MARK_FRAME,  /* we see the frame from its Ethernet header on */
    MARK_PACKET, /* from its IP header on */
};

/*
 * Generic XDP copies frames with little head room, and the copy forgets the
 * length of its Ethernet header (Linux 6.12 to 6.18): TC then sees the packet
 * from its IP header on, and looks for metadata 14 bytes behind the mark. No
 * station has an address that begins with 0x45, which is a group's.
 */
static __always_inline enum tc_mark tc_mark(struct __sk_buff *skb)
{
    void *data = (void *)(long)skb->data;
    u32 *mark = (void *)(long)skb->data_meta;

    if ((void *)(mark + 1) > data)
        return MARK_NONE;
    if (*mark == MARK_FOR_TC)
        return MARK_FRAME;
    if (data + 1 > (void *)(long)skb->data_end || *(u8 *)data != 0x45)
        return MARK_NONE;
    return MARK_PACKET;
}

/*
 * Whether the packet whose head stands in `work` is a get for us; counts one that is ours
 * but none. first: no XDP program has let it through, nor charged its source.
 */
static __always_inline int tc_check(struct __sk_buff *skb, struct work *work, int first)
{
    head_ptr head = work->head;
    int rc;

    if (!head_is_udp(head) || !head_is_plain(head) || !head_is_to_port(head) ||
        !head_is_to_us(head))
        return HEAD_FOREIGN;
    rc = head_check(head, work->nframe);
    if (head_is_own(head) && skb->ifindex != LOOPBACK)
        rc = MC_COUNT_PASS_SOURCE;
    if (rc == HEAD_GET && control.flush_at && second_reached(control.flush_at))
        rc = MC_COUNT_PASS_EXPIRED;
    if (rc == HEAD_GET && first)
        rc = guard_source4(LOAD32(head + 26));
    if (rc != HEAD_GET)
        work->counts.count[rc & 31]++;
    return rc;
}

/* Brings the request into `work` and answers it. STEP_END or a reason. */
static __always_inline int tc_answer(struct __sk_buff *skb, struct work *work)
{
    u64 nrequest = head_total(work->head) + FRAME_IP - FRAME_KEYS;

    if (nrequest - 1 >= REQUEST_MAX)
        return MC_COUNT_PASS_REQUEST;
    BOUND_SIZE(nrequest, REQUEST_ROOM - 1);
    if (bpf_skb_load_bytes_relative(skb, FRAME_KEYS, work->request, nrequest, BPF_HDR_START_MAC))
        return MC_COUNT_PASS_ERROR;
    work->nrequest = nrequest;
    return get_answer(work);
}

/* Makes the packet a frame of nframe bytes, from its Ethernet header on. */
static __always_inline long tc_resize(struct __sk_buff *skb, u64 nframe, u32 hidden)
{
    u32 before = skb->len;

    if (nframe - hidden != before && bpf_skb_change_tail(skb, nframe - hidden, 0))
        return -1;
    if (hidden && bpf_skb_change_head(skb, FRAME_IP, 0)) {
        bpf_skb_change_tail(skb, before, 0);
        return -1;
    }
    return 0;
}

/* Turns the packet around, whose first `hidden` bytes are not in sight. */
__attribute__((noinline)) int tc_reply(struct __sk_buff *skb, u32 hidden)
{
    struct work *work = work_get();
    u64 nreply, nframe;

    if (!work)
        return TC_NEXT;
    nreply = work->nreply;
    nframe = frame_size(nreply, work->nframe);
    if (!guard_size(head_total(work->head) - 28, nreply - FRAME_PAYLOAD))
        return tc_pass(work, MC_COUNT_PASS_AMPLIFICATION);
    reply_head(work, nreply, nframe);
    if (tc_resize(skb, nframe, hidden))
        return tc_pass(work, MC_COUNT_PASS_ROOM);
    BOUND(nframe, 2047);
    if (nframe < FRAME_TEXT || bpf_skb_store_bytes(skb, 0, work->reply, nframe, 0)) {
        work->counts.count[MC_COUNT_PASS_ERROR]++;
        return TC_ACT_SHOT;
    }
    work->counts.count[MC_COUNT_ANSWERED_TC]++;
    count_bytes(work, head_total(work->head) - 28, nreply - FRAME_PAYLOAD);
    count_hits(work);
    return bpf_redirect(skb->ifindex, 0);
}

SEC("tc")
int mc_tc(struct __sk_buff *skb)
{
    enum tc_mark mark = tc_mark(skb);
    u32 hidden = mark == MARK_PACKET ? FRAME_IP : 0;
    struct work *work;
    int rc;

    if (mark == MARK_NONE && !tc_alone)
        return TC_NEXT;
    work = work_get();
    if (!work || skb->vlan_present || skb->pkt_type != PACKET_HOST)
        return TC_NEXT;
    if (bpf_skb_load_bytes_relative(skb, 0, work->head, sizeof(work->head), BPF_HDR_START_MAC))
        return TC_NEXT;
    work->nframe = skb->len + hidden;
    if (tc_check(skb, work, mark == MARK_NONE) != HEAD_GET)
        return TC_NEXT;
    rc = tc_answer(skb, work);
    if (rc != STEP_END)
        return tc_pass(work, rc);
    return tc_reply(skb, hidden);
}

#endif
