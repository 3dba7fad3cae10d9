/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * frame: a request's frame as XDP has it: whether it is a request for the server, whether the guard
 * and the return path admit it, and how the frame is resized for the reply.
 */
#ifndef MC_FRAME_BPF_H
#define MC_FRAME_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/guard.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/return_path.bpf.h"
#include "bpf/packet/udp.bpf.h"

/*
 * What XDP leaves in a packet's metadata for TC: answer this one. Twice: where TC has lost the
 * Ethernet header (skb.bpf.h) it looks for metadata as many bytes behind it.
 */
#define MARK_FOR_TC 0x4d43524fu
enum { MARK_AGAIN = 16, MARK_BYTES = MARK_AGAIN + 4 };
_Static_assert((int)MARK_AGAIN >= (int)ETH_HLEN, "one of them is in sight");

/* Passes a packet to the server, and counts why. */
static __always_inline int xdp_pass(struct scratch *scratch, enum verdict reason)
{
    count_reason(scratch, reason);
    return XDP_PASS;
}

/* guard_size of the reply in `scratch`. */
static __always_inline enum verdict guard_reply(const struct scratch *scratch)
{
    return guard_size(scratch->offsets.v6, scratch->ntext, scratch->nreply - REPLY_TEXT);
}

/* Marks a packet that TC is to answer. 0: there is no room for the mark, or no TC program. */
static __always_inline int xdp_mark(struct xdp_md *ctx)
{
    void *mark;

    if (!tc_follows || bpf_xdp_adjust_meta(ctx, -MARK_BYTES))
        return 0;
    mark = (void *)(long)ctx->data_meta;
    if (mark + MARK_BYTES > (void *)(long)ctx->data)
        return 0;
    STORE32(mark, MARK_FOR_TC);
    STORE32(mark + MARK_AGAIN, MARK_FOR_TC);
    return 1;
}

/*
 * Makes the frame `grow` bytes longer, at the head where there is room, else at the tail, where it
 * also becomes shorter: a loopback packet knows where its checksum starts, and that must stay
 * inside. Not 0: it cannot be, and is as it was.
 */
static __always_inline long xdp_resize(struct xdp_md *ctx, int grow)
{
    if (grow > 0 && grow <= REPLY_HEADROOM && !bpf_xdp_adjust_head(ctx, -grow))
        return 0;
    return bpf_xdp_adjust_tail(ctx, grow);
}

/* --- a datagram ------------------------------------------------------------------------------ */

/* From its header to behind what udp_id reads. */
enum { UDP_IDENTIFIED = L4_BYTES + 2 };

static __always_inline u64 udp_length(const void *udp)
{
    return bpf_ntohs(LOAD16(udp + 4));
}

/* A request's or a reply's datagram, by its own header. */
static __always_inline u64 udp_ntext(const void *udp)
{
    return udp_length(udp) - L4_TEXT;
}

/* Memcached's request id. */
static __always_inline u16 udp_id(const void *udp)
{
    return LOAD16(udp + 8);
}

static __always_inline int udp_is_first(const void *udp)
{
    return !LOAD16(udp + 10);
}

static __always_inline int udp_is_only(const void *udp)
{
    return LOAD16(udp + 12) == bpf_htons(1);
}

/*
 * See layout.h; nor is our own address answered, unless it came over loopback, nor anybody while we
 * have no port: then port 0 would be ours.
 */
static __always_inline int source_is_answerable(const void *ip, u64 v6)
{
    if (mc_port_is_unanswerable(port_from(ip + ip_bytes(v6)), control.port) || !control.port)
        return 0;
    return v6 ? !mc_source6_is_unanswerable(LOAD8(ip + 8), LOAD64(ip + 8), LOAD64(ip + 16))
              : !mc_source4_is_unanswerable(LOAD8(ip + 12));
}

/* Whether the lengths of IP and UDP agree, and a frame has n bytes from IP on. */
static __always_inline int lengths_agree(const void *ip, u64 v6, u64 nudp, u64 n)
{
    if (v6) /* without a checksum it is for the stack to drop */
        return bpf_ntohs(LOAD16(ip + 4)) == nudp && nudp + IP6_BYTES <= n &&
               LOAD16(ip + IP6_BYTES + 6);
    return bpf_ntohs(LOAD16(ip + 2)) == nudp + IP4_BYTES && nudp + IP4_BYTES <= n;
}

/*
 * Whether a packet, with n bytes in its frame from IP on, is a request in one datagram: VERDICT_OK,
 * or the reason to pass, and how much text it has. The caller knows that it is to our port, and
 * plain.
 */
