/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * mc_tcp_xdp: answers in the driver. Whatever it passes TC ingress translates; it also answers what
 * XDP could, but for room in the frame, or because the socket has to be told of an acknowledgement.
 */
#ifndef MC_TCP_XDP_BPF_H
#define MC_TCP_XDP_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/tcp/answer.bpf.h"
#include "bpf/tcp/commit.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/one.bpf.h"
#include "bpf/tcp/read.bpf.h"
#include "bpf/tcp/unstamped.bpf.h"

/* How a frame was made longer. */
enum { GROWN_NOT, GROWN_HEAD, GROWN_TAIL, GROWN_FAILED };

/* Makes room for the reply in `scratch`. */
static __always_inline int tcp_grow(struct xdp_md *ctx, u64 before, u64 nframe)
{
    int grow = (int)nframe - (int)before;

    if (grow <= 0)
        return GROWN_NOT;
    if (grow <= REPLY_HEADROOM && !bpf_xdp_adjust_head(ctx, -grow))
        return GROWN_HEAD;
    return bpf_xdp_adjust_tail(ctx, grow) ? GROWN_FAILED : GROWN_TAIL;
}

static __always_inline u64 tcp_frame_size(const struct scratch *scratch, u64 before)
{
    return frame_size(reply_size(scratch), before);
}

/* Sends the reply, for which the frame has room. */
static __always_inline int tcp_xdp_send(struct xdp_md *ctx, struct scratch *scratch,
                                        const struct segment_scratch *tcp, u64 nframe)
{
    u64 before = scratch->nframe;

    if (nframe < before && before > FRAME_PADDED &&
        bpf_xdp_adjust_tail(ctx, (int)nframe - (int)before))
        return XDP_DROP;
    if (likely(READ_ONCE(tcp->is_one)))
        return one_write(ctx) ? XDP_TX : XDP_DROP;
    return xdp_write_reply(ctx, scratch) ? XDP_TX : XDP_DROP;
}

/*
 * Leaves a segment to TC, which also retransmits replies: what XDP passes is not noted in the
 * connection's state. So a copy of it may be answered before TC has seen it, which then gets the
 * same reply again (the programs do without RULE_NOTE_XDP and RULE_RESEND_XDP). Commands that are
 * not answered TC counts: XDP passes most of them before it has looked for the connection.
 */
static __always_inline int tcp_xdp_pass(const struct segment_scratch *tcp, enum verdict why)
{
    if (tcp->segment.n && why != PASS_TCP_COMMAND)
        tcp_count(why);
    return XDP_PASS;
}

/*
 * As tcp_lookup of a get of one key, by the short way; or FOUND_MORE. A function, as is that of all
 * others: behind them the verifier goes on once, and not once for each way, and neither has the
 * other's stack above it.
 */
__attribute__((noinline)) int tcp_xdp_one(struct xdp_md *ctx, const struct mc_tcp_conn *conn)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    return tcp && scratch && conn ? one_lookup(ctx, scratch, tcp, conn) : PASS_TCP_LOOKUP;
}

__attribute__((noinline)) int tcp_xdp_lookup(struct xdp_md *ctx, const struct mc_tcp_conn *conn,
                                             int kind)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    return tcp && scratch && conn ? tcp_lookup(packet_xdp(ctx), scratch, tcp, conn, kind)
                                  : PASS_TCP_LOOKUP;
}

/* Answers a request, which seems to be of this kind, or passes it. */
static __always_inline int tcp_xdp_answer(struct xdp_md *ctx, struct scratch *scratch,
                                          struct segment_scratch *tcp, struct mc_tcp_conn *conn,
                                          struct mc_tcp_slot *slot, enum verdict kind)
{
    u64 before = scratch->nframe, nframe;
    enum verdict rc;
    int grown, undo;

