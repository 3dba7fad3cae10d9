/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_commit: whether a connection's state lets a request be answered, and how the state changes
 * with an answer, and with what is not answered.
 *
 * A request is answered only if it is the next thing for the server to do: it begins where all that
 * the socket was given ends, and the server has consumed all of that; it acknowledges all that the
 * socket has sent, and that is all that the server has written. `consumed` alone is not enough: a
 * request that was passed and lies unread in the socket would be answered twice.
 *
 * While replies of the kernel's are outstanding that holds of a request which begins where theirs
 * end: they are one run, of which the connection's state knows no more than of one request and its
 * reply.
 *
 * The server publishes both of its numbers at once (RULE_PUBLISH_WHOLE), before it sends the
 * replies (RULE_PUBLISH_FIRST). RULE_... are the rules of t/model/splice.h, which t/bpf/tcp_* hold
 * these programs against.
 *
 * Order: these conditions are looked at before the lookup, so that it finds what the client's
 * earlier commands have written; then the lookup, the reply's text is kept, the frame grows; then
 * under the lock the conditions are looked at again, with the same boundary, and the connection's
 * state changes at once. Until then the packet is as it came and can be passed. Behind that the
 * reply may be lost: the client will ask for it again.
 */
#ifndef MC_TCP_COMMIT_BPF_H
#define MC_TCP_COMMIT_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/put.bpf.h"
#include "bpf/tcp/rtx.bpf.h"
#include "bpf/tcp/sack.bpf.h"

/* --- a request -------------------------------------------------------------------------------- */

/* Whether a segment comes while replies are outstanding: a request is then one more of the run. */
static __always_inline int conn_runs(const struct mc_tcp_conn *conn,
                                     const struct tcp_segment *segment)
{
    return conn->delta.nreply && seq_before(segment->ack, delta_reply_end(&conn->delta));
}

/* Where the reply to a request begins (wire): behind those that are outstanding (RULE_RUN_END). */
static __always_inline u32 conn_reply_start(const struct mc_tcp_conn *conn,
                                            const struct tcp_segment *segment)
{
    return conn_runs(conn, segment) ? delta_reply_end(&conn->delta) : segment->ack;
}

/* Whether a request, whose reply begins at tcp->start, acknowledges what is news to its socket. */
static __always_inline int conn_acks_new(const struct mc_tcp_conn *conn,
                                         const struct segment_scratch *tcp)
{
    return conn->snd_una != tcp->start - conn->delta.tx;
}

/*
 * Whether a request, whose reply begins at tcp->start, is the next thing for the server to do, by
 * this boundary: 0, or the reason to pass. Without the lock it tells what probably is so.
 */
static __always_inline enum verdict conn_refuses(const struct mc_tcp_conn *conn,
                                                 const struct mc_tcp_slot *slot,
                                                 const struct segment_scratch *tcp, u64 boundary)
{
    const struct tcp_segment *segment = &tcp->segment;
    u32 seq = segment->seq - conn->delta.rx, ack = tcp->start - conn->delta.tx;
    u32 flags = conn->flags & (MC_TCP_FOLLOWED | MC_TCP_CLOSING | MC_TCP_UNSTAMPED);

    if (unlikely(tcp->start != segment->ack) && (segment->seq != delta_request_end(&conn->delta) ||
                                                 seq_before(segment->ack, conn->delta.reply)))
        return PASS_TCP_UNACKED; /* RULE_RUN */
    /* RULE_FOLLOWED, RULE_CLOSING */
    if ((flags != MC_TCP_FOLLOWED &&
         (flags != (MC_TCP_FOLLOWED | MC_TCP_UNSTAMPED) || !READ_ONCE(takes_unstamped))) ||
        boundary == MC_TCP_NONE || READ_ONCE(slot->generation) != conn->generation)
        return PASS_TCP_BOUNDARY;
    if (seq != conn->rcv_nxt ||                   /* RULE_KMAX */
        seq != conn->irs + (u32)boundary ||       /* RULE_CONSUMED */
        ack != conn->snd_nxt ||                   /* RULE_KSND */
        ack != conn->iss + (u32)(boundary >> 32)) /* RULE_SENT */
        return PASS_TCP_BOUNDARY;
    return seq_before(segment->tsval, conn->client_ts) ? PASS_TCP_SEGMENT : VERDICT_OK;
}

/* A retransmit buffer whose replies are acknowledged, or copied to another; freed unlocked. */
struct rtx_place {
    u64 owner;
    u32 rtx;
};

static __always_inline void conn_leave_place(const struct mc_tcp_conn *conn,
                                             struct rtx_place *place)
{
    place->rtx = conn->rtx;
    place->owner = conn_owner(conn);
}

