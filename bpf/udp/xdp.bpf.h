/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * xdp: the program that answers in the driver. A get of one key whose item is where its hash says
 * is copied straight into the frame; all other requests take the way through struct scratch.
 */
#ifndef MC_XDP_BPF_H
#define MC_XDP_BPF_H

#include "bpf/answer/get.bpf.h"
#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/one.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/guard.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/udp.bpf.h"
#include "bpf/udp/frame.bpf.h"
#include "bpf/udp/tail.bpf.h"

/* The frame has no room for the reply: TC is to answer it, and to count it. */
static __always_inline int xdp_pass_to_tc(struct xdp_md *ctx, struct scratch *scratch)
{
    return xdp_mark(ctx) ? XDP_PASS : xdp_pass(scratch, PASS_ROOM);
}

/* A writer was at the key's bucket: TC is to look again, and to count it. */
static __always_inline int xdp_pass_busy(struct xdp_md *ctx, struct scratch *scratch)
{
    return xdp_mark(ctx) ? XDP_PASS : xdp_pass(scratch, PASS_BUSY);
}

/* Leaves a packet to the server, or to TC what XDP cannot see. */
static __always_inline int xdp_leave(struct xdp_md *ctx, struct scratch *scratch, enum verdict rc)
{
    return rc == HEAD_HIDDEN ? xdp_pass_to_tc(ctx, scratch) : xdp_pass(scratch, rc);
}

/* Sends the reply of `scratch`, if there is one, back to where the request came from. */
static __always_inline int xdp_reply(struct xdp_md *ctx, struct scratch *scratch)
{
    u64 nframe, before;
    enum verdict rc;

    if (scratch->nreply == REPLY_TEXT) {
        count_silence(scratch, MC_COUNT_ANSWERED_XDP);
        return XDP_DROP;
    }
    rc = guard_reply(scratch);
    if (unlikely(rc))
        return xdp_pass(scratch, rc);
    before = scratch->nframe;
    nframe = frame_size(reply_size(scratch), before);
    if ((nframe > before || before > FRAME_PADDED) && nframe != before &&
        xdp_resize(ctx, (int)nframe - (int)before))
        return xdp_pass_to_tc(ctx, scratch);
    if (!xdp_write_reply(ctx, scratch)) {
        scratch->counts.count[MC_COUNT_PASS_ERROR]++;
        return XDP_ABORTED;
    }
    scratch->counts.count[MC_COUNT_ANSWERED_XDP]++;
    count_payload(scratch, (u64)scratch->nreply - REPLY_TEXT);
    count_hits(scratch);
    reply_read(scratch);
    return XDP_TX;
}

int xdp_request(struct xdp_md *ctx, u32 nlink, u32 v6, u32 how);

/* What xdp_request knows of a request. */
enum {
    REQUEST_GET,      /* a get, of which frame_look has looked at the frame, which has no tags; */
    REQUEST_VERB,     /* the same of another verb */
    REQUEST_UNSEEN,   /* perhaps such a verb, in any frame */
    REQUEST_ADMITTED, /* a get that is admitted, and whose headers are kept; */
    REQUEST_JUDGED,   /* and whose checksum is not wrong */
};

/* A get that is admitted and not simple: any number of keys, any bucket. */
static __always_inline int xdp_get_any(struct xdp_md *ctx, int judged)
{
    return xdp_request(ctx, 0, 0, judged ? REQUEST_JUDGED : REQUEST_ADMITTED);
}

/* --- one key: straight from the item into the packet ---------------------- */

/* Keeps the frame's end, which the key does not cover. 0: there is too much of it. */
static __always_inline int xdp_keep(struct scratch *scratch, void *data, void *end, u64 keys)
{
    u64 at = scratch->nframe - 8;

    if (at > keys + scratch->nkey)
        return 0;
    bound_mask(at, 511);
    if (data + at + 8 > end)
        return 0;
    scratch->last = LOAD64(data + at);
    return 1;
}

/* Writes a hit's headers and text, of this sum; the frame has its size. 0: it has not. */
static __always_inline int write_hit(struct xdp_md *ctx, struct scratch *scratch,
                                     struct offsets offsets, const char *wire, u64 nwire, u64 sum)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *text = data + offsets_text(offsets), *tail;
    u64 at = nwire;

    if (text + NVALUE > end)
        return 0;
    link_reply(data, &scratch->saved, offsets.ip != ETH_HLEN);
    l4_reply(data + offsets.ip, &scratch->saved, offsets.v6, NVALUE + nwire + NEND, sum);
    STORE64(text - 2, TEXT_VALUE << 16);
    bound_mask(at, 2047);
    tail = text + NVALUE + at;
    if (tail + NEND > end)
        return 0;
    STORE32(tail, (u32)TEXT_END);
    *(u8 *)(tail + 4) = TEXT_END >> 32;
    return copy_blocks(text + NVALUE, end, wire, nwire, TEXT_MAX);
}

