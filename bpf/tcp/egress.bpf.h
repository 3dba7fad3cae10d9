/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_egress: the program on TC egress: follows connections, from their first reply on, and
 * translates what their sockets send.
 *
 * When a socket sends, this CPU holds it, so that its numbers agree with each other. Only what a
 * connection's own socket has sent says anything of the connection. Linux itself sends for a socket
 * that is closed, or refuses for the firewall; that is translated, and nothing is learned from it.
 */
#ifndef MC_TCP_EGRESS_BPF_H
#define MC_TCP_EGRESS_BPF_H

#include <linux/pkt_cls.h>

#include <bpf/bpf_core_read.h>

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/sender.bpf.h"
#include "bpf/tcp/commit.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/lost.bpf.h"
#include "bpf/tcp/make.bpf.h"
#include "bpf/tcp/put.bpf.h"
#include "bpf/tcp/read.bpf.h"
#include "bpf/tcp/sack.bpf.h"

/* The fields of the kernel's own types that are read here, located by their names in its BTF. */
struct tcp_options_received {
    u32 ts_recent;
    u16 tstamp_ok : 1, snd_wscale : 4, rcv_wscale : 4;
} __attribute__((preserve_access_index));

struct tcp_sock {
    u32 rcv_nxt;
    u32 snd_una;
    u32 mss_cache;
    u64 bytes_received;
    u64 bytes_acked;
    struct tcp_options_received rx_opt;
    _Bool is_mptcp;
    u8 tcp_usec_ts : 1; /* of Linux 6.7: its clock wraps within the hour */
} __attribute__((preserve_access_index));

enum { STATE_ESTABLISHED = 1, STATE_FAST_OPEN = 3 /* BPF_TCP_SYN_RECV */ };

/* How long segments the socket sends at most, as an entry has it. */
static __always_inline u32 mss_of(const struct tcp_sock *socket)
{
    u32 mss = socket->mss_cache;

    return mss < 0xffff ? mss : 0xffff;
}

/*
 * Whether an entry waits under a socket's cookie; then slot and generation of its connection are in
 * `conn`. The entry may be removed while it is read, and its memory become another entry's. It is
 * made only once for a socket, so if it can still be found it was not removed.
 */
static __always_inline int tcp_waits(const struct mc_tcp_flow *cookie, struct mc_tcp_conn *conn)
{
    const struct mc_tcp_conn *entry = conn_find(cookie);

    if (!entry)
        return 0;
    conn->slot = READ_ONCE(entry->slot);
    conn->generation = READ_ONCE(entry->generation);
    read_barrier();
    return conn_find(cookie) != NULL;
}

/*
 * Puts an entry into the table, in the place of the one that waits. Its lock is taken until Linux
 * has copied all of it: its memory may be one for which another CPU waits (conn_remove).
 */
static __always_inline int tcp_begin(struct mc_tcp_conn *conn, const struct mc_tcp_flow *cookie)
{
    u64 key = mc_tcp_key(&conn->flow, tcp_seeds);

    conn->lock = MC_TCP_TAKEN;
    if (bpf_map_update_elem(&tcp_conns, &key, conn, BPF_NOEXIST))
        return 0;
    conn = conn_find(&conn->flow);
    if (conn)
        conn_unlock(conn);
    key = mc_tcp_key(cookie, tcp_seeds);
    bpf_map_delete_elem(&tcp_conns, &key);
    tcp_count(MC_TCP_CONNECTIONS);
    return 1;
}

