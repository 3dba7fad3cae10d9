/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_tcp: what clients say over TCP, followed to close the gates of what they write.
 *
 * The gate is closed before the segment is passed, so before the server can have seen it. What is
 * seen here need not be what the server gets: a segment may be dropped behind us and come again,
 * with other bytes, and late. So one that comes again is only ignored if the server has
 * acknowledged it; if it has not, the segment must say what it said before, and what is open closes
 * once more.
 */
#ifndef MC_CHAIN_TCP_BPF_H
#define MC_CHAIN_TCP_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/feed.bpf.h"
#include "bpf/chain/found.bpf.h"
#include "bpf/chain/socket.bpf.h"

/* A segment that is not followed. */
static __always_inline int tcp_unfollowed(u64 now)
{
    tally(CHAIN_UNFOLLOWED);
    close_all(now + settings.settle);
    return 0;
}

/* --- the place in the stream ---------------------------------------------------------------- */

enum { REPEAT_UNKNOWN = -1, REPEAT_VALUE = MARKS };

/*
 * Of bytes [seq, end) that came before: the mark that tells what they say, REPEAT_VALUE if they are
 * of a value alone.
 */
static __always_inline int repeat_mark(const struct conn *conn, u32 seq, u32 end)
{
    int found = REPEAT_VALUE, known = 0;
    u32 first = end;
    u64 i;

    for (i = 0; i < MARKS; i++) {
        const struct mark *mark = &conn->marks[i];

        if (i >= conn->nmarks)
            break;
        if (!seq_before(seq, mark->seq))
            known = 1;
        if (seq_before(mark->seq, seq) && seq_before(seq, mark->end))
            return REPEAT_UNKNOWN; /* it begins in the middle */
        if (!seq_before(mark->seq, seq) && seq_before(mark->seq, first)) {
            first = mark->seq;
            found = i;
        }
    }
    return known ? found : REPEAT_UNKNOWN;
}

/* What the hash was at `end`: behind it and before the next mark nothing was looked at. */
static __always_inline u64 repeat_content(const struct conn *conn, u32 end)
{
    u64 content = conn->content;
    u32 next = conn->next_in;
    u64 i;

    for (i = 0; i < MARKS; i++) {
        if (i >= conn->nmarks || seq_before(conn->marks[i].seq, end) ||
            !seq_before(conn->marks[i].seq, next))
            continue;
        next = conn->marks[i].seq;
        content = conn->marks[i].content;
    }
    return content;
}

/* Whether the segment's first n bytes, which came before, say what they did. */
static __always_inline int repeat_is_same(struct xdp_md *ctx, struct feed *feed,
                                          const struct conn *conn, const struct segment *segment,
                                          u32 n)
{
    s64 found = repeat_mark(conn, segment->seq, segment->seq + n);
    u64 at = found;

    if (found < 0 || found == REPEAT_VALUE)
        return found == REPEAT_VALUE;
    BOUND(at, MARKS - 1);
    feed->request = conn->marks[at].in;
    feed->content = conn->marks[at].content;
    feed->origin = segment->seq - segment->at;
    feed->at = conn->marks[at].seq - feed->origin;
    feed->end = segment->at + n;
    feed->dry = 1;
    feed_in(ctx, feed);
    feed->dry = 0;
    if (feed->events & REQ_LOST || feed->content != repeat_content(conn, segment->seq + n))
        return 0;
    feed->events = 0;
    feed->first = 0;
    return 1;
}

/* Moves on to the segment's first byte that has not come before. 0: it cannot be followed. */
static __always_inline int tcp_repeat(struct xdp_md *ctx, struct feed *feed, struct conn *conn,
                                      struct segment *segment)
{
    u32 n = segment->end - segment->at, known = conn->next_in - segment->seq;

    tally(CHAIN_RETRANSMITTED);
    if (known > n)
        known = n;
    if (seq_before(READ_ONCE(conn->acked), segment->seq + known)) {
        if (!repeat_is_same(ctx, feed, conn, segment, known))
            return 0;
        conn_close_again(conn, feed->settled);
    }
    segment->seq += known;
    segment->at += known;
    return 1;
}

/*
 * Moves on over bytes of a value, which may be missing, to the first byte that is to be looked at.
 * 0: others are missing.
 */
static __always_inline int tcp_place(struct conn *conn, struct segment *segment)
{
    u32 gap = segment->seq - conn->next_in, n = segment->end - segment->at;

    if (gap > conn->in.skip)
        return 0;
    conn->next_in = segment->seq + n;
    conn->in.skip -= gap;
    if (n > conn->in.skip)
        n = conn->in.skip;
    conn->in.skip -= n;
    segment->seq += n;
    segment->at += n;
    return 1;
}

/* --- what it says ---------------------------------------------------------------------------- */

/* Before conn takes over what feed looked at. */
static __always_inline void conn_mark(struct conn *conn, const struct feed *feed, u32 seq)
{
    u64 at = conn->nmarks++;

    BOUND(at, MARKS - 1);
    conn->marks[at].seq = seq;
    conn->marks[at].end = feed->looked;
    conn->marks[at].content = conn->content;
    conn->marks[at].in = conn->in;
}

