/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * mc_tcp_egress: the program on TC egress: follows connections, from some reply on, and translates
 * what their sockets send.
 *
 * When a socket sends, this CPU holds it, so that its numbers agree with each other. Only what a
 * connection's own socket has sent says anything of the connection. Linux itself sends for a socket
 * that is closed, or refuses for the firewall; that is translated, as is what a container sends in
 * the server's name, and nothing is learned from it. Before an entry is taken for void Linux is
 * asked (owner.bpf.h).
 */
#ifndef MC_TCP_EGRESS_BPF_H
#define MC_TCP_EGRESS_BPF_H

#include <linux/pkt_cls.h>

#include <bpf/bpf_core_read.h>

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/sender.bpf.h"
#include "bpf/tcp/commit.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/guard.bpf.h"
#include "bpf/tcp/lost.bpf.h"
#include "bpf/tcp/make.bpf.h"
#include "bpf/tcp/owner.bpf.h"
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

/* How long segments the socket sends at most, as an entry has it. */
static __always_inline u32 mss_of(const struct tcp_sock *socket)
{
    u32 mss = socket->mss_cache;

    return mss < 0xffff ? mss : 0xffff;
}

/*
 * Whether an entry waits under a socket's cookie; then slot, generation and mark of its connection
 * are in `conn`. The entry may be removed while it is read, and its memory become another entry's.
 * It is made only once for a socket, so if it can still be found it was not removed.
 */
static __always_inline int tcp_waits(const struct mc_tcp_flow *cookie, struct mc_tcp_conn *conn)
{
    const struct mc_tcp_conn *entry = conn_find(cookie);

    if (!entry)
        return 0;
    conn->slot = READ_ONCE(entry->slot);
    conn->generation = READ_ONCE(entry->generation);
    conn->flags = READ_ONCE(entry->flags);
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
    sieve_add(flow_sieve_at(&conn->flow), 1);
    if (bpf_map_update_elem(&mc_tcp_conns, &key, conn, BPF_NOEXIST)) {
        sieve_add(flow_sieve_at(&conn->flow), -1);
        return 0;
    }
    conn = conn_find(&conn->flow);
    if (conn)
        conn_unlock(conn);
    key = mc_tcp_key(cookie, tcp_seeds);
    if (!bpf_map_delete_elem(&mc_tcp_conns, &key))
        __sync_fetch_and_add(&control.tcp_waiting, -1);
    tcp_count(MC_TCP_CONNECTIONS);
    return 1;
}

/*
 * Whether a segment has its socket's addresses and ports, and not others that netfilter has put in
 * their place on the way. By the socket's the server finds the entry, and another socket with these
 * takes no segment of the wire: such a connection could never be undone.
 */
