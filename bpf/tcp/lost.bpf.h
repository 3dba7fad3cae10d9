/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_lost: finds out that segments of a connection on which the kernel has answered take a path
 * without the programs. They do no harm (conn.bpf.h), but the connection hangs: the server looks at
 * its slot four times a second, and ends it.
 *
 * A client's segment that TC has neither noted nor marked is dropped by a filter on the socket,
 * which notes since when. Of the socket's segments TC on egress sees those that are translated, and
 * the guard drops the rest (guard.bpf.h), where there is one. So TC notes since when the socket
 * owes the client a segment: it was handed data, which it acknowledges within 200 ms, or an
 * acknowledgement, behind which it may have more to send: the server asks the socket.
 */
#ifndef MC_TCP_LOST_BPF_H
#define MC_TCP_LOST_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/flow.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/put.bpf.h"
#include "bpf/tcp/read.bpf.h"

/* slot_time(0) in the lower half, and in which tick of the kernel's clock it was read. */
__u64 slot_clock = 0;

/*
 * The time as slots have it: never 0. The clock is read once in a tick, since the JIT turns reading
 * ticks into a load, and reading the clock is a call.
 */
static __always_inline u32 slot_time(u32 data)
{
    u64 clock = READ_ONCE(slot_clock);
    u32 ticks = bpf_jiffies64();

    if (unlikely(clock >> 32 != ticks || !clock)) {
        clock = ((bpf_ktime_get_coarse_ns() >> MC_TCP_TIME_SHIFT & ~3u) | 2) & 0xffffffff;
        clock |= (u64)ticks << 32;
        WRITE_ONCE(slot_clock, clock);
    }
    return clock | data;
}

/* What TC hands to a socket has to be answered with, perhaps. */
enum ack_due { DUE_NOTHING, DUE_MORE, DUE_ACK };

/*
 * Whether a client's segment begins where the socket has said that the next one does, or its next
 * copy: only that tells of the connection. A forger who knows its addresses and ports alone can
 * send others.
 */
static __always_inline int conn_awaits(const struct mc_tcp_conn *conn, u32 seq)
{
    return delta_seq_rx(&conn->delta, seq) == conn->last_ack_sent;
}

/* Under the lock. A segment was passed. */
static __always_inline enum ack_due conn_ack_due(const struct mc_tcp_conn *conn,
                                                 const struct tcp_segment *segment)
{
    if (segment->flags & TCP_RST || !conn_awaits(conn, segment->seq))
        return DUE_NOTHING;
    if (segment->n || segment->flags & TCP_FIN)
        return DUE_ACK;
    return DUE_MORE;
}

/* TC hands the socket a translated segment of the slot's connection with this generation. */
static __always_inline void slot_handed(struct mc_tcp_slot *slot, u32 generation,
                                        enum ack_due ack_due)
{
    u32 since;

    if (READ_ONCE(slot->generation) != generation)
        return;
    slot_hears(slot);
    since = READ_ONCE(slot->ack_due);
    if ((ack_due == DUE_MORE && !since) || (ack_due == DUE_ACK && !(since & MC_TCP_ACK_DUE_DATA)))
        WRITE_ONCE(slot->ack_due, slot_time(ack_due == DUE_ACK ? MC_TCP_ACK_DUE_DATA : 0));
}

/* TC sees a segment of the socket's. */
static __always_inline void slot_egress(const struct mc_tcp_tag *tag)
{
    u32 index = tag->slot;
    struct mc_tcp_slot *slot = bpf_map_lookup_elem(&mc_tcp_slots, &index);

    if (!slot || READ_ONCE(slot->generation) != tag->generation)
        return;
    if (READ_ONCE(slot->ack_due))
        WRITE_ONCE(slot->ack_due, 0);
    if (unlikely(READ_ONCE(slot->lost) & MC_TCP_LOST_GUARDED))
        WRITE_ONCE(slot->lost, 0);
}

/* Whether a segment begins where the client's next one does, or its next copy. Without the lock. */
static __always_inline int conn_expects_next(const struct mc_tcp_conn *conn, u32 seq)
{
    return seq == READ_ONCE(conn->last_ack_sent) + READ_ONCE(conn->delta.rx) ||
           seq == READ_ONCE(conn->delta.request);
}

/*
 * Reads the flow of a segment whose TCP header begins at l4 of what the program sees. 0: it cannot.
 */
static __always_inline int socket_flow(struct __sk_buff *skb, u32 l4, struct mc_tcp_flow *flow,
                                       const int ingress)
{
    u64 v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
    u64 ip[5];
    u32 ports;

    if (bpf_skb_load_bytes(skb, l4, &ports, sizeof(ports)) ||
        (v6 ? bpf_skb_load_bytes_relative(skb, 0, ip, IP6_BYTES, BPF_HDR_START_NET)
            : bpf_skb_load_bytes_relative(skb, 0, ip, IP4_BYTES, BPF_HDR_START_NET)))
        return 0;
    if (v6)
        segment_flow(flow, ip, &ports, 1, ingress);
    else
        segment_flow(flow, ip, &ports, 0, ingress);
    return 1;
}

/*
 * The connection of a segment as a filter has it, which sees it from TCP's header on; NULL: it is
 * not followed.
 */
