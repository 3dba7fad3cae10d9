/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_one: the short way of XDP to the answer of what is asked most (answer/one.bpf.h). The key is
 * read where it lies in the frame, and the item is copied to where the reply is kept, and from
 * there into the frame. What one_find does not find takes the way of all requests (tcp_lookup).
 */
#ifndef MC_TCP_ONE_BPF_H
#define MC_TCP_ONE_BPF_H

#include "bpf/answer/key.bpf.h"
#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/one.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/tcp/answer.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/rtx.bpf.h"

/* Takes a place for the reply of n bytes, which the client is to have room for: NULL and *rc. */
static __always_inline struct mc_tcp_rtx *one_place(struct scratch *scratch,
                                                    struct segment_scratch *tcp,
                                                    const struct mc_tcp_conn *conn, u64 n,
                                                    enum verdict *rc)
{
    struct mc_tcp_rtx *rtx;

    if (unlikely(conn_is_narrow(conn, tcp, n))) {
        *rc = PASS_TCP_WINDOW;
        return NULL;
    }
    tcp->nrequests = 1;
    tcp->owner = mc_tcp_rtx_owner(tcp->start, conn->slot, conn->generation);
    rtx = rtx_take(tcp->owner, &tcp->segment.flow, &tcp->rtx);
    if (unlikely(!rtx)) {
        *rc = PASS_TCP_KEPT;
        return NULL;
    }
    rtx->start = tcp->start;
    rtx->n = n;
    scratch->nreply = REPLY_TEXT + n;
    return rtx;
}

/* Keeps the reply of a hit. */
static __always_inline enum verdict one_keep_hit(struct scratch *scratch,
                                                 struct segment_scratch *tcp,
                                                 const struct mc_tcp_conn *conn,
                                                 const struct one *one)
{
    u64 nwire = one->nwire, at;
    enum verdict rc = VERDICT_OK;
    struct mc_tcp_rtx *rtx = one_place(scratch, tcp, conn, NVALUE + nwire + NEND, &rc);

    if (unlikely(!rtx))
        return rc;
    scratch->nwire = nwire;
    scratch->wire_sum = one_sum(one);
    STORE64(rtx->text, TEXT_VALUE);
    copy_over(rtx->text + NVALUE, one->wire, nwire, TEXT_MAX);
    /* From memory: behind the copying the verifier goes on once, and not once for each length. */
    at = READ_ONCE(scratch->nwire);
    clamp_or_zero(at, TEXT_MAX);
    STORE32(rtx->text + NVALUE + at, (u32)TEXT_END);
    rtx->text[NVALUE + 4 + at] = (char)(TEXT_END >> 32);
    if (unlikely(!one_holds(one))) {
        rtx_free(tcp->rtx, tcp->owner);
        return FOUND_MORE;
    }
    slot_found(scratch, one->bucket, one->number, one->slot);
    slot_replied(scratch);
    scratch->classes[0] = META_CLSID(one->meta) % MC_CLASSES;
    scratch->nkeys = scratch->nhits = 1;
    return VERDICT_OK;
}

static __always_inline enum verdict
one_keep_miss(struct scratch *scratch, struct segment_scratch *tcp, const struct mc_tcp_conn *conn)
{
    enum verdict rc = VERDICT_OK;
    struct mc_tcp_rtx *rtx = one_place(scratch, tcp, conn, NEND, &rc);

    if (unlikely(!rtx))
        return rc;
    STORE64(rtx->text, TEXT_END);
    scratch->nkeys = 1;
    scratch->nhits = 0;
    return VERDICT_OK;
}

/* Takes the key out of a frame: 0, or why not. */
static __always_inline enum verdict one_key(struct xdp_md *ctx, struct scratch *scratch,
                                            struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

    if (!xdp_key(scratch, data + offsets_text(offsets), end))
        return FOUND_MORE;
    return unlikely(key_csum_verify(scratch, offsets.v6) == CHECKSUM_INVALID) ? PASS_TCP_SEGMENT
                                                                              : VERDICT_OK;
}

/* Looks up the key of a get in a frame whose headers are in `scratch`, and keeps the reply. */
static __always_inline enum verdict one_lookup(struct xdp_md *ctx, struct scratch *scratch,
                                               struct segment_scratch *tcp,
                                               const struct mc_tcp_conn *conn)
{
    enum verdict rc;
    struct one one;

    if (unlikely(tcp_is_bypassed()))
        return PASS_TCP_BYPASS;
    rc = scratch->offsets.v6 ? one_key(ctx, scratch, OFFSETS(0, 1))
                             : one_key(ctx, scratch, OFFSETS(0, 0));
    if (unlikely(rc))
        return rc;
    scratch->nmarks = 0;
    rc = likely(one_begin(scratch, &one)) ? one_find(scratch, &one) : FOUND_MORE;
    if (likely(rc == FOUND_HIT))
        return one_keep_hit(scratch, tcp, conn, &one);
    return rc == FOUND_MISS ? one_keep_miss(scratch, tcp, conn) : rc;
}

static __always_inline int one_write_as(struct xdp_md *ctx, const struct scratch *scratch,
                                        const struct segment_scratch *tcp, struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *text = data + offsets_text(offsets);
    u32 at = tcp->rtx;
    const struct mc_tcp_rtx *rtx = bpf_map_lookup_elem(&mc_tcp_rtx, &at);
    u64 n = scratch->nreply - REPLY_TEXT;

    if (!rtx || text + NEND > end)
        return 0;
    if (scratch->nhits) {
        link_reply(data, &scratch->saved, offsets.ip != ETH_HLEN);
        l4_reply(data + offsets.ip, &scratch->saved, offsets.v6, n,
                 hit_text_sum(scratch->wire_sum, scratch->nwire));
        if (n < 9 || !copy_blocks(text, end, rtx->text, n, TEXT_MAX))
            return 0;
    } else {
        link_reply(data, &scratch->saved, offsets.ip != ETH_HLEN);
        l4_reply(data + offsets.ip, &scratch->saved, offsets.v6, NEND, TEXT_END);
        STORE32(text, (u32)TEXT_END);
        *(u8 *)(text + 4) = TEXT_END >> 32;
    }
    read_barrier();
    return READ_ONCE(rtx->owner) == tcp->owner;
}

/*
 * Writes the reply whose text is kept into the frame, which has its size. 0: it has another; or the
 * text is another's, because the client has acknowledged it, and needs it no more.
 */
__attribute__((noinline)) int one_write(struct xdp_md *ctx)
{
    const struct segment_scratch *tcp = segment_scratch_get();
    const struct scratch *scratch = scratch_get();

    if (!tcp || !scratch)
        return 0;
    return scratch->offsets.v6 ? one_write_as(ctx, scratch, tcp, OFFSETS(0, 1))
                               : one_write_as(ctx, scratch, tcp, OFFSETS(0, 0));
}

#endif
