/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_unstamped: requests and replies of connections without timestamps, whose headers have
 * TCP_BYTES.
 *
 * All that reads a request and makes a reply knows one place of the text, that behind timestamps.
 * So a request is widened: its headers move 12 bytes to the front, and what they leave becomes
 * timestamps; nothing depends on what these say. When it has been answered the reply is narrowed,
 * and when it is passed the request is as it came. Only these connections pay for that.
 *
 * To their clients no segment is an old one for its timestamp (PAWS): such a connection is answered
 * only while there is a guard.
 */
#ifndef MC_TCP_UNSTAMPED_BPF_H
#define MC_TCP_UNSTAMPED_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/sum.bpf.h"
#include "bpf/packet/tcp.bpf.h"

enum {
    WIDER = L4_TEXT - TCP_BYTES,
    OFFSET_WIDE = L4_TEXT / 4 << 4, /* the data offset, and no flag beside it */
};

/*
 * A TSval that makes up for the rest of the option and the longer data offset: the sum of all that
 * is added is 0, so the checksum stays. The length in IP's header does, too.
 */
#define WIDE_TSVAL bpf_htonl(0xc6f40000)

static __always_inline void tcp_widen(void *tcp)
{
    *(u8 *)(tcp + 12) = OFFSET_WIDE;
    STORE32(tcp + 20, TCP_TIMESTAMPS);
    STORE32(tcp + 24, WIDE_TSVAL);
    STORE32(tcp + 28, 0);
}

/* Takes the timestamps out of the headers of a reply; what is behind them stays where it is. */
static __always_inline void reply_narrow(void *ip, u64 v6, const int partial)
{
    void *tcp = ip + ip_bytes(v6);
    u16 less = ~bpf_htons(WIDER);
    u64 sum = (u16)~LOAD16(tcp + 16) + (u64)less + (u16)~bpf_htons(WIDER / 4 << 12), i;

#pragma clang loop unroll(full)
    for (i = TCP_BYTES; i < L4_TEXT; i += 2)
        sum += (u16)~LOAD16(tcp + i);
    *(u8 *)(tcp + 12) = OFFSET_NARROW;
    if (v6) {
        STORE16(ip + 4, bpf_htons(bpf_ntohs(LOAD16(ip + 4)) - WIDER));
    } else {
        STORE16(ip + 2, bpf_htons(bpf_ntohs(LOAD16(ip + 2)) - WIDER));
        STORE16(ip + 10, ~sum_fold((u16)~LOAD16(ip + 10) + (u64)less));
    }
    if (partial)
        l4_put_partial(ip, v6);
    else
        STORE16(tcp + 16, ~sum_fold(sum));
}

/*
 * Moves n bytes, at least 8, to the front or to the back by WIDER. What was stored in another size
 * before is moved, too, and what is stored later stays.
 */
static __always_inline void move_forward(void *to, const u64 n)
{
    u64 i;

    barrier();
#pragma clang loop unroll(full)
    for (i = 0; i + 8 <= n; i += 8)
        STORE64(to + i, LOAD64(to + WIDER + i));
    STORE64(to + n - 8, LOAD64(to + WIDER + n - 8));
    barrier();
}

static __always_inline void move_back(void *from, const u64 n)
{
    u64 first, i;

    barrier();
    first = LOAD64(from);
#pragma clang loop unroll(full)
    for (i = n; i >= 8; i -= 8)
        STORE64(from + WIDER + i - 8, LOAD64(from + i - 8));
    STORE64(from + WIDER, first);
    barrier();
}

/* --- in a frame, as XDP has it ---------------------------------------------------------------- */

/* Widens a request, whose headers are there. 0: there is no room, or only then: WIDE_LOST. */
enum { WIDE_NOT, WIDE, WIDE_LOST };

static __always_inline int xdp_widen(struct xdp_md *ctx, struct offsets offsets)
{
    const u64 n = offsets_l4(offsets) + TCP_BYTES;
    void *data, *end;

    if (bpf_xdp_adjust_head(ctx, -WIDER))
        return WIDE_NOT;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + n + WIDER > end)
        return WIDE_LOST;
    move_forward(data, n);
    tcp_widen(data + offsets_l4(offsets));
    return WIDE;
}

/* Narrows a reply, or makes a request as it came. 0: the frame is lost. */
static __always_inline int xdp_narrow(struct xdp_md *ctx, struct offsets offsets, int is_reply)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    const u64 n = offsets_l4(offsets) + TCP_BYTES;
    u64 nframe = (u64)(end - data) - WIDER;

    if (data + n + WIDER > end)
        return 0;
    if (is_reply)
        reply_narrow(data + offsets.ip, offsets.v6, 0);
    else
        *(u8 *)(data + offsets_l4(offsets) + 12) = OFFSET_NARROW;
    move_back(data, n);
    if (bpf_xdp_adjust_head(ctx, WIDER))
        return 0;
    if (is_reply && nframe < FRAME_MIN)
        bpf_xdp_adjust_tail(ctx, FRAME_MIN - (int)nframe);
    return 1;
}

/* --- in scratch, as TC makes it --------------------------------------------------------------- */

/* Narrows the reply whose headers are there. */
__attribute__((noinline)) int scratch_narrow(struct scratch *scratch)
{
    char *l4;

    if (!scratch)
        return 0;
    l4 = scratch->reply + REPLY_TEXT - L4_TEXT;
    if (scratch->offsets.v6) {
        reply_narrow(l4 - IP6_BYTES, 1, scratch->checksum_partial);
        move_back(l4 - IP6_BYTES - ETH_HLEN, ETH_HLEN + IP6_BYTES + TCP_BYTES);
    } else {
        reply_narrow(l4 - IP4_BYTES, 0, scratch->checksum_partial);
        move_back(l4 - IP4_BYTES - ETH_HLEN, ETH_HLEN + IP4_BYTES + TCP_BYTES);
    }
    return 0;
}

/* Widens the headers of a request that were kept, of which the last 12 bytes are its text. */
static __always_inline void saved_widen(struct scratch *scratch)
{
    void *ip = scratch->saved.ip;

    tcp_widen(scratch->offsets.v6 ? ip + IP6_BYTES : ip + IP4_BYTES);
}

#endif
