/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_read: reads the headers of a segment: of a frame, as XDP has it, and of a packet, as TC has
 * it.
 */
#ifndef MC_TCP_READ_BPF_H
#define MC_TCP_READ_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/answer/text.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ext6.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/sum.bpf.h"
#include "bpf/packet/tcp.bpf.h"
#include "bpf/tcp/conn.bpf.h"

/* Fills the flow of a segment that comes from a client, or goes to one. */
static __always_inline void segment_flow(struct mc_tcp_flow *flow, const void *ip, const void *tcp,
                                         u64 v6, int ingress)
{
    u64 from[2], to[2];
    u32 ports;

    if (v6) {
        from[0] = LOAD64(ip + 8);
        from[1] = LOAD64(ip + 16);
        to[0] = LOAD64(ip + 24);
        to[1] = LOAD64(ip + 32);
    } else {
        from[0] = to[0] = 0;
        from[1] = (u64)LOAD32(ip + 12) << 32 | FLOW_IP4;
        to[1] = (u64)LOAD32(ip + 16) << 32 | FLOW_IP4;
    }
    flow->client[0] = ingress ? from[0] : to[0];
    flow->client[1] = ingress ? from[1] : to[1];
    flow->server[0] = ingress ? to[0] : from[0];
    flow->server[1] = ingress ? to[1] : from[1];
    ports = LOAD32(tcp);
    if (!ingress)
        ports = ports >> 16 | ports << 16;
    __builtin_memcpy(&flow->client_port, &ports, sizeof(ports)); /* and the server's */
    flow->unused = 0;
}

static __always_inline u32 ip_length(const void *ip, u64 v6)
{
    return v6 ? bpf_ntohs(LOAD16(ip + 4)) + IP6_BYTES : bpf_ntohs(LOAD16(ip + 2));
}

/* Whether two bytes are padding behind an option. */
static __always_inline int is_padding(u8 first, u8 second)
{
    return first == OPTION_END ||
           (first == OPTION_NOP && (second == OPTION_NOP || second == OPTION_END));
}

/*
 * Where TSval is in a header of L4_TEXT bytes with timestamps alone that do not begin with two
 * no-operations; 0: it has something else.
 */
static __always_inline u32 tsval_elsewhere(const void *tcp)
{
    const u16 begin = bpf_htons(OPTION_TIMESTAMPS << 8 | TIMESTAMPS_BYTES);
    u8 last = LOAD8(tcp + 31);

    if (LOAD16(tcp + 20) == begin)
        return is_padding(LOAD8(tcp + 30), last) ? TSVAL_AT - 2 : 0;
    if (LOAD8(tcp + 20) == OPTION_NOP && LOAD16(tcp + 21) == begin)
        return is_padding(OPTION_NOP, last) ? TSVAL_AT - 1 : 0;
    return 0;
}

static __always_inline void segment_stamps(struct tcp_segment *segment, const void *stamps)
{
    segment->tsval = bpf_ntohl(LOAD32(stamps));
    segment->tsecr = bpf_ntohl(LOAD32(stamps + 4));
}

/* The bits of IP's header that are a congestion mark. */
static __always_inline u32 ip_congestion(const void *ip, u64 v6)
{
    return (v6 ? LOAD8(ip + 1) >> 4 : LOAD8(ip + 1)) & 3;
}

static __always_inline void segment_fixed(struct tcp_segment *segment, const void *tcp)
{
    segment->seq = bpf_ntohl(LOAD32(tcp + 4));
    segment->ack = bpf_ntohl(LOAD32(tcp + 8));
    segment->flags = LOAD8(tcp + 13);
    segment->window = bpf_ntohs(LOAD16(tcp + 14));
    segment->urgent = LOAD16(tcp + 18);
}

/*
 * As segment_read, of the form that most segments have: ACK and perhaps PSH, timestamps alone where
 * they mostly are, no congestion mark. 0: it has another. `tcp` has so many bytes.
 */
static __always_inline int segment_read_usual(struct tcp_segment *segment, const void *ip,
                                              const void *tcp, u64 v6, u32 nip)
{
    const u16 form = bpf_htons(L4_TEXT / 4 << 12 | TCP_PSH | TCP_ACK);
    const u32 before = ip_bytes(v6) + L4_TEXT;

    if ((LOAD16(tcp + 12) | bpf_htons(TCP_PSH)) != form || LOAD32(tcp + 20) != TCP_TIMESTAMPS ||
        ip_congestion(ip, v6) == 3 || nip < before)
        return 0;
    segment_fixed(segment, tcp);
    segment_stamps(segment, tcp + TSVAL_AT);
    segment->nheader = L4_TEXT;
    segment->n = nip - before;
    segment->has_timestamps = segment->no_options = segment->is_whole = 1;
    segment->tsval_at = TSVAL_AT;
    segment->is_unstamped = 0;
    return 1;
}