/*
 * Under the lock. What a client has acknowledged of the outstanding replies is none of them any
 * more, and the socket's numbers go on as before: the client has all that was sent before it
 * (RULE_RUN_FREE). Of their requests those before the mark are forgotten with their replies
 * (RULE_RUN_MARK).
 */
static __always_inline void delta_acknowledge(struct mc_tcp_delta *delta,
                                              const struct mc_tcp_conn *conn, u32 ack)
{
    if (seq_before(delta->reply, conn->mark_reply) && !seq_before(ack, conn->mark_reply)) {
        delta->nrequest -= conn->mark_request - delta->request;
        delta->request = conn->mark_request;
    }
    delta->nreply -= ack - delta->reply;
    delta->reply = ack;
}

/*
 * Under the lock. Whether a client's segment acknowledges more of the outstanding replies than any
 * before it.
 */
static __always_inline int conn_acknowledge(struct mc_tcp_conn *conn, struct mc_tcp_slot *slot,
                                            const struct tcp_segment *segment,
                                            struct rtx_place *place)
{
    place->rtx = RTX_NONE;
    place->owner = 0; /* may be read, if not used */
    if (!conn->delta.nreply || !seq_before(conn->delta.reply, segment->ack))
        return 0;
    if (unlikely(conn_runs(conn, segment))) {
        delta_acknowledge(&conn->delta, conn, segment->ack);
        if (conn->retransmits < MC_TCP_RETRANSMITS) /* else the path may still be too narrow */
            conn->retransmits = 0;
        return 1;
    }
    conn_leave_place(conn, place);
    conn->delta.reply = delta_reply_end(&conn->delta);
    conn->delta.nreply = 0;
    if (READ_ONCE(slot->generation) == conn->generation) /* else it is another connection's */
        WRITE_ONCE(slot->outstanding, 0);
    return 1;
}

static __always_inline void rtx_free_place(const struct rtx_place *place)
{
    if (place->rtx != RTX_NONE)
        rtx_free(place->rtx, place->owner);
}

/* Under the lock. What TCP's header has of what is sent in the place of the socket. */
static __always_inline void conn_words(const struct mc_tcp_conn *conn, struct tcp_words *words,
                                       u32 seq, u32 ack, u32 tsecr)
{
    words->seq = bpf_htonl(seq);
    words->ack = bpf_htonl(ack);
    words->tsval = conn->tsval;
    words->tsecr = bpf_htonl(tsecr);
    words->window = conn->window;
}

/* Under the lock. One more request and its reply are outstanding. */
static __always_inline void conn_add(struct mc_tcp_conn *conn, const struct segment_scratch *tcp,
                                     u32 nreply, struct rtx_place *place)
{
    struct mc_tcp_delta *delta = &conn->delta;
    const struct tcp_segment *segment = &tcp->segment;

    if (likely(!delta->nreply)) {
        delta->request = conn->mark_request = segment->seq;
        delta->reply = conn->mark_reply = tcp->start;
        delta->nrequest = 0;
        conn->again = tcp->start - 1;
        conn->retransmits = 0;
    } else {
        conn_leave_place(conn, place);
        if (!seq_before(delta->reply, conn->mark_reply)) {
            conn->mark_request = segment->seq;
            conn->mark_reply = tcp->start;
        }
    }
    conn->last = tcp->start;
    conn->rtx = tcp->rtx;
    delta->nrequest += segment->n;
    delta->nreply += nreply;
    delta->rx += segment->n;
    delta->tx += nreply;
}

/*
 * Under the lock. Changes the connection's state as the answer of nreply bytes demands, and says
 * what TCP's header of the reply has: 0, or the reason to pass. pays: TC, which also tells the
 * socket what the segment acknowledges, if that is news to it; XDP can either answer a segment or
 * pass it. *place: to be freed without the lock.
 */
static __always_inline enum verdict conn_commit(struct mc_tcp_conn *conn, struct mc_tcp_slot *slot,
                                                struct segment_scratch *tcp,
                                                struct tcp_words *words, u32 nreply,
                                                struct rtx_place *place, const int pays)
{
    const struct tcp_segment *segment = &tcp->segment;
    u64 boundary = READ_ONCE(slot->boundary);
    u32 ack = tcp->start - conn->delta.tx;
    enum verdict rc;

