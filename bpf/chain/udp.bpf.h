/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_udp: datagrams that are no plain get, and packets whose bytes cannot be parsed.
 *
 * A datagram that holds one write of one key, and nothing else, enters the key's gate, and leaves
 * it when the reply leaves, if that can be recognised (ask.bpf.h). Any other write closes its gate
 * for settings.settle.
 */
#ifndef MC_CHAIN_UDP_BPF_H
#define MC_CHAIN_UDP_BPF_H

#include "bpf/chain/outstanding.bpf.h"
#include "bpf/chain/parse_run.bpf.h"
#include "bpf/chain/tcp.bpf.h"
#include "bpf/udp/frame.bpf.h"

/* Parses a datagram to memcached's port. 0: it cannot be followed. */
static __always_inline int udp_follow(struct xdp_md *ctx, const struct chain_scratch *scratch,
                                      struct parse_run *run)
{
    u64 l4[L4_TEXT / 8];

    if (bpf_xdp_load_bytes(ctx, scratch->l4, l4, L4_BYTES))
        return 0;
    run->at = scratch->l4 + L4_TEXT;
    run->end = scratch->l4 + udp_length(l4);
    if (run->end <= run->at && udp_length(l4))
        return 1; /* no server reads it */
    if (run->end > scratch->nframe || bpf_xdp_load_bytes(ctx, scratch->l4, l4, sizeof(l4)) ||
        !udp_is_first(l4) || !udp_is_only(l4))
        return 0;
    req_init(&run->request, PARSER_ANY);
    run_in(ctx, run);
    return !(run->events & REQ_LOST) && req_between(&run->request);
}

/*
 * What a parsed datagram is. A gat is no OUTSTANDING_WRITE, since it is answered like a get; its
 * key's end is reported before its own, and no value is. While everything is closed, nothing is
 * one: what closed it may be a write with the same request id that could not be read.
 */
static __always_inline enum outstanding_kind udp_kind(const struct parse_run *run)
{
    if (!(run->events & (REQ_WRITE | REQ_WRITE_ALL | REQ_LOST)))
        return OUTSTANDING_OTHER;
    if (run->events & ~(REQ_WRITE | REQ_DATA | REQ_ANSWERED) || run->ncommands != 1)
        return OUTSTANDING_WRITES;
    if (!(run->first & REQ_ANSWERED) && !(run->events & REQ_DATA))
        return OUTSTANDING_WRITES;
    return gate_is_open(&whole_table, run->now) ? OUTSTANDING_WRITE : OUTSTANDING_WRITES;
}

/* Records the datagram, and closes the gate that it has entered if its reply will not open it. */
static __always_inline void udp_note(struct xdp_md *ctx, const struct chain_scratch *scratch,
                                     const struct parse_run *run)
{
    const struct chain_write *write = &run->writes[0];
    struct outstanding_id id;
    int ends = 0;

    if (!outstanding_read(packet_xdp(ctx), scratch, 1, &id))
        ends = outstanding_note(outstanding_hash(&id), udp_kind(run), write->bucket,
                                write->generation);
    if (!run->nwrites || ends)
        return;
    write_close(write->bucket, run->settled);
    write_leave(write->bucket, write->generation, run->now);
}

__attribute__((noinline)) int chain_udp(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct parse_run *run = run_get();
    u64 now = bpf_ktime_get_ns();

    if (!scratch || !run)
        return tcp_unfollowed(now);
    run_begin(run, now);
    run->room = 1;
    if (!udp_follow(ctx, scratch, run)) {
        run->events |= REQ_LOST;
        tcp_unfollowed(now);
    }
    udp_note(ctx, scratch, run);
    return 0;
}

/* Closes the gates of the keys that the packet writes; chain_scratch describes the packet. */
static __always_inline int chain_invalidate(struct xdp_md *ctx, struct chain_scratch *scratch)
{
    if (scratch->kind == KIND_TCP)
        chain_tcp(ctx);
    else if (scratch->kind == KIND_UDP)
        chain_udp(ctx);
    else
        tcp_unfollowed(bpf_ktime_get_ns());
    return XDP_PASS;
}

#endif