/*
 * Reads the headers of a packet of nip bytes from IP on, whose TCP header begins at `tcp`, `before`
 * bytes behind IP's, and whose bytes up to `end`, at least TCP's fixed part, are there.
 */
static __always_inline void segment_read(struct tcp_segment *segment, const void *ip,
                                         const void *tcp, const void *end, u64 v6, u32 before,
                                         u32 nip, const int ingress)
{
    u32 flags = LOAD8(tcp + 13), nheader = (LOAD8(tcp + 12) >> 4) * 4, at;
    int plain;

    segment_fixed(segment, tcp);
    segment->nheader = nheader;
    segment->is_whole = nheader >= TCP_BYTES && nip >= before + nheader;
    segment->n = segment->is_whole ? nip - before - nheader : 0;
    /* No flag beside the header's length: accurate ECN has one there. */
    plain = (flags | TCP_PSH) == (TCP_PSH | TCP_ACK) && ip_congestion(ip, v6) != 3;
    segment->has_timestamps = segment->no_options = segment->is_unstamped = 0;
    if (nheader < L4_TEXT || tcp + L4_TEXT > end) {
        segment->tsval = segment->tsecr = 0;
        segment->is_unstamped = plain && LOAD8(tcp + 12) == OFFSET_NARROW;
        return;
    }
    at = likely(LOAD32(tcp + 20) == TCP_TIMESTAMPS) ? TSVAL_AT
         : ingress && nheader == L4_TEXT            ? tsval_elsewhere(tcp)
                                                    : 0;
    if (!at)
        return;
    segment->has_timestamps = 1;
    segment->tsval_at = at;
    if (likely(at == TSVAL_AT))
        segment_stamps(segment, tcp + TSVAL_AT);
    else
        segment_stamps(segment, at == TSVAL_AT - 1 ? tcp + TSVAL_AT - 1 : tcp + TSVAL_AT - 2);
    segment->no_options = plain && LOAD8(tcp + 12) == L4_TEXT / 4 << 4;
}

/* --- a packet --------------------------------------------------------------------------------- */

/* The MAC address that a frame goes to, whose headers were read in place. */
static __always_inline u64 skb_mac_to(const struct __sk_buff *skb)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

    return data + 8 <= end ? LOAD64(data) & 0xffffffffffff : 0;
}

/* The outer tag, which the stack keeps beside the packet; 0: none. */
static __always_inline u32 skb_vlan(const struct __sk_buff *skb)
{
    return skb->vlan_present ? vlan_id(skb->vlan_proto, bpf_htons(skb->vlan_tci)) : 0;
}

/* Headers that are looked behind: one of each, as RFC 8200 orders them, and one more. */
enum { EXTENSIONS = 6, EXTENSIONS_MOST = 255 /* bytes, with IPv6's own */, IS_FRAGMENT = 1 };

/*
 * Makes the TCP header readable that is behind IPv6's extension headers. `link`: where IPv6's
 * begins. Returns the bytes from there to TCP's, with IS_FRAGMENT if a fragment begins with it; 0:
 * there is none.
 */
__attribute__((noinline)) int skb_find_tcp(struct __sk_buff *skb, u32 link)
{
    u32 at = IP6_BYTES, most, i;
    u8 protocol, next[4];
    int fragment = 0;

    if (bpf_skb_load_bytes(skb, link + 6, &protocol, sizeof(protocol)))
        return 0;
    for (i = 0; i < EXTENSIONS && is_extension(protocol); i++) {
        if (bpf_skb_load_bytes(skb, link + at, next, sizeof(next)))
            return 0;
        if (protocol == IPPROTO_FRAGMENT) {
            if (extension_fragment(next) == FRAGMENT_LATER)
                return 0; /* a later one */
            fragment = IS_FRAGMENT;
        }
        at += extension_bytes(protocol, next);
        protocol = next[0];
    }
    if (protocol != IPPROTO_TCP || at > EXTENSIONS_MOST)
        return 0;
    most = link + at + 60;
    bpf_skb_pull_data(skb, skb->len < most ? skb->len : most);
    return at | fragment;
}

static __always_inline u16 segment_server_port(const void *tcp, const int ingress)
{
    return ingress ? port_to(tcp) : port_from(tcp);
}

/*
 * The bytes of a packet from IP on, before which `link` are seen. A short frame is padded; the
 * length of a merged packet may be too large for IP's header.
 */
