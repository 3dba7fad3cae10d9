/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_skb: a segment as TC has it: its headers, and how its numbers are translated.
 *
 * bpf_l4_csum_replace leaves alone a checksum that is left to hardware, so what it is told is right
 * for every packet, also for one that GRO has merged or TSO will cut.
 */
#ifndef MC_TCP_SKB_BPF_H
#define MC_TCP_SKB_BPF_H

#include "bpf/answer/request.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/kept.bpf.h"
#include "bpf/tcp/segment.bpf.h"

/* Marks packets that the programs send themselves for the one on egress. Set before the load. */
const volatile __u32 tcp_mark = 0;

/* The urgent pointer of segments that were translated for the socket. Set before the load. */
const volatile __u16 tcp_seal = 0;

/*
 * TC hands a segment to the socket, and notes that beside the packet, where the stack keeps what a
 * classifier finds for others: the socket's filter looks for it. A packet that arrives has 0 there.
 * One with URG, which is not sealed, is not noted either: whoever forges urgent data, and knows the
 * numbers, could put bytes into the stream.
 */
static __always_inline int skb_hand(struct __sk_buff *skb, const struct tcp_segment *segment)
{
    if (likely(!(segment->flags & TCP_URG)))
        skb->tc_index = tcp_seal;
    return TC_NEXT;
}

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
        if (protocol == IP6_FRAGMENT) {
            if (next[2] || next[3] & 0xf8)
                return 0; /* a later one */
            fragment = IS_FRAGMENT;
        }
        at += protocol == IP6_FRAGMENT ? 8 : (next[1] + 1) * 8;
        protocol = next[0];
    }
    if (protocol != PROTOCOL_TCP || at > EXTENSIONS_MOST)
        return 0;
    most = link + at + 60;
    bpf_skb_pull_data(skb, skb->len < most ? skb->len : most);
    return at | fragment;
}

/*
 * Reads the headers of a TCP segment to the server's port, or from it. Where TCP's header begins in
 * what is seen of the frame; 0: it is something else.
 */
static __always_inline u32 skb_read(struct __sk_buff *skb, struct tcp_segment *segment,
                                    const int comes)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    u64 link = FRAME_IP, at, v6 = skb->protocol == TYPE_IP6;
    u32 nip, fragment;
    void *ip, *l4;

    if (data + IP6_BYTES > end)
        return 0;
    if (comes && link_is_hidden(data, skb->protocol))
        link = 0;
    else if (LOAD16(data + 12) != skb->protocol)
        return 0;
    nip = skb->len - link;
    BOUND(link, 15);
    ip = data + link;
    if (ip + IP6_BYTES > end || (!v6 && skb->protocol != TYPE_IP4))
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
    } else if (ip_protocol(ip, v6) != PROTOCOL_TCP || (!v6 && LOAD16(ip + 6) & bpf_htons(0x1fff))) {
        return 0;
    }
    BOUND(at, EXTENSIONS_MOST);
    l4 = ip + at;
    if (l4 + TCP_BYTES > end || (comes ? port_to(l4) : port_from(l4)) != (u16)control.tcp_port)
        return 0;
    segment_flow(&segment->flow, ip, l4, v6, comes);
    /* A short frame is padded; the length of a merged packet may be too large for IP's header. */
    if (!skb->gso_size)
        nip = ip_length(ip, v6);
    segment_read(segment, ip, l4, end, v6, at, nip);
    if (!link || fragment || at != ip_bytes(v6))
        segment->is_plain = 0;
    if (fragment)
        segment->is_whole = 0;
    return link + at;
}

/*
 * The same of a packet whose headers may have to be made readable in place. Mostly they are, as
 * those of a segment that a socket sends, whose data is not: pulling that in would copy the
 * packet's head, which takes longer than all the rest.
 */
static __always_inline u32 skb_read_pulled(struct __sk_buff *skb, struct tcp_segment *segment,
                                           const int comes)
{
    u32 l4 = skb_read(skb, segment, comes), n = skb->len;
    u64 linear = skb->data_end - skb->data;

    if (likely(l4 && l4 + segment->nheader <= linear) || linear >= HEADERS_MOST || linear >= n)
        return l4;
    bpf_skb_pull_data(skb, n < HEADERS_MOST ? n : HEADERS_MOST);
    return skb_read(skb, segment, comes);
}

/* The first bytes of a segment's text. 0: it has none. */
static __always_inline int skb_read_text(struct __sk_buff *skb, u32 l4, u32 *text)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end, *from;
    u64 at = l4;

    BOUND(at, 511);
    from = data + at + L4_TEXT;
    if (from + sizeof(*text) > end)
        return !bpf_skb_load_bytes(skb, l4 + L4_TEXT, text, sizeof(*text));
    *text = LOAD32(from);
    return 1;
}

