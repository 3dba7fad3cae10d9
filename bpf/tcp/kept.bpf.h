/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_kept: the texts of outstanding replies.
 *
 * A pool of fixed size. Its places are taken without a lock: by a compare and swap of the owner,
 * which names the connection by its slot and generation, and the reply by its sequence number: who
 * sends a kept text once more looks at the owner before and after copying it. Each CPU that makes a
 * reply takes a place of its own (RULE_BUSY). A connection tries
 * the place of its slot's number first, so that up to MC_TCP_KEPT_MAX connections never compete.
 * The place is free when the client has acknowledged the reply, or the entry is removed. What the
 * slot's connection before left behind until then is taken over. Where no place is free the request
 * is passed to the server.
 */
#ifndef MC_TCP_KEPT_BPF_H
#define MC_TCP_KEPT_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/tcp/conn.bpf.h"

struct kept {
    u64 owner; /* 0: free */
    u32 n;
    u32 unused;
    char text[MC_TCP_KEPT_BYTES + 48]; /* is written in blocks */
};

_Static_assert(MC_TCP_KEPT_BYTES >= TEXT_MAX, "every reply can be kept");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MC_TCP_KEPT_MAX);
    __type(key, u32);
    __type(value, struct kept);
} tcp_kept SEC(".maps");

enum { KEPT_TRIES = 4, KEPT_NONE = MC_TCP_KEPT_MAX, KEPT_SLOT_BITS = 18 };
_Static_assert(MC_TCP_CONNECTIONS_MAX < 1 << KEPT_SLOT_BITS, "every slot has a number");

/* Sequence number, generation, slot; never 0. */
static __always_inline u64 kept_owner(u32 reply, u32 slot, u32 generation)
{
    return (u64)reply << 32 | generation << KEPT_SLOT_BITS | (slot + 1);
}

/* Whether another connection with the same slot has left a text in a place. */
static __always_inline int kept_is_left(u64 owner, u64 had)
{
    return ((u32)(owner ^ had) & ((1u << KEPT_SLOT_BITS) - 1)) == 0 && (u32)owner != (u32)had;
}

/* Takes a place for a reply's text: what is there, and its number in *out; NULL: there is none. */
static __always_inline struct kept *kept_take(u64 owner, u32 *out)
{
    u32 slot = owner & ((1u << KEPT_SLOT_BITS) - 1);
    struct kept *kept;
    u64 had, i;
    u32 at;

    for (i = 0; i < KEPT_TRIES; i++) {
        at = (slot - 1 + i * 2053) % MC_TCP_KEPT_MAX;
        kept = bpf_map_lookup_elem(&tcp_kept, &at);
        if (!kept)
            return NULL;
        had = READ_ONCE(kept->owner);
        if (had && !kept_is_left(owner, had))
            continue;
        if (__sync_val_compare_and_swap(&kept->owner, had, owner) != had)
            continue;
        *out = at;
        return kept;
    }
    return NULL;
}

/* Keeps the reply's text in `scratch`: the place, or KEPT_NONE. */
static __always_inline u32 kept_put(const struct scratch *scratch, u64 owner)
{
    u64 n = scratch->nreply - REPLY_TEXT;
    u32 at = KEPT_NONE;
    struct kept *kept = kept_take(owner, &at);

    if (!kept)
        return KEPT_NONE;
    kept->n = n;
    copy_over(kept->text, scratch->reply + REPLY_TEXT, n, TEXT_MAX);
    return at;
}

static __always_inline void kept_free(u32 at, u64 owner)
{
    struct kept *kept = bpf_map_lookup_elem(&tcp_kept, &at);

    if (kept)
        __sync_val_compare_and_swap(&kept->owner, owner, 0);
}

/* Removes a flow's entry as conn_remove does, and frees the place of its outstanding reply. */
static __always_inline int conn_drop(struct mc_tcp_conn *conn, const struct mc_tcp_flow *flow)
{
    u64 owner =
        conn->shift.nreply ? kept_owner(conn->shift.reply, conn->slot, conn->generation) : 0;
    u32 at = conn->kept;

    if (!conn_remove(conn, flow))
        return 0;
    if (owner)
        kept_free(at, owner);
    return 1;
}

/*
 * Removes a flow's entry, if there is one, with its kept reply. A function: what is rare costs the
 * verifier nothing elsewhere.
 */
__attribute__((noinline)) int conn_forget(const struct mc_tcp_flow *flow)
{
    struct mc_tcp_conn *conn;

    if (!flow)
        return 0;
    conn = conn_find(flow);
    return conn && conn_lock_as(conn, flow, MC_TCP_VOID) ? conn_drop(conn, flow) : 0;
}

/*
 * Leaves a piece of the reply in `scratch`, from where the client's acknowledgement ends. That of
 * the request is held back until the last piece, so that the client goes on asking
 * (RULE_PIECE_HELD).
 */
static __always_inline void reply_cut(struct scratch *scratch, const struct segment_scratch *tcp)
{
    u64 from = tcp->segment.ack - tcp->shift.reply, n;
    char *text = scratch->reply + REPLY_TEXT;

    if (from >= tcp->shift.nreply)
        from = 0; /* an older acknowledgement */
    n = tcp->shift.nreply - from;
    scratch->saved.tcp.seq = bpf_htonl(tcp->shift.reply + from);
    if (n > MC_TCP_PIECE) {
        n = MC_TCP_PIECE;
        scratch->saved.tcp.ack = bpf_htonl(tcp->shift.request);
    }
    CLAMP(from, TEXT_MAX);
    copy_over(text, text + from, n, MC_TCP_PIECE);
    scratch->nreply = REPLY_TEXT + n;
}

/*
 * Brings a kept text, or a piece of it, into `scratch` as a reply: the bytes of the first time
 * (RULE_RESEND_KEPT). 0: it is another's by now.
 */
__attribute__((noinline)) int kept_get(struct segment_scratch *tcp)
{
    struct scratch *scratch = scratch_get();
    struct kept *kept;
    u32 at;
    u64 n;

    if (!tcp || !scratch)
        return 0;
    at = tcp->kept; /* Linux 6.1 takes no key from what a function was given */
    kept = bpf_map_lookup_elem(&tcp_kept, &at);
    if (!kept || READ_ONCE(kept->owner) != tcp->owner)
        return 0;
    n = kept->n;
    if (n > TEXT_MAX)
        return 0;
    copy_over(scratch->reply + REPLY_TEXT, kept->text, n, TEXT_MAX);
    read_barrier();
    if (READ_ONCE(kept->owner) != tcp->owner)
        return 0;
    scratch->nreply = REPLY_TEXT + n;
    scratch->wire_sum = 0;
    if (tcp->in_pieces && n > MC_TCP_PIECE)
        reply_cut(scratch, tcp);
    return 1;
}

#endif