static __always_inline struct mc_tcp_conn *filter_find(struct __sk_buff *skb,
                                                       struct mc_tcp_flow *flow)
{
    return socket_flow(skb, 0, flow, 1) ? conn_find(flow) : NULL;
}

/* A segment as a filter sees it, from TCP's sequence number on. */
struct filtered {
    u32 seq, ack;
    u16 flags; /* network order, with the header's length */
    u16 window, sum, urgent;
};

/*
 * Whether TC has handed over a segment for a connection's other socket: its numbers are that one's.
 */
static __always_inline int is_for_another(const struct __sk_buff *skb,
                                          const struct filtered *segment)
{
    return is_translation_mark(skb->tc_index) ||
           has_translation_mark(segment->urgent, bpf_ntohs(segment->flags));
}

static __always_inline int filter_drop(void)
{
    tcp_count(MC_TCP_DROPPED);
    return 0;
}

/*
 * The socket is given a segment that TC has not seen, on a connection on which nothing is answered
 * yet: then its bytes are the server's, and not answered when the client sends them again by a way
 * with the programs. Under the lock, as an answer is: it comes before or behind. 0: there was one.
 */
static __always_inline int filter_pass(struct __sk_buff *skb, struct mc_tcp_conn *conn,
                                       const struct mc_tcp_flow *flow,
                                       const struct filtered *segment)
{
    u16 flags = bpf_ntohs(segment->flags);
    u32 end = bpf_ntohl(segment->seq) + skb->len - (flags >> 12) * 4 + (flags & TCP_FIN);
    int passes;

    if (!conn_lock(conn, flow))
        return 0;
    passes = !delta_is_used(&conn->delta);
    if (passes && end - conn->last_ack_sent <= conn_room(conn)) {
        if (flags & (TCP_FIN | TCP_RST))
            conn->flags |= MC_TCP_CLOSING;
        if (seq_before(conn->rcv_nxt, end)) /* RULE_KMAX */
            conn->rcv_nxt = end;
    }
    conn_unlock(conn);
    return passes;
}

/*
 * The filter of a socket that the server has tagged: drops what should bear its translation mark.
 * It lets a SYN through: the client has forgotten the connection, and wants another one. What bears
 * TC's note is let through at once: of a connection on which nothing was answered, which bears no
 * mark, it takes longer to find that out than all that TC does.
 */
static __always_inline int filter_marked(struct __sk_buff *skb, u16 mark)
{
    struct mc_tcp_flow flow;
    struct mc_tcp_conn *conn;
    struct filtered segment;
    struct mc_tcp_slot *slot;
    u32 seq;

    if (likely(skb->tc_index == mark))
        return -1;
    if (bpf_skb_load_bytes(skb, 4, &segment, sizeof(segment)) || segment.flags & bpf_htons(TCP_SYN))
        return -1;
    if (likely(has_translation_mark(segment.urgent, bpf_ntohs(segment.flags)) &&
               segment.urgent == mark))
        return -1;
    if (is_for_another(skb, &segment))
        return filter_drop();
    conn = filter_find(skb, &flow);
    if (!conn)
        return -1;
    if (conn_is_frozen(conn))
        return filter_drop();
    slot = conn_slot(conn);
    if (!slot || READ_ONCE(slot->generation) != conn->generation ||
        filter_pass(skb, conn, &flow, &segment))
        return -1;
    seq = bpf_ntohl(segment.seq);
    if (conn_expects_next(conn, seq)) {
        WRITE_ONCE(slot->last_ack_seen, bpf_ntohl(segment.ack));
        if (!READ_ONCE(slot->lost))
            WRITE_ONCE(slot->lost, slot_time(0));
    }
    tcp_count(MC_TCP_LOST);
    return 0;
}

SEC("socket")
int mc_tcp_filter(struct __sk_buff *skb)
{
    return filter_marked(skb, translation_marks[0]);
}

SEC("socket")
int mc_tcp_filter_b(struct __sk_buff *skb)
{
    return filter_marked(skb, translation_marks[1]);
}

/*
 * The filter of a socket that the server has put in the place of another one, and that is not
 * followed: what was translated on its way is for the other (RULE_MARK).
 */
SEC("socket")
int mc_tcp_undone(struct __sk_buff *skb)
{
    struct filtered segment;

    if (bpf_skb_load_bytes(skb, 4, &segment, sizeof(segment)) || !is_for_another(skb, &segment))
        return -1;
    return filter_drop();
}

/*
 * The filter of the server's listening sockets, to which Linux gives what comes for a connection
 * while the server puts another socket in the place of its own: it would reset the connection
 * (RULE_LISTENER). They have it from before that to some time after; what is accepted meanwhile
 * keeps it until the server gives it another.
 */
SEC("socket")
int mc_tcp_listener(struct __sk_buff *skb)
{
    const struct bpf_sock *sk = skb->sk;
    const struct mc_tcp_conn *conn;
    struct mc_tcp_flow flow;
    u8 flags;

    if (!sk || likely(sk->state != BPF_TCP_LISTEN))
        return -1;
    if (bpf_skb_load_bytes(skb, 13, &flags, sizeof(flags)) || flags & TCP_SYN)
        return -1;
    conn = filter_find(skb, &flow);
    return conn && unlikely(conn_is_frozen(conn)) ? filter_drop() : -1;
}

#endif