    rc = kind == HEAD_GET && likely(tcp->start == tcp->segment.ack) ? tcp_xdp_one(ctx, conn)
                                                                    : FOUND_MORE;
    tcp->is_one = rc != FOUND_MORE;
    if (rc == FOUND_MORE)
        rc = tcp_xdp_lookup(ctx, conn, kind);
    if (rc)
        return tcp_xdp_pass(tcp, rc);
    nframe = tcp_frame_size(scratch, before);
    grown = tcp_grow(ctx, before, nframe);
    if (grown == GROWN_FAILED) {
        rtx_free(tcp->rtx, tcp->owner);
        tcp_count(PASS_TCP_ROOM);
        return XDP_PASS; /* as it came: TC answers */
    }
    rc = tcp_commit(conn, slot, scratch, tcp, 0);
    if (likely(!rc)) {
        tcp_count_answer(scratch, tcp, slot, MC_TCP_ANSWERED_XDP);
        return tcp_xdp_send(ctx, scratch, tcp, nframe);
    }
    undo = (int)nframe - (int)before;
    if ((grown == GROWN_HEAD && bpf_xdp_adjust_head(ctx, undo)) ||
        (grown == GROWN_TAIL && bpf_xdp_adjust_tail(ctx, -undo)))
        return XDP_DROP;
    return tcp_xdp_pass(tcp, rc);
}

enum { XDP_READY = -1 /* beside the verdicts: the frame goes on */ };

/* Whether a segment is no request that is answered, by its first bytes. */
static __always_inline int text_is_foreign(const struct tcp_segment *segment, const void *text,
                                           const void *end)
{
    return segment->n < REQUEST_LEAST ||
           (text + REQUEST_LEAST <= end && text_kind(LOAD32(text)) == HEAD_FOREIGN);
}

static __always_inline int tcp_xdp_widen_as(struct xdp_md *ctx, struct scratch *scratch,
                                            struct segment_scratch *tcp, struct offsets offsets)
{
    const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    int wide;

    if (!tcp->segment.is_unstamped)
        return tcp_xdp_pass(tcp, PASS_TCP_SEGMENT);
    if (text_is_foreign(&tcp->segment, data + offsets_l4(offsets) + TCP_BYTES, end))
        return XDP_PASS;
    wide = xdp_widen(ctx, offsets);
    if (wide != WIDE)
        return wide == WIDE_LOST ? XDP_DROP : XDP_PASS; /* there is no room: TC answers */
    scratch->nframe += WIDER;
    scratch->offsets = offsets;
    tcp->unstamped = tcp->segment.no_options = 1;
    return XDP_READY;
}

/*
 * A segment of a connection without timestamps: widens what may be a request, which is plain from
 * then on. XDP_READY, or a verdict. A function: the verifier goes through it once.
 */
__attribute__((noinline)) int tcp_xdp_widen(struct xdp_md *ctx, int v6)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();

    if (!tcp || !scratch)
        return XDP_PASS;
    return v6 ? tcp_xdp_widen_as(ctx, scratch, tcp, OFFSETS(0, 1))
              : tcp_xdp_widen_as(ctx, scratch, tcp, OFFSETS(0, 0));
}

/* Gives a frame that was widened the header of its connection's again. 0: it is lost. */
__attribute__((noinline)) int tcp_xdp_narrow(struct xdp_md *ctx, int is_reply)
{
    const struct scratch *scratch = scratch_get();

    if (!scratch)
        return 0;
    return scratch->offsets.v6 ? xdp_narrow(ctx, OFFSETS(0, 1), is_reply)
                               : xdp_narrow(ctx, OFFSETS(0, 0), is_reply);
}