static __always_inline int segment_is_of(const struct __sk_buff *skb, const struct bpf_sock *sk,
                                         const struct mc_tcp_flow *flow)
{
    struct mc_tcp_flow own = {.client_port = sk->dst_port, .server_port = bpf_htons(sk->src_port)};

    if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
        own.client[0] = sk->dst_ip6[0] | (u64)sk->dst_ip6[1] << 32;
        own.client[1] = sk->dst_ip6[2] | (u64)sk->dst_ip6[3] << 32;
        own.server[0] = sk->src_ip6[0] | (u64)sk->src_ip6[1] << 32;
        own.server[1] = sk->src_ip6[2] | (u64)sk->src_ip6[3] << 32;
        barrier(); /* or the compiler reads both families by one pointer, which is not allowed */
    } else {
        own.client[1] = (u64)sk->dst_ip4 << 32 | FLOW_IP4;
        own.server[1] = (u64)sk->src_ip4 << 32 | FLOW_IP4;
    }
    return mc_tcp_is_flow(&own, flow);
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
    if (sk->state != BPF_TCP_ESTABLISHED || !segment_is_of(skb, sk, &tcp->segment.flow))
        return 0;
    cookie.client[0] = sender_cookie(skb);
    if (!tcp_waits(&cookie, &conn))
        return 0;
    socket = bpf_skc_to_tcp_sock(sk);
    if (!socket || (bpf_core_field_exists(socket->is_mptcp) && socket->is_mptcp) ||
        (bpf_core_field_exists(socket->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(socket, tcp_usec_ts)))
        return 0;
    if (!BPF_CORE_READ_BITFIELD(socket, rx_opt.tstamp_ok)) {
        if (!READ_ONCE(takes_unstamped))
            return 0;
        conn.flags |= MC_TCP_UNSTAMPED;
    }
    conn.rcv_nxt = socket->rcv_nxt;
    conn.irs = conn.rcv_nxt - (u32)socket->bytes_received;
    conn.last_ack_sent = conn.born = conn.rcv_nxt;
    conn.snd_una = socket->snd_una;
    conn.iss = conn.snd_una - (u32)socket->bytes_acked;
    conn.snd_nxt = conn.snd_una;
    conn.tsval = bpf_htonl(tcp->segment.tsval);
    conn.client_ts = conn.flags & MC_TCP_UNSTAMPED ? 0 : socket->rx_opt.ts_recent;
    conn.snd_wscale = BPF_CORE_READ_BITFIELD(socket, rx_opt.snd_wscale);
    conn.rcv_wscale = BPF_CORE_READ_BITFIELD(socket, rx_opt.rcv_wscale);
    conn.mss = mss_of(socket);
    conn.flow = tcp->segment.flow;
    conn.cookie = cookie.client[0];
    return guard_begin(sk, &conn) && tcp_begin(&conn, &cookie);
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

    if (!tcp || !scratch || !(tcp->segment.flags & TCP_ACK)) /* no socket sends such data */
        return TC_ACT_SHOT;
    if (tcp->unstamped ? !tcp->segment.is_unstamped || !skb_save_headers(skb, scratch, TCP_BYTES)
                       : !tcp->segment.has_timestamps || tcp->segment.nheader != L4_TEXT ||
                             !skb_save_headers(skb, scratch, L4_TEXT))
        return TC_ACT_SHOT;
    return skb_make_bare(skb, scratch, tcp, tcp->delta.reply - 1,
                         delta_ack_tx(&tcp->delta, tcp->segment.ack), 0)
               ? TC_ACT_SHOT
               : TC_ACT_UNSPEC;
}

/*
 * Under the lock. Whether the socket asks what its client has (a keepalive probe: socket_probe in
 * net/socket.c) while a reply is outstanding. Then the reply leaves in the place of the question
 * (RULE_RESEND_TIMER): a
 * client that misses it needs this segment alone, and not also a question and its own answer. It
 * echoes no timestamp (0): that of the client's last segment is seconds old, the client would take
 * that for the time to the server and back, and wait so much longer after its next loss.
 */
static __always_inline int conn_is_keepalive(const struct mc_tcp_conn *conn,
                                             const struct tcp_segment *segment)
{
    return conn->delta.nreply && conn_is_plain(conn, segment) && !segment->n &&
           segment->seq == conn->snd_nxt - 1;
}

/* Retransmits the reply, whole or its first piece, in the place of the socket's segment. */
__attribute__((noinline)) int tcp_tx_retransmit(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    if (!tcp || !scratch)
        return TC_ACT_SHOT;
    tcp->segment.ack = tcp->delta.reply;
    if (!rtx_get(tcp) || !skb_save_headers(skb, scratch, TCP_BYTES))
        return TC_ACT_SHOT;
    saved_turn(scratch);
    if (tcp_tc_make(skb, scratch))
        return TC_ACT_SHOT;
    tcp_count(MC_TCP_RESENT);
    return TC_ACT_UNSPEC;
}

/*
 * Whether to ask the socket for its segment size with its next data: the path may have changed it.
 * Asking costs as much as all that is read of the segment, so this asks when a timestamp is of
 * another quarter of a second than the one before, or if there are none. The path drops a reply of
 * the kernel's that is too long meanwhile, and the client gets it again in pieces.
 */