/* Begins to follow a connection for whose socket an entry waits. */
__attribute__((noinline)) int tcp_follow(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct bpf_sock *sk = sender_of(skb);
    struct mc_tcp_conn conn = {};
    struct mc_tcp_flow cookie = {};
    struct tcp_sock *socket;

    if (!tcp || !sk)
        return 0;
    if (sk->state != STATE_ESTABLISHED)
        return 0;
    cookie.client[0] = sender_cookie(skb);
    if (!tcp_waits(&cookie, &conn))
        return 0;
    socket = bpf_skc_to_tcp_sock(sk);
    if (!socket || !BPF_CORE_READ_BITFIELD(socket, rx_opt.tstamp_ok) ||
        (bpf_core_field_exists(socket->is_mptcp) && socket->is_mptcp) ||
        (bpf_core_field_exists(socket->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(socket, tcp_usec_ts)))
        return 0;
    conn.in_end = socket->rcv_nxt;
    conn.in_base = conn.in_end - (u32)socket->bytes_received;
    conn.told = conn.born = conn.in_end;
    conn.acked = socket->snd_una;
    conn.out_base = conn.acked - (u32)socket->bytes_acked;
    conn.out_end = conn.acked;
    conn.tsval = bpf_htonl(tcp->segment.tsval);
    conn.client_ts = socket->rx_opt.ts_recent;
    conn.wscale = BPF_CORE_READ_BITFIELD(socket, rx_opt.snd_wscale);
    conn.in_wscale = BPF_CORE_READ_BITFIELD(socket, rx_opt.rcv_wscale);
    conn.mss = mss_of(socket);
    conn.flow = tcp->segment.flow;
    conn.cookie = cookie.client[0];
    return tcp_begin(&conn, &cookie);
}

/*
 * The socket sends again, in one segment, what lies on both sides of the outstanding reply: it was
 * not told that the client has the part before it. No segment can say that. A probe in its place,
 * one below what the client has, makes the client say how far it is (RULE_PROBE).
 */
__attribute__((noinline)) int tcp_probe(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    if (!tcp || !scratch || !tcp->segment.stamped || tcp->segment.nheader != L4_TEXT)
        return TC_ACT_SHOT;
    if (!skb_save_headers(skb, scratch, L4_TEXT))
        return TC_ACT_SHOT;
    return skb_make_bare(skb, scratch, tcp->shift.reply - 1,
                         shift_ack_out(&tcp->shift, tcp->segment.ack), 0, 0)
               ? TC_ACT_SHOT
               : TC_NEXT;
}

/*
 * Under the lock. Whether the socket asks what its client has (a keepalive probe: socket_probe in
 * net/socket.c) while a reply is outstanding. Then the reply leaves in the place of the question
 * (RULE_RESEND_TIMER): a
 * client that misses it needs this segment alone, and not also a question and its own answer. It
 * echoes no timestamp (0): that of the client's last segment is seconds old, the client would take
 * that for the time to the server and back, and wait so much longer after its next loss.
 */
static __always_inline int conn_says_again(const struct mc_tcp_conn *conn,
                                           const struct tcp_segment *segment)
{
    return conn->shift.nreply && segment->is_plain && !segment->n &&
           segment->seq == conn->out_end - 1;
}

/* Sends a kept reply once more, whole or its first piece, in the place of the socket's segment. */
__attribute__((noinline)) int tcp_say_again(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    if (!tcp || !scratch)
        return TC_ACT_SHOT;
    tcp->segment.ack = tcp->shift.reply;
    if (!kept_get(tcp) || !skb_save_headers(skb, scratch, TCP_BYTES))
        return TC_ACT_SHOT;
    saved_turn(scratch);
    if (tcp_tc_make(skb, scratch))
        return TC_ACT_SHOT;
    tcp_count(MC_TCP_RESENT);
    return TC_NEXT;
}

/*
 * Whether to ask the socket for its segment size with its next data: the path may have changed it.
 * Asking costs as much as all that is read of the segment, so this asks when a timestamp is of
 * another quarter of a second than the one before. The path drops a reply of the kernel's that is
 * too long meanwhile, and the client gets it again in pieces.
 */
static __always_inline int mss_is_old(const struct mc_tcp_conn *conn,
                                      const struct tcp_segment *segment)
{
    u32 change = (bpf_ntohl(conn->tsval) ^ segment->tsval) & (MC_TCP_AHEAD - 1);

    return (segment->stamped && change >> 8) || conn->flags & MC_TCP_MSS_OLD;
}

/* Under the lock. mss: 0: the socket was not asked. */
static __always_inline void conn_set_mss(struct mc_tcp_conn *conn, u32 mss, int is_old)
{
    if (mss) {
        conn->mss = mss;
        conn->flags &= ~MC_TCP_MSS_OLD;
    } else if (is_old) {
        conn->flags |= MC_TCP_MSS_OLD;
    }
}

/* How long segments the socket sends at most; 0: unknown. */
static __always_inline u32 socket_mss(struct __sk_buff *skb)
{
    struct bpf_sock *sk = skb->sk;
    struct tcp_sock *socket = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

    return socket ? mss_of(socket) : 0;
}

/*
 * Under the lock. What a segment that the socket sends says of it, and where it leaves.
 *
 * What passed before the connection had an entry was not seen, and may lie in the socket's backlog:
 * a copy of it that comes later must not be answered. When the server replies to something that the
 * socket had not yet received when the entry was made, the socket has received all that was in the
 * backlog then, and has acknowledged it: from then on in_end is the end of all that was passed.
 */
static __always_inline void conn_leaving(struct mc_tcp_conn *conn,
                                         const struct tcp_segment *segment, u32 ifindex, u32 vlan,
                                         u64 mac)
{
    u32 n = segment->n + (segment->flags & TCP_FIN), end = segment->seq + n;
    u32 ack = segment->flags & TCP_ACK ? segment->ack : conn->born; /* that says nothing */
    u32 tsval = conn_stamp_out(conn, segment->tsval);

    if (seq_before(conn->told, ack))
        conn->told = ack;
    /* The client's clock, by a segment in which the socket has found nothing wrong (RFC 7323). */
    if (segment->stamped && segment->flags & TCP_ACK && seq_before(conn->client_ts, segment->tsecr))
        conn->client_ts = segment->tsecr;
    if (seq_before(conn->in_end, conn->told)) /* RULE_KMAX_ACK */
        conn->in_end = conn->told;
    if (n && seq_before(conn->out_end, end) && seq_before(conn->born, ack))
        conn->flags |= MC_TCP_FOLLOWED; /* RULE_FOLLOWED_SENT */
    if (seq_before(conn->out_end, end))
        conn->out_end = end;
    if (segment->flags & (TCP_FIN | TCP_RST))
        conn->flags |= MC_TCP_CLOSING;
    /* Another CPU's segment may overtake: a client refuses time stamps that go back. */
    if (segment->stamped && !seq_before(tsval, bpf_ntohl(conn->tsval))) {
        conn->tsval = bpf_htonl(tsval);
        conn->window = bpf_htons(segment->window);
    }
    conn->ifindex = ifindex;
    conn->vlan = vlan;
    conn->mac = mac;
}

/* The entry of a segment's connection, which may begin with it; NULL: it is not followed. */
static __always_inline struct mc_tcp_conn *tcp_find(struct __sk_buff *skb,
                                                    const struct tcp_segment *segment)
{
    struct mc_tcp_conn *conn = conn_find(&segment->flow);

    if (conn || !segment->n || !segment->stamped || segment->flags & (TCP_FIN | TCP_RST) ||
        !tcp_follow(skb))
        return conn;
    return conn_find(&segment->flow);
}

/* Under the lock. Whether a segment was translated before, on an interface above this one. */
static __always_inline int conn_has_translated(const struct mc_tcp_conn *conn,
                                               const struct tcp_segment *segment)
{
    return shift_is_used(&conn->shift) && segment->stamped &&
           stamp_is_wire(segment->tsval, bpf_ntohl(conn->tsval));
}

/* Whether the connection's own socket has sent a segment. */
static __always_inline int conn_is_of(const struct mc_tcp_conn *conn, u64 cookie)
{
    return likely(conn->cookie == cookie) || !conn->cookie;
}

/*
 * A SYN leaves: if Linux answers a client's with it, what was known of the connection before is
 * void. Then its socket is that of a request or, with TCP Fast Open, of the new connection; with
 * SYN cookies there is none.
 */
static __always_inline void tcp_accepts(struct __sk_buff *skb, const struct mc_tcp_flow *flow)
{
    const struct mc_tcp_conn *conn = conn_find(flow);
    const struct bpf_sock *sk = sender_of(skb);

    if (conn &&
        (!sk || sk->state == STATE_SYN_RECEIVED || sk->state == STATE_FAST_OPEN || !conn->cookie))
        conn_forget(flow);
}

/* Translates a segment of the socket's, as tcp->shift says. */
static __always_inline int tcp_translate(struct __sk_buff *skb, struct segment_scratch *tcp, u32 l4)
{
    const struct tcp_segment *segment = &tcp->segment;
    int straddles = 0;
    u32 n = segment->n + (segment->flags & TCP_FIN);
    u32 seq = shift_seq_out(&tcp->shift, segment->seq, n, &straddles);
    u32 ack = shift_ack_out(&tcp->shift, segment->ack);

    if (straddles) {
        tcp_count(MC_TCP_DROPPED);
        return tcp_probe(skb);
    }
    if (skb_put_out(skb, l4, seq, ack, tcp) ||
        (segment_has_blocks(segment) && skb_put_blocks(skb, l4, 0))) {
        tcp_count(MC_TCP_DROPPED);
        return TC_ACT_SHOT;
    }
    return TC_NEXT;
}

SEC("tc")
int tcp_egress(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();
    int says_again = 0, own, done, old;
    struct tcp_segment *segment;
    struct mc_tcp_shift shift;
    struct mc_tcp_conn *conn;
    struct mc_tcp_tag tag;
    u64 mac, sender;
    u32 l4, mss;

    if (!tcp || !scratch || skb->mark == tcp_mark || skb->ingress_ifindex)
        return TC_NEXT;
    segment = &tcp->segment;
    l4 = skb_read_pulled(skb, segment, 0);
    if (!l4)
        return TC_NEXT;
    if (segment->flags & TCP_SYN) {
        tcp_accepts(skb, &segment->flow);
        return TC_NEXT;
    }
    conn = tcp_find(skb, segment);
    if (!conn)
        return TC_NEXT;
    mac = skb_mac_to(skb);
    sender = sender_cookie(skb);
    old = mss_is_old(conn, segment);
    mss = old && segment->n ? socket_mss(skb) : 0;
    if (unlikely(!conn_lock(conn, &segment->flow))) {
        tcp_count(MC_TCP_DROPPED);
        return TC_ACT_SHOT;
    }
    done = conn_has_translated(conn, segment);
    own = conn_is_of(conn, sender);
    if (unlikely(!own)) {
        if (segment->flags & (TCP_FIN | TCP_RST))
            conn->flags |= MC_TCP_CLOSING;
    } else if (!done) {
        conn_leaving(conn, segment, skb->ifindex, skb_vlan(skb), mac);
        conn_set_mss(conn, mss, old);
        says_again = conn_says_again(conn, segment);
        if (unlikely(says_again))
            conn_resend(conn, tcp, &scratch->saved.tcp, 0);
    }
    shift = conn->shift;
    tag = (struct mc_tcp_tag){conn->slot, conn->generation};
    conn_unlock(conn);
    if (done || !shift_is_used(&shift))
        return TC_NEXT;
    if (likely(own))
        slot_left(&tag);
    if (unlikely(says_again))
        return tcp_say_again(skb);
    tcp->shift = shift;
    return tcp_translate(skb, tcp, l4);
}

#endif
