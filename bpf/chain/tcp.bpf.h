/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_tcp: parses what clients send over TCP, and closes the gates of the keys that they write.
 *
 * A gate is closed before the segment is passed, so before the server can have seen it. What is
 * parsed here need not be what the server receives: the segment may be dropped after XDP and
 * retransmitted with other bytes, and late. So a retransmitted segment is ignored only if the
 * server has acknowledged it. If it has not, the bytes must be the same as before, and the gates of
 * open writes are closed again.
 */
#ifndef MC_CHAIN_TCP_BPF_H
#define MC_CHAIN_TCP_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/parse_run.bpf.h"
#include "bpf/chain/resync.bpf.h"
#include "bpf/chain/socket.bpf.h"

/* A segment that cannot be followed: it may write any key. */
static __always_inline int tcp_unfollowed(u64 now)
{
    tally(CHAIN_UNFOLLOWED);
    chain_close_all(now + settings.settle);
    return 0;
}

/* --- the place in the stream ---------------------------------------------------------------- */

enum { RETRANSMIT_UNKNOWN = -1, RETRANSMIT_VALUE = CHECKPOINTS };

/*
 * Of bytes [seq, end) that arrived before: the checkpoint to parse them from, or RETRANSMIT_VALUE
 * if all are part of a value. What the loop has found is in memory and in a bit, of which the
 * verifier knows nothing: it goes on once, and not once for each checkpoint.
 */
static __always_inline int retransmit_checkpoint(struct parse_run *run,
                                                 const struct chain_conn *conn, u32 seq, u32 end)
{
    u32 first = end, known = 0;
    u64 i;

    run->checkpoint = RETRANSMIT_VALUE;
    for (i = 0; i < CHECKPOINTS; i++) {
        const struct checkpoint *checkpoint = &conn->checkpoints[i];

        if (i >= conn->ncheckpoints)
            break;
        known |= ~(seq - checkpoint->seq) >> 31; /* !seq_before */
        if (seq_before(checkpoint->seq, seq) && seq_before(seq, checkpoint->end))
            return RETRANSMIT_UNKNOWN; /* it begins in the middle of what was parsed */
        if (!seq_before(checkpoint->seq, seq) && seq_before(checkpoint->seq, first)) {
            first = checkpoint->seq;
            run->checkpoint = i;
        }
    }
    return known ? (int)READ_ONCE(run->checkpoint) : RETRANSMIT_UNKNOWN;
}

/* What the hash was at `end`: between it and the next checkpoint nothing was parsed. */
static __always_inline u64 retransmit_content(const struct chain_conn *conn, u32 end)
{
    u64 content = conn->content;
    u32 next = conn->next_in;
    u64 i;

    for (i = 0; i < CHECKPOINTS; i++) {
        if (i >= conn->ncheckpoints || seq_before(conn->checkpoints[i].seq, end) ||
            !seq_before(conn->checkpoints[i].seq, next))
            continue;
        next = conn->checkpoints[i].seq;
        content = conn->checkpoints[i].content;
    }
    return content;
}

/* Whether the segment's first n bytes, which arrived before, are the same as then. */
static __always_inline int retransmit_is_same(struct xdp_md *ctx, struct parse_run *run,
                                              const struct chain_conn *conn,
                                              const struct segment *segment, u32 n)
{
    int found = retransmit_checkpoint(run, conn, segment->seq, segment->seq + n);
    u64 at = found;

    if (found < 0 || found == RETRANSMIT_VALUE)
        return found == RETRANSMIT_VALUE;
    bound_mask(at, CHECKPOINTS - 1);
    run->request = conn->checkpoints[at].in;
    run->content = conn->checkpoints[at].content;
    run->origin = segment->seq - segment->at;
    run->at = conn->checkpoints[at].seq - run->origin;
    run->end = segment->at + n;
    run->dry = 1;
    run_in(ctx, run);
    run->dry = 0;
    if (run->events & REQ_LOST || run->content != retransmit_content(conn, segment->seq + n))
        return 0;
    run->events = 0;
    run->first = 0;
    return 1;
}

