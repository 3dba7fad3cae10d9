/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_replies: what the server says over TCP, followed to open the gates of what was written.
 *
 * A write's gate opens when its reply leaves, or that to a later command. Where replies cannot be
 * counted for certain, gates open by time.
 */
#ifndef MC_CHAIN_REPLIES_BPF_H
#define MC_CHAIN_REPLIES_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/feed.bpf.h"
#include "bpf/chain/found.bpf.h"

/* Whether the segment's last byte ends a line. */
static __always_inline int replies_whole(struct __sk_buff *skb, const struct segment *segment)
{
    char last;

    return !bpf_skb_load_bytes(skb, segment->end - 1, &last, 1) && last == '\n';
}

/* A server accepts a connection: what the table has of these ends is over. */
static __always_inline int replies_syn(const struct segment *segment)
{
    struct stranger *stranger = bpf_map_lookup_elem(&half_open, &segment->ends);
    struct conn *conn = bpf_map_lookup_elem(&connections, &segment->ends);

    if (conn && conn->start_out != segment->seq + 1)
        bpf_map_delete_elem(&connections, &segment->ends);
    if (!stranger)
        return 0;
    if (seq_before(stranger->in, segment->ack)) /* it has taken data that came with the client's */
        close_all(bpf_ktime_get_ns() + settings.settle);
    if (stranger->state == STRANGER_SYN && stranger->in == segment->ack) {
        stranger->out = segment->seq + 1;
        stranger->state = STRANGER_SYNACK;
    } else if (stranger->state != STRANGER_SYNACK || stranger->in != segment->ack ||
               stranger->out != segment->seq + 1) {
        bpf_map_delete_elem(&half_open, &segment->ends);
    }
    return 0;
}

/* --- counted replies --------------------------------------------------------------------- */

enum replies_are { REPLIES_COUNTED, REPLIES_UNCERTAIN, REPLIES_LOST };

/*
 * An error may be that to a command without a reply, and then it is not counted; or it is the first
 * sign of a server that does not take a value for what we take it.
 */
static __always_inline enum replies_are replies_error(const struct conn *conn)
{
    if (seq_before(conn->nreplies, READ_ONCE(conn->data)))
        return REPLIES_LOST;
    if (seq_before(conn->nreplies, READ_ONCE(conn->silent)))
        return REPLIES_UNCERTAIN;
    return REPLIES_COUNTED;
}

/*
 * Takes what the segment answered into account. When all commands mn have had their replies, it is
 * known which command the last of these belongs to.
 */
static __always_inline enum replies_are replies_count(struct conn *conn, const struct feed *feed)
{
    u64 barrier = READ_ONCE(conn->barrier);
    enum replies_are are = REPLIES_COUNTED;

    if (feed->events & RESP_ERROR)
        are = replies_error(conn);
    if (feed->events & RESP_LOST && are == REPLIES_COUNTED)
        are = REPLIES_UNCERTAIN;
    /* A server that takes only text or only binary is told so by what it answers. */
    if (conn->in.protocol != PARSER_ANY && conn->out.protocol != PARSER_ANY &&
        conn->in.protocol != conn->out.protocol)
        are = REPLIES_LOST;
    if (are != REPLIES_COUNTED)
        return are;
    conn->nbarriers += feed->nbarriers;
    if (feed->nbarriers && (u32)barrier == conn->nbarriers)
        conn->nreplies = (u32)(barrier >> 32) + feed->nreplies;
    else
        conn->nreplies += feed->nbefore + feed->nreplies;
    /* It answers what we have not yet seen the end of. */
    return seq_before(READ_ONCE(conn->ncommands), conn->nreplies) ? REPLIES_LOST : REPLIES_COUNTED;
}

/* Moves on to the first byte that has not left before. 0: there is none. */
static __always_inline int replies_place(struct conn *conn, struct segment *segment)
{
    u32 n = segment->end - segment->at, known;

    if (seq_before(segment->seq, conn->next_out)) {
        known = conn->next_out - segment->seq;
        if (known >= n)
            return 0;
        segment->seq += known;
        segment->at += known;
    } else if (segment->seq != conn->next_out) {
        conn->uncertain = 1;
    }
    conn->next_out = segment->seq + (segment->end - segment->at);
    return 1;
}

/* 0: what it answers is not what we have followed. */
static __always_inline int replies_follow(struct __sk_buff *skb, struct feed *feed,
                                          struct conn *conn, struct segment *segment)
{
    enum replies_are are = REPLIES_COUNTED;
    u32 before = conn->nreplies;