static __always_inline enum verdict udp_check(const void *ip, u64 v6, u64 n, u64 *ntext)
{
    const void *udp = ip + ip_bytes(v6);
    u64 nudp = udp_length(udp);

    if (unlikely(!source_is_answerable(ip, v6)))
        return PASS_SOURCE;
    if (unlikely(!lengths_agree(ip, v6, nudp, n)))
        return PASS_PACKET;
    if (unlikely(!udp_is_only(udp) || nudp <= L4_TEXT))
        return PASS_FRAME;
    *ntext = nudp - L4_TEXT;
    return VERDICT_OK;
}

/* --- a request ------------------------------------------------------------------------------- */

/* Whether a request that begins with these bytes is no get, and may be answered. */
typedef int request_verb(u32 text);

static __always_inline int no_verb(u32 text)
{
    (void)text;
    return 0;
}

/*
 * Whether a packet, with n bytes in its frame, is a get or another verb: HEAD_GET, HEAD_VERB, or
 * the reason to pass. The caller knows that it is to our port and address, and plain.
 */
static __always_inline enum verdict request_precheck(const void *ip, u64 v6, u64 n,
                                                     request_verb *is_verb)
{
    const void *l4 = ip + ip_bytes(v6);
    u64 ntext;
    enum verdict rc = udp_check(ip, v6, n, &ntext);

    if (unlikely(rc))
        return rc;
    if (unlikely(READ_ONCE(control.bypass)))
        return PASS_BYPASS;
    if (unlikely(server_has_stopped()))
        return PASS_STOPPED;
    if (unlikely(LOAD32(l4 + L4_TEXT) != TEXT_GET))
        return is_verb(LOAD32(l4 + L4_TEXT)) ? HEAD_VERB : PASS_COMMAND;
    return likely(ntext >= REQUEST_LEAST) ? HEAD_GET : PASS_COMMAND;
}

/*
 * Whether a request's source and return path are admitted: VERDICT_OK, HEAD_HIDDEN or a reason.
 * `admitted` has 64 bits because the verifier takes a stack slot of which half is stored for one
 * whose old content is needed, and follows the paths to here one by one if that differs.
 */
static __always_inline enum verdict xdp_admit(struct xdp_md *ctx, struct scratch *scratch,
                                              const void *data, const void *ip,
                                              struct offsets offsets)
{
    u32 vlan = link_vlan(data, offsets);
    u64 admitted = VERDICT_OK;
    enum verdict rc;

    if (unlikely(ip_is_own(ip, offsets.v6)) && ctx->ingress_ifindex != LOOPBACK_IFINDEX)
        return PASS_SOURCE;
    if (unlikely(vlan && !vlan_is_ours(vlan)))
        return PASS_MAC;
    if (unlikely(MACS(data) != control.mac))
        admitted = mac_check(MACS(data), ctx->ingress_ifindex);
    if (unlikely(admitted == PASS_MAC))
        return admitted;
    rc = guard_source(ip, offsets.v6);
    if (unlikely(rc))
        return rc;
    /* One packet that a sender on this host has made of several datagrams has such a sum, too. */
    if (unlikely(xdp_generic) && l4_checksum_is_partial(ip, offsets.v6))
        admitted = HEAD_HIDDEN;
    /* TC looks for the return path itself, and sees the tags. */
    if (likely(admitted != HEAD_HIDDEN)) {
        scratch->saved.back = return_path(data, ip, offsets.v6, ctx->ingress_ifindex, vlan);
        if (unlikely(!scratch->saved.back))
            return PASS_WAY;
    }
    rc = guard_rate(ip, offsets.v6);
    if (unlikely(rc))
        return rc;
    /* A reason says that all else admits it (ring.bpf.h). */
    if (unlikely(control.flush_at) && admitted == VERDICT_OK && second_reached(control.flush_at))
        return PASS_EXPIRED;
    return admitted;
}

/* What a frame's first bytes say. */
enum frame_type {
    FRAME_SHORT,  /* too short for IP and our transport */
    FRAME_OTHER,  /* neither IP nor tags */
    FRAME_TAGGED, /* VLAN tags */
    FRAME_IP4,    /* IP of another transport than ours */
    FRAME_IP6,
    FRAME_OURS4, /* IP of ours */
    FRAME_OURS6,
};

