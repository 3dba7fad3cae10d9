/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * packet: which frames are ours, and the headers of the reply.
 *
 * A frame's head is read by offset, in loads of 2, 4 and 8 bytes; clang would
 * load the fields of packed structures byte by byte. In network order:
 *
 *   0 destination MAC   6 source MAC   12 ethertype
 *  14 version, ihl   15 tos   16 total length   18 id   20 fragment   22 ttl
 *  23 protocol   24 checksum   26 source address   30 destination address
 *  34 source port   36 destination port   38 UDP length   40 UDP checksum
 *  42 request id   44 sequence   46 datagrams   48 reserved   50 "get "   54 keys
 */
#ifndef MC_PACKET_BPF_H
#define MC_PACKET_BPF_H

#include "bpf/kernel.bpf.h"

/* A frame's first FRAME_HEAD bytes, in the packet or in struct work. */
typedef const void *head_ptr;

/* The interface of every network namespace that leads to itself. */
enum { LOOPBACK = 1 };

/* What head_check says beside reasons. */
enum { HEAD_GET = 0, HEAD_FOREIGN = 1 };

/* Word by word: clang copies bytes where it cannot see an alignment. */
static __always_inline void head_copy(void *out, head_ptr in)
{
    int i;

#pragma unroll
    for (i = 0; i < FRAME_WORDS; i++)
        STORE64(out + 8 * i, LOAD64(in + 8 * i));
}

static __always_inline u64 head_total(head_ptr head)
{
    return bpf_ntohs(LOAD16(head + 16));
}

static __always_inline int head_is_udp(head_ptr head)
{
    return LOAD16(head + 12) == bpf_htons(0x0800) && LOAD8(head + 23) == 17;
}

/* No options, and no fragment of a datagram. */
static __always_inline int head_is_plain(head_ptr head)
{
    return LOAD8(head + 14) == 0x45 && !(LOAD16(head + 20) & bpf_htons(0x3fff));
}

static __always_inline int head_is_to_port(head_ptr head)
{
    return LOAD16(head + 36) == control.port;
}

static __always_inline const struct mc_self *self_now(void)
{
    return &control.self[READ_ONCE(control.self_now) & 1];
}

/* Addresses behind the first; 1: it is one of ours. */
__attribute__((noinline)) int address_is_ours(u32 address)
{
    const struct mc_self *self = self_now();
    u32 n = self->n4, i;

    if (!address)
        return 0;
    for (i = 0; i < MC_MAX_ADDRESSES; i++) {
        if (i >= n)
            break;
        if (self->v4[i] == address)
            return 1;
    }
    return 0;
}

static __always_inline int head_is_to_us(head_ptr head)
{
    u32 address = LOAD32(head + 30);

    return (address == control.v4 && address) || address_is_ours(address);
}

/*
 * Packets that are answered could be forged to make two machines answer each
 * other for ever. So there is no answer to ports where services answer, to our
 * own port, to addresses that are not one machine's, nor to our own address
 * unless it came over loopback.
 */
static __always_inline int source_is_fit(head_ptr head)
{
    u16 port = LOAD16(head + 34);
    u8 net = LOAD8(head + 26);

    if (!(port & bpf_htons(0xfc00)) || port == bpf_htons(11211) || port == control.port)
        return 0;
    /* 0/8, and 224/4 to the end: multicast, broadcast; nor to a group of stations. */
    return (u8)(net - 1) < 223 && !(LOAD8(head) & 1);
}

/*
 * From us, or to an address that other machines cannot mean: fit over loopback only. The
 * stack would drop it elsewhere, and a server on 127.0.0.1 must be out of their reach.
 */
static __always_inline int head_is_own(head_ptr head)
{
    return LOAD8(head + 26) == 127 || LOAD8(head + 30) == 127 ||
           LOAD32(head + 26) == LOAD32(head + 30);
}

/*
 * Whether the head, of a frame of nframe bytes, is that of a get in one
 * datagram: HEAD_GET, or the reason to pass. The caller knows that it is to
 * our port and address, and plain.
 */
static __always_inline int head_check(head_ptr head, u64 nframe)
{
    u64 total = head_total(head), nudp = bpf_ntohs(LOAD16(head + 38));

    if (unlikely(!source_is_fit(head)))
        return MC_COUNT_PASS_SOURCE;
    if (unlikely(nudp + 20 != total || total + 14 > nframe))
        return MC_COUNT_PASS_PACKET;
    if (unlikely(LOAD16(head + 46) != bpf_htons(1) || nudp <= 16))
        return MC_COUNT_PASS_FRAME;
    if (unlikely(READ_ONCE(control.aside)))
        return MC_COUNT_PASS_ASIDE;
    if (unlikely(server_is_still()))
        return MC_COUNT_PASS_STOPPED;
    if (unlikely(LOAD32(head + 50) != 0x20746567 || nudp < 8 + 14)) /* "get " */
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
 * Writes the head of the reply to the request whose head is in work->head, with
 * ntext bytes of text: FRAME_TEXT bytes in all. It reads whole words, as they
 * were stored a moment ago: a load across two stores in flight waits for both.
 */
static __always_inline void head_reply(void *out, const u64 *in, u64 ntext)
{
    u64 mac = in[0], mac_rest = in[1], to = in[4];
    u32 daddr = in[3] >> 16, saddr = in[3] >> 48 | to << 16;
    u64 sport = (u16)(to >> 32), dport = (u16)(to >> 16);
    u64 total = bpf_htons((u16)(FRAME_TEXT - FRAME_IP + ntext));
    u64 nudp = bpf_htons((u16)(FRAME_TEXT - FRAME_UDP + ntext));

    STORE64(out, mac >> 48 | (u64)(u32)mac_rest << 16 | mac << 48);
    STORE64(out + 8, (u32)(mac >> 16) | 0x00450008ull << 32);
    STORE64(out + 16, total | 0x11400040ull << 32);
    STORE64(out + 24, ip_checksum(saddr, daddr, total) | (u64)saddr << 16 | (u64)daddr << 48);
    STORE64(out + 32, daddr >> 16 | sport << 16 | dport << 32 | nudp << 48);
    STORE64(out + 40, (in[5] & 0xffff0000) | (u64)bpf_htons(1) << 48);
    STORE16(out + 48, 0);
}

#endif
