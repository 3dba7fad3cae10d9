/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_answer: which requests are answered, and their replies. Whether a connection's state lets
 * them be, and how that changes, is in commit.bpf.h.
 */
#ifndef MC_TCP_ANSWER_BPF_H
#define MC_TCP_ANSWER_BPF_H

#include "bpf/answer/get.bpf.h"
#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/tcp/commit.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/pipeline.bpf.h"
#include "bpf/tcp/rtx.bpf.h"

/* Whether a segment came from where the server's segments go to. */
static __always_inline int conn_came_by_path(const struct mc_tcp_conn *conn, u64 from, u32 ifindex,
                                             u32 vlan)
{
    return conn->ifindex == ifindex && conn->vlan == vlan && conn->mac == (from & 0xffffffffffff);
}

/* The server takes no request of the protocol that the connection does not speak. */
static __always_inline int text_is_spoken(u32 text, const struct mc_tcp_slot *slot)
{
    return ((u8)text == BINARY_MAGIC) == !!READ_ONCE(slot->binary);
}

/* Whether the server is to have every request. */
static __always_inline int tcp_is_bypassed(void)
{
    return READ_ONCE(control.bypass) | READ_ONCE(control.tcp_bypass) || server_has_stopped() ||
           (control.flush_at && second_reached(control.flush_at));
}

/*
 * Whether a reply of n bytes, with those that are outstanding, is longer than a segment, or than
 * the client's window.
 */
static __always_inline int conn_is_narrow(const struct mc_tcp_conn *conn,
                                          const struct segment_scratch *tcp, u64 n)
{
    n += tcp->start - tcp->segment.ack;
    return n > conn->mss || n > tcp->segment.window << (conn->snd_wscale & 15);
}

/* Keeps the reply in `scratch`, if the client has room for it: 0, or the reason to pass. */
__attribute__((noinline)) int tcp_keep(const struct scratch *scratch, struct segment_scratch *tcp,
                                       const struct mc_tcp_conn *conn)
{
    if (!scratch || !tcp || !conn)
        return PASS_TCP_KEPT;
    if (conn_is_narrow(conn, tcp, scratch->nreply - REPLY_TEXT))
        return PASS_TCP_WINDOW;
    tcp->owner = mc_tcp_rtx_owner(tcp->start, conn->slot, conn->generation);
    tcp->rtx = rtx_put(scratch, tcp, conn);
    return tcp->rtx == RTX_NONE ? PASS_TCP_KEPT : VERDICT_OK;
}

/*
 * Looks up what the requests in the packet ask for, mostly one, and keeps the reply: 0, or the
 * reason to pass. `scratch` has the headers.
 */
static __always_inline enum verdict tcp_lookup(struct packet packet, struct scratch *scratch,
                                               struct segment_scratch *tcp,
                                               const struct mc_tcp_conn *conn, enum verdict kind)
{
    enum verdict rc;

    if (unlikely(tcp_is_bypassed()))
        return PASS_TCP_BYPASS;
    rc = packet_take(packet, scratch, kind, 0);
    if (!rc)
        rc = segment_answer(scratch, tcp, kind);
    if (rc == PASS_COMMAND)
        return PASS_TCP_COMMAND;
    if (rc == PASS_PACKET || rc == PASS_REQUEST)
        return PASS_TCP_SEGMENT;
    if (rc != STEP_END)
        return PASS_TCP_LOOKUP;
    if (scratch->nreply == REPLY_TEXT) /* quiet verbs that find nothing */
        return PASS_TCP_COMMAND;
    return tcp_keep(scratch, tcp, conn);
}

/* Counts an answer that was sent. */
static __always_inline void tcp_count_answer(struct scratch *scratch,
                                             const struct segment_scratch *tcp,
                                             struct mc_tcp_slot *slot, u64 by)
{
    u32 zero = 0;
    struct mc_tcp_counts *counts = bpf_map_lookup_elem(&mc_tcp_counts, &zero);

    if (counts) {
        counts->count[by & 31] += tcp->nrequests;
        counts->count[MC_TCP_BYTES_READ] += scratch->ntext;
        counts->count[MC_TCP_BYTES_WRITTEN] += scratch->nreply - REPLY_TEXT;
    }
    slot->answered += tcp->nrequests;
    slot->answered += !slot->answered; /* 0: none was */
    count_hits(scratch);
    reply_read(scratch);
}

#endif
