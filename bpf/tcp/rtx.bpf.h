/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_rtx: the retransmit buffers, the texts of outstanding replies.
 *
 * A pool of fixed size. Its places are taken without a lock: by a compare and swap of the owner,
 * which names the connection by its slot and generation, and the last reply in the place by its
 * sequence number: a program that copies a text looks at the owner before and after. Each CPU that
 * makes a reply takes a place of its own (RULE_BUSY); which, mc_tcp_rtx_place says. It copies what
 * is outstanding there first: so the text of a place never changes, and all of a connection's is in
 * one. The place is free when the client has acknowledged all of it, when another has its text and
 * more, or when the entry is removed. What the slot's connection before left behind until then is
 * taken over. Where no place is free, or it is too small for all, the request is passed to the
 * server.
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

static __always_inline void rtx_free(u32 at, u64 owner)
{
    struct mc_tcp_rtx *rtx = bpf_map_lookup_elem(&mc_tcp_rtx, &at);

    if (rtx)
        __sync_val_compare_and_swap(&rtx->owner, owner, 0);
}

/* The owner of the place with a connection's outstanding replies. */
static __always_inline u64 conn_owner(const struct mc_tcp_conn *conn)
{
    return mc_tcp_rtx_owner(conn->last, conn->slot, conn->generation);
}

/*
 * Copies the text of a place to tcp->text: tcp->nkept bytes, which behind tcp->skip begin with this
 * number of the wire. 0: the place is another's by now, or has nothing of that.
 */
__attribute__((noinline)) int rtx_load(struct segment_scratch *tcp, u32 place, u64 owner, u32 from)
{
    const struct mc_tcp_rtx *rtx;
    u32 at = place; /* Linux 6.1 takes no key from what a function was given */
    u64 n;

    if (!tcp)
        return 0;
    rtx = bpf_map_lookup_elem(&mc_tcp_rtx, &at);
    if (!rtx || READ_ONCE(rtx->owner) != owner)
        return 0;
    n = rtx->n;
    tcp->nkept = n;
    tcp->skip = from - rtx->start;
    if (n > TEXT_MAX || tcp->skip >= n)
        return 0;
    copy_over(tcp->text, rtx->text, n, TEXT_MAX);
    read_barrier();
    return READ_ONCE(rtx->owner) == owner;
}

/*
 * Keeps the reply's text in `scratch` behind what the client has not acknowledged of that in this
 * place: the new place, or RTX_NONE.
 */
__attribute__((noinline)) int rtx_append(struct segment_scratch *tcp, u32 place, u64 owner)
{
    struct scratch *scratch = scratch_get();
    struct mc_tcp_rtx *rtx;
    u64 n, all, at, skip;
    u32 out = RTX_NONE;

    if (!tcp || !scratch || !rtx_load(tcp, place, owner, tcp->segment.ack))
        return RTX_NONE;
    n = scratch->nreply - REPLY_TEXT;
    at = READ_ONCE(tcp->nkept);
    skip = READ_ONCE(tcp->skip);
    all = at - skip + n;
    if (at - skip != tcp->start - tcp->segment.ack || n > TEXT_MAX || all > TEXT_MAX)
        return RTX_NONE;
    clamp_or_zero(at, TEXT_MAX);
    copy_over(tcp->text + at, scratch->reply + REPLY_TEXT, n, TEXT_MAX);
    rtx = rtx_take(tcp->owner, &tcp->segment.flow, &out);
    if (!rtx)
        return RTX_NONE;
    rtx->start = tcp->segment.ack;
    rtx->n = all;
    clamp_or_zero(skip, TEXT_MAX);
    copy_over(rtx->text, tcp->text + skip, all, TEXT_MAX);
    return out;
}

/* Keeps the reply's text in `scratch`: the place, or RTX_NONE. */
static __always_inline u32 rtx_put(const struct scratch *scratch, struct segment_scratch *tcp,
                                   const struct mc_tcp_conn *conn)
{
    u64 n = scratch->nreply - REPLY_TEXT;
    struct mc_tcp_rtx *rtx;
    u32 at = RTX_NONE;

    if (unlikely(tcp->start != tcp->segment.ack))
        return rtx_append(tcp, conn->rtx, conn_owner(conn));
    rtx = rtx_take(tcp->owner, &tcp->segment.flow, &at);
    if (!rtx)
        return RTX_NONE;
    rtx->start = tcp->start;
    rtx->n = n;
    copy_over(rtx->text, scratch->reply + REPLY_TEXT, n, TEXT_MAX);
    return at;
}

/* Removes a flow's entry as conn_remove does, and frees the place of its outstanding replies. */
static __always_inline int conn_drop(struct mc_tcp_conn *conn, const struct mc_tcp_flow *flow,
                                     u32 was)
{
    u64 owner = conn->delta.nreply ? conn_owner(conn) : 0;
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
 * How many bytes of what is outstanding a piece has, and from which on: *from, where the client's
 * acknowledgement ends. That of the requests is held back until the last piece, so that the client
 * goes on asking (RULE_PIECE_HELD).
 */
static __always_inline u64 reply_cut(struct scratch *scratch, const struct segment_scratch *tcp,
                                     u64 *from)
{
    u64 skip = tcp->segment.ack - tcp->delta.reply, n;

    if (skip >= tcp->delta.nreply)
        skip = 0; /* an older acknowledgement */
    *from = skip;
    n = tcp->delta.nreply - skip;
    scratch->saved.tcp.seq = bpf_htonl(tcp->delta.reply + (u32)skip);
    if (n <= MC_TCP_PIECE)
        return n;
    scratch->saved.tcp.ack = bpf_htonl(tcp->delta.request);
    return MC_TCP_PIECE;
}

/*
 * Brings the outstanding replies, or a piece of them, into `scratch` as a reply: the bytes of the
 * first time (RULE_RESEND_KEPT). 0: their place is another's by now.
 */
__attribute__((noinline)) int rtx_get(struct segment_scratch *tcp)
{
    struct scratch *scratch = scratch_get();
    u64 n, from = 0;

    if (!tcp || !scratch || !rtx_load(tcp, tcp->rtx, tcp->owner, tcp->delta.reply))
        return 0;
    n = tcp->delta.nreply;
    if (tcp->nkept - tcp->skip != n)
        return 0;
    if (tcp->in_pieces && n > MC_TCP_PIECE)
        n = reply_cut(scratch, tcp, &from);
    from += tcp->skip;
    clamp_or_zero(from, TEXT_MAX);
    copy_over(scratch->reply + REPLY_TEXT, tcp->text + from, n, TEXT_MAX);
    scratch->nreply = REPLY_TEXT + n;
    scratch->wire_sum = 0;
    return 1;
}

#endif