static __always_inline void tcp_resume(struct feed *feed, const struct conn *conn)
{
    feed->request = conn->in;
    feed->content = conn->content;
    feed->ncommands = conn->ncommands;
    feed->data = conn->data;
    feed->silent = conn->silent;
    feed->surplus = conn->surplus;
    feed->timed = conn->uncertain;
    feed->carried = conn->carried;
    feed->old = conn->carried != WRITE_NOTHING;
    feed->room = CHAIN_WRITES - (conn->last - READ_ONCE(conn->first));
}

static __always_inline void tcp_suspend(const struct feed *feed, struct conn *conn)
{
    conn->in = feed->request;
    conn->content = feed->content;
    conn->ncommands = feed->ncommands;
    conn->carried = feed->carried;
    conn->data = feed->data;
    conn->silent = feed->silent;
    if (feed->surplus != conn->surplus) {
        surplus_note(conn, feed);
        conn->surplus = feed->surplus;
    }
    if (feed->nbarriers)
        *(volatile u64 *)&conn->barrier =
            (u64)feed->barrier << 32 | (u32)(conn->barrier + feed->nbarriers);
    conn_append(conn, feed);
}

/*
 * Whether nothing is under way, for certain: all that came in was acknowledged and answered with
 * whole lines, and then it was silent for so long that nothing of it can still be on its way.
 */
static __always_inline int is_silent(u64 last_in, u64 last_out, u64 now)
{
    return last_out > last_in && now - last_out >= settings.settle;
}

/* Replies can be counted again. */
static __always_inline void conn_settle(struct conn *conn, const struct segment *segment, u64 now)
{
    if (segment->seq != conn->next_in || conn->acked != conn->next_in || !conn->whole ||
        !req_between(&conn->in) || !is_silent(conn->last_in, conn->last_out, now))
        return;
    if (__sync_val_compare_and_swap(&conn->busy_out, 0, 1))
        return;
    conn_end_writes(conn, now);
    resp_init(&conn->out);
    conn->nreplies = conn->ncommands;
    conn->nbarriers = conn->barrier;
    conn->uncertain = 0;
    __sync_val_compare_and_swap(&conn->busy_out, 1, 0);
}

/* Follows a segment of data. 0: it cannot be. */
static __always_inline int conn_follow(struct xdp_md *ctx, struct feed *feed, struct conn *conn,
                                       struct segment *segment)
{
    if (conn->uncertain)
        conn_settle(conn, segment, feed->now);
    if (conn->suspect && segment->seq != conn->next_in)
        return 0;
    if (seq_before(segment->seq, conn->next_in) && !tcp_repeat(ctx, feed, conn, segment))
        return 0;
    if (segment->at == segment->end)
        return 1;
    conn->last_in = feed->now;
    if (!tcp_place(conn, segment))
        return 0;
    if (segment->at == segment->end)
        return 1;
    tcp_resume(feed, conn);
    feed->at = segment->at;
    feed->end = segment->end;
    feed->origin = segment->seq - segment->at;
    feed_in(ctx, feed);
    conn_mark(conn, feed, segment->seq);
    tcp_suspend(feed, conn);
    return !(feed->events & REQ_LOST);
}

/* --- connections begin ------------------------------------------------------------------------ */

static __always_inline int tcp_syn(struct hand *hand)
{
    struct conn *conn = bpf_map_lookup_elem(&connections, &hand->segment.ends);
    struct stranger *stranger = &hand->stranger;

    if (conn)
        conn->suspect = 1;
    /* Data that came with it has been taken if the server's SYN acknowledges it. */
    *stranger = (struct stranger){.in = hand->segment.seq + 1, .state = STRANGER_SYN};
    stranger->owner = ends_hash(&hand->segment.ends);
    bpf_map_update_elem(&half_open, &hand->segment.ends, stranger, BPF_ANY);
    return 0;
}

/* The client has seen the server's SYN: the connection is one. */
static __always_inline struct conn *tcp_begin(struct hand *hand, const struct stranger *stranger)
{
    const struct segment *segment = &hand->segment;
    u32 out = stranger->out;

    if (stranger->state != STRANGER_SYNACK || !(segment->flags & TCP_ACK) ||
        segment->seq != stranger->in || segment->ack != out)
        return 0;
    bpf_map_delete_elem(&half_open, &segment->ends);
    tally(CHAIN_CONNECTIONS);
    return conn_new(hand, segment->seq, out, segment->seq);
}

/* Notes a segment of data that is not followed. */
static __always_inline int tcp_estrange(struct hand *hand, struct stranger *stranger, u64 now)
{
    const struct segment *segment = &hand->segment;
    u32 end = segment->seq + (segment->end - segment->at);

    if (stranger && stranger->state == STRANGER_LOST) {
        stranger->last_in = now;
        if (seq_before(stranger->in, end))
            stranger->in = end;
        return tcp_unfollowed(now);
    }
    hand->stranger = (struct stranger){.owner = ends_hash(&segment->ends),
                                       .last_in = now,
                                       .in = end,
                                       .acked = end - 1,
                                       .state = STRANGER_LOST};
    bpf_map_update_elem(&half_open, &segment->ends, &hand->stranger, BPF_ANY);
    return tcp_unfollowed(now);
}

