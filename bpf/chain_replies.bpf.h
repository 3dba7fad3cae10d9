/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_replies: what the server says over TCP, followed to open the gates of what was written.
 *
 * A write's gate opens when its reply leaves, or that to a later command. Where replies cannot be
 * counted for certain, gates open by time.
 */
#ifndef MC_CHAIN_REPLIES_BPF_H
#define MC_CHAIN_REPLIES_BPF_H

#include "bpf/chain_conn.bpf.h"
#include "bpf/chain_feed.bpf.h"

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

/*
 * Takes what the segment answered into account. When all commands mn have had their replies, it is
 * known which command the last of these belongs to.
 */
static __always_inline void replies_count(struct conn *conn, const struct feed *feed)
{
    u64 barrier = READ_ONCE(conn->barrier);

    if (feed->events & ANSWERS_LOST || (feed->events & ANSWERS_ERROR && READ_ONCE(conn->silent))) {
        conn->uncertain = 1;
        return;
    }
    conn->nbarriers += feed->nbarriers;
    if (feed->nbarriers && (u32)barrier == conn->nbarriers)
        conn->nreplies = (u32)(barrier >> 32) + feed->nreplies;
    else
        conn->nreplies += feed->nbefore + feed->nreplies;
    if (seq_before(READ_ONCE(conn->ncommands), conn->nreplies))
        conn->uncertain = 1; /* it answers more than it was asked */
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

static __always_inline void replies_follow(struct __sk_buff *skb, struct feed *feed,
                                           struct conn *conn, struct segment *segment)
{
    if (!replies_place(conn, segment))
        return;
    conn->last_out = feed->now;
    if (!conn->uncertain) {
        feed->answers = conn->out;
        feed->at = segment->at;
        feed->end = segment->end;
        feed_out(skb, feed);
        conn->out = feed->answers;
        replies_count(conn, feed);
    }
    if (conn->uncertain)
        conn->whole = replies_whole(skb, segment);
    conn_end_writes(conn, feed->now);
}

/* --- a segment ------------------------------------------------------------------------------ */

/* Of a connection that is not followed: each write that it answers is over now, whichever. */
__attribute__((noinline)) int replies_stranger(struct __sk_buff *skb)
{
    struct hand *hand = hand_get();
    struct stranger *stranger;
    u32 end;

    if (!hand)
        return 0;
    stranger = bpf_map_lookup_elem(&half_open, &hand->segment.ends);
    if (stranger && stranger->state == STRANGER_LOST &&
        seq_before(stranger->acked, hand->segment.ack))
        stranger->acked = hand->segment.ack;
    if (hand->segment.at == hand->segment.end)
        return 0;
    if (stranger && stranger->state == STRANGER_LOST) {
        end = hand->segment.seq + (hand->segment.end - hand->segment.at);
        if (!stranger->last_out || !seq_before(end, stranger->out)) {
            stranger->out = end;
            stranger->whole = replies_whole(skb, &hand->segment);
        }
        stranger->last_out = bpf_ktime_get_ns();
    }
    close_all(bpf_ktime_get_ns());
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
    if (hand->segment.at != hand->segment.end)
        replies_follow(skb, feed, conn, &hand->segment);
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
    struct chain_work *work = chain_work_get();
    struct hand *hand = hand_get();

    if (!work || !hand || !segment_load(skb, 0, work, &hand->segment, work->nframe)) {
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