/* Skips the segment's bytes that arrived before. 0: it cannot be followed. */
static __always_inline int tcp_retransmit(struct xdp_md *ctx, struct parse_run *run,
                                          struct chain_conn *conn, struct segment *segment)
{
    u32 n = segment->end - segment->at, known = conn->next_in - segment->seq;

    tally(CHAIN_RETRANSMITTED);
    if (known > n)
        known = n;
    if (seq_before(READ_ONCE(conn->acked), segment->seq + known)) {
        if (!retransmit_is_same(ctx, run, conn, segment, known))
            return 0;
        conn_close_again(conn, run->settled);
    }
    segment->seq += known;
    segment->at += known;
    return 1;
}

/*
 * Skips bytes of a value, which may be missing, up to the first byte to parse. 0: other bytes are
 * missing.
 */
static __always_inline int tcp_place(struct chain_conn *conn, struct segment *segment)
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

/* --- parsing -------------------------------------------------------------------------------- */

/* Records where this run began; call it before conn takes over the run's results. */
static __always_inline void conn_checkpoint(struct chain_conn *conn, const struct parse_run *run,
                                            u32 seq)
{
    u64 at = conn->ncheckpoints++;

    bound_mask(at, CHECKPOINTS - 1);
    conn->checkpoints[at].seq = seq;
    conn->checkpoints[at].end = run->looked;
    conn->checkpoints[at].content = conn->content;
    conn->checkpoints[at].in = conn->in;
}

static __always_inline void tcp_resume(struct parse_run *run, const struct chain_conn *conn)
{
    run->request = conn->in;
    run->content = conn->content;
    run->ncommands = conn->ncommands;
    run->data = conn->data;
    run->silent = conn->silent;
    run->surplus = conn->surplus;
    run->timed = conn->uncertain;
    run->carried = conn->carried;
    run->old = conn->carried != WRITE_NOTHING;
    run->room = CHAIN_WRITES - (conn->last - READ_ONCE(conn->first));
}

static __always_inline void tcp_suspend(const struct parse_run *run, struct chain_conn *conn)
{
    conn->in = run->request;
    conn->content = run->content;
    conn->ncommands = run->ncommands;
    conn->carried = run->carried;
    conn->data = run->data;
    conn->silent = run->silent;
    if (run->surplus != conn->surplus) {
        surplus_note(conn, run);
        conn->surplus = run->surplus;
    }
    if (run->nbarriers)
        *(volatile u64 *)&conn->barrier =
            (u64)run->barrier << 32 | (u32)(conn->barrier + run->nbarriers);
    conn_append(conn, run);
}

/*
 * Whether both directions have been silent since the last reply for so long that no packet of the
 * connection can still be in flight.
 */
static __always_inline int is_silent(u64 last_in, u64 last_out, u64 now)
{
    return last_out > last_in && now - last_out >= settings.settle;
}

/*
 * Counts replies again, if for certain nothing is in flight: all that arrived was acknowledged, the
 * last reply ended a line, and then the connection was silent.
 */
static __always_inline void conn_settle(struct chain_conn *conn, const struct segment *segment,
                                        u64 now)
{
    if (segment->seq != conn->next_in || conn->acked != conn->next_in || !conn->whole ||
        !req_between(&conn->in) || !is_silent(conn->last_in, conn->last_out, now))
        return;
    if (__sync_val_compare_and_swap(&conn->busy_out, 0, 1))
        return;
    conn_end_writes(conn, now);
    resp_init(&conn->out, PARSER_ANY);
    conn->nreplies = conn->ncommands;
    conn->nbarriers = conn->barrier;
    conn->uncertain = 0;
    __sync_val_compare_and_swap(&conn->busy_out, 1, 0);
}