/* The difference that a checksum is told of. `odd`: the number begins at an odd place. */
static __always_inline u64 sum_change(u32 from, u32 to, u32 odd)
{
    u64 change = (u64)(u32)~from + to;

    change = (change & 0xffffffff) + (change >> 32);
    if (odd)
        change = (change >> 8 & 0xffffff) + ((change & 0xff) << 24) + (change >> 32);
    return change;
}

/* Whether a client's segment was translated before, on an interface beneath this one. */
static __always_inline int is_sealed(u16 urgent, u32 flags)
{
    return urgent == tcp_seal && !(flags & TCP_URG);
}

/* --- checksums ------------------------------------------------------------------------------- */

/* The sum of both addresses for a checksum; what stands before IPv4's is 0 in such a sum. */
static __always_inline u64 flow_sum(const struct mc_tcp_flow *flow)
{
    return load_halves(&flow->client[0]) + load_halves(&flow->client[1]) +
           load_halves(&flow->server[0]) + load_halves(&flow->server[1]);
}

/* The sum of what a segment's checksum covers besides the segment. */
static __always_inline u64 segment_pseudo(const struct tcp_segment *segment)
{
    return bpf_htons((u16)(segment->nheader + segment->n)) + (u64)bpf_htons(PROTOCOL_TCP) +
           flow_sum(&segment->flow);
}

enum { SUM_STEP = 1024, SUM_STEPS = 9 /* enough for 9,000 bytes */ };

/*
 * Whether the checksum of the client's segment whose TCP header begins at l4 is right, or left to
 * hardware. One that is too long to look at counts as wrong.
 */
__attribute__((noinline)) int skb_sum_is_right(struct __sk_buff *skb, u32 l4)
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
        BOUND_SIZE(one, 2 * SUM_STEP - 1);
        if (bpf_skb_load_bytes(skb, l4 + SUM_STEP * i, scratch->request, one))
            return 0;
        scratch->nrequest = one;
        sum += request_sum(scratch);
        left -= one;
    }
    return !left && sum_is_right(sum);
}

/*
 * Whether a client's segment that is not answered may be believed: if it acknowledges the
 * outstanding reply, which the client gets no more after that, its checksum is looked at. GRO has
 * seen those of what it merged.
 */
static __always_inline int skb_is_believed(struct __sk_buff *skb, u32 l4,
                                           const struct segment_scratch *tcp,
                                           const struct mc_tcp_conn *conn)
{
    return !conn->shift.nreply || skb->gso_size ||
           seq_before(tcp->segment.ack, shift_reply_end(&conn->shift)) || skb_sum_is_right(skb, l4);
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* Puts a number in a packet, in network order, and adds to the change of the sum. */
static __always_inline void put_number(void *at, u32 to, u64 *change)
{
    *change += (u64)(u32)~LOAD32(at) + to;
    STORE32(at, to);
}

/*
 * Tells the checksum of a segment, whose TCP header begins at l4, of a change. One that is left to
 * hardware, or seems to be, stays. If a client's is right and only seems so, for 1 segment in
 * 65,536, the helper, which knows, changes it; a socket's never is, unless an interface above this
 * one has completed it: then the segment is lost. Not 0: the helper failed.
 */
static __always_inline int skb_put_sum(struct __sk_buff *skb, u32 l4, void *tcp, u64 change,
                                       const struct tcp_segment *segment, const int comes)
{
    u16 field = LOAD16(tcp + 16);

    if (field != (u16)sum_fold(segment_pseudo(segment))) {
        STORE16(tcp + 16, ~sum_fold((u16)~field + change));
        return 0;
    }
    change = (change & 0xffffffff) + (change >> 32);
    change = (change & 0xffffffff) + (change >> 32);
    return comes && bpf_l4_csum_replace(skb, l4 + 16, 0, change, 0);
}

/*
 * Puts numbers and the timestamp into the TCP header of a segment at `at`, whose bytes up to `end`
 * are there, seals it if it is a client's, and tells the checksum. Not 0: something is not there.
 */
static __always_inline int segment_put(struct __sk_buff *skb, u32 l4, void *at, const void *end,
                                       u32 seq, u32 ack, const struct segment_scratch *tcp,
                                       const int comes)
{
    const struct tcp_segment *segment = &tcp->segment;
    u64 change = 0;

    if (at + TCP_BYTES > end)
        return -1;
    put_number(at + 4, bpf_htonl(seq), &change);
    if (segment->flags & TCP_ACK)
        put_number(at + 8, bpf_htonl(ack), &change);
    if (comes && !(segment->flags & TCP_URG)) { /* a socket is not given one with URG */
        change += (u16)~segment->urgent + (u64)tcp_seal;
        STORE16(at + 18, tcp_seal);
    }
    if (segment->stamped) {
        if (at + L4_TEXT > end)
            return -1;
        if (comes)
            put_number(at + 28, bpf_htonl(stamp_in(segment->tsecr, tcp->tsval)), &change);
        else
            put_number(at + 24, bpf_htonl(segment->tsval + MC_TCP_AHEAD), &change);
    }
    return skb_put_sum(skb, l4, at, change, segment, comes);
}

/* Translates a client's segment where it is: helpers that store take three times as long. */
static __always_inline int skb_put_in(struct __sk_buff *skb, u32 l4, u32 seq, u32 ack,
                                      const struct segment_scratch *tcp)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    u64 at = l4;

    BOUND(at, 511);
    return segment_put(skb, l4, data + at, end, seq, ack, tcp, 1);
}

