/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * packet: which frames are ours, and the headers of the reply.
 *
 * A frame's head is read as seven 8-byte words; clang would load the fields
 * of packed structures byte by byte. In network order, little-endian words:
 *
 *   word 0   0 destination MAC                      6 source MAC ...
 *   word 1   8 ... source MAC   12 ethertype   14 version, ihl   15 tos
 *   word 2  16 total length   18 id   20 fragment   22 ttl   23 protocol
 *   word 3  24 checksum   26 source address   30 destination address ...
 *   word 4  32 ...   34 source port   36 destination port   38 UDP length
 *   word 5  40 UDP checksum   42 request id   44 sequence   46 datagrams
 *   word 6  48 reserved   50 "get "   54 keys
 */
#ifndef MC_PACKET_BPF_H
#define MC_PACKET_BPF_H

#include "bpf/kernel.bpf.h"

struct head {
    u64 w[FRAME_WORDS];
};

/* What head_check says beside reasons. */
enum { HEAD_GET = 0, HEAD_FOREIGN = 1 };

static __always_inline u32 head_saddr(const struct head *head)
{
    return head->w[3] >> 16;
}

static __always_inline u32 head_daddr(const struct head *head)
{
    return head->w[3] >> 48 | head->w[4] << 16;
}

static __always_inline u64 head_total(const struct head *head)
{
    return bpf_ntohs((u16)head->w[2]);
}

static __always_inline int head_is_udp(const struct head *head)
{
    return (u16)(head->w[1] >> 32) == bpf_htons(0x0800) && head->w[2] >> 56 == 17;
}

/* No options, and no fragment of a datagram. */
static __always_inline int head_is_plain(const struct head *head)
{
    return (u8)(head->w[1] >> 48) == 0x45 && !((head->w[2] >> 32) & 0xff3f);
}

static __always_inline u16 head_dport(const struct head *head)
{
    return head->w[4] >> 32;
}

/* Addresses behind the first; 1: it is one of ours. */
__attribute__((noinline)) int address_is_ours(u32 address)
{
    u32 n = control.naddresses, i;

    if (!address)
        return 0;
    for (i = 0; i < MC_MAX_ADDRESSES; i++) {
        if (i >= n)
            break;
        if (control.addresses[i] == address)
            return 1;
    }
    return 0;
}

static __always_inline int head_is_ours(const struct head *head)
{
    u32 daddr = head_daddr(head);

    return (daddr == control.addresses[0] && daddr) || address_is_ours(daddr);
}

/*
 * Packets that are answered could be forged to make two machines answer each
 * other for ever. So there is no answer to ports where services answer, to our
 * own port, to addresses that are not one machine's, nor to our own address
 * unless it came over loopback.
 */
static __always_inline int source_is_fit(const struct head *head, u32 ifindex)
{
    u16 sport = head->w[4] >> 16;
    u32 saddr = head_saddr(head), daddr = head_daddr(head);

    if (bpf_ntohs(sport) < 1024 || sport == bpf_htons(11211) || sport == head_dport(head))
        return 0;
    if ((saddr & 0xff) - 1 >= 223) /* 0/8, and 224/4 to the end: multicast, broadcast */
        return 0;
    if (unlikely((saddr & 0xff) == 127 || saddr == daddr))
        return ifindex == 1;
    return !(head->w[0] & 1); /* not to a group of stations */
}

/*
 * Whether the head, of a frame of nframe bytes, is that of a get in one
 * datagram: HEAD_GET, or the reason to pass. The caller knows that it is to
 * our port and address, and plain.
 */
static __always_inline int head_check(const struct head *head, u64 nframe, u32 ifindex)
{
    u64 total = head_total(head);
    u64 nudp = bpf_ntohs((u16)(head->w[4] >> 48));

    if (unlikely(!source_is_fit(head, ifindex)))
        return MC_COUNT_PASS_SOURCE;
    if (unlikely(nudp + 20 != total || total + 14 > nframe))
        return MC_COUNT_PASS_PACKET;
    if (unlikely(head->w[5] >> 48 != bpf_htons(1) || nudp <= 16))
        return MC_COUNT_PASS_FRAME;
    if (unlikely(READ_ONCE(control.aside)))
        return MC_COUNT_PASS_ASIDE;
    if (unlikely((u32)(head->w[6] >> 16) != 0x20746567 || nudp < 8 + 14)) /* "get " */
        return MC_COUNT_PASS_COMMAND;
    return HEAD_GET;
}

static __always_inline u16 ip_checksum(u32 saddr, u32 daddr, u16 total)
{
    /* Version, ihl, tos; don't fragment; ttl, protocol. In network order. */
    u64 sum = 0x0045ull + 0x0040 + 0x1140 + total + saddr + daddr;

    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

/*
 * The head of the reply to `in` with ntext bytes behind the UDP frame header.
 * Of word 6 only the first two bytes are set, to zero: the text begins there.
 */
static __always_inline void head_reply(struct head *out, const struct head *in, u64 ntext)
{
    u32 saddr = head_daddr(in), daddr = head_saddr(in);
    u64 sport = head_dport(in), dport = (u16)(in->w[4] >> 16);
    u16 total = bpf_htons((u16)(FRAME_TEXT - FRAME_IP + ntext));
    u16 nudp = bpf_htons((u16)(FRAME_TEXT - FRAME_UDP + ntext));

    out->w[0] = in->w[0] >> 48 | (in->w[1] & 0xffffffff) << 16 | in->w[0] << 48;
    out->w[1] = ((in->w[0] >> 16) & 0xffffffff) | 0x00450008ull << 32;
    out->w[2] = total | 0x11400040ull << 32;
    out->w[3] = ip_checksum(saddr, daddr, total) | (u64)saddr << 16 | (u64)daddr << 48;
    out->w[4] = daddr >> 16 | sport << 16 | dport << 32 | (u64)nudp << 48;
    out->w[5] = (in->w[5] & 0xffff0000) | (u64)bpf_htons(1) << 48;
    out->w[6] = 0;
}

#endif