    if (!replies_place(conn, segment))
        return 1;
    conn->last_out = feed->now;
    if (!conn->uncertain) {
        feed->response = conn->out;
        feed->at = segment->at;
        feed->end = segment->end;
        feed_out(skb, feed);
        conn->out = feed->response;
        are = replies_count(conn, feed);
    }
    if (are != REPLIES_COUNTED)
        conn->uncertain = 1;
    if (conn->uncertain)
        conn->whole = replies_whole(skb, segment);
    conn_end_writes(conn, feed->now);
    if (conn->nreplies != before && surplus_is_late(conn, before, feed->now))
        close_all(feed->now);
    return are != REPLIES_LOST;
}

/* --- a segment ------------------------------------------------------------------------------ */

/* Notes a segment of data of a connection that is lost. */
static __always_inline void replies_lost(struct __sk_buff *skb, struct stranger *stranger,
                                         const struct segment *segment, u64 now)
{
    struct feed *feed = feed_get();
    u32 end = segment->seq + (segment->end - segment->at);

    if (stranger->last_out && !seq_before(stranger->out, end))
        return; /* it left before */
    if (feed) {
        feed_begin(feed, now);
        trial_out(skb, feed, stranger, segment);
    }
    stranger->out = end;
    stranger->whole = replies_whole(skb, segment);
    stranger->last_out = now;
}

/* One that nobody knew: from here on it is known to be the server's. */
static __always_inline void replies_estrange(struct __sk_buff *skb, struct hand *hand, u64 now)
{
    const struct segment *segment = &hand->segment;

    hand->stranger = (struct stranger){.owner = ends_hash(&segment->ends),
                                       .last_out = now,
                                       .in = segment->ack,
                                       .out = segment->seq + (segment->end - segment->at),
                                       .acked = segment->ack,
                                       .state = STRANGER_LOST,
                                       .whole = replies_whole(skb, segment)};
    bpf_map_update_elem(&half_open, &segment->ends, &hand->stranger, BPF_ANY);
}

/* Of a connection that is not followed: each write that it answers is over now, whichever. */
__attribute__((noinline)) int replies_stranger(struct __sk_buff *skb)
{
    u64 now = bpf_ktime_get_ns();
    struct hand *hand = hand_get();
    struct stranger *stranger;

    if (!hand)
        return 0;
    stranger = bpf_map_lookup_elem(&half_open, &hand->segment.ends);
    if (stranger && stranger->state != STRANGER_LOST)
        stranger = 0;
    if (stranger && seq_before(stranger->acked, hand->segment.ack))
        stranger->acked = hand->segment.ack;
    if (hand->segment.at == hand->segment.end)
        return 0;
    if (stranger)
        replies_lost(skb, stranger, &hand->segment, now);
    else
        replies_estrange(skb, hand, now);
    close_all(now);
    return 0;
}

__attribute__((noinline)) int replies_known(struct __sk_buff *skb)
{
    struct hand *hand = hand_get();
    struct feed *feed = feed_get();
    struct conn *conn;
    u64 owner;

    if (!hand || !feed)
        return 1;
    conn = bpf_map_lookup_elem(&connections, &hand->segment.ends);
    if (!conn)
        return 1;
    if (hand->segment.flags & TCP_ACK && seq_before(conn->acked, hand->segment.ack))
        conn->acked = hand->segment.ack;
    if (hand->segment.at == hand->segment.end && !(hand->segment.flags & (TCP_FIN | TCP_RST)))
        return 0;
    owner = ends_hash(&hand->segment.ends);
    feed_begin(feed, bpf_ktime_get_ns());
    if (!conn_enter(conn, &conn->busy_out, owner)) {
        conn->uncertain = 1;
        return 0;
    }
    if (hand->segment.at != hand->segment.end && !replies_follow(skb, feed, conn, &hand->segment)) {
        conn_forget(hand, conn, conn->next_in, feed->now);
        close_all(feed->now + settings.settle);
    }
    if (hand->segment.flags & (TCP_FIN | TCP_RST)) {
        conn->uncertain = 1;
        conn_end_writes(conn, feed->now);
        bpf_map_delete_elem(&connections, &hand->segment.ends);
    }
    if (!conn_leave(conn, &conn->busy_out, owner))
        close_all(feed->now + settings.settle);
    return 0;
}

SEC("tc")
int follow_replies(struct __sk_buff *skb)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct hand *hand = hand_get();

    if (!scratch || !hand ||
        !segment_load(packet_tc(skb), scratch, &hand->segment, scratch->nframe)) {
        close_all(bpf_ktime_get_ns());
        return -1; /* TC_ACT_UNSPEC: on to the next */
    }
    if (hand->segment.flags & TCP_SYN)
        replies_syn(&hand->segment);
    else if (replies_known(skb))
        replies_stranger(skb);
    return -1;
}

#endif