/*
 * Translates a socket's segment in a copy of its header, which is stored at once. Before a program
 * that stores by itself Linux makes each packet writable that has a clone, as all have that the
 * socket may send again: that takes a quarter of what a segment needs that is not translated. What
 * a socket sends has its headers in place, and its own, even where its data is not.
 */
static __always_inline int skb_put_out(struct __sk_buff *skb, u32 l4, u32 seq, u32 ack,
                                       const struct segment_scratch *tcp)
{
    const void *from = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    u64 header[L4_TEXT / 8], at = l4;

    BOUND(at, 511);
    from += at;
    if (!tcp->segment.stamped) {
        if (from + TCP_BYTES > end)
            return -1;
        copy16(header, from);
        header[2] = LOAD32(from + 16);
    } else {
        if (from + L4_TEXT > end)
            return -1;
        copy16(header, from);
        copy16(header + 2, from + 16);
    }
    if (segment_put(skb, l4, header, header + L4_TEXT / 8, seq, ack, tcp, 0))
        return -1;
    return tcp->segment.stamped ? bpf_skb_store_bytes(skb, l4, header, L4_TEXT, 0)
                                : bpf_skb_store_bytes(skb, l4, header, TCP_BYTES, 0);
}

/* --- selective acknowledgements ------------------------------------------------------------- */

enum { OPTION_END = 0, OPTION_NOP = 1, OPTION_SACK = 5, OPTIONS_MOST = 40, EDGES_MOST = 8 };

/* Translates the edge of a block at `at` of the frame. Not 0: a helper failed. */
__attribute__((noinline)) int skb_put_edge(struct __sk_buff *skb, u32 l4, u32 at, int comes)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u32 from, to;

    if (!tcp || bpf_skb_load_bytes(skb, at, &from, sizeof(from)))
        return -1;
    to = bpf_ntohl(from);
    to = bpf_htonl(comes ? shift_ack_in(&tcp->shift, to) : shift_edge_out(&tcp->shift, to));
    return bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0) ||
           bpf_l4_csum_replace(skb, l4 + 16, 0, sum_change(from, to, (at - l4) & 1), 0);
}

/*
 * Looks for the option that has blocks: tcp->option becomes its place in TCP's header, and
 * tcp->noption its length; 0: there is none.
 */
__attribute__((noinline)) int skb_find_blocks(struct __sk_buff *skb, u32 l4)
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
        if (option[0] == OPTION_SACK) {
            tcp->noption = option[1];
            return 0;
        }
        tcp->option += option[1];
    }
    return 0;
}

/*
 * Translates the blocks of a segment whose options are not timestamps alone; tcp->shift says how.
 * Not 0: the packet cannot be translated.
 */
__attribute__((noinline)) int skb_put_blocks(struct __sk_buff *skb, u32 l4, int comes)
{
    struct segment_scratch *tcp = segment_scratch_get();
    u32 i;

    if (!tcp)
        return -1;
    skb_find_blocks(skb, l4);
    for (i = 0; i < EDGES_MOST; i++) {
        if (6 + 4 * i > tcp->noption)
            return 0;
        if (skb_put_edge(skb, l4, l4 + tcp->option + 2 + 4 * i, comes))
            return -1;
    }
    return 0;
}

/* Whether a segment may have blocks. */
static __always_inline int segment_has_blocks(const struct tcp_segment *segment)
{
    return segment->nheader > (segment->stamped ? L4_TEXT : TCP_BYTES);
}

/* --- whole packets --------------------------------------------------------------------------- */