/* Parses a segment with data. 0: it cannot be followed. */
static __always_inline int conn_follow(struct xdp_md *ctx, struct parse_run *run,
                                       struct chain_conn *conn, struct segment *segment)
{
    if (conn->uncertain)
        conn_settle(conn, segment, run->now);
    if (conn->suspect && segment->seq != conn->next_in)
        return 0;
    if (seq_before(segment->seq, conn->next_in) && !tcp_retransmit(ctx, run, conn, segment))
        return 0;
    if (segment->at == segment->end)
        return 1;
    conn->last_in = run->now;
    if (!tcp_place(conn, segment))
        return 0;
    if (segment->at == segment->end)
        return 1;
    tcp_resume(run, conn);
    run->at = segment->at;
    run->end = segment->end;
    run->origin = segment->seq - segment->at;
    run_in(ctx, run);
    conn_checkpoint(conn, run, segment->seq);
    tcp_suspend(run, conn);
    return !(run->events & REQ_LOST);
}

/* --- connections begin ------------------------------------------------------------------------ */

static __always_inline int tcp_syn(struct chain_tcp_scratch *tcp)
{
    struct chain_conn *conn = bpf_map_lookup_elem(&mc_connections, &tcp->segment.flow);
    struct untracked *untracked = &tcp->untracked;

    if (conn)
        conn->suspect = 1;
    /* The server's SYN shows whether it accepted data that came with this one, see replies_syn. */
    *untracked = (struct untracked){.in = tcp->segment.seq + 1, .state = UNTRACKED_SYN};
    untracked->owner = flow_hash(&tcp->segment.flow);
    bpf_map_update_elem(&mc_untracked, &tcp->segment.flow, untracked, BPF_ANY);
    return 0;
}

/* The client acknowledges the server's SYN: begins to track the connection. */
static __always_inline struct chain_conn *tcp_begin(struct chain_tcp_scratch *tcp,
                                                    const struct untracked *untracked)
{
    const struct segment *segment = &tcp->segment;
    u32 out = untracked->out;

    if (untracked->state != UNTRACKED_SYNACK || !(segment->flags & TCP_ACK) ||
        segment->seq != untracked->in || segment->ack != out)
        return 0;
    bpf_map_delete_elem(&mc_untracked, &segment->flow);
    tally(CHAIN_CONNECTIONS);
    return conn_insert(tcp, segment->seq, out, segment->seq);
}

/* Records a segment with data of an untracked connection. */
static __always_inline int tcp_untrack(struct chain_tcp_scratch *tcp, struct untracked *untracked,
                                       u64 now)
{
    const struct segment *segment = &tcp->segment;
    u32 end = segment->seq + (segment->end - segment->at);

    if (untracked && untracked->state == UNTRACKED_LOST) {
        untracked->last_in = now;
        if (seq_before(untracked->in, end))
            untracked->in = end;
        return tcp_unfollowed(now);
    }
    tcp->untracked = (struct untracked){.owner = flow_hash(&segment->flow),
                                        .last_in = now,
                                        .in = end,
                                        .acked = end - 1,
                                        .state = UNTRACKED_LOST};
    bpf_map_update_elem(&mc_untracked, &segment->flow, &tcp->untracked, BPF_ANY);
    return tcp_unfollowed(now);
}

/* --- a segment ------------------------------------------------------------------------------ */

/* Why a connection is tracked from this segment on. */
enum tcp_how {
    TCP_TRACKED,
    TCP_AFTER_SILENCE, /* after a silence, if the segment begins with a known command */
    TCP_RESYNCED,
};

static __always_inline int tcp_follow(struct xdp_md *ctx, struct chain_tcp_scratch *tcp,
                                      struct chain_conn *conn, u64 now, enum tcp_how how)
{
    struct parse_run *run = run_get();
    u64 owner = flow_hash(&tcp->segment.flow);
    int followed;

    if (tcp->segment.seq != conn->next_in && socket_find(ctx) == SOCKET_REFUSES)
        return tally(CHAIN_NO_SOCKET);
    if (!run || !conn_enter(conn, &conn->busy_in, owner))
        return tcp_unfollowed(now);
    run_begin(run, now);
    followed = !(tcp->segment.flags & TCP_URG) && conn_follow(ctx, run, conn, &tcp->segment);
    if (how == TCP_AFTER_SILENCE && (!run->first || run->first & REQ_UNKNOWN))
        followed = 0;
    if (!followed) {
        conn_lose(tcp, conn, now);
        tcp_unfollowed(now);
    } else if (how != TCP_TRACKED) {
        bpf_map_delete_elem(&mc_untracked, &tcp->segment.flow);
        tally(CHAIN_FOUND);
    }
    if (!conn_leave(conn, &conn->busy_in, owner))
        tcp_unfollowed(now);
    return 0;
}