static __always_inline enum frame_type frame_type(const void *data, const void *end)
{
    const void *ip = data + ETH_HLEN;
    u16 type;

    if (ip + IP4_BYTES + L4_BYTES > end)
        return FRAME_SHORT;
    type = LOAD16(data + 12);
    if (likely(type == bpf_htons(ETH_P_IP)))
        return ip_protocol(ip, 0) == L4_PROTOCOL ? FRAME_OURS4 : FRAME_IP4;
    if (type == bpf_htons(ETH_P_IPV6))
        return ip_protocol(ip, 1) == L4_PROTOCOL ? FRAME_OURS6 : FRAME_IP6;
    return type_is_tag(type) ? FRAME_TAGGED : FRAME_OTHER;
}

/* The type of what is behind one or two tags, which begins at *nlink. */
static __always_inline u16 frame_untag(const void *data, u32 *nlink)
{
    u16 type = LOAD16(data + ETH_HLEN + 2);

    *nlink = ETH_HLEN + TAG_BYTES;
    if (!type_is_tag(type))
        return type;
    *nlink += TAG_BYTES;
    return LOAD16(data + ETH_HLEN + TAG_BYTES + 2);
}

/*
 * What a frame of IP, and of our transport if it has no tags, is by what it says itself: a HEAD_*
 * or a reason. `data` and `end` are the frame's, *out is set if it is to our port. plain: it has no
 * tags.
 */
static __always_inline enum verdict frame_look(struct xdp_md *ctx, void *data, void *end,
                                               struct offsets offsets, int plain,
                                               struct scratch **out, request_verb *is_verb)
{
    void *ip = data + offsets.ip, *l4 = ip + ip_bytes(offsets.v6);
    struct scratch *scratch;

    if (!plain && data + ETH_HLEN + 2 * TAG_BYTES > end)
        return HEAD_ODD;
    if (unlikely(l4 + L4_CHECKED > end || !ip_has_no_options(ip, offsets.v6, L4_PROTOCOL)))
        return HEAD_ODD;
    if (port_to(l4) != control.port)
        return HEAD_FOREIGN;
    *out = scratch = scratch_get();
    if (!scratch || unlikely(!ip_is_to_us(ip, offsets.v6)))
        return HEAD_REMOTE;
    scratch->nframe = (u64)(end - data);
    if (!plain && unlikely(offsets_text(offsets) + udp_ntext(l4) > scratch->nframe))
        scratch->nframe = bpf_xdp_get_buff_len(ctx);
    scratch->ntext = udp_ntext(l4);
    return request_precheck(ip, offsets.v6, scratch->nframe - offsets.ip, is_verb);
}

/*
 * Whether a frame that frame_look has said to be of this kind is admitted: the same, HEAD_HIDDEN,
 * or a reason. Unless it is a reason the headers are kept in `scratch`.
 */
static __always_inline enum verdict frame_admit(struct xdp_md *ctx, struct scratch *scratch,
                                                void *data, struct offsets offsets,
                                                enum verdict kind)
{
    void *ip = data + offsets.ip;
    enum verdict rc = xdp_admit(ctx, scratch, data, ip, offsets);

    if (unlikely(rc && rc != HEAD_HIDDEN))
        return rc;
    scratch->offsets = offsets;
    headers_save(&scratch->saved, data, ip, offsets, SAVED_WORDS(offsets.v6));
    return rc ? rc : kind;
}

int frame_check_any(struct xdp_md *ctx, u32 nlink, u32 v6);

/* All of it, of a get. A plain frame with further buffers is handed on. */
static __always_inline enum verdict frame_check(struct xdp_md *ctx, struct offsets offsets,
                                                int plain, struct scratch **out)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    enum verdict rc = frame_look(ctx, data, end, offsets, plain, out, no_verb);

    if (plain && unlikely(rc == PASS_PACKET))
        return frame_check_any(ctx, ETH_HLEN, offsets.v6);
    return likely(rc == HEAD_GET) ? frame_admit(ctx, *out, data, offsets, rc) : rc;
}

/*
 * The same of a frame that may have tags and further buffers, whose IP begins at nlink; of a verb
 * that is no get it says PASS_COMMAND. A function, so that what it keeps on the stack is not added
 * to that of what follows: 512 bytes are the limit.
 */
__attribute__((noinline)) int frame_check_any(struct xdp_md *ctx, u32 nlink, u32 v6)
{
    struct offsets offsets = {nlink, 0};
    struct scratch *scratch;

    bound_mask(offsets.ip, 31);
    if (!v6)
        return frame_check(ctx, offsets, 0, &scratch);
    offsets.v6 = 1;
    return frame_check(ctx, offsets, 0, &scratch);
}

#endif