/* A frame with a segment of a connection. */
static __always_inline int tcp_xdp_segment(struct xdp_md *ctx, struct scratch *scratch,
                                           struct segment_scratch *tcp, struct mc_tcp_conn *conn,
                                           struct mc_tcp_slot *slot, struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip, *l4;
    enum verdict rc, kind;
    int verdict;
    u32 text;

    if (unlikely(conn_is_unstamped(conn))) {
        verdict = tcp_xdp_widen(ctx, offsets.v6);
        if (verdict != XDP_READY)
            return verdict;
        data = (void *)(long)ctx->data;
        end = (void *)(long)ctx->data_end;
    }
    ip = data + offsets.ip;
    l4 = ip + ip_bytes(offsets.v6);
    /* All of it in the frame's first buffer. */
    if (!tcp->segment.no_options || offsets_text(offsets) + tcp->segment.n > scratch->nframe)
        return tcp_xdp_pass(tcp, PASS_TCP_SEGMENT);
    if (l4 + L4_CHECKED > end)
        return XDP_PASS;
    text = LOAD32(l4 + L4_TEXT);
    kind = text_kind(text);
    if (tcp->segment.n < REQUEST_LEAST || kind == HEAD_FOREIGN || !text_is_spoken(text, slot))
        return tcp_xdp_pass(tcp, PASS_TCP_COMMAND);
    tcp->boundary = READ_ONCE(slot->boundary);
    read_barrier();
    tcp->start = conn_reply_start(conn, &tcp->segment);
    rc = conn_refuses(conn, slot, tcp, tcp->boundary);
    if (rc)
        return tcp_xdp_pass(tcp, rc);
    if (!conn_came_by_path(conn, LOAD64(data + 6), ctx->ingress_ifindex, 0) ||
        (unlikely(MACS(data) != control.mac) && mac_check(MACS(data), ctx->ingress_ifindex)))
        return tcp_xdp_pass(tcp, PASS_TCP_WAY);
    if (conn_acks_new(conn, tcp)) /* RULE_ACK_DUE */
        return XDP_PASS;          /* TC answers it and tells the socket, or counts why not */
    scratch->offsets = offsets;
    scratch->ntext = tcp->segment.n;
    scratch->saved.back = conn->mac;
    headers_save(&scratch->saved, data, ip, offsets, SAVED_WORDS(offsets.v6));
    return tcp_xdp_answer(ctx, scratch, tcp, conn, slot, kind);
}

static __always_inline int tcp_xdp_frame(struct xdp_md *ctx, struct scratch *scratch,
                                         struct segment_scratch *tcp, struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *ip = data + offsets.ip, *l4 = ip + ip_bytes(offsets.v6);
    struct mc_tcp_slot *slot;
    struct mc_tcp_conn *conn;
    u32 nip;

    if (l4 + TCP_BYTES > end || !ip_has_no_options(ip, offsets.v6, IPPROTO_TCP) ||
        port_to(l4) != (u16)control.tcp_port)
        return XDP_PASS;
    nip = ip_length(ip, offsets.v6);
    if (l4 + L4_TEXT > end || !segment_read_usual(&tcp->segment, ip, l4, offsets.v6, nip))
        segment_read(&tcp->segment, ip, l4, end, offsets.v6, ip_bytes(offsets.v6), nip, 1);
    if (!tcp->segment.n || tcp->segment.flags & (TCP_SYN | TCP_RST))
        return XDP_PASS;
    segment_flow(&tcp->segment.flow, ip, l4, offsets.v6, 1);
    conn = conn_find(&tcp->segment.flow);
    if (!conn)
        return XDP_PASS;
    slot = conn_slot(conn);
    if (!slot)
        return XDP_PASS;
    scratch->nframe = (u64)(end - data);
    return tcp_xdp_segment(ctx, scratch, tcp, conn, slot, offsets);
}

SEC("xdp")
int mc_tcp_xdp(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();
    int verdict = XDP_PASS;

    if (!tcp || !scratch || data + ETH_HLEN + IP4_BYTES > end)
        return XDP_PASS;
    tcp->unstamped = 0;
    if (LOAD16(data + 12) == bpf_htons(ETH_P_IP))
        verdict = tcp_xdp_frame(ctx, scratch, tcp, OFFSETS(0, 0));
    else if (LOAD16(data + 12) == bpf_htons(ETH_P_IPV6))
        verdict = tcp_xdp_frame(ctx, scratch, tcp, OFFSETS(0, 1));
    if (unlikely(READ_ONCE(tcp->unstamped)) && verdict != XDP_DROP &&
        !tcp_xdp_narrow(ctx, verdict == XDP_TX))
        return XDP_DROP;
    return verdict;
}

#endif