/* --- a segment ---------------------------------------------------------------------------------
 */

/* How a connection came to be followed. */
enum tcp_how {
    TCP_KNOWN,
    TCP_AGAIN, /* after a silence: if this begins with a command that is known */
    TCP_FOUND,
};

static __always_inline int tcp_follow(struct xdp_md *ctx, struct hand *hand, struct conn *conn,
                                      u64 now, enum tcp_how how)
{
    struct feed *feed = feed_get();
    u64 owner = ends_hash(&hand->segment.ends);
    int followed;

    if (hand->segment.seq != conn->next_in && socket_find(ctx) == SOCKET_REFUSES)
        return tally(CHAIN_NO_SOCKET);
    if (!feed || !conn_enter(conn, &conn->busy_in, owner))
        return tcp_unfollowed(now);
    feed_begin(feed, now);
    followed = !(hand->segment.flags & TCP_URG) && conn_follow(ctx, feed, conn, &hand->segment);
    if (how == TCP_AGAIN && (!feed->first || feed->first & REQ_UNKNOWN))
        followed = 0;
    if (!followed) {
        conn_lose(hand, conn, now);
        tcp_unfollowed(now);
    } else if (how != TCP_KNOWN) {
        bpf_map_delete_elem(&half_open, &hand->segment.ends);
        tally(CHAIN_FOUND);
    }
    if (!conn_leave(conn, &conn->busy_in, owner))
        tcp_unfollowed(now);
    return 0;
}

/*
 * A segment of data of a connection that is not followed, if it is not to be from here on. How it
 * is, if so.
 */
static __always_inline enum tcp_how tcp_find(struct xdp_md *ctx, const struct segment *segment,
                                             struct stranger *stranger, u64 now)
{
    struct feed *feed = feed_get();

    if (!feed || stranger->state != STRANGER_LOST || stranger->owner != ends_hash(&segment->ends))
        return TCP_KNOWN;
    if (stranger->in == segment->seq && stranger->acked == segment->seq && stranger->whole &&
        is_silent(stranger->last_in, stranger->last_out, now))
        return TCP_AGAIN;
    feed_begin(feed, now);
    return trial_in(ctx, feed, stranger, segment) ? TCP_FOUND : TCP_KNOWN;
}

/* Of a connection that is not in the table. */
__attribute__((noinline)) int tcp_stranger(struct xdp_md *ctx)
{
    struct hand *hand = hand_get();
    u64 now = bpf_ktime_get_ns();
    struct stranger *stranger;
    struct conn *conn = 0;
    enum tcp_how how = TCP_KNOWN;

    if (!hand)
        return tcp_unfollowed(now);
    stranger = bpf_map_lookup_elem(&half_open, &hand->segment.ends);
    if (stranger)
        conn = tcp_begin(hand, stranger);
    if (!conn && hand->segment.at == hand->segment.end)
        return 0;
    if (!conn && !socket_may_read(ctx, &hand->segment, stranger))
        return tally(CHAIN_NO_SOCKET);
    if (stranger && !conn) {
        how = tcp_find(ctx, &hand->segment, stranger, now);
        if (how != TCP_KNOWN)
            conn = conn_new(hand, hand->segment.seq, stranger->out, hand->segment.seq);
    }
    if (conn)
        return tcp_follow(ctx, hand, conn, now, how);
    return tcp_estrange(hand, stranger, now);
}

__attribute__((noinline)) int tcp_known(struct xdp_md *ctx)
{
    struct hand *hand = hand_get();
    u64 now = bpf_ktime_get_ns();
    struct conn *conn;

    if (!hand)
        return tcp_unfollowed(now);
    conn = bpf_map_lookup_elem(&connections, &hand->segment.ends);
    if (!conn)
        return 1;
    return tcp_follow(ctx, hand, conn, now, TCP_KNOWN);
}

/* A segment that no server should understand. */
static __always_inline int tcp_is_broken(struct xdp_md *ctx, struct hand *hand)
{
    if (!bpf_map_lookup_elem(&connections, &hand->segment.ends) &&
        !socket_may_read(ctx, &hand->segment, 0))
        return tally(CHAIN_NO_SOCKET);
    return tcp_unfollowed(bpf_ktime_get_ns());
}

/* A segment to our port. */
__attribute__((noinline)) int chain_tcp(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct hand *hand = hand_get();

    if (!scratch || !hand)
        return tcp_unfollowed(bpf_ktime_get_ns());
    if (!segment_load(packet_xdp(ctx), scratch, &hand->segment,
                      packet_end(packet_xdp(ctx), scratch)))
        return tcp_is_broken(ctx, hand);
    if (hand->segment.flags & TCP_SYN)
        return tcp_syn(hand);
    if (hand->segment.at == hand->segment.end || tcp_known(ctx))
        tcp_stranger(ctx);
    return 0;
}

#endif