    read_barrier();
    if (boundary != tcp->boundary || tcp->start != conn_reply_start(conn, segment))
        return PASS_TCP_BOUNDARY;
    rc = conn_refuses(conn, slot, tcp, boundary); /* RULE_AGAIN */
    if (rc)
        return rc;
    tcp->ack_due = conn->snd_una != ack;
    if (!pays && tcp->ack_due) /* RULE_ACK_DUE */
        return PASS_TCP_BOUNDARY;
    conn->snd_una = ack;
    if (!delta_is_used(&conn->delta))
        conn->tsval = bpf_htonl(bpf_ntohl(conn->tsval) + MC_TCP_AHEAD);
    conn_add(conn, tcp, nreply, place);
    conn->client_ts = segment->tsval;
    WRITE_ONCE(slot->outstanding, 1);
    slot_hears(slot);
    tcp->delta = conn->delta;
    tcp->tsval = bpf_ntohl(conn->tsval);
    if (pays)
        tcp->mark = conn_mark(conn);
    conn_words(conn, words, tcp->start, segment->seq + segment->n, segment->tsval);
    return VERDICT_OK;
}

/*
 * Commits the answer in `scratch`, whose text is kept: 0, or the reason to pass, and it is kept no
 * longer.
 */
static __always_inline enum verdict tcp_commit(struct mc_tcp_conn *conn, struct mc_tcp_slot *slot,
                                               struct scratch *scratch, struct segment_scratch *tcp,
                                               const int pays)
{
    enum verdict rc = PASS_TCP_BOUNDARY;
    struct rtx_place place;

    if (likely(conn_lock(conn, &tcp->segment.flow))) {
        conn_acknowledge(conn, slot, &tcp->segment, &place);
        rc = conn_commit(conn, slot, tcp, &scratch->saved.tcp, scratch->nreply - REPLY_TEXT, &place,
                         pays);
        conn_unlock(conn);
        rtx_free_place(&place);
    }
    if (unlikely(rc))
        rtx_free(tcp->rtx, tcp->owner);
    return rc;
}

/* --- what is not answered --------------------------------------------------------------------- */

enum {
    CONN_REACH = 1 << 26,  /* more than what may be in flight to a client */
    CONN_BEHIND = 1 << 20, /* more than what a segment has */
};

/*
 * Whether the socket may take a client's segment, or has taken it before: nothing is learned from
 * others (RFC 5961 in coarse). So who forges segments, and does not know the numbers, has to meet
 * both; and what is learned from one that does lies within the window, where the client's stream
 * will soon be.
 */
static __always_inline int conn_expects(const struct mc_tcp_conn *conn,
                                        const struct tcp_segment *segment)
{
    u32 out = conn->snd_nxt + conn->delta.tx, in = conn->last_ack_sent + conn->delta.rx;
    u32 room = conn_room(conn);

    return out - segment->ack <= CONN_REACH &&
           segment->seq + segment->n - (in - CONN_BEHIND) <= CONN_BEHIND + room;
}

/*
 * TC hands a client's segment to the socket. XDP notes nothing of what it passes, which TC may yet
 * drop (RULE_NOTE_ACK_TC). An acknowledgement in a segment that ends below what the socket was
 * handed is not noted: the socket may not read it.
 */
static __always_inline void conn_pass(struct mc_tcp_conn *conn, const struct tcp_segment *segment)
{
    u32 seq = delta_seq_rx(&conn->delta, segment->seq);
    u32 ack = delta_ack_rx(&conn->delta, segment->ack);
    u32 end = seq + segment->n + (segment->flags & TCP_FIN);

    if (!segment->is_whole)
        conn->flags |= MC_TCP_CLOSING;
    if (seq_before(end, conn->last_ack_sent))
        return;
    if (segment->flags & (TCP_FIN | TCP_RST))
        conn->flags |= MC_TCP_CLOSING;
    if (seq_before(end, conn->rcv_nxt)) /* RULE_NOTE_ACK */
        return;
    if (end != seq)
        conn->rcv_nxt = end;
    if (seq_before(conn->snd_una, ack))
        conn->snd_una = ack;
}

/*
 * Under the lock. Whether a bare acknowledgement of a part of the outstanding replies says that the
 * client misses the rest. One that acknowledges more than any before it mostly does not
 * (RULE_RUN_ACK), unless it has blocks, or ends in the last reply. Nor does one that the copies of
 * the last time have caused: it comes from a client that has them twice.
 */
static __always_inline int conn_misses(const struct mc_tcp_conn *conn,
                                       const struct tcp_segment *segment, int more)
{
    const struct mc_tcp_delta *delta = &conn->delta;

    return conn->again - delta->reply >= delta->nreply &&
           (!more || seq_before(conn->last, segment->ack) || segment_has_blocks(segment));
}

