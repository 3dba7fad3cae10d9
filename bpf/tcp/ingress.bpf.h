/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * mc_tcp_ingress: the program on TC ingress: translates what XDP passes, and answers what XDP left
 * to it, or what it can itself where there is no XDP program.
 */
#ifndef MC_TCP_INGRESS_BPF_H
#define MC_TCP_INGRESS_BPF_H

#include <linux/if_packet.h>
#include <linux/pkt_cls.h>

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/tcp/answer.bpf.h"
#include "bpf/tcp/commit.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/icmp.bpf.h"
#include "bpf/tcp/lost.bpf.h"
#include "bpf/tcp/make.bpf.h"
#include "bpf/tcp/owner.bpf.h"
#include "bpf/tcp/put.bpf.h"
#include "bpf/tcp/read.bpf.h"
#include "bpf/tcp/sack.bpf.h"

/*
 * Retransmits the reply, in the place of a segment with these headers: to where the server's
 * segments go, wherever this one came from.
 */
__attribute__((noinline)) int tcp_tc_resend(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    if (!tcp || !scratch || !tcp->can_resend || !rtx_get(tcp))
        return TC_ACT_SHOT;
    if (!skb_save_headers(skb, scratch, TCP_BYTES))
        return TC_ACT_SHOT;
    if (tcp_tc_make(skb, scratch))
        return TC_ACT_SHOT;
    tcp_count(MC_TCP_RESENT);
    return bpf_redirect(tcp->ifindex, 0);
}

/*
 * Sends the answer in `scratch`. If the segment tells the socket of an acknowledgement, a copy of
 * the packet leaves, and the packet itself goes on as a bare acknowledgement, made of the headers
 * that were kept.
 */
__attribute__((noinline)) int tcp_tc_send(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();
    u32 mark = skb->mark;

    if (!tcp || !scratch || tcp_tc_make(skb, scratch))
        return TC_ACT_SHOT;
    if (!tcp->ack_due)
        return bpf_redirect(skb->ifindex, 0);
    bpf_clone_redirect(skb, skb->ifindex, 0);
    skb->mark = mark;
    return skb_make_bare(skb, scratch, tcp,
                         tcp->segment.seq - (tcp->delta.rx - tcp->delta.nrequest),
                         tcp->segment.ack - (tcp->delta.tx - tcp->delta.nreply), 1)
               ? TC_ACT_SHOT
               : skb_hand(skb, tcp);
}

/*
 * Sends a bare acknowledgement to the client in a copy of the client's own, which is then as it
 * came. Not 0: the packet is lost.
 */
__attribute__((noinline)) int tcp_tc_release(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u64 n = skb->len;
    struct scratch *scratch = scratch_get();
    u32 mark = skb->mark;

    if (!tcp || !scratch)
        return -1;
    if (!tcp->can_resend || n > HEADERS_MOST)
        return 0; /* the client's timer does without */
    bound_size(n, 255);
    if (bpf_skb_load_bytes(skb, 0, tcp->frame, n))
        return -1;
    if (!skb_save_headers(skb, scratch, TCP_BYTES))
        return -1;
    scratch->nreply = REPLY_TEXT;
    if (tcp_tc_make(skb, scratch))
        return -1;
    bpf_clone_redirect(skb, tcp->ifindex, 0);
    skb->mark = mark;
    return bpf_skb_change_tail(skb, n, 0) || bpf_skb_store_bytes(skb, 0, tcp->frame, n, 0);
}

/*
 * Sends a RST in the place of a client's segment, as a closed socket does. `scratch` has the words
 * of its header.
 */
