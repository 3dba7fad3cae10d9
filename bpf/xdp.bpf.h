/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * xdp: the program that answers in the driver.
 */
#ifndef MC_XDP_BPF_H
#define MC_XDP_BPF_H

#include "bpf/kernel.bpf.h"
#include "bpf/packet.bpf.h"
#include "bpf/lookup.bpf.h"
#include "bpf/get.bpf.h"

/* What XDP leaves in a packet's metadata for TC: answer this one. */
#define MARK_FOR_TC 0x4d43524fu

/* Passes a packet of ours to the server. */
static __always_inline int xdp_pass(struct work *work, u32 reason)
{
    work->counts.count[reason & 31]++;
    return XDP_PASS;
}

/* The frame has no room for the reply: TC is to answer it, and to count it. */
static __always_inline int xdp_pass_to_tc(struct xdp_md *ctx, struct work *work)
{
    u32 *mark;

    if (!tc_follows || bpf_xdp_adjust_meta(ctx, -(int)sizeof(*mark)))
        return xdp_pass(work, MC_COUNT_PASS_ROOM);
    mark = (void *)(long)ctx->data_meta;
    if ((void *)(mark + 1) > (void *)(long)ctx->data)
        return xdp_pass(work, MC_COUNT_PASS_ROOM);
    *mark = MARK_FOR_TC;
    return XDP_PASS;
}

/*
 * Makes the frame `grow` bytes longer, at the head where there is room, else
 * at the tail. Not 0: it cannot be, and is as it was.
 */
static __always_inline long xdp_resize(struct xdp_md *ctx, int grow)
{
    return bpf_xdp_adjust_head(ctx, -grow) ? bpf_xdp_adjust_tail(ctx, grow) : 0;
}

/* Sends the reply of `work` back to where the request came from. */
__attribute__((noinline)) int xdp_reply(struct xdp_md *ctx)
{
    struct work *work = work_get();
    u64 nreply, nframe;

    if (!work)
        return XDP_PASS;
    nreply = work->nreply;
    nframe = frame_size(nreply, work->nframe);
    reply_head(work, nreply, nframe);
    if (nframe != work->nframe && xdp_resize(ctx, (int)nframe - (int)work->nframe))
        return xdp_pass_to_tc(ctx, work);
    BOUND(nframe, 2047);
    if (nframe < FRAME_TEXT || bpf_xdp_store_bytes(ctx, 0, work->reply, nframe)) {
        work->counts.count[MC_COUNT_PASS_ERROR]++;
        return XDP_ABORTED;
    }
    work->counts.count[MC_COUNT_ANSWERED_XDP]++;
    count_bytes(work, head_total((struct head *)work->head) - 28, nreply - FRAME_PAYLOAD);
    count_hits(work);
    return XDP_TX;
}

/* A request that is not simple: any number of keys, any line. */
__attribute__((noinline)) int xdp_get(struct xdp_md *ctx)
{
    struct work *work = work_get();
    struct head *head;
    u64 nrequest;
    int rc;

    if (!work)
        return XDP_PASS;
    head = (struct head *)work->head;
    nrequest = head_total(head) + FRAME_IP - FRAME_KEYS;
    if (nrequest - 1 >= REQUEST_MAX)
        return xdp_pass(work, MC_COUNT_PASS_REQUEST);
    BOUND(nrequest, REQUEST_ROOM - 1);
    if (nrequest < 1 || bpf_xdp_load_bytes(ctx, FRAME_KEYS, work->request, nrequest))
        return xdp_pass(work, MC_COUNT_PASS_ERROR);
    work->nrequest = nrequest;
    rc = get_answer(work);
    if (rc != STEP_END)
        return xdp_pass(work, rc);
    return xdp_reply(ctx);
}

/* A frame to us that no well-formed get can be in. */
__attribute__((noinline)) int xdp_odd(struct xdp_md *ctx)
{
    return XDP_PASS;
}

SEC("xdp.frags")
int mc_xdp(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct head head;
    struct work *work;
    int rc;

    if (data + FRAME_HEAD > end)
        return xdp_odd(ctx);
    head.w[1] = LOAD64(data + 8);
    head.w[2] = LOAD64(data + 16);
    if (!head_is_udp(&head))
        return XDP_PASS;
    if (unlikely(!head_is_plain(&head)))
        return xdp_odd(ctx);
    head.w[4] = LOAD64(data + 32);
    if (head_dport(&head) != control.port)
        return XDP_PASS;
    head.w[3] = LOAD64(data + 24);
    if (unlikely(!head_is_ours(&head)))
        return XDP_PASS;
    work = work_get();
    if (!work)
        return XDP_PASS;
    head.w[0] = LOAD64(data);
    head.w[5] = LOAD64(data + 40);
    head.w[6] = LOAD64(data + 48);
    work->nframe = (u64)(end - data);
    rc = head_check(&head, work->nframe, ctx->ingress_ifindex);
    if (rc != HEAD_GET)
        return xdp_pass(work, rc);
    if (unlikely(control.flush_at) && second_reached(control.flush_at))
        return xdp_pass(work, MC_COUNT_PASS_EXPIRED);
    __builtin_memcpy(work->head, head.w, sizeof(head));
    return xdp_get(ctx);
}

#endif
