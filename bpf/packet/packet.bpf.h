/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * packet: which frames are ours, and the headers of the reply.
 *
 * Headers are read by offset, in loads of 2, 4 and 8 bytes; clang would load the fields of packed
 * structures byte by byte. In network order:
 *
 *   0 destination MAC   6 source MAC   12 type of what follows
 *  14 for each VLAN tag: its id, and the type of what follows it
 * IPv4:
 *   0 version, ihl   1 tos   2 total length   4 id   6 fragment   8 ttl   9 protocol
 *  10 checksum   12 source address   16 destination address
 * IPv6:
 *   0 version, class, flow label   4 length of what follows   6 next header   7 hop limit
 *   8 source address   24 destination address
 * UDP:
 *   0 source port   2 destination port   4 length   6 checksum
 *   8 request id   10 sequence   12 datagrams   14 reserved   16 "get "   20 keys
 */
#ifndef MC_PACKET_BPF_H
#define MC_PACKET_BPF_H

#include "bpf/packet/kernel.bpf.h"

/* The interface of every network namespace that leads to itself. */
enum { LOOPBACK = 1 };

/* What the checks say beside reasons; HEAD_VERB: no get, but see verbs.bpf.h. */
enum { HEAD_GET = 0, HEAD_FOREIGN = 1, HEAD_VERB = 2, HEAD_HIDDEN = 3 };

enum {
    TYPE_IP4 = bpf_htons(0x0800),
    TYPE_IP6 = bpf_htons(0x86dd),
    TYPE_TAG = bpf_htons(0x8100),
    TYPE_TAG_AD = bpf_htons(0x88a8),
    PROTOCOL_UDP = 17,
};

/* The headers of a frame with so many tags. */
#define OFFSETS(ntags, six) ((struct offsets){FRAME_IP + TAG_BYTES * (ntags), (six)})

static __always_inline u64 ip_bytes(u64 v6)
{
    return v6 ? IP6_BYTES : IP4_BYTES;
}

/* Where UDP begins in a frame. */
static __always_inline u64 offsets_udp(struct offsets offsets)
{
    return offsets.ip + ip_bytes(offsets.v6);
}

static __always_inline int type_is_tag(u16 type)
{
    return type == TYPE_TAG || type == TYPE_TAG_AD;
}

/* Both halves of 8 bytes: sums of 32-bit words do not overflow, and take no more to load. */
static __always_inline u64 load_halves(const void *bytes)
{
    return (u64)LOAD32(bytes) + LOAD32(bytes + 4);
}

/* Keeps the headers that begin at `link`, and at `ip`. */
static __always_inline void head_keep(struct head *out, const void *link, const void *ip,
                                      struct offsets offsets)
{
    const int nwords = offsets.v6 ? 7 : 5;
    int i;

    out->to = LOAD64(link);
    out->from = LOAD64(link + 6);
    if (offsets.ip != FRAME_IP)
        out->tags = LOAD64(link + 14);
#pragma unroll
    for (i = 0; i < nwords; i++)
        out->ip[i] = LOAD64(ip + 8 * i);
    if (offsets.v6)
        out->addresses = load_halves(ip + 8) + load_halves(ip + 16) + load_halves(ip + 24) +
                         load_halves(ip + 32);
}

/* --- what is ours ------------------------------------------------------------- */

