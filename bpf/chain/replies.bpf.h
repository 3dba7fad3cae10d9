/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_replies: parses what the server sends over TCP, and opens the gates of keys that were
 * written.
 *
 * A write's gate opens when its reply leaves, or the reply to a later command. Where replies cannot
 * be counted for certain, gates open by time.
 */
#ifndef MC_CHAIN_REPLIES_BPF_H
#define MC_CHAIN_REPLIES_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/parse_run.bpf.h"
#include "bpf/chain/resync.bpf.h"

/* Whether the segment's last byte is the end of a line. */
static __always_inline int replies_whole(struct __sk_buff *skb, const struct segment *segment)
{
    char last;

    return !bpf_skb_load_bytes(skb, segment->end - 1, &last, 1) && last == '\n';
}

/* The server's SYN: an earlier connection with this flow key is over. */
static __always_inline int replies_syn(const struct segment *segment)
{
    struct untracked *untracked = bpf_map_lookup_elem(&mc_untracked, &segment->flow);
    struct chain_conn *conn = bpf_map_lookup_elem(&mc_connections, &segment->flow);

    if (conn && conn->start_out != segment->seq + 1)
        bpf_map_delete_elem(&mc_connections, &segment->flow);
    if (!untracked)
        return 0;
    if (seq_before(untracked->in,
                   segment->ack)) /* it has accepted data that came with the client's SYN */
        chain_close_all(bpf_ktime_get_ns() + settings.settle);
    if (untracked->state == UNTRACKED_SYN && untracked->in == segment->ack) {
        untracked->out = segment->seq + 1;
        untracked->state = UNTRACKED_SYNACK;
    } else if (untracked->state != UNTRACKED_SYNACK || untracked->in != segment->ack ||
               untracked->out != segment->seq + 1) {
        bpf_map_delete_elem(&mc_untracked, &segment->flow);
    }
    return 0;
}

/* --- counted replies --------------------------------------------------------------------- */

enum replies_are { REPLIES_COUNTED, REPLIES_UNCERTAIN, REPLIES_LOST };

/*
 * An error may answer a command without a reply, and then must not be counted; or it is the first
 * sign that the server parses as a command what was parsed here as a value.
 */
static __always_inline enum replies_are replies_error(const struct chain_conn *conn)
{
    if (seq_before(conn->nreplies, READ_ONCE(conn->data)))
        return REPLIES_LOST;
    if (seq_before(conn->nreplies, READ_ONCE(conn->silent)))
        return REPLIES_UNCERTAIN;
    return REPLIES_COUNTED;
}

/*
 * Counts the replies of the segment. When every command mn has its reply, the last of these shows
 * exactly which command was answered.
 */
static __always_inline enum replies_are replies_count(struct chain_conn *conn,
                                                      const struct parse_run *run)
{
    u64 barrier = READ_ONCE(conn->barrier);
    enum replies_are are = REPLIES_COUNTED;

    if (run->events & RESP_ERROR)
        are = replies_error(conn);
    if (run->events & RESP_LOST && are == REPLIES_COUNTED)
        are = REPLIES_UNCERTAIN;
    /* A server that accepts only the text or only the binary protocol answers in that one. */
    if (conn->in.protocol != PARSER_ANY && conn->out.protocol != PARSER_ANY &&
        conn->in.protocol != conn->out.protocol)
        are = REPLIES_LOST;
    if (are != REPLIES_COUNTED)
        return are;
    conn->nbarriers += run->nbarriers;
    if (run->nbarriers && (u32)barrier == conn->nbarriers)
        conn->nreplies = (u32)(barrier >> 32) + run->nreplies;
    else
        conn->nreplies += run->nbefore + run->nreplies;
    /* More replies than commands: it answers a command whose end has not arrived. */
    return seq_before(READ_ONCE(conn->ncommands), conn->nreplies) ? REPLIES_LOST : REPLIES_COUNTED;
}

/* Skips bytes that left before. 0: all of them did. */
static __always_inline int replies_place(struct chain_conn *conn, struct segment *segment)
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

/* Parses a segment. 0: the replies do not belong to the commands that were parsed. */
static __always_inline int replies_follow(struct __sk_buff *skb, struct parse_run *run,
                                          struct chain_conn *conn, struct segment *segment)
{
    enum replies_are are = REPLIES_COUNTED;
    u32 before = conn->nreplies;

    if (!replies_place(conn, segment))
        return 1;
    conn->last_out = run->now;
    if (!conn->uncertain) {
        run->response = conn->out;
        run->at = segment->at;
        run->end = segment->end;
        run_out(skb, run);
        conn->out = run->response;
        are = replies_count(conn, run);
    }
    if (are != REPLIES_COUNTED)
        conn->uncertain = 1;
    if (conn->uncertain)
        conn->whole = replies_whole(skb, segment);
    conn_end_writes(conn, run->now);
    if (conn->nreplies != before && surplus_is_late(conn, before, run->now))
        chain_close_all(run->now);
    return are != REPLIES_LOST;
}