/* Undoes a hit that a writer disturbed: the packet is again what it was. 0: it is not. */
__attribute__((noinline)) int xdp_restore(struct xdp_md *ctx, int grown, int at_head)
{
    struct scratch *scratch = scratch_get();
    u64 nlink, nip, nkey;
    char *link;

    if (!scratch || (at_head ? bpf_xdp_adjust_head(ctx, grown) : bpf_xdp_adjust_tail(ctx, -grown)))
        return 0;
    link = scratch->reply;
    STORE64(link + 14, scratch->saved.tags);
    STORE64(link, scratch->saved.to);
    STORE64(link + 6, scratch->saved.from);
    nlink = scratch->offsets.ip;
    bound_size(nlink, 31);
    nip = ip_bytes(scratch->offsets.v6) + L4_TEXT + NGET;
    if (scratch->offsets
            .v6) /* of which no word was kept that reaches behind the text's first bytes */
        scratch->saved.ip[7] = TEXT_GET;
    nkey = scratch->nkey;
    bound_size(nkey, 255);
    return !bpf_xdp_store_bytes(ctx, 0, link, nlink) &&
           !bpf_xdp_store_bytes(ctx, nlink, scratch->saved.ip, nip) &&
           !bpf_xdp_store_bytes(ctx, nlink + nip, scratch->key, nkey) &&
           !bpf_xdp_store_bytes(ctx, scratch->nframe - 8, &scratch->last, 8);
}

/* Turns the frame into "END\r\n". A small one keeps its size. */
static __always_inline int xdp_miss(struct xdp_md *ctx, struct scratch *scratch,
                                    struct offsets offsets)
{
    void *data, *end, *text;

    if (unlikely(scratch->nframe > FRAME_PADDED) &&
        bpf_xdp_adjust_tail(ctx, FRAME_PADDED - (int)scratch->nframe))
        return xdp_pass(scratch, PASS_ERROR);
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    text = data + offsets_text(offsets);
    if (text + NEND > end)
        return XDP_ABORTED;
    link_reply(data, &scratch->saved, offsets.ip != ETH_HLEN);
    l4_reply(data + offsets.ip, &scratch->saved, offsets.v6, NEND, TEXT_END);
    STORE32(text, (u32)TEXT_END);
    *(u8 *)(text + 4) = TEXT_END >> 32;
    scratch->counts.count[MC_COUNT_MISSES]++;
    scratch->counts.count[MC_COUNT_ANSWERED_XDP]++;
    count_payload(scratch, NEND);
    return XDP_TX;
}

/* Sends the item that was found, if nothing disturbs that. */
static __always_inline int xdp_hit(struct xdp_md *ctx, struct scratch *scratch,
                                   struct offsets offsets, const struct one *one)
{
    u64 nwire = one->nwire, sum;
    enum verdict rc = guard_size(offsets.v6, scratch->ntext, NVALUE + nwire + NEND);
    int grow, at_head;

    if (unlikely(rc))
        return xdp_pass(scratch, rc);
    sum = hit_text_sum(one_sum(one), nwire);
    grow = (int)(offsets_text(offsets) + NVALUE + nwire + NEND) - (int)scratch->nframe;
    at_head = grow <= REPLY_HEADROOM && !bpf_xdp_adjust_head(ctx, -grow);
    if (!at_head && bpf_xdp_adjust_tail(ctx, grow))
        return xdp_pass_to_tc(ctx, scratch);
    if (unlikely(!write_hit(ctx, scratch, offsets, one->wire, nwire, sum)))
        return XDP_ABORTED;
    if (unlikely(!one_holds(one)))
        return xdp_restore(ctx, grow, at_head) ? xdp_get_any(ctx, 1) : XDP_ABORTED;
    bucket_mark(one->bucket, one->slot);
    scratch->counts.class_hits[META_CLSID(one->meta) % MC_CLASSES]++;
    scratch->counts.count[MC_COUNT_ANSWERED_XDP]++;
    count_payload(scratch, NVALUE + nwire + NEND);
    return XDP_TX;
}