/* UDP without options or extension headers, and no fragment of a datagram. */
static __always_inline int ip_is_plain(const void *ip, u64 v6)
{
    if (v6)
        return LOAD8(ip) >> 4 == 6 && LOAD8(ip + 6) == PROTOCOL_UDP;
    return LOAD8(ip) == 0x45 && LOAD8(ip + 9) == PROTOCOL_UDP &&
           !(LOAD16(ip + 6) & bpf_htons(0x3fff));
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

/* The destination MAC, and of the source the bit that makes it a group's, which answers no one. */
#define MACS(link) (LOAD64(link) & 0x1ffffffffffff)

/*
 * Whether a frame went to a MAC address of ours: HEAD_GET or a reason. HEAD_HIDDEN: it did, but it
 * may have had a tag, which only TC sees and only its reply would have.
 */
__attribute__((noinline)) int mac_check(u64 macs, u32 ifindex)
{
    const struct mc_local *local = local_in_use();
    u32 n = local->nmacs, i;

    if (!macs && ifindex == LOOPBACK)
        return HEAD_GET;
    for (i = 0; i < MC_MAX_MACS; i++) {
        if (i >= n)
            break;
        if (local->macs[i] == macs)
            return local->tags_hidden && local->nvlans ? HEAD_HIDDEN : HEAD_GET;
    }
    return MC_COUNT_PASS_MAC;
}

/* A tag, network order, as mc_local has it. */
static __always_inline u32 vlan_id(u16 type, u16 tag)
{
    return (bpf_ntohs(tag) & 0xfff) | (type == TYPE_TAG_AD ? MC_VLAN_AD : 0);
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

    if (offsets.ip > FRAME_IP)
        vlan = vlan_id(LOAD16(link + 12), LOAD16(link + 14));
    if (offsets.ip > FRAME_IP + TAG_BYTES)
        vlan |= vlan_id(LOAD16(link + 16), LOAD16(link + 18)) << 16;
    return vlan;
}

/* --- what is answered --------------------------------------------------------- */

/* See layout.h; nor is our own address answered, unless it came over loopback. */
static __always_inline int source_is_fit(const void *ip, u64 v6)
{
    if (mc_port_is_unfit(LOAD16(ip + ip_bytes(v6)), control.port))
        return 0;
    return v6 ? !mc_source6_is_unfit(LOAD8(ip + 8), LOAD64(ip + 8), LOAD64(ip + 16))
              : !mc_source4_is_unfit(LOAD8(ip + 12));
}

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

/* Whether the lengths of IP and UDP agree, and a frame has n bytes from IP on. */
static __always_inline int lengths_agree(const void *ip, u64 v6, u64 nudp, u64 n)
{
    if (v6) /* without a checksum it is for the stack to drop */
        return bpf_ntohs(LOAD16(ip + 4)) == nudp && nudp + IP6_BYTES <= n &&
               LOAD16(ip + IP6_BYTES + 6);
    return bpf_ntohs(LOAD16(ip + 2)) == nudp + IP4_BYTES && nudp + IP4_BYTES <= n;
}

/*
 * Whether a packet, with n bytes in its frame, is a get in one datagram: HEAD_GET, or the reason to
 * pass. The caller knows that it is to our port and address, and plain.
 */
static __always_inline int head_check(const void *ip, u64 v6, u64 n)
{
    const void *udp = ip + ip_bytes(v6);
    u64 nudp = bpf_ntohs(LOAD16(udp + 4));

    if (unlikely(!source_is_fit(ip, v6)))
        return MC_COUNT_PASS_SOURCE;
    if (unlikely(!lengths_agree(ip, v6, nudp, n)))
        return MC_COUNT_PASS_PACKET;
    if (unlikely(LOAD16(udp + 12) != bpf_htons(1) || nudp <= UDP_TEXT))
        return MC_COUNT_PASS_FRAME;
    if (unlikely(READ_ONCE(control.bypass)))
        return MC_COUNT_PASS_BYPASS;
    if (unlikely(server_is_still()))
        return MC_COUNT_PASS_STOPPED;
    if (unlikely(LOAD32(udp + UDP_TEXT) != TEXT_GET || nudp < UDP_TEXT + 6))
        return MC_COUNT_PASS_COMMAND;
    return HEAD_GET;
}

/* --- the reply's headers --------------------------------------------------------- */

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
 * Behind a reply: from our MAC address, to the one that replies to this source go to; the tags
 * stay. With tags it writes up to byte 22.
 */
static __always_inline void head_link(void *out, const struct head *head, int tagged)
{
    u64 mac = 0xffffffffffff;

    STORE64(out, (head->back & mac) | head->to << 48);
    STORE64(out + 6, (head->to & mac) | (head->from & ~mac));
    if (tagged)
        STORE64(out + 14, head->tags);
}

/* From IP on to the text, of which there are ntext bytes. IPv4 does without UDP's checksum. */
static __always_inline void head_ip4(void *ip, const struct head *head, u64 ntext)
{
    u64 total = bpf_htons((u16)(IP4_BYTES + UDP_TEXT + ntext));
    u32 from = head->ip[1] >> 32, to = head->ip[2];
    u32 ports = head->ip[2] >> 32;
    u64 nudp = bpf_htons((u16)(UDP_TEXT + ntext));

    STORE64(ip, 0x45 | total << 16 | 0x40ull << 48);
    STORE64(ip + 8, 0x1140 | (u64)ip_checksum(from, to, total) << 16 | (u64)to << 32);
    STORE64(ip + 16, from | (u64)(ports >> 16 | ports << 16) << 32);
    STORE64(ip + 24, nudp | (head->ip[3] & 0xffff00000000));
    STORE32(ip + 32, bpf_htons(1));
}

/* A sum of 64-bit words modulo 2^64, and that of their upper halves. */
struct sum {
    u64 all, upper;
};

static __always_inline void sum_add(struct sum *sum, u64 word)
{
    sum->all += word;
    sum->upper += word >> 32;
}

static __always_inline u64 halves(u64 word)
{
    return (word >> 32) + (u32)word;
}

/* The sum of up to 63 bytes; reads up to 7 bytes behind them. */
static __always_inline u64 sum_rest(const void *text, u64 n)
{
    struct sum one = {0, 0}, two = {0, 0};

    if (n & 32) {
        sum_add(&one, LOAD64(text));
        sum_add(&two, LOAD64(text + 8));
        sum_add(&one, LOAD64(text + 16));
        sum_add(&two, LOAD64(text + 24));
        text += 32;
    }
    if (n & 16) {
        sum_add(&one, LOAD64(text));
        sum_add(&two, LOAD64(text + 8));
        text += 16;
    }
    if (n & 8) {
        sum_add(&one, LOAD64(text));
        text += 8;
    }
    sum_add(&two, LOAD64(text) & ((1ull << 8 * (n & 7)) - 1));
    one.all += two.all;
    one.upper += two.upper;
    return one.all - (one.upper << 32) + one.upper;
}

/*
 * A sum of blocks in two additions for 14 bytes. Words are loaded every seven bytes, so that each
 * has as its top byte the lowest of the next. What those top bytes did to a sum modulo 2^64 is
 * known from the low byte of the other sum, and without them no sum of up to 2048 bytes can
 * overflow.
 */
struct sevens {
    u64 even, odd; /* of words at even, at odd places */
};

enum { SEVENS = 56 }; /* bytes in a block; one more is read */

/* How many blocks are in n bytes, n < 2048, without a division. */
static __always_inline u64 sevens_in(u64 n)
{
    return n * 37450 >> 21;
}

static __always_inline void sevens_add(struct sevens *sum, const void *from)
{
    sum->even += LOAD64(from);
    sum->odd += LOAD64(from + 7);
    sum->even += LOAD64(from + 14);
    sum->odd += LOAD64(from + 21);
    sum->even += LOAD64(from + 28);
    sum->odd += LOAD64(from + 35);
    sum->even += LOAD64(from + 42);
    sum->odd += LOAD64(from + 49);
}

/* The sum of all blocks. first: their first byte; next: the one behind the last. */
static __always_inline u64 sevens_end(const struct sevens *sum, u8 first, u8 next)
{
    u64 even = sum->even - (sum->odd << 56);
    u64 odd = sum->odd - ((sum->even - first + next) << 56);

    return halves(even) + (halves(odd) << 8);
}

/*
 * The sum of n bytes for a checksum: congruent to that of their 16-bit words modulo 2^16 - 1. It
 * reads up to 8 bytes behind the n. n <= REQUEST_MAX.
 */
static __always_inline u64 text_sum(const void *text, u64 n)
{
    u64 blocks = sevens_in(n), at = blocks * SEVENS, i;
    struct sevens sum = {0, 0};

    for (i = 0; i < REQUEST_MAX / SEVENS; i++) {
        if (i >= blocks)
            break;
        sevens_add(&sum, text + SEVENS * i);
    }
    n -= at;
    CLAMP(at, REQUEST_MAX);
    return sevens_end(&sum, LOAD8(text), LOAD8(text + at)) + sum_rest(text + at, n);
}

static __always_inline u64 sum_fold(u64 sum)
{
    sum = halves(sum);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

/*
 * Whether what has this sum, its checksum included, is as it was: whether 2^16 - 1 divides it. A
 * product with the inverse modulo 2^64 tells (Warren, Hacker's Delight, 10-17).
 */
static __always_inline int sum_is_right(u64 sum)
{
    return sum * 0xfffefffefffeffff <= 0x0001000100010001;
}

/* The checksum of what has this sum; 0 would say that there is none. */
static __always_inline u64 sum_end(u64 sum)
{
    sum = sum_fold(sum);
    return sum == 0xffff ? sum : ~sum & 0xffff;
}

/*
 * What a local sender's stack leaves in the place of UDP's checksum, for hardware to complete: the
 * sum of addresses, protocol and length.
 */
static __always_inline u16 checksum_begun(const void *ip, u64 v6)
{
    u64 sum = (u64)LOAD16(ip + ip_bytes(v6) + 4) + bpf_htons(PROTOCOL_UDP);

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
static __always_inline int checksum_is_left(const void *ip, u64 v6)
{
    return LOAD16(ip + ip_bytes(v6) + 6) == checksum_begun(ip, v6);
}

/* What a request's checksum says of it. */
enum checksum {
    CHECKSUM_WRONG,
    CHECKSUM_RIGHT, /* or there is none, with IPv4 */
    CHECKSUM_BEGUN, /* it is left to hardware; or it is wrong, of 1 damaged packet in 65,536 */
};

static __always_inline int head_has_checksum(const struct head *head, u64 v6)
{
    return !!LOAD16((const void *)head->ip + ip_bytes(v6) + 6);
}

/* There is a checksum, and `text` is the sum of the request's text. */
static __always_inline enum checksum head_judge(const struct head *head, u64 v6, u64 text)
{
    const void *ip = head->ip, *udp = ip + ip_bytes(v6);
    u64 sum = text + bpf_htons(PROTOCOL_UDP) + LOAD16(udp + 4);

    sum += load_halves(udp) + load_halves(udp + 8);
    sum += v6 ? head->addresses : load_halves(ip + 12);
    if (likely(sum_is_right(sum)))
        return CHECKSUM_RIGHT;
    return checksum_is_left(ip, v6) ? CHECKSUM_BEGUN : CHECKSUM_WRONG;
}

/* As head_ip4, of IPv6, where the text has a sum. */
static __always_inline void head_ip6(void *ip, const struct head *head, u64 ntext, u64 sum)
{
    u64 nudp = bpf_htons((u16)(UDP_TEXT + ntext)), id = head->ip[6] & 0xffff;
    u32 ports = head->ip[5];

    sum += head->addresses + (u64)ports + 2 * nudp + bpf_htons(PROTOCOL_UDP) + id + bpf_htons(1);
    STORE64(ip, 0x60 | nudp << 32 | 0x4011ull << 48);
    STORE64(ip + 8, head->ip[3]);
    STORE64(ip + 16, head->ip[4]);
    STORE64(ip + 24, head->ip[1]);
    STORE64(ip + 32, head->ip[2]);
    STORE64(ip + 40, (u32)(ports >> 16 | ports << 16) | nudp << 32 | sum_end(sum) << 48);
    STORE64(ip + 48, id | (u64)bpf_htons(1) << 32);
}

#endif
