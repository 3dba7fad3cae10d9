/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * udp: all that is UDP's in a request and its reply.
 *
 * This is where a transport plugs in. bpf/packet/ and bpf/answer/ know nothing of what lies between
 * the IP header and the text but the following, so a transport is a file of this form. What a
 * transport gives:
 *
 *   L4_PROTOCOL          its number in the IP header
 *   L4_BYTES             its header, before anything of memcached's
 *   L4_TEXT              from its header to the text of a request or a reply
 *   L4_CHECKED           from its header on: what is there before anything of it is read
 *   L4_IDENTIFIED        from its header to behind what l4_id reads
 *   SAVED_WORDS          words of a request's headers from IP on that are kept
 *   offsets_text         where in a frame the text begins
 *   l4_length            how many bytes it has from its header on, by itself; 0: it does not say
 *   l4_ntext             how many bytes of text a request or a reply has
 *   l4_payload           how many bytes statistics and amplification= count for so much text
 *   l4_id                what tells requests of one client port, and their replies, apart
 *   l4_is_first          whether this is the first packet of a request or reply
 *   l4_is_only           whether a request or reply has no other packet
 *   l4_check             whether a request's header is one that may be answered
 *   l4_has_checksum      whether a request has a checksum; over IPv6 it has
 *   l4_judge             what the checksum says, from the sum of the text
 *   l4_checksum_is_left  whether the checksum is left to hardware
 *   l4_reply             the headers of a reply, from IP on
 *   l4_leave_checksum    leaves a reply's checksum to hardware
 *
 * and the longest reply, TEXT_MAX (base.bpf.h). In network order:
 *
 *   0 source port   2 destination port   4 length   6 checksum
 *   8 request id   10 sequence   12 datagrams   14 reserved   16 text
 */
#ifndef MC_UDP_BPF_H
#define MC_UDP_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/sum.bpf.h"

enum {
    L4_PROTOCOL = PROTOCOL_UDP,
    L4_BYTES = 8,
    L4_TEXT = L4_BYTES + MC_UDP_HEADER,
    L4_CHECKED = L4_TEXT + REQUEST_LEAST,
    L4_IDENTIFIED = L4_BYTES + 2,
};

#define SAVED_WORDS(v6) ((v6) ? 7 : 5)

static __always_inline u64 offsets_text(struct offsets offsets)
{
    return offsets_l4(offsets) + L4_TEXT;
}

static __always_inline u64 l4_length(const void *udp)
{
    return bpf_ntohs(LOAD16(udp + 4));
}

/* A request's or a reply's datagram, by its own header. */
static __always_inline u64 l4_ntext(const void *udp)
{
    return l4_length(udp) - L4_TEXT;
}

static __always_inline u64 l4_payload(u64 ntext)
{
    return MC_UDP_HEADER + ntext;
}

/* Memcached's request id. */
static __always_inline u16 l4_id(const void *udp)
{
    return LOAD16(udp + 8);
}

static __always_inline int l4_is_first(const void *udp)
{
    return !LOAD16(udp + 10);
}

static __always_inline int l4_is_only(const void *udp)
{
    return LOAD16(udp + 12) == bpf_htons(1);
}

/* --- a request --------------------------------------------------------------------- */

/*
 * See layout.h; nor is our own address answered, unless it came over loopback, nor anybody while we
 * have no port: then port 0 would be ours.
 */
static __always_inline int source_is_fit(const void *ip, u64 v6)
{
    if (mc_port_is_unfit(port_from(ip + ip_bytes(v6)), control.port) || !control.port)
        return 0;
    return v6 ? !mc_source6_is_unfit(LOAD8(ip + 8), LOAD64(ip + 8), LOAD64(ip + 16))
              : !mc_source4_is_unfit(LOAD8(ip + 12));
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
static __always_inline enum verdict l4_check(const void *ip, u64 v6, u64 n, u64 *ntext)
{
    const void *udp = ip + ip_bytes(v6);
    u64 nudp = l4_length(udp);

    if (unlikely(!source_is_fit(ip, v6)))
        return PASS_SOURCE;
    if (unlikely(!lengths_agree(ip, v6, nudp, n)))
        return PASS_PACKET;
    if (unlikely(!l4_is_only(udp) || nudp <= L4_TEXT))
        return PASS_FRAME;
    *ntext = nudp - L4_TEXT;
    return VERDICT_OK;
}

/* --- its checksum ------------------------------------------------------------------- */

/*
 * What a local sender's stack leaves in the place of UDP's checksum, for hardware to complete: the
 * sum of addresses, protocol and length.
 */
static __always_inline u16 checksum_begun(const void *ip, u64 v6)
{
    u64 sum = (u64)LOAD16(ip + ip_bytes(v6) + 4) + bpf_htons(L4_PROTOCOL);

    if (v6)
        sum += load_halves(ip + 8) + load_halves(ip + 16) + load_halves(ip + 24) +
               load_halves(ip + 32);
    else
        sum += load_halves(ip + 12);
    return sum_fold(sum);
}

/*
 * Whether the checksum of a request seems to be left to hardware. Then its packet knows where that
 * will write, and so does the reply that generic XDP or TC makes of it: so such a reply keeps UDP's
 * header in its place, and begins its checksum the same way.
 */
static __always_inline int l4_checksum_is_left(const void *ip, u64 v6)
{
    return LOAD16(ip + ip_bytes(v6) + 6) == checksum_begun(ip, v6);
}

static __always_inline void l4_leave_checksum(void *ip, u64 v6)
{
    STORE16(ip + ip_bytes(v6) + 6, checksum_begun(ip, v6));
}

static __always_inline int l4_has_checksum(const struct saved_headers *saved, u64 v6)
{
    return !!LOAD16((const void *)saved->ip + ip_bytes(v6) + 6);
}

/* There is a checksum, and `text` is the sum of the request's text. */
static __always_inline enum checksum l4_judge(const struct saved_headers *saved, u64 v6, u64 text)
{
    const void *ip = saved->ip, *udp = ip + ip_bytes(v6);
    u64 sum = text + bpf_htons(L4_PROTOCOL) + LOAD16(udp + 4);

    sum += load_halves(udp) + load_halves(udp + 8);
    sum += v6 ? saved->addresses : load_halves(ip + 12);
    if (likely(sum_is_right(sum)))
        return CHECKSUM_RIGHT;
    return l4_checksum_is_left(ip, v6) ? CHECKSUM_BEGUN : CHECKSUM_WRONG;
}

/* --- a reply ------------------------------------------------------------------------- */

/* The headers of a reply, from IP on to its text of ntext bytes, which has this sum. */
static __always_inline void l4_reply(void *ip, const struct saved_headers *saved, u64 v6, u64 ntext,
                                     u64 sum)
{
    void *udp = ip + ip_bytes(v6);
    u64 nudp = bpf_htons((u16)(L4_TEXT + ntext));
    u32 ports = v6 ? saved->ip[5] : saved->ip[2] >> 32;
    u64 id = v6 ? saved->ip[6] & 0xffff : saved->ip[3] >> 32 & 0xffff;
    u64 addresses = v6 ? saved->addresses : (saved->ip[1] >> 32) + (u32)saved->ip[2];

    ip_reply(ip, saved, v6, L4_TEXT + ntext, L4_PROTOCOL);
    ports = ports >> 16 | ports << 16;
    sum += addresses + ports + 2 * nudp + bpf_htons(L4_PROTOCOL) + id + bpf_htons(1);
    STORE64(udp, ports | nudp << 32 | sum_end(sum) << 48);
    STORE64(udp + 8, id | (u64)bpf_htons(1) << 32);
}

#endif