__attribute__((noinline)) int tcp_tc_refuse(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();
    char *l4;

    if (!tcp || !scratch || !skb_save_headers(skb, scratch, TCP_BYTES))
        return TC_ACT_SHOT;
    scratch->nreply = REPLY_TEXT;
    reply_headers(scratch, scratch->checksum_partial);
    l4 = scratch->reply + REPLY_TEXT - L4_TEXT;
    l4[13] = TCP_RST | TCP_ACK;
    if (!scratch->checksum_partial) /* PSH became RST in the lower half of a word */
        STORE16(l4 + 16, ~sum_fold((u16)~LOAD16(l4 + 16) + (u64)(u16)~bpf_htons(TCP_PSH) +
                                   bpf_htons(TCP_RST)));
    return tcp_tc_put(skb, scratch) ? TC_ACT_SHOT : bpf_redirect(tcp->ifindex, 0);
}

/* Translates a segment for the socket, as tcp->shift says. */
__attribute__((noinline)) int tcp_tc_hand(struct __sk_buff *skb, u32 l4, u32 seq)
{
    struct segment_scratch *tcp = segment_scratch_get();

    if (!tcp)
        return TC_ACT_SHOT;
    if (skb_put_rx(skb, l4, seq, delta_ack_rx(&tcp->delta, tcp->segment.ack), tcp) ||
        skb_put_stamp(skb, l4, tcp) ||
        (segment_has_blocks(&tcp->segment) && skb_put_blocks(skb, l4, 1))) {
        tcp_count(MC_TCP_DROPPED);
        return TC_ACT_SHOT;
    }
    return skb_hand(skb, tcp);
}

/*
 * Whether a client's segment that is not answered may be believed: if it acknowledges outstanding
 * replies, which the client gets no more after that, its checksum is looked at. GRO has seen those
 * of what it merged.
 */
static __always_inline int skb_is_believed(struct __sk_buff *skb, u32 l4,
                                           const struct segment_scratch *tcp,
                                           const struct mc_tcp_conn *conn)
{
    return !conn->delta.nreply || skb->gso_size ||
           !seq_before(conn->delta.reply, tcp->segment.ack) || skb_sum_is_valid(skb, l4);
}

/*
 * A segment that is not answered is translated; or the outstanding reply is sent once more. What
 * the socket will refuse for its checksum is translated and changes nothing.
 */
static __always_inline int tcp_tc_pass(struct __sk_buff *skb, struct scratch *scratch,
                                       struct segment_scratch *tcp, struct mc_tcp_conn *conn,
                                       struct mc_tcp_slot *slot, u32 l4)
{
    struct rtx_place place = {0, RTX_NONE};
    int believed = skb_is_believed(skb, l4, tcp, conn);
    enum ack_due ack_due = DUE_NOTHING;
    struct mc_tcp_delta delta;
    enum leave how = LEAVE_PASS;
    u32 seq, generation;

    if (unlikely(!conn_lock(conn, &tcp->segment.flow))) {
        tcp_count(MC_TCP_DROPPED);
        return TC_ACT_SHOT;
    }
    if (believed) {
        how = conn_leave(conn, slot, tcp, &scratch->saved.tcp, &place);
        ack_due = conn_ack_due(conn, &tcp->segment);
    }
    delta = conn->delta;
    tcp->tsval = bpf_ntohl(conn->tsval);
    tcp->mark = conn_mark(conn);
    seq = conn_seq_rx(conn, &tcp->segment);
    generation = conn->generation;
    conn_unlock(conn);
    rtx_free_place(&place);
    if (how == LEAVE_RESEND)
        return tcp_tc_resend(skb);
    if (how == LEAVE_RELEASE && tcp_tc_release(skb))
        return TC_ACT_SHOT;
    if (tcp->reason)
        tcp_count(tcp->reason);
    if (!delta_is_used(&delta))
        return skb_hand(skb, tcp);
    slot_handed(slot, generation, ack_due);
    tcp->delta = delta;
    return tcp_tc_hand(skb, l4, seq);
}

/*
 * Passes a segment, for a reason PASS_TCP_*, which is counted unless XDP has (see tcp_xdp_pass);
 * one without data is not counted.
 */