/*
 * Under the lock. Whether a segment asks for the outstanding replies once more: it has data below
 * the requests' end, or is a bare acknowledgement of less than the replies, as a client sends when
 * something behind a reply has arrived, when it can take again what it had no room for, and when it
 * is asked by a keepalive probe. One from before the requests asks for nothing. A client without
 * room says so again to every copy: then there is none. more: it acknowledges some of them.
 */
static __always_inline int conn_resends(const struct mc_tcp_conn *conn,
                                        const struct tcp_segment *segment, int more)
{
    const struct mc_tcp_delta *delta = &conn->delta;

    if (!delta->nreply || segment->flags & (TCP_SYN | TCP_RST) || !(segment->flags & TCP_ACK))
        return 0;
    if (segment->n) /* RULE_RESEND, RULE_RESEND_MIXED */
        return seq_before(segment->seq, delta_request_end(delta));
    /* RULE_RESEND_ON_ACK */
    return !(segment->flags & TCP_FIN) && seq_before(delta->request, segment->seq) &&
           segment->ack - delta->reply < delta->nreply && conn_misses(conn, segment, more) &&
           delta_reply_end(delta) - segment->ack <= segment->window << (conn->snd_wscale & 15);
}

/* Under the lock. The timestamp that what a segment causes echoes. */
static __always_inline u32 conn_tsecr(const struct mc_tcp_conn *conn,
                                      const struct tcp_segment *segment)
{
    return segment->has_timestamps ? segment->tsval : conn->client_ts;
}

/*
 * Under the lock. Prepares to send the outstanding replies once more. After a few times they are in
 * pieces: the path may have become too narrow for all of them. Such replies the server is to send
 * from now on, whose socket learns of the path.
 */
static __always_inline void conn_resend(struct mc_tcp_conn *conn, struct segment_scratch *tcp,
                                        struct tcp_words *words, u32 tsecr)
{
    tcp->delta = conn->delta;
    tcp->in_pieces = conn->retransmits >= MC_TCP_RETRANSMITS;
    tcp->rtx = conn->rtx;
    tcp->owner = conn_owner(conn);
    conn->again = delta_reply_end(&conn->delta);
    conn_words(conn, words, conn->delta.reply, delta_request_end(&conn->delta), tsecr);
    if (conn->retransmits < MC_TCP_RETRANSMITS) {
        conn->retransmits++;
    } else if (conn->delta.nreply > MC_TCP_PIECE && conn->mss > MC_TCP_PIECE) {
        conn->mss = MC_TCP_PIECE;
        conn->flags |= MC_TCP_MSS_OLD;
    }
}

/*
 * Whether a bare segment acknowledges the outstanding reply while an acknowledgement of the
 * socket's is held back, which the socket does not repeat: the client would send again what the
 * socket has (RULE_HELD). A segment with data the socket acknowledges by itself.
 */
static __always_inline int conn_releases(const struct mc_tcp_conn *conn,
                                         const struct tcp_segment *segment)
{
    const struct mc_tcp_delta *delta = &conn->delta;

    return delta->nreply && !seq_before(segment->ack, delta_reply_end(delta)) &&
           seq_before(delta->request, conn->last_ack_sent + delta->rx - delta->nrequest) &&
           !segment->n && segment->is_whole &&
           (segment->flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) == TCP_ACK;
}

/* What becomes of a segment that TC does not answer. */
enum leave {
    LEAVE_PASS,
    LEAVE_RESEND,  /* the outstanding replies are sent once more in its place */
    LEAVE_RELEASE, /* it passes, and the client is sent the acknowledgement that was held back */
};

/*
 * Under the lock. TC does not answer a segment, and has seen that its checksum is not wrong
 * (skb_is_believed). *place: to be freed without the lock.
 */
static __always_inline enum leave conn_leave(struct mc_tcp_conn *conn, struct mc_tcp_slot *slot,
                                             struct segment_scratch *tcp, struct tcp_words *words,
                                             struct rtx_place *place)
{
    int releases, more;

    if (!conn_expects(conn, &tcp->segment))
        return LEAVE_PASS;
    releases = conn_releases(conn, &tcp->segment);
    more = conn_acknowledge(conn, slot, &tcp->segment, place);
    if (conn_resends(conn, &tcp->segment, more)) { /* RULE_RESEND_TC */
        conn_resend(conn, tcp, words, conn_tsecr(conn, &tcp->segment));
        return LEAVE_RESEND;
    }
    conn_pass(conn, &tcp->segment);
    if (!releases)
        return LEAVE_PASS;
    conn_words(conn, words, conn->snd_nxt + conn->delta.tx, conn->last_ack_sent + conn->delta.rx,
               conn_tsecr(conn, &tcp->segment));
    return LEAVE_RELEASE;
}

#endif
