/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp: all that is TCP's in a request and its reply: udp.bpf.h says what a transport gives.
 *
 * Only segments that carry timestamps and no other option are answered (RFC 7323, appendix A: what
 * every stack sends in the middle of a connection), so all places are constants, in replies as
 * follows, in network order. A request may have the no-operations elsewhere:
 *
 *   0 source port   2 destination port   4 sequence number   8 acknowledgement
 *  12 data offset, flags   14 window   16 checksum   18 urgent pointer
 *  20 no-op, no-op, 8, 10   24 TSval   28 TSecr   32 text
 */
#ifndef MC_TCP_BPF_H
#define MC_TCP_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/flow.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/sum.bpf.h"

enum {
    L4_PROTOCOL = IPPROTO_TCP,
    L4_BYTES = TCP_BYTES,
    L4_TEXT = TCP_STAMPED,
    L4_CHECKED = L4_TEXT + REQUEST_LEAST,
};

#define SAVED_WORDS(v6) ((v6) ? 9 : 7)

enum { OPTION_END, OPTION_NOP, OPTION_SACK = 5, OPTION_TIMESTAMPS = 8, OPTIONS_MOST = 40 };
enum { OFFSET_NARROW = TCP_BYTES / 4 << 4 /* of a header without options: its length */ };
enum { TSVAL_AT = 24 /* mostly */, TIMESTAMPS_BYTES = 10 };

static __always_inline u64 offsets_text(struct offsets offsets)
{
    return offsets_l4(offsets) + L4_TEXT;
}

static __always_inline u64 l4_payload(u64 ntext)
{
    return ntext;
}

/* --- a request's checksum -------------------------------------------------------------- */

static __always_inline u64 tcp_bytes(const void *ip, u64 v6)
{
    return v6 ? bpf_ntohs(LOAD16(ip + 4)) : bpf_ntohs(LOAD16(ip + 2)) - (u64)IP4_BYTES;
}

/* The sum of what the checksum covers besides the segment, for n bytes of it. */
static __always_inline u64 tcp_pseudo(const void *ip, u64 v6, u64 n)
{
    u64 sum = bpf_htons((u16)n) + (u64)bpf_htons(L4_PROTOCOL);

    if (v6)
        return sum + load_halves(ip + 8) + load_halves(ip + 16) + load_halves(ip + 24) +
               load_halves(ip + 32);
    return sum + load_halves(ip + 12);
}

/* The partial checksum that a local sender's stack writes, for hardware to complete. */
static __always_inline u16 csum_partial(const void *ip, u64 v6)
{
    return sum_fold(tcp_pseudo(ip, v6, tcp_bytes(ip, v6)));
}

static __always_inline int l4_checksum_is_partial(const void *ip, u64 v6)
{
    return LOAD16(ip + ip_bytes(v6) + 16) == csum_partial(ip, v6);
}

static __always_inline void l4_put_partial(void *ip, u64 v6)
{
    STORE16(ip + ip_bytes(v6) + 16, csum_partial(ip, v6));
}

static __always_inline int l4_has_checksum(const struct saved_headers *saved
                                           __attribute__((unused)),
                                           u64 v6 __attribute__((unused)))
{
    return 1;
}

/* The sum of a header with timestamps. */
static __always_inline u64 tcp_header_sum(const void *tcp)
{
    return load_halves(tcp) + load_halves(tcp + 8) + load_halves(tcp + 16) + load_halves(tcp + 24);
}

/* `text` is the sum of the request's text. */
static __always_inline enum checksum l4_csum_verify(const struct saved_headers *saved, u64 v6,
                                                    u64 text)
{
    const void *ip = saved->ip;
    u64 sum = text + tcp_pseudo(ip, v6, tcp_bytes(ip, v6)) + tcp_header_sum(ip + ip_bytes(v6));

    if (likely(sum_is_valid(sum)))
        return CHECKSUM_VALID;
    return l4_checksum_is_partial(ip, v6) ? CHECKSUM_PARTIAL : CHECKSUM_INVALID;
}

/* --- a reply ------------------------------------------------------------------------------ */

/* The headers of a reply, from IP on to its text of ntext bytes, which has this sum. */
static __always_inline void l4_reply(void *ip, const struct saved_headers *saved, u64 v6, u64 ntext,
                                     u64 sum)
{
    const struct tcp_words *words = &saved->tcp;
    void *tcp = ip + ip_bytes(v6);
    u32 ports = v6 ? saved->ip[5] : saved->ip[2] >> 32;

    ip_reply(ip, saved, v6, L4_TEXT + ntext, L4_PROTOCOL);
    STORE32(tcp, ports >> 16 | ports << 16);
    STORE32(tcp + 4, words->seq);
    STORE32(tcp + 8, words->ack);
    /* The data offset in words, in the upper half of a byte; the flags. */
    STORE32(tcp + 12, L4_TEXT / 4 << 4 | (TCP_PSH | TCP_ACK) << 8 | (u32)words->window << 16);
    STORE32(tcp + 16, 0);
    STORE32(tcp + 20, TCP_TIMESTAMPS);
    STORE32(tcp + 24, words->tsval);
    STORE32(tcp + 28, words->tsecr);
    sum += tcp_pseudo(ip, v6, L4_TEXT + ntext) + tcp_header_sum(tcp);
    STORE16(tcp + 16, ~sum_fold(sum) & 0xffff);
}

#endif