static __always_inline u32 skb_ip_length(const struct __sk_buff *skb, const void *ip, u64 v6,
                                         u32 link)
{
    return skb->gso_size ? skb->len - link : ip_length(ip, v6);
}

/*
 * As skb_read, of a segment of the form that most have (segment_read_usual), behind an IP header
 * without options: then all places are constants, and few questions are asked. 0: it is another.
 */
static __always_inline u32 skb_read_usual(const struct __sk_buff *skb, struct tcp_segment *segment,
                                          u64 v6, const int ingress)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const void *ip = data + ETH_HLEN, *l4 = ip + ip_bytes(v6);

    if (l4 + L4_TEXT > end || skb->protocol != bpf_htons(v6 ? ETH_P_IPV6 : ETH_P_IP) ||
        LOAD16(data + 12) != bpf_htons(v6 ? ETH_P_IPV6 : ETH_P_IP) ||
        !ip_has_no_options(ip, v6, IPPROTO_TCP) ||
        segment_server_port(l4, ingress) != (u16)control.tcp_port ||
        !segment_read_usual(segment, ip, l4, v6, skb_ip_length(skb, ip, v6, ETH_HLEN)))
        return 0;
    segment_flow(&segment->flow, ip, l4, v6, ingress);
    return ETH_HLEN + ip_bytes(v6);
}

/*
 * Reads the headers of a TCP segment to the server's port, or from it. Where TCP's header begins in
 * what is seen of the frame; 0: it is something else.
 */
static __always_inline u32 skb_read(struct __sk_buff *skb, struct tcp_segment *segment,
                                    const int ingress)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    u64 link = ETH_HLEN, at, v6 = skb->protocol == bpf_htons(ETH_P_IPV6);
    u32 fragment;
    void *ip, *l4;

    if (data + IP6_BYTES > end)
        return 0;
    if (ingress && has_no_mac_header(data, skb->protocol))
        link = 0;
    else if (LOAD16(data + 12) != skb->protocol)
        return 0;
    bound_mask(link, 15);
    ip = data + link;
    if (ip + IP6_BYTES > end || (!v6 && skb->protocol != bpf_htons(ETH_P_IP)))
        return 0;
    at = v6 ? IP6_BYTES : (LOAD8(ip) & 15) * 4;
    fragment = v6 ? 0 : LOAD16(ip + 6) & bpf_htons(0x2000);
    if (v6 && is_extension(ip_protocol(ip, 1))) {
        at = skb_find_tcp(skb, link);
        fragment = at & IS_FRAGMENT;
        at &= ~(u64)IS_FRAGMENT;
        data = (void *)(long)skb->data;
        end = (void *)(long)skb->data_end;
        ip = data + link;
        if (!at || ip + IP6_BYTES > end)
            return 0;
    } else if (ip_protocol(ip, v6) != IPPROTO_TCP || (!v6 && LOAD16(ip + 6) & bpf_htons(0x1fff))) {
        return 0;
    }
    bound_mask(at, EXTENSIONS_MOST);
    l4 = ip + at;
    if (l4 + TCP_BYTES > end || segment_server_port(l4, ingress) != (u16)control.tcp_port)
        return 0;
    segment_flow(&segment->flow, ip, l4, v6, ingress);
    segment_read(segment, ip, l4, end, v6, at, skb_ip_length(skb, ip, v6, link), ingress);
    if (!link || fragment || at != ip_bytes(v6))
        segment->no_options = segment->is_unstamped = 0;
    if (fragment)
        segment->is_whole = 0;
    return link + at;
}

/* skb_read_usual, of a packet of whichever IP. */
static __always_inline u32 skb_read_plain(const struct __sk_buff *skb, struct tcp_segment *segment,
                                          const int ingress)
{
    return skb->protocol == bpf_htons(ETH_P_IP) ? skb_read_usual(skb, segment, 0, ingress)
                                                : skb_read_usual(skb, segment, 1, ingress);
}

/*
 * Reads the headers as skb_read does, and makes them readable in place first if need be. Mostly
 * they are, as those of a segment that a socket sends, whose data is not: pulling that in would
 * copy the packet's head, which takes longer than all the rest.
 */
static __always_inline u32 skb_read_pulled(struct __sk_buff *skb, struct tcp_segment *segment,
                                           const int ingress)
{
    u32 l4 = skb_read(skb, segment, ingress), n = skb->len;
    u64 linear = skb->data_end - skb->data;

    if ((l4 && l4 + segment->nheader <= linear) || linear >= HEADERS_MOST || linear >= n)
        return l4;
    bpf_skb_pull_data(skb, n < HEADERS_MOST ? n : HEADERS_MOST);
    return skb_read(skb, segment, ingress);
}