/* --- the program ------------------------------------------------------------ */

/*
 * Frames that no get can be in: too short, with IP options, a fragment. Those that are to us, as
 * far as can be seen, are counted.
 */
__attribute__((noinline)) int xdp_odd(struct xdp_md *ctx, u32 nlink, u32 v6)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip, *l4;
    u64 nip, at = nlink;
    struct scratch *scratch;

    bound_mask(at, 31);
    ip = data + at;
    if (ip + (v6 ? IP6_BYTES : IP4_BYTES) > end)
        return XDP_PASS;
    if (v6 ? LOAD8(ip) >> 4 != 6 || LOAD8(ip + 6) != L4_PROTOCOL
           : LOAD8(ip) >> 4 != 4 || LOAD8(ip + 9) != L4_PROTOCOL ||
                 LOAD16(ip + 6) & bpf_htons(0x1fff))
        return XDP_PASS;
    nip = v6 ? IP6_BYTES : (LOAD8(ip) & 15) * 4;
    bound_mask(nip, 63);
    l4 = ip + nip;
    if (l4 + L4_BYTES > end || port_to(l4) != control.port || !ip_is_to_us(ip, v6))
        return XDP_PASS;
    scratch = scratch_get();
    if (!scratch)
        return XDP_PASS;
    if (!ip_has_no_options(ip, v6, L4_PROTOCOL))
        return xdp_pass(scratch, PASS_PACKET);
    return xdp_pass(scratch, (s64)udp_ntext(l4) > 0 ? PASS_COMMAND : PASS_FRAME);
}

/* The same of what is no get: HEAD_VERB, HEAD_HIDDEN or a reason. Then its headers are kept. */
static __always_inline enum verdict xdp_verb_check(struct xdp_md *ctx, struct scratch *scratch,
                                                   u64 nlink, u64 v6)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip, *l4;
    struct offsets offsets = {nlink, v6};
    enum verdict rc;

    bound_mask(nlink, 31);
    ip = data + nlink;
    l4 = ip + ip_bytes(v6);
    if (data + ETH_HLEN + 2 * TAG_BYTES > end || l4 + L4_CHECKED > end ||
        !text_is_verb(LOAD32(l4 + L4_TEXT)))
        return PASS_COMMAND;
    rc = xdp_admit(ctx, scratch, data, ip, offsets);
    if (rc)
        return rc;
    scratch->offsets = offsets;
    scratch->ntext = udp_ntext(l4);
    headers_save(&scratch->saved, data, ip, offsets, SAVED_WORDS(offsets.v6));
    return HEAD_VERB;
}

/*
 * A function: it is rarely needed, and what it keeps on the stack is not added to that of others.
 */
__attribute__((noinline)) int xdp_verb_check_any(struct xdp_md *ctx, u32 nlink, u32 v6)
{
    struct scratch *scratch = scratch_get();

    if (!scratch)
        return PASS_ERROR;
    return v6 ? xdp_verb_check(ctx, scratch, nlink, 1) : xdp_verb_check(ctx, scratch, nlink, 0);
}

/*
 * Answers whatever is not a simple get. One function for all of it: where the CPU's returns are
 * guarded a call takes as long as ten loads.
 */
__attribute__((noinline)) int xdp_request(struct xdp_md *ctx, u32 nlink, u32 v6, u32 how)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    enum verdict kind = how == REQUEST_VERB ? HEAD_VERB : HEAD_GET, rc = kind;
    struct scratch *scratch = scratch_get();

    if (!scratch)
        return XDP_PASS;
    if (how <= REQUEST_VERB) {
        if (data + ETH_HLEN + (v6 ? IP6_BYTES : IP4_BYTES) + L4_CHECKED > end)
            return XDP_PASS;
        rc = v6 ? frame_admit(ctx, scratch, data, OFFSETS(0, 1), kind)
                : frame_admit(ctx, scratch, data, OFFSETS(0, 0), kind);
    } else if (how == REQUEST_UNSEEN) {
        rc = xdp_verb_check_any(ctx, nlink, v6);
    }
    if (unlikely(rc != HEAD_GET && rc != HEAD_VERB))
        return xdp_leave(ctx, scratch, rc);
    kind = rc;
    rc = packet_take(packet_xdp(ctx), scratch, kind, how == REQUEST_JUDGED);
    if (likely(!rc))
        rc = kind == HEAD_GET ? get_answer(scratch) : verb_answer(scratch, LOOK_ONCE);
    if (likely(rc == STEP_END))
        return xdp_reply(ctx, scratch);
    return rc == FOUND_RETRY ? xdp_pass_busy(ctx, scratch) : xdp_pass(scratch, rc);
}

