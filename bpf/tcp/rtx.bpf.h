/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_rtx: the retransmit buffers, the texts of outstanding replies.
 *
 * A pool of fixed size. Its places are taken without a lock: by a compare and swap of the owner,
 * which names the connection by its slot and generation, and the reply by its sequence number: a
 * program that retransmits a reply looks at the owner before and after copying it. Each CPU that
 * makes a reply takes a place of its own (RULE_BUSY); which, mc_tcp_rtx_place says. The place is
 * free when the client has acknowledged the reply, or the entry is removed. What the slot's
 * connection before left behind until then is taken over. Where no place is free the request is
 * passed to the server.
 */
#ifndef MC_TCP_RTX_BPF_H
#define MC_TCP_RTX_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/tcp/conn.bpf.h"

_Static_assert(MC_TCP_RTX_BYTES >= TEXT_MAX, "every reply can be kept");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MC_TCP_RTX_MAX);
    __type(key, u32);
    __type(value, struct mc_tcp_rtx);
} mc_tcp_rtx SEC(".maps");

enum { RTX_NONE = MC_TCP_RTX_MAX };

/* Whether another connection with the same slot has left a text in a place. */
static __always_inline int rtx_is_abandoned(u64 owner, u64 had)
{
    return ((u32)(owner ^ had) & ((1u << MC_TCP_RTX_SLOT_BITS) - 1)) == 0 && (u32)owner != (u32)had;
}

/*
 * Takes a place for the text of a reply to the flow's client: what is there, and its number in
 * *out; NULL: there is none.
 */
static __always_inline struct mc_tcp_rtx *rtx_take(u64 owner, const struct mc_tcp_flow *flow,
                                                   u32 *out)
{
    u32 slot = owner & ((1u << MC_TCP_RTX_SLOT_BITS) - 1);
    struct mc_tcp_rtx *rtx;
    u64 had;
    u32 at, i;

    for (i = 0; i < MC_TCP_RTX_TRIES; i++) {
        at = mc_tcp_rtx_place(flow, tcp_seeds, slot - 1, i);
        rtx = bpf_map_lookup_elem(&mc_tcp_rtx, &at);
        if (!rtx)
            return NULL;
        had = READ_ONCE(rtx->owner);
        if (had && !rtx_is_abandoned(owner, had))
            continue;
        if (__sync_val_compare_and_swap(&rtx->owner, had, owner) != had)
            continue;
        *out = at;
        return rtx;
    }
    return NULL;
}

/* Keeps the reply's text in `scratch`: the place, or RTX_NONE. */
static __always_inline u32 rtx_put(const struct scratch *scratch, u64 owner,
                                   const struct mc_tcp_flow *flow)
{
    u64 n = scratch->nreply - REPLY_TEXT;
    u32 at = RTX_NONE;
    struct mc_tcp_rtx *rtx = rtx_take(owner, flow, &at);

    if (!rtx)
        return RTX_NONE;
    rtx->n = n;
    copy_over(rtx->text, scratch->reply + REPLY_TEXT, n, TEXT_MAX);
    return at;
}

static __always_inline void rtx_free(u32 at, u64 owner)
{
    struct mc_tcp_rtx *rtx = bpf_map_lookup_elem(&mc_tcp_rtx, &at);

    if (rtx)
        __sync_val_compare_and_swap(&rtx->owner, owner, 0);
}

/* Removes a flow's entry as conn_remove does, and frees the place of its outstanding reply. */
static __always_inline int conn_drop(struct mc_tcp_conn *conn, const struct mc_tcp_flow *flow,
                                     u32 was)
{
    u64 owner =
        conn->delta.nreply ? mc_tcp_rtx_owner(conn->delta.reply, conn->slot, conn->generation) : 0;
    u32 at = conn->rtx;

    if (!conn_remove(conn, flow, was))
        return 0;
    if (owner)
        rtx_free(at, owner);
    return 1;
}

/*
 * Removes a flow's entry, if it is that of the socket with this cookie, with its retransmit buffer.
 * A function: what is rare costs the verifier nothing elsewhere.
 */
__attribute__((noinline)) int conn_forget(const struct mc_tcp_flow *flow, u64 cookie)
{
    struct mc_tcp_conn *conn;

    if (!flow)
        return 0;
    conn = conn_find(flow);
    if (!conn || !conn_lock_as(conn, flow, MC_TCP_VOID))
        return 0;
    if (conn->cookie == cookie)
        return conn_drop(conn, flow, MC_TCP_FREE);
    conn_unlock(conn);
    return 0;
}

/*
 * Leaves a piece of the reply in `scratch`, from where the client's acknowledgement ends. That of
 * the request is held back until the last piece, so that the client goes on asking
 * (RULE_PIECE_HELD).
 */
static __always_inline void reply_cut(struct scratch *scratch, const struct segment_scratch *tcp)
{
    u64 from = tcp->segment.ack - tcp->delta.reply, n;
    char *text = scratch->reply + REPLY_TEXT;

    if (from >= tcp->delta.nreply)
        from = 0; /* an older acknowledgement */
    n = tcp->delta.nreply - from;
    scratch->saved.tcp.seq = bpf_htonl(tcp->delta.reply + from);
    if (n > MC_TCP_PIECE) {
        n = MC_TCP_PIECE;
        scratch->saved.tcp.ack = bpf_htonl(tcp->delta.request);
    }
    clamp_or_zero(from, TEXT_MAX);
    copy_over(text, text + from, n, MC_TCP_PIECE);
    scratch->nreply = REPLY_TEXT + n;
}

/*
 * Brings a retransmit buffer, or a piece of it, into `scratch` as a reply: the bytes of the first
 * time (RULE_RESEND_KEPT). 0: it is another's by now.
 */
__attribute__((noinline)) int rtx_get(struct segment_scratch *tcp)
{
    struct scratch *scratch = scratch_get();
    struct mc_tcp_rtx *rtx;
    u32 at;
    u64 n;

    if (!tcp || !scratch)
        return 0;
    at = tcp->rtx; /* Linux 6.1 takes no key from what a function was given */
    rtx = bpf_map_lookup_elem(&mc_tcp_rtx, &at);
    if (!rtx || READ_ONCE(rtx->owner) != tcp->owner)
        return 0;
    n = rtx->n;
    if (n > TEXT_MAX)
        return 0;
    copy_over(scratch->reply + REPLY_TEXT, rtx->text, n, TEXT_MAX);
    read_barrier();
    if (READ_ONCE(rtx->owner) != tcp->owner)
        return 0;
    scratch->nreply = REPLY_TEXT + n;
    scratch->wire_sum = 0;
    if (tcp->in_pieces && n > MC_TCP_PIECE)
        reply_cut(scratch, tcp);
    return 1;
}

#endif