static __always_inline enum verdict tcp_leave(struct segment_scratch *tcp, enum verdict why)
{
    tcp->reason = tcp->segment.n && (tc_alone || why == PASS_TCP_COMMAND) ? why : 0;
    return why;
}

/*
 * Passes a request for a reason, as tcp_leave does a segment. XDP has not counted a request whose
 * acknowledgement is news to the socket, so TC counts it.
 */
static __always_inline enum verdict
tcp_leave_request(struct segment_scratch *tcp, const struct mc_tcp_conn *conn, enum verdict why)
{
    tcp_leave(tcp, why);
    if (conn_acks_new(conn, tcp))
        tcp->reason = why;
    return why;
}

/* tcp_lookup as a function, as tcp_xdp_lookup is. */
__attribute__((noinline)) int tcp_tc_lookup(struct __sk_buff *skb, const struct mc_tcp_conn *conn,
                                            int kind)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    return tcp && scratch && conn ? tcp_lookup(packet_tc(skb), scratch, tcp, conn, kind)
                                  : PASS_TCP_LOOKUP;
}

/* Answers a request, whose reply is then to be sent: VERDICT_OK; or it is left, for this reason. */
static __always_inline enum verdict tcp_tc_answer(struct __sk_buff *skb, struct scratch *scratch,
                                                  struct segment_scratch *tcp,
                                                  struct mc_tcp_conn *conn,
                                                  struct mc_tcp_slot *slot, u32 l4)
{
    enum verdict kind, rc;
    u32 text;

    if (!conn_is_plain(conn, &tcp->segment) || skb->gso_size || !skb_is_for_one(skb))
        return tcp_leave(tcp, PASS_TCP_SEGMENT);
    if (tcp->segment.n < REQUEST_LEAST || !skb_read_text(skb, l4, tcp->segment.nheader, &text))
        return tcp_leave(tcp, PASS_TCP_COMMAND);
    kind = text_kind(text);
    if (kind == HEAD_FOREIGN || !text_is_spoken(text, slot))
        return tcp_leave(tcp, PASS_TCP_COMMAND);
    tcp->boundary = READ_ONCE(slot->boundary);
    read_barrier();
    tcp->start = conn_reply_start(conn, &tcp->segment);
    rc = conn_refuses(conn, slot, tcp, tcp->boundary);
    if (rc)
        return tcp_leave(tcp, rc);
    if (!(tcp->unstamped ? skb_save_headers(skb, scratch, TCP_BYTES)
                         : skb_save_headers(skb, scratch, L4_TEXT)))
        return tcp_leave(tcp, PASS_TCP_SEGMENT);
    if (skb->pkt_type != PACKET_HOST &&
        mac_check(MACS(&scratch->saved.to), skb->ifindex) == PASS_MAC)
        return tcp_leave(tcp, PASS_TCP_WAY);
    if (!conn_came_by_path(conn, scratch->saved.from, skb->ifindex, skb_vlan(skb)))
        return tcp_leave(tcp, PASS_TCP_WAY);
    scratch->nframe = skb->len;
    scratch->ntext = tcp->segment.n;
    if (unlikely(tcp->unstamped)) {
        saved_widen(scratch);
        scratch->offsets.ip -= WIDER; /* its text is where it is, */
    }
    rc = tcp_tc_lookup(skb, conn, kind);
    scratch->offsets.ip = ETH_HLEN; /* the reply's headers where they always are */
    if (rc)
        return tcp_leave_request(tcp, conn, rc);
    rc = tcp_commit(conn, slot, scratch, tcp, 1);
    if (rc)
        return tcp_leave_request(tcp, conn, rc);
    tcp_count_answer(scratch, tcp, slot, MC_TCP_ANSWERED_TC);
    return VERDICT_OK;
}

/*
 * Whether a segment has data for a server that is dead. Linux resets the connection only when it
 * has unmapped the server's memory, seconds later if there is much of it; the socket until then
 * takes data that no process reads.
 */