/* Whatever is no get that XDP may answer, by what frame_check says of it. */
static __always_inline int xdp_no_get(struct xdp_md *ctx, struct scratch *scratch, u32 nlink,
                                      u32 v6, enum verdict rc)
{
    if (rc == HEAD_FOREIGN || rc == HEAD_REMOTE)
        return XDP_PASS;
    if (rc == HEAD_ODD)
        return xdp_odd(ctx, nlink, v6);
    if (rc == PASS_COMMAND)
        return xdp_request(ctx, nlink, v6, REQUEST_UNSEEN);
    return scratch ? xdp_leave(ctx, scratch, rc) : XDP_PASS;
}

/*
 * A frame without tags: its form is constant, and a hit is answered in place. The bucket is loaded
 * as soon as its place is known: the checks that follow take as long as a cache needs for it.
 */
static __always_inline int xdp_plain(struct xdp_md *ctx, struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *text = data + offsets_text(offsets);
    struct scratch *scratch = NULL;
    struct one one;
    enum verdict rc;

    rc = frame_look(ctx, data, end, offsets, 1, &scratch, text_is_verb);
    if (rc == HEAD_VERB)
        return xdp_request(ctx, offsets.ip, offsets.v6, REQUEST_VERB);
    if (unlikely(rc == PASS_PACKET)) {
        rc = frame_check_any(ctx, ETH_HLEN, offsets.v6);
        return rc == HEAD_GET ? xdp_get_any(ctx, 0)
                              : xdp_no_get(ctx, scratch, offsets.ip, offsets.v6, rc);
    }
    if (unlikely(rc != HEAD_GET))
        return xdp_no_get(ctx, scratch, offsets.ip, offsets.v6, rc);
    if (!xdp_key(scratch, text, end) ||
        !xdp_keep(scratch, data, end, offsets_text(offsets) + NGET) || !one_begin(scratch, &one))
        return xdp_request(ctx, offsets.ip, offsets.v6, REQUEST_GET);
    rc = frame_admit(ctx, scratch, data, offsets, HEAD_GET);
    if (unlikely(rc != HEAD_GET))
        return xdp_leave(ctx, scratch, rc);
    if (unlikely(key_csum_verify(scratch, offsets.v6) == CHECKSUM_INVALID))
        return xdp_pass(scratch, PASS_PACKET);
    rc = one_find(scratch, &one);
    if (likely(rc == FOUND_HIT))
        return xdp_hit(ctx, scratch, offsets, &one);
    return rc == FOUND_MISS ? xdp_miss(ctx, scratch, offsets) : xdp_get_any(ctx, 1);
}

static __always_inline int xdp_tagged(struct xdp_md *ctx, const void *data)
{
    u32 nlink, v6;
    u16 type = frame_untag(data, &nlink);
    enum verdict rc;

    v6 = type == bpf_htons(ETH_P_IPV6);
    if (!v6 && type != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    rc = frame_check_any(ctx, nlink, v6);
    return rc == HEAD_GET ? xdp_get_any(ctx, 0) : xdp_no_get(ctx, scratch_get(), nlink, v6, rc);
}

/* tails: segments of TCP are handed on. */
static __always_inline int xdp_frame(struct xdp_md *ctx, const int tails)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

    switch (frame_type(data, end)) {
    case FRAME_OURS4:
        return xdp_plain(ctx, OFFSETS(0, 0));
    case FRAME_OURS6:
        return xdp_plain(ctx, OFFSETS(0, 1));
    case FRAME_TAGGED:
        return xdp_tagged(ctx, data);
    case FRAME_IP4:
        if (tails)
            xdp_tail(ctx, 0);
        break;
    case FRAME_IP6:
        if (tails)
            xdp_tail(ctx, 1);
        break;
    case FRAME_SHORT:
    case FRAME_OTHER:
        break;
    }
    return XDP_PASS;
}

SEC("xdp")
int mc_xdp(struct xdp_md *ctx)
{
    return xdp_frame(ctx, 0);
}

SEC("xdp")
int mc_xdp_both(struct xdp_md *ctx)
{
    return xdp_frame(ctx, 1);
}

#endif