/*
 * Looks for an option of this kind: tcp->option becomes its place in TCP's header, and tcp->noption
 * its length; 0: there is none.
 */
__attribute__((noinline)) int skb_find_option(struct __sk_buff *skb, u32 l4, u32 kind)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u8 option[2];
    u32 i;

    if (!tcp)
        return 0;
    tcp->option = TCP_BYTES;
    tcp->noption = 0;
    for (i = 0; i < OPTIONS_MOST; i++) {
        if (tcp->option + 2 > tcp->segment.nheader ||
            bpf_skb_load_bytes(skb, l4 + tcp->option, option, sizeof(option)) ||
            option[0] == OPTION_END)
            return 0;
        if (option[0] == OPTION_NOP) {
            tcp->option++;
            continue;
        }
        if (option[1] < 2 || tcp->option + option[1] > tcp->segment.nheader)
            return 0; /* the stack stops there, too */
        if (option[0] == kind) {
            tcp->noption = option[1];
            return 0;
        }
        tcp->option += option[1];
    }
    return 0;
}

/*
 * Reads timestamps of a client's segment that are neither its first option nor all of them: so that
 * they are translated. Of an option of another length the stack takes none.
 */
__attribute__((noinline)) int skb_read_stamps(struct __sk_buff *skb, u32 l4)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u32 stamps[2];

    if (!tcp)
        return 0;
    skb_find_option(skb, l4, OPTION_TIMESTAMPS);
    if (tcp->noption != TIMESTAMPS_BYTES ||
        bpf_skb_load_bytes(skb, l4 + tcp->option + 2, stamps, sizeof(stamps)))
        return 0;
    tcp->segment.has_timestamps = 1;
    tcp->segment.tsval_at = tcp->option + 2;
    segment_stamps(&tcp->segment, stamps);
    return 0;
}

/* The first bytes of the text of a segment whose header takes ntcp bytes. 0: it has none. */
static __always_inline int skb_read_text(struct __sk_buff *skb, u32 l4, u64 ntcp, u32 *text)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end, *from;
    u64 at = l4;

    bound_mask(at, 511);
    bound_mask(ntcp, 63);
    from = data + at + ntcp;
    if (from + sizeof(*text) > end)
        return !bpf_skb_load_bytes(skb, l4 + ntcp, text, sizeof(*text));
    *text = LOAD32(from);
    return 1;
}

/* --- its checksum ----------------------------------------------------------------------------- */

/* The sum of both addresses for a checksum; what stands before IPv4's is 0 in such a sum. */
static __always_inline u64 flow_sum(const struct mc_tcp_flow *flow)
{
    return load_halves(&flow->client[0]) + load_halves(&flow->client[1]) +
           load_halves(&flow->server[0]) + load_halves(&flow->server[1]);
}

/* The sum of what a segment's checksum covers besides the segment. */
static __always_inline u64 segment_pseudo(const struct tcp_segment *segment)
{
    return bpf_htons((u16)(segment->nheader + segment->n)) + (u64)bpf_htons(IPPROTO_TCP) +
           flow_sum(&segment->flow);
}

enum { SUM_STEP = 1024, SUM_STEPS = 9 /* enough for 9,000 bytes */ };

/*
 * Whether the checksum of the client's segment whose TCP header begins at l4 is valid, or partial.
 * One that is too long to look at counts as wrong.
 */
__attribute__((noinline)) int skb_sum_is_valid(struct __sk_buff *skb, u32 l4)
{
    struct segment_scratch *tcp = segment_scratch_get();
    struct scratch *scratch = scratch_get();
    u64 left, sum, i, one;
    u16 field;

    if (!tcp || !scratch || bpf_skb_load_bytes(skb, l4 + 16, &field, sizeof(field)))
        return 0;
    sum = segment_pseudo(&tcp->segment);
    if (field == sum_fold(sum))
        return 1;
    left = tcp->segment.nheader + tcp->segment.n;
    for (i = 0; i < SUM_STEPS; i++) {
        if (!left)
            break;
        one = left < SUM_STEP ? left : SUM_STEP;
        bound_size(one, 2 * SUM_STEP - 1);
        if (bpf_skb_load_bytes(skb, l4 + SUM_STEP * i, scratch->request, one))
            return 0;
        scratch->nrequest = one;
        sum += request_sum(scratch);
        left -= one;
    }
    return !left && sum_is_valid(sum);
}

#endif
