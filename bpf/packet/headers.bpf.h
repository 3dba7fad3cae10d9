/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * headers: the headers of link and IP: which packets are for us, and those of the reply.
 *
 * Headers are read by offset, in loads of 1 to 8 bytes, which may take several fields at once. In
 * network order:
 *
 *   0 destination MAC   6 source MAC   12 type of what follows
 *  14 for each VLAN tag: its id, and the type of what follows it
 * IPv4:
 *   0 version, ihl   1 tos   2 total length   4 id   6 fragment   8 ttl   9 protocol
 *  10 checksum   12 source address   16 destination address
 * IPv6:
 *   0 version, class, flow label   4 length of what follows   6 next header   7 hop limit
 *   8 source address   24 destination address
 * What follows the IP header is the transport's: udp.bpf.h.
 */
#ifndef MC_HEADERS_BPF_H
#define MC_HEADERS_BPF_H

#include <linux/if_packet.h>

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/sum.bpf.h"
#include "bpf/packet/verdict.bpf.h"

/* The interface of every network namespace that leads to itself. */
enum { LOOPBACK_IFINDEX = 1 };

enum {
    TTL = 64,
};

/*
 * How much of XDP_PACKET_HEADROOM a reply may take. The kernel writes its struct xdp_frame of 40
 * bytes there; virtio_net then wants room for its own header, 12 to 24 bytes by its features, and
 * where that is missing drops what it was told to send.
 */
enum { REPLY_HEADROOM = 256 - 40 - 24 };

/*
 * A frame up to this size is not made smaller for a short reply: behind the end of the IP packet
 * comes padding, here the request's own bytes, and a helper's call costs as much as all the rest.
 * Besides, the live frames of BPF_PROG_TEST_RUN come back as short as they left (Linux 6.18), too
 * short for the next request if that is longer.
 */
enum { FRAME_PADDED = 128 };

/*
 * Which headers a frame has. A constant wherever it is handed on as one: then every place in the
 * frame is a constant too, as it must be in the program that answers in place.
 */
struct offsets {
    u64 ip; /* where it begins */
    u64 v6; /* it is IPv6 */
};

/* What TCP's header of a reply has of its connection, in network order. */
struct tcp_words {
    u32 seq, ack, tsval, tsecr;
    u16 window;
};

/* A frame's headers as they came, in the words in which they are turned around. */
struct saved_headers {
    u64 to;        /* bytes 0 to 7 */
    u64 from;      /* 6 to 13 */
    u64 tags;      /* 14 to 21, of a frame with tags */
    u64 ip[9];     /* from IP on to the keys */
    u64 addresses; /* the sum of IPv6's, which is the reply's as well */
    u64 back;      /* the MAC address that the reply goes to (return_path.bpf.h) */
    struct tcp_words tcp;
};

/* The headers of a frame with so many tags. */
#define OFFSETS(ntags, six) ((struct offsets){ETH_HLEN + TAG_BYTES * (ntags), (six)})

static __always_inline u64 ip_bytes(u64 v6)
{
    return v6 ? IP6_BYTES : IP4_BYTES;
}

/* Where the transport's header begins in a frame. */
static __always_inline u64 offsets_l4(struct offsets offsets)
{
    return offsets.ip + ip_bytes(offsets.v6);
}