static __always_inline int tcp_is_too_late(const struct tcp_segment *segment)
{
    return READ_ONCE(control.lease) & MC_LEASE_DEAD && segment->n && segment->flags & TCP_ACK &&
           !(segment->flags & TCP_RST);
}

/*
 * The server has closed a segment's connection. Whether its socket is no more, and the client's
 * next connection has these ports, or begins: then what was known is void. Egress finds that out,
 * too, but what it sends may have taken a path without the programs.
 */
__attribute__((noinline)) int tcp_is_void(struct __sk_buff *skb, u64 cookie)
{
    struct segment_scratch *tcp = segment_scratch_get();
    enum owner owner = flow_owner(skb, cookie);

    if (!tcp || owner == OWNER_SAME || (owner == OWNER_NONE && !(tcp->segment.flags & TCP_SYN)))
        return 0;
    return conn_forget(&tcp->segment.flow, cookie);
}

/*
 * A SYN of a client's. None reaches the listening socket while an entry is frozen, whose next
 * socket could not have these ports then.
 */
static __always_inline int tcp_opens(const struct mc_tcp_conn *conn)
{
    if (!conn_is_frozen(conn))
        return TC_ACT_UNSPEC;
    tcp_count(MC_TCP_DROPPED);
    return TC_ACT_SHOT;
}

SEC("tc")
int mc_tcp_ingress(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();
    struct mc_tcp_slot *slot;
    struct mc_tcp_conn *conn;
    u32 l4, mark;

    if (!tcp || !scratch)
        return TC_ACT_UNSPEC;
    tcp->l4 = skb_read_plain(skb, &tcp->segment, 1);
    if (unlikely(!tcp->l4))
        tcp->l4 = skb_read_pulled(skb, &tcp->segment, 1);
    l4 = READ_ONCE(tcp->l4); /* from memory: the verifier goes on once, not once for each place */
    if (!l4)
        return tcp_icmp(skb);
    conn = conn_find(&tcp->segment.flow);
    if (!conn)
        return TC_ACT_UNSPEC;
    slot = conn_slot(conn);
    if (slot && unlikely(READ_ONCE(slot->generation) != conn->generation) &&
        tcp_is_void(skb, conn->cookie))
        return TC_ACT_UNSPEC;
    if (tcp->segment.flags & TCP_SYN)
        return tcp_opens(conn);
    if (!slot)
        return TC_ACT_UNSPEC;
    mark = skb_handed(skb, &tcp->segment);
    if (unlikely(mark)) {
        if (mark != conn_mark(conn)) { /* RULE_MARK */
            tcp_count(MC_TCP_DROPPED);
            return TC_ACT_SHOT;
        }
        if (skb->tc_index == mark || delta_is_used(&conn->delta))
            return TC_ACT_UNSPEC;
    }
    if (unlikely(!tcp->segment.has_timestamps && tcp->segment.nheader >= L4_TEXT))
        skb_read_stamps(skb, l4);
    tcp->can_resend =
        l4 == ETH_HLEN + (skb->protocol == bpf_htons(ETH_P_IPV6) ? IP6_BYTES : IP4_BYTES) &&
        conn->vlan == skb_vlan(skb);
    tcp->ifindex = conn->ifindex;
    tcp->unstamped = conn_is_unstamped(conn);
    scratch->saved.back = conn->mac;
    if (unlikely(tcp_is_too_late(&tcp->segment)) && tcp->can_resend) {
        conn_words(conn, &scratch->saved.tcp, tcp->segment.ack, tcp->segment.seq + tcp->segment.n,
                   conn_tsecr(conn, &tcp->segment));
        return tcp_tc_refuse(skb);
    }
    return tcp_tc_answer(skb, scratch, tcp, conn, slot, l4)
               ? tcp_tc_pass(skb, scratch, tcp, conn, slot, l4)
               : tcp_tc_send(skb);
}

#endif