static __always_inline int mss_is_old(const struct mc_tcp_conn *conn,
                                      const struct tcp_segment *segment)
{
    u32 change = (bpf_ntohl(conn->tsval) ^ segment->tsval) & (MC_TCP_AHEAD - 1);

    return (segment->has_timestamps && change >> 8) ||
           conn->flags & (MC_TCP_MSS_OLD | MC_TCP_UNSTAMPED);
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
 * Under the lock. What a segment that the socket sends says of it.
 *
 * What passed before the connection had an entry was not seen, and may lie in the socket's backlog:
 * a copy of it that comes later must not be answered. When the server replies to something that the
 * socket had not yet received when the entry was made, the socket has received all that was in the
 * backlog then, and has acknowledged it: from then on rcv_nxt is the end of all that was passed.
 *
 * seen: by the guard; asked only where the connection is not followed yet.
 */
static __always_inline void conn_egress(struct mc_tcp_conn *conn, const struct tcp_segment *segment,
                                        int seen)
{
    u32 n = segment->n + (segment->flags & TCP_FIN), end = segment->seq + n;
    u32 ack = segment->flags & TCP_ACK ? segment->ack : conn->born; /* that says nothing */
    u32 tsval = conn_timestamp_tx(conn, segment->tsval);

    /* Without timestamps Linux also takes the window that came with the highest number. */
    if (conn_is_unstamped(conn) && !seq_before(ack, conn->last_ack_sent))
        conn->window = bpf_htons(segment->window);
    if (seq_before(conn->last_ack_sent, ack))
        conn->last_ack_sent = ack;
    /* The client's clock, by a segment in which the socket has found nothing wrong (RFC 7323). */
    if (segment->has_timestamps && segment->flags & TCP_ACK &&
        seq_before(conn->client_ts, segment->tsecr))
        conn->client_ts = segment->tsecr;
    if (seq_before(conn->rcv_nxt, conn->last_ack_sent)) /* RULE_KMAX_ACK */
        conn->rcv_nxt = conn->last_ack_sent;
    if (seen && n && seq_before(conn->snd_nxt, end) && seq_before(conn->born, ack))
        conn->flags |= MC_TCP_FOLLOWED; /* RULE_FOLLOWED_SENT */
    if (seq_before(conn->snd_nxt, end))
        conn->snd_nxt = end;
    if (segment->flags & (TCP_FIN | TCP_RST))
        conn->flags |= MC_TCP_CLOSING;
    /* Another CPU's segment may overtake: a client refuses time stamps that go back. */
    if (segment->has_timestamps && !seq_before(tsval, bpf_ntohl(conn->tsval))) {
        conn->tsval = bpf_htonl(tsval);
        conn->window = bpf_htons(segment->window);
    }
}

/*
 * Under the lock. Where the socket's segments leave: by the last of the interfaces with the
 * programs that they pass, which is the first that has the client's, and answers.
 */
static __always_inline void conn_take_path(struct mc_tcp_conn *conn, u32 ifindex, u32 vlan, u64 mac)
{
    conn->ifindex = ifindex;
    conn->vlan = vlan;
    conn->mac = mac;
}

/* The entry of a segment's connection, which may begin with it; NULL: it is not followed. */
static __always_inline struct mc_tcp_conn *tcp_find(struct __sk_buff *skb,
                                                    const struct tcp_segment *segment)
{
    struct mc_tcp_conn *conn = conn_find(&segment->flow);

    if (conn || !READ_ONCE(control.tcp_waiting) || !segment->n ||
        !(segment->has_timestamps | segment->is_unstamped) ||
        segment->flags & (TCP_FIN | TCP_RST) || !tcp_follow(skb))
        return conn;
    return conn_find(&segment->flow);
}

/* Under the lock. Whether a segment was translated before, on an interface above this one. */
static __always_inline int conn_has_translated(const struct mc_tcp_conn *conn,
                                               const struct tcp_segment *segment,
                                               const struct __sk_buff *skb)
{
    if (!delta_is_used(&conn->delta))
        return 0;
    if (unlikely(conn_is_unstamped(conn)))
        return skb->tc_index == conn_mark(conn);
    return segment->has_timestamps && timestamp_is_wire(segment->tsval, bpf_ntohl(conn->tsval));
}

/* Whether the connection's own socket has sent a segment. */
static __always_inline int conn_is_of(const struct mc_tcp_conn *conn, u64 cookie)
{
    return likely(conn->cookie == cookie) || !conn->cookie;
}

/* A segment that is not translated. A function: the verifier goes through it once. */
__attribute__((noinline)) int tcp_tx_foreign(struct __sk_buff *skb)
{
    if (likely(!sender_is_aside(skb)))
        return TC_ACT_UNSPEC;
    tcp_count(MC_TCP_DROPPED);
    return TC_ACT_SHOT;
}

/*
 * Whether what another socket than that with this cookie has sent is not translated: a former
 * one's, or that of a new connection, which makes the entry void.
 */
static __always_inline int sender_is_other(struct __sk_buff *skb, const struct mc_tcp_flow *flow,
                                           u64 cookie)
{
    if (sender_is_aside(skb))
        return 1;
    if (flow_owner(skb, cookie) != OWNER_OTHER)
        return 0;
    conn_forget(flow, cookie);
    return 1;
}

/*
 * A SYN leaves: if Linux answers a client's with it, what was known of the connection before is
 * void. Then the flow is that of a request or, with TCP Fast Open, of the new connection's socket;
 * with SYN cookies it has none.
 */
static __always_inline void tcp_accepts(struct __sk_buff *skb, const struct mc_tcp_flow *flow)
{
    const struct mc_tcp_conn *conn = conn_find(flow);
    u64 cookie = conn ? conn->cookie : 0;

    if (conn && flow_owner(skb, cookie) != OWNER_SAME)
        conn_forget(flow, cookie);
}

/* What becomes of a segment of a connection's. */
enum tx {
    TX_TRANSLATE,
    TX_RESEND,  /* the outstanding reply leaves in its place (conn_is_keepalive) */
    TX_LEAVE,   /* it leaves as it is */
    TX_FOREIGN, /* so it does, unless its socket was replaced (tcp_tx_foreign) */
    TX_DROP,
};

/*
 * The lock of the entry is not to be had. Of a frozen one nothing leaves that its own socket sends,
 * nor a RST, as Linux sends while there is no socket; the numbers of its next one are those of the
 * wire (RULE_FROZEN_OUT).
 */
static __always_inline enum tx conn_tx_unlocked(const struct mc_tcp_conn *conn, u64 sender,
                                                u32 flags)
{
    if (conn_is_frozen(conn) && !conn_is_of(conn, sender) && !(flags & TCP_RST))
        return TX_FOREIGN;
    return TX_DROP;
}

/*
 * Under the lock. Notes what a segment says that the connection's own socket sends; whether the
 * outstanding reply leaves in its place.
 */
static __always_inline int conn_note(struct mc_tcp_conn *conn, struct segment_scratch *tcp,
                                     const struct tcp_segment *segment, int seen,
                                     struct tcp_words *words)
{
    conn_egress(conn, segment, seen);
    if (likely(!conn_is_keepalive(conn, segment)))
        return 0;
    conn_resend(conn, tcp, words, 0);
    return 1;
}

/*
 * A segment of the form that most have (segment_read_usual). What that says of it is constant in
 * the copy, so the compiler leaves out what other forms need.
 */
static __always_inline struct tcp_segment segment_usual(const struct tcp_segment *segment)
{
    struct tcp_segment usual = *segment;

    usual.flags = TCP_ACK | TCP_PSH;
    usual.has_timestamps = usual.no_options = 1;
    return usual;
}

/*
 * Notes in the entry what a segment says, and in tcp->delta how it is translated. A function, as is
 * what reads the segment: the verifier goes through it once, and not for each way to it.
 */
__attribute__((noinline)) int tcp_tx_note(struct __sk_buff *skb, struct mc_tcp_conn *conn,
                                          struct segment_scratch *tcp, struct scratch *scratch)
{
    int is_keepalive = 0, own, done, old, seen;
    struct tcp_segment usual;
    struct mc_tcp_tag tag;
    u64 mac, sender, cookie;
    u32 mss;

    if (!conn || !tcp || !scratch)
        return TX_DROP;
    tcp->unstamped = conn_is_unstamped(conn);
    tcp->mark = conn_mark(conn);
    mac = skb_mac_to(skb);
    sender = sender_cookie(skb);
    old = mss_is_old(conn, &tcp->segment);
    mss = old && tcp->segment.n ? socket_mss(skb) : 0;
    seen = likely(READ_ONCE(conn->flags) & MC_TCP_FOLLOWED) || guard_sees(skb->sk);
    if (unlikely(!conn_lock(conn, &tcp->segment.flow)))
        return conn_tx_unlocked(conn, sender, tcp->segment.flags);
    done = conn_has_translated(conn, &tcp->segment, skb);
    own = conn_is_of(conn, sender);
    if (own && !done) {
        if (likely(tcp->segment.no_options && seen && !old)) {
            usual = segment_usual(&tcp->segment);
            is_keepalive = conn_note(conn, tcp, &usual, 1, &scratch->saved.tcp);
        } else {
            is_keepalive = conn_note(conn, tcp, &tcp->segment, seen, &scratch->saved.tcp);
            conn_set_mss(conn, mss, old);
        }
    }
    if (own)
        conn_take_path(conn, skb->ifindex, skb_vlan(skb), mac);
    tcp->delta = conn->delta;
    tag = (struct mc_tcp_tag){conn->slot, conn->generation};
    cookie = conn->cookie;
    conn_unlock(conn);
    if (unlikely(!own) && sender_is_other(skb, &tcp->segment.flow, cookie))
        return TX_FOREIGN;
    if (done || !delta_is_used(&tcp->delta))
        return TX_LEAVE;
    if (likely(own))
        slot_egress(&tag);
    if (unlikely(tcp->unstamped))
        skb->tc_index = tcp->mark; /* of others the timestamp says that they are translated */
    if (unlikely(is_keepalive))
        return TX_RESEND;
    return TX_TRANSLATE;
}

/* Translates a segment of the socket's, as tcp->shift says. */
static __always_inline int tcp_translate(struct __sk_buff *skb, struct segment_scratch *tcp, u32 l4)
{
    const struct tcp_segment *segment = &tcp->segment;
    int straddles = 0;
    u32 n = segment->n + (segment->flags & TCP_FIN);
    u32 seq = delta_seq_tx(&tcp->delta, segment->seq, n, &straddles);
    u32 ack = delta_ack_tx(&tcp->delta, segment->ack);

    if (straddles) {
        tcp_count(MC_TCP_DROPPED);
        return tcp_probe(skb);
    }
    if (skb_put_tx(skb, l4, seq, ack, tcp) ||
        (segment_has_blocks(segment) && skb_put_blocks(skb, l4, 0))) {
        tcp_count(MC_TCP_DROPPED);
        return TC_ACT_SHOT;
    }
    return TC_ACT_UNSPEC;
}

__attribute__((noinline)) int tcp_tx_read(struct __sk_buff *skb, struct tcp_segment *segment)
{
    return segment ? skb_read_pulled(skb, segment, 0) : 0;
}

SEC("tc")
int mc_tcp_egress(struct __sk_buff *skb)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();
    struct mc_tcp_conn *conn;
    u32 l4;

    if (!tcp || !scratch || skb->mark == tcp_mark || skb->ingress_ifindex)
        return TC_ACT_UNSPEC;
    l4 = skb_read_plain(skb, &tcp->segment, 0);
    if (unlikely(!l4))
        l4 = tcp_tx_read(skb, &tcp->segment);
    if (!l4)
        return TC_ACT_UNSPEC;
    if (tcp->segment.flags & TCP_SYN) {
        tcp_accepts(skb, &tcp->segment.flow);
        return TC_ACT_UNSPEC;
    }
    conn = tcp_find(skb, &tcp->segment);
    if (!conn)
        return tcp_tx_foreign(skb);
    switch (tcp_tx_note(skb, conn, tcp, scratch)) {
    case TX_TRANSLATE:
        return tcp_translate(skb, tcp, l4);
    case TX_RESEND:
        return tcp_tx_retransmit(skb);
    case TX_LEAVE:
        return TC_ACT_UNSPEC;
    case TX_FOREIGN:
        return tcp_tx_foreign(skb);
    }
    tcp_count(MC_TCP_DROPPED);
    return TC_ACT_SHOT;
}

#endif