static __always_inline int type_is_tag(u16 type)
{
    return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* TCP and UDP have both ports at the same place. */
static __always_inline u16 port_from(const void *l4)
{
    return LOAD16(l4);
}

static __always_inline u16 port_to(const void *l4)
{
    return LOAD16(l4 + 2);
}

/* Keeps the headers that begin at `link`, and nwords words from `ip` on: SAVED_WORDS. */
static __always_inline void headers_save(struct saved_headers *out, const void *link,
                                         const void *ip, struct offsets offsets, const int nwords)
{
    int i;

    out->to = LOAD64(link);
    out->from = LOAD64(link + 6);
    if (offsets.ip != ETH_HLEN)
        out->tags = LOAD64(link + 14);
#pragma clang loop unroll(full)
    for (i = 0; i < nwords; i++)
        out->ip[i] = LOAD64(ip + 8 * i);
    if (offsets.v6)
        out->addresses = load_halves(ip + 8) + load_halves(ip + 16) + load_halves(ip + 24) +
                         load_halves(ip + 32);
}

/* --- what is ours ------------------------------------------------------------- */

/* A packet of this protocol, without options or extension headers, and no fragment. */
static __always_inline int ip_has_no_options(const void *ip, u64 v6, u64 protocol)
{
    if (v6)
        return LOAD8(ip) >> 4 == 6 && LOAD8(ip + 6) == protocol;
    return LOAD8(ip) == 0x45 && LOAD8(ip + 9) == protocol && !(LOAD16(ip + 6) & bpf_htons(0x3fff));
}

static __always_inline u8 ip_protocol(const void *ip, u64 v6)
{
    return LOAD8(ip + (v6 ? 6 : 9));
}

static __always_inline int protocol_has_ports(u8 protocol)
{
    return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

/*
 * Whether a packet of TCP or UDP goes to another port than ours, or (egress) comes from another, as
 * far as its first bytes say so: most of what passes. Doubt says no.
 */
static __always_inline int ip_has_other_port(const void *ip, const void *end, u64 v6, int egress)
{
    const void *l4 = ip + ip_bytes(v6);

    if (l4 + 4 > end || !protocol_has_ports(ip_protocol(ip, v6)))
        return 0;
    if (!v6 && (LOAD8(ip) != 0x45 || LOAD16(ip + 6) & bpf_htons(0x3fff)))
        return 0;
    return (egress ? port_from(l4) : port_to(l4)) != control.port;
}

/*
 * Whether a packet is TCP to the server's port, or (egress) from it, as far as its first bytes say
 * so. Doubt says no.
 */
static __always_inline int ip_is_our_tcp(const void *ip, const void *end, u64 v6, int egress)
{
    const void *l4 = ip + ip_bytes(v6);

    if (l4 + 4 > end || ip_protocol(ip, v6) != IPPROTO_TCP)
        return 0;
    return (egress ? port_from(l4) : port_to(l4)) == (u16)control.tcp_port;
}

/*
 * Whether TC sees a packet of IP from behind its Ethernet header: generic XDP, a program of any
 * owner, has copied the frame (skb.bpf.h). 14 bytes are there.
 */
static __always_inline int has_no_mac_header(const void *data, u16 protocol)
{
    return LOAD16(data + 12) != protocol &&
           LOAD8(data) >> 4 == (protocol == bpf_htons(ETH_P_IPV6) ? 6 : 4);
}

static __always_inline const struct mc_local *local_in_use(void)
{
    return &control.local[READ_ONCE(control.local_in_use) & 1];
}

/* Addresses behind the first; 1: it is one of ours. */
__attribute__((noinline)) int address_is_ours(u32 address)
{
    const struct mc_local *local = local_in_use();
    u32 n = local->n4, i;

    if (!address)
        return 0;
    for (i = 0; i < MC_MAX_ADDRESSES; i++) {
        if (i >= n)
            break;
        if (local->v4[i] == address)
            return 1;
    }
    return 0;
}

__attribute__((noinline)) int address6_is_ours(u64 high, u64 low)
{
    const struct mc_local *local = local_in_use();
    u32 n = local->n6, i;

    for (i = 0; i < MC_MAX_ADDRESSES; i++) {
        if (i >= n)
            break;
        if (local->v6[i][0] == high && local->v6[i][1] == low)
            return 1;
    }
    return 0;
}

static __always_inline int ip_is_to_us(const void *ip, u64 v6)
{
    const u64 *first = local_in_use()->v6[0];
    u32 address;

    if (v6)
        return (LOAD64(ip + 32) == first[1] && LOAD64(ip + 24) == first[0] && first[0]) ||
               address6_is_ours(LOAD64(ip + 24), LOAD64(ip + 32));
    address = LOAD32(ip + 16);
    return (address == control.v4 && address) || address_is_ours(address);
}

/*
 * What IPv4's checksum says of a request that has no other: then nothing else tells whether its
 * source is the one that it was sent from.
 */
static __always_inline enum checksum ip4_csum_verify(const struct saved_headers *saved)
{
    const void *ip = saved->ip;

    return sum_is_valid(load_halves(ip) + load_halves(ip + 8) + LOAD32(ip + 16)) ? CHECKSUM_VALID
                                                                                 : CHECKSUM_INVALID;
}

/* The destination MAC, and of the source the bit that makes it a group's, to which no reply is
 * sent. */
#define MACS(link) (LOAD64(link) & 0x1ffffffffffff)

/*
 * Whether a frame went to a MAC address of ours: VERDICT_OK or a reason. HEAD_HIDDEN: it did, but
 * it may have had a tag, which only TC sees and only its reply would have.
 */
__attribute__((noinline)) int mac_check(u64 macs, u32 ifindex)
{
    const struct mc_local *local = local_in_use();
    u32 n = local->nmacs, i;

    if (!macs && ifindex == LOOPBACK_IFINDEX)
        return VERDICT_OK;
    for (i = 0; i < MC_MAX_MACS; i++) {
        if (i >= n)
            break;
        if (local->macs[i] == macs)
            return local->tags_hidden && local->nvlans ? HEAD_HIDDEN : VERDICT_OK;
    }
    return PASS_MAC;
}

/*
 * Whether a packet has the MAC address of one machine. Linux takes that of a macvlan or a bridge
 * above the interface for another machine's (PACKET_OTHERHOST); mac_check knows it.
 */
static __always_inline int skb_is_for_one(const struct __sk_buff *skb)
{
    return skb->pkt_type == PACKET_HOST || skb->pkt_type == PACKET_OTHERHOST;
}

/* A tag, network order, as mc_local has it. */
static __always_inline u32 vlan_id(u16 type, u16 tag)
{
    return (bpf_ntohs(tag) & 0xfff) | (type == bpf_htons(ETH_P_8021AD) ? MC_VLAN_AD : 0);
}

__attribute__((noinline)) int vlan_is_ours(u32 vlan)
{
    const struct mc_local *local = local_in_use();
    u32 n = local->nvlans, i;

    if (!(vlan & ~MC_VLAN_AD))
        return 1;
    for (i = 0; i < MC_MAX_VLANS; i++) {
        if (i >= n)
            break;
        if (local->vlans[i] == vlan)
            return 1;
    }
    return 0;
}

/* The tags of a frame, as mc_local has them; 0: it has none. */
static __always_inline u32 link_vlan(const void *link, struct offsets offsets)
{
    u32 vlan = 0;

    if (offsets.ip > ETH_HLEN)
        vlan = vlan_id(LOAD16(link + 12), LOAD16(link + 14));
    if (offsets.ip > ETH_HLEN + TAG_BYTES)
        vlan |= vlan_id(LOAD16(link + 16), LOAD16(link + 18)) << 16;
    return vlan;
}

/* --- what may be answered --------------------------------------------------------- */

/*
 * From us, or to an address that other machines cannot mean: fit over loopback only. The stack
 * would drop it elsewhere, and a server on 127.0.0.1 must be out of their reach.
 */
static __always_inline int ip_is_own(const void *ip, u64 v6)
{
    if (v6)
        return !LOAD64(ip + 8) || !LOAD64(ip + 24) ||
               (LOAD64(ip + 8) == LOAD64(ip + 24) && LOAD64(ip + 16) == LOAD64(ip + 32));
    return LOAD8(ip + 12) == 127 || LOAD8(ip + 16) == 127 || LOAD32(ip + 12) == LOAD32(ip + 16);
}

/* --- the reply's headers --------------------------------------------------------- */

/*
 * Behind a reply: from our MAC address, to the one that replies to this source go to; the tags
 * stay. With tags it writes up to byte 22.
 */
static __always_inline void link_reply(void *out, const struct saved_headers *saved, int tagged)
{
    u64 mac = 0xffffffffffff;

    STORE64(out, (saved->back & mac) | saved->to << 48);
    STORE64(out + 6, (saved->to & mac) | (saved->from & ~mac));
    if (tagged)
        STORE64(out + 14, saved->tags);
}

/* Of IPv4's header as ip_reply writes it. */
static __always_inline u16 ip4_checksum(u32 saddr, u32 daddr, u16 total, u64 protocol)
{
    /* Version, ihl, tos; don't fragment; ttl, protocol. In network order. */
    u64 sum = 0x0045ull + 0x0040 + (TTL | protocol << 8) + total + saddr + daddr;

    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

/* A reply's IP header; behind it are nl4 bytes. IPv6's addresses are turned around. */
static __always_inline void ip_reply(void *ip, const struct saved_headers *saved, u64 v6, u64 nl4,
                                     u64 protocol)
{
    u64 total = bpf_htons((u16)(IP4_BYTES + nl4));
    u32 from = saved->ip[1] >> 32, to = saved->ip[2];

    if (v6) {
        STORE64(ip, 0x60 | (u64)bpf_htons((u16)nl4) << 32 | (protocol | TTL << 8) << 48);
        STORE64(ip + 8, saved->ip[3]);
        STORE64(ip + 16, saved->ip[4]);
        STORE64(ip + 24, saved->ip[1]);
        STORE64(ip + 32, saved->ip[2]);
        return;
    }
    STORE64(ip, 0x45 | total << 16 | 0x40ull << 48);
    STORE64(ip + 8, (TTL | protocol << 8) | (u64)ip4_checksum(from, to, total, protocol) << 16 |
                        (u64)to << 32);
    STORE32(ip + 16, from);
}

#endif