/*
 * Whether an untracked connection can be tracked from this segment with data on, and why;
 * TCP_TRACKED: it cannot.
 */
static __always_inline enum tcp_how tcp_resync(struct xdp_md *ctx, const struct segment *segment,
                                               struct untracked *untracked, u64 now)
{
    struct parse_run *run = run_get();

    if (!run || untracked->state != UNTRACKED_LOST || untracked->owner != flow_hash(&segment->flow))
        return TCP_TRACKED;
    if (untracked->in == segment->seq && untracked->acked == segment->seq && untracked->whole &&
        is_silent(untracked->last_in, untracked->last_out, now))
        return TCP_AFTER_SILENCE;
    run_begin(run, now);
    return resync_in(ctx, run, untracked, segment) ? TCP_RESYNCED : TCP_TRACKED;
}

/* A segment of a connection that is not in the map of tracked ones. */
__attribute__((noinline)) int tcp_untracked(struct xdp_md *ctx)
{
    struct chain_tcp_scratch *tcp = chain_tcp_scratch_get();
    u64 now = bpf_ktime_get_ns();
    struct untracked *untracked;
    struct chain_conn *conn = 0;
    enum tcp_how how = TCP_TRACKED;

    if (!tcp)
        return tcp_unfollowed(now);
    untracked = bpf_map_lookup_elem(&mc_untracked, &tcp->segment.flow);
    if (untracked)
        conn = tcp_begin(tcp, untracked);
    if (!conn && tcp->segment.at == tcp->segment.end)
        return 0;
    if (!conn && !socket_may_read(ctx, &tcp->segment, untracked))
        return tally(CHAIN_NO_SOCKET);
    if (untracked && !conn) {
        how = tcp_resync(ctx, &tcp->segment, untracked, now);
        if (how != TCP_TRACKED)
            conn = conn_insert(tcp, tcp->segment.seq, untracked->out, tcp->segment.seq);
    }
    if (conn)
        return tcp_follow(ctx, tcp, conn, now, how);
    return tcp_untrack(tcp, untracked, now);
}

__attribute__((noinline)) int tcp_tracked(struct xdp_md *ctx)
{
    struct chain_tcp_scratch *tcp = chain_tcp_scratch_get();
    u64 now = bpf_ktime_get_ns();
    struct chain_conn *conn;

    if (!tcp)
        return tcp_unfollowed(now);
    conn = bpf_map_lookup_elem(&mc_connections, &tcp->segment.flow);
    if (!conn)
        return 1;
    return tcp_follow(ctx, tcp, conn, now, TCP_TRACKED);
}

/* A malformed segment, which no server should accept. */
static __always_inline int tcp_is_broken(struct xdp_md *ctx, struct chain_tcp_scratch *tcp)
{
    if (!bpf_map_lookup_elem(&mc_connections, &tcp->segment.flow) &&
        !socket_may_read(ctx, &tcp->segment, 0))
        return tally(CHAIN_NO_SOCKET);
    return tcp_unfollowed(bpf_ktime_get_ns());
}

/* A segment to memcached's port. */
__attribute__((noinline)) int chain_tcp(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct chain_tcp_scratch *tcp = chain_tcp_scratch_get();

    if (!scratch || !tcp)
        return tcp_unfollowed(bpf_ktime_get_ns());
    if (!segment_load(packet_xdp(ctx), scratch, &tcp->segment,
                      packet_end(packet_xdp(ctx), scratch)))
        return tcp_is_broken(ctx, tcp);
    if (tcp->segment.flags & TCP_SYN)
        return tcp_syn(tcp);
    if (tcp->segment.at == tcp->segment.end || tcp_tracked(ctx))
        tcp_untracked(ctx);
    return 0;
}

#endif