/* --- a segment ------------------------------------------------------------------------------ */

/* Records a segment with data of a lost connection. */
static __always_inline void replies_lost(struct __sk_buff *skb, struct untracked *untracked,
                                         const struct segment *segment, u64 now)
{
    struct parse_run *run = run_get();
    u32 end = segment->seq + (segment->end - segment->at);

    if (untracked->last_out && !seq_before(untracked->out, end))
        return; /* it left before */
    if (run) {
        run_begin(run, now);
        resync_out(skb, run, untracked, segment);
    }
    untracked->out = end;
    untracked->whole = replies_whole(skb, segment);
    untracked->last_out = now;
}

/* A segment of an unknown connection: from here on the connection is known to be the server's. */
static __always_inline void replies_untrack(struct __sk_buff *skb, struct chain_tcp_scratch *tcp,
                                            u64 now)
{
    const struct segment *segment = &tcp->segment;

    tcp->untracked = (struct untracked){.owner = flow_hash(&segment->flow),
                                        .last_out = now,
                                        .in = segment->ack,
                                        .out = segment->seq + (segment->end - segment->at),
                                        .acked = segment->ack,
                                        .state = UNTRACKED_LOST,
                                        .whole = replies_whole(skb, segment)};
    bpf_map_update_elem(&mc_untracked, &segment->flow, &tcp->untracked, BPF_ANY);
}

/* A segment of an untracked connection: it may answer a write to any key. */
__attribute__((noinline)) int replies_untracked(struct __sk_buff *skb)
{
    u64 now = bpf_ktime_get_ns();
    struct chain_tcp_scratch *tcp = chain_tcp_scratch_get();
    struct untracked *untracked;

    if (!tcp)
        return 0;
    untracked = bpf_map_lookup_elem(&mc_untracked, &tcp->segment.flow);
    if (untracked && untracked->state != UNTRACKED_LOST)
        untracked = 0;
    if (untracked && seq_before(untracked->acked, tcp->segment.ack))
        untracked->acked = tcp->segment.ack;
    if (tcp->segment.at == tcp->segment.end)
        return 0;
    if (untracked)
        replies_lost(skb, untracked, &tcp->segment, now);
    else
        replies_untrack(skb, tcp, now);
    chain_close_all(now);
    return 0;
}

__attribute__((noinline)) int replies_tracked(struct __sk_buff *skb)
{
    struct chain_tcp_scratch *tcp = chain_tcp_scratch_get();
    struct parse_run *run = run_get();
    struct chain_conn *conn;
    u64 owner;

    if (!tcp || !run)
        return 1;
    conn = bpf_map_lookup_elem(&mc_connections, &tcp->segment.flow);
    if (!conn)
        return 1;
    if (tcp->segment.flags & TCP_ACK && seq_before(conn->acked, tcp->segment.ack))
        conn->acked = tcp->segment.ack;
    if (tcp->segment.at == tcp->segment.end && !(tcp->segment.flags & (TCP_FIN | TCP_RST)))
        return 0;
    owner = flow_hash(&tcp->segment.flow);
    run_begin(run, bpf_ktime_get_ns());
    if (!conn_enter(conn, &conn->busy_out, owner)) {
        conn->uncertain = 1;
        return 0;
    }
    if (tcp->segment.at != tcp->segment.end && !replies_follow(skb, run, conn, &tcp->segment)) {
        conn_forget(tcp, conn, conn->next_in, run->now);
        chain_close_all(run->now + settings.settle);
    }
    if (tcp->segment.flags & (TCP_FIN | TCP_RST)) {
        conn->uncertain = 1;
        conn_end_writes(conn, run->now);
        bpf_map_delete_elem(&mc_connections, &tcp->segment.flow);
    }
    if (!conn_leave(conn, &conn->busy_out, owner))
        chain_close_all(run->now + settings.settle);
    return 0;
}

SEC("tc")
int mc_follow(struct __sk_buff *skb)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct chain_tcp_scratch *tcp = chain_tcp_scratch_get();

    if (!scratch || !tcp ||
        !segment_load(packet_tc(skb), scratch, &tcp->segment, scratch->nframe)) {
        chain_close_all(bpf_ktime_get_ns());
        return -1; /* TC_ACT_UNSPEC: on to the next program */
    }
    if (tcp->segment.flags & TCP_SYN)
        replies_syn(&tcp->segment);
    else if (replies_tracked(skb))
        replies_untracked(skb);
    return -1;
}

#endif