/* Keeps the headers of a packet without IP options in `scratch`: nip bytes from IP on. */
static __always_inline int skb_save(struct __sk_buff *skb, struct scratch *scratch, u64 v6,
                                    const u32 nip)
{
    u64 link[2];

    if (bpf_skb_load_bytes(skb, 0, link, FRAME_IP) ||
        bpf_skb_load_bytes(skb, FRAME_IP, scratch->saved.ip, nip))
        return 0;
    scratch->saved.to = link[0];
    scratch->saved.from = link[0] >> 48 | link[1] << 16;
    scratch->offsets = OFFSETS(0, 0);
    scratch->offsets.v6 = v6;
    scratch->checksum_left =
        v6 ? l4_checksum_is_left(scratch->saved.ip, 1) : l4_checksum_is_left(scratch->saved.ip, 0);
    return 1;
}

/* The same for ntcp bytes of TCP's header, behind that of IP. */
static __always_inline int skb_save_headers(struct __sk_buff *skb, struct scratch *scratch,
                                            const u32 ntcp)
{
    return skb->protocol == TYPE_IP6 ? skb_save(skb, scratch, 1, IP6_BYTES + ntcp)
                                     : skb_save(skb, scratch, 0, IP4_BYTES + ntcp);
}

/* Makes the packet what stands in `scratch`, with its headers. Not 0: it is lost. */
static __always_inline int tcp_tc_put(struct __sk_buff *skb, const struct scratch *scratch)
{
    u64 nframe = reply_size(scratch);

    BOUND_SIZE(nframe, 2047);
    if (bpf_skb_change_tail(skb, nframe, 0) ||
        bpf_skb_store_bytes(skb, 0, scratch->reply + reply_start(scratch), nframe, 0))
        return -1;
    skb->mark = tcp_mark;
    return 0;
}

/* Makes the packet the reply in `scratch`. Not 0: it is lost; the client will ask for it again. */
static __always_inline int tcp_tc_make(struct __sk_buff *skb, struct scratch *scratch)
{
    reply_headers(scratch, scratch->checksum_left);
    return tcp_tc_put(skb, scratch);
}

/*
 * Makes a packet whose headers were kept, with timestamps and no other option, a bare
 * acknowledgement with these numbers, translated otherwise. Not 0: a helper failed, and the packet
 * is to be dropped.
 */
static __always_inline int skb_make_bare(struct __sk_buff *skb, struct scratch *scratch, u32 seq,
                                         u32 ack, u32 last, const int comes)
{
    char *out = scratch->reply, *ip = out + FRAME_IP, *l4;
    u64 v6 = scratch->offsets.v6, sum;

    STORE64(out, scratch->saved.to);
    STORE64(out + 6, scratch->saved.from);
    kept_copy(ip, scratch->saved.ip, sizeof(scratch->saved.ip));
    l4 = ip + (v6 ? IP6_BYTES : IP4_BYTES);
    STORE32(l4 + 4, bpf_htonl(seq));
    STORE32(l4 + 8, bpf_htonl(ack));
    l4[13] = TCP_ACK;
    STORE16(l4 + 16, 0);
    if (comes) {
        STORE16(l4 + 18, tcp_seal);
        STORE32(l4 + 28, bpf_htonl(stamp_in(bpf_ntohl(LOAD32(l4 + 28)), last)));
    } else {
        STORE32(l4 + 24, bpf_htonl(bpf_ntohl(LOAD32(l4 + 24)) + MC_TCP_AHEAD));
    }
    if (v6) {
        STORE16(ip + 4, bpf_htons(L4_TEXT));
        sum = tcp_pseudo(ip, 1, L4_TEXT);
    } else {
        sum = (u16)~LOAD16(ip + 10) + (u64)(u16)~LOAD16(ip + 2) + bpf_htons(IP4_BYTES + L4_TEXT);
        STORE16(ip + 2, bpf_htons(IP4_BYTES + L4_TEXT));
        STORE16(ip + 10, ~sum_fold(sum) & 0xffff);
        sum = tcp_pseudo(ip, 0, L4_TEXT);
    }
    if (scratch->checksum_left)
        STORE16(l4 + 16, sum_fold(sum));
    else
        STORE16(l4 + 16, ~sum_fold(sum + tcp_header_sum(l4)) & 0xffff);
    if (v6)
        return bpf_skb_change_tail(skb, FRAME_IP + IP6_BYTES + L4_TEXT, 0) ||
               bpf_skb_store_bytes(skb, 0, out, FRAME_IP + IP6_BYTES + L4_TEXT, 0);
    return bpf_skb_change_tail(skb, FRAME_IP + IP4_BYTES + L4_TEXT, 0) ||
           bpf_skb_store_bytes(skb, 0, out, FRAME_IP + IP4_BYTES + L4_TEXT, 0);
}

#endif
