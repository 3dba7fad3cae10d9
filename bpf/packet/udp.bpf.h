/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * udp: all that is UDP's in a request and its reply.
 *
 * This is where a transport plugs in: the programs' source includes one first, and bpf/packet/ and
 * bpf/answer/ know nothing else of what lies between the IP header and the text. What one gives:
 *
 *   L4_PROTOCOL          its number in the IP header
 *   L4_BYTES             its header, before anything of memcached's
 *   L4_TEXT              from its header to the text of a request or a reply
 *   L4_CHECKED           from its header on: what is there before anything of it is read
 *   SAVED_WORDS          words of a request's headers from IP on that are kept
 *   offsets_text         where in a frame the text begins
 *   l4_payload           how many bytes statistics and amplification= count for so much text
 *   l4_has_checksum      whether a request has a checksum; over IPv6 it has
 *   l4_csum_verify       what the checksum says, from the sum of the text
 *   l4_checksum_is_partial
 *                        whether hardware was to complete the checksum
 *   l4_reply             the headers of a reply, from IP on
 *   l4_put_partial       makes a reply's checksum partial
 *
 * The longest reply is TEXT_MAX (base.bpf.h). In network order:
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
    L4_PROTOCOL = IPPROTO_UDP,
    L4_BYTES = 8,
    L4_TEXT = L4_BYTES + MC_UDP_HEADER,
    L4_CHECKED = L4_TEXT + REQUEST_LEAST,
};

#define SAVED_WORDS(v6) ((v6) ? 7 : 5)

static __always_inline u64 offsets_text(struct offsets offsets)
{
    return offsets_l4(offsets) + L4_TEXT;
}

static __always_inline u64 l4_payload(u64 ntext)
{
    return MC_UDP_HEADER + ntext;
}

/* --- its checksum ------------------------------------------------------------------- */

/*
 * What a local sender's stack leaves in the place of UDP's checksum, for hardware to complete: the
 * sum of addresses, protocol and length.
 */
static __always_inline u16 csum_partial(const void *ip, u64 v6)
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
 * Whether the checksum of a request seems to be partial, for hardware to complete. Then its packet
 * knows where that will write, and so does the reply that generic XDP or TC makes of it: so such a
 * reply keeps UDP's header in its place, and begins its checksum the same way.
 */
static __always_inline int l4_checksum_is_partial(const void *ip, u64 v6)
{
    return LOAD16(ip + ip_bytes(v6) + 6) == csum_partial(ip, v6);
}

static __always_inline void l4_put_partial(void *ip, u64 v6)
{
    STORE16(ip + ip_bytes(v6) + 6, csum_partial(ip, v6));
}

static __always_inline int l4_has_checksum(const struct saved_headers *saved, u64 v6)
{
    return !!LOAD16((const void *)saved->ip + ip_bytes(v6) + 6);
}

/* There is a checksum, and `text` is the sum of the request's text. */
static __always_inline enum checksum l4_csum_verify(const struct saved_headers *saved, u64 v6,
                                                    u64 text)
{
    const void *ip = saved->ip, *udp = ip + ip_bytes(v6);
    u64 sum = text + bpf_htons(L4_PROTOCOL) + LOAD16(udp + 4);

    sum += load_halves(udp) + load_halves(udp + 8);
    sum += v6 ? saved->addresses : load_halves(ip + 12);
    if (likely(sum_is_valid(sum)))
        return CHECKSUM_VALID;
    return l4_checksum_is_partial(ip, v6) ? CHECKSUM_PARTIAL : CHECKSUM_INVALID;
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
    STORE64(udp, ports | nudp << 32 | csum_finish(sum) << 48);
    STORE64(udp + 8, id | (u64)bpf_htons(1) << 32);
}

#endif
