/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_put: puts translated numbers into a packet, and tells its checksum.
 *
 * bpf_l4_csum_replace leaves alone a partial checksum, so what it is told is right for every
 * packet, also for one that GRO has merged or TSO will cut.
 */
#ifndef MC_TCP_PUT_BPF_H
#define MC_TCP_PUT_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/sum.bpf.h"
#include "bpf/packet/tcp.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/read.bpf.h"

/* --- the translation mark --------------------------------------------------------------------- */

/*
 * The urgent pointer of segments that were translated for the socket: of two, since a segment that
 * was translated for one socket must not be taken by the next one of its connection, to which the
 * server gives the other (RULE_MARK). Set before the load; not 0.
 */
const volatile __u16 translation_marks[2] = {};

static __always_inline int is_translation_mark(u16 mark)
{
    return mark == translation_marks[0] || mark == translation_marks[1];
}

/* Whether a client's segment was translated before it came here. */
static __always_inline int has_translation_mark(u16 urgent, u32 flags)
{
    return is_translation_mark(urgent) && !(flags & TCP_URG);
}

static __always_inline u16 conn_mark(const struct mc_tcp_conn *conn)
{
    return conn->flags & MC_TCP_MARK_B ? translation_marks[1] : translation_marks[0];
}

/*
 * TC hands a segment to the socket, and notes that beside the packet, where the stack keeps what a
 * classifier finds for others: the socket's filter looks for it. A packet that arrives has 0 there.
 * One with URG, which TC does not mark, it does not note either: a forger of urgent data who knows
 * the numbers could put bytes into the stream.
 */
static __always_inline int skb_hand(struct __sk_buff *skb, const struct segment_scratch *tcp)
{
    if (likely(!(tcp->segment.flags & TCP_URG)))
        skb->tc_index = tcp->mark;
    return TC_ACT_UNSPEC;
}

/* By which mark a program beneath this interface has handed on a client's segment; 0: none has. */
static __always_inline u32 skb_handed(const struct __sk_buff *skb,
                                      const struct tcp_segment *segment)
{
    if (unlikely(is_translation_mark(skb->tc_index)))
        return skb->tc_index;
    return has_translation_mark(segment->urgent, segment->flags) ? segment->urgent : 0;
}

/* --- the numbers ------------------------------------------------------------------------------ */

/* The difference that a checksum is told of. `odd`: the number begins at an odd place. */
static __always_inline u64 sum_change(u32 from, u32 to, u32 odd)
{
    u64 change = (u64)(u32)~from + to;

    change = (change & 0xffffffff) + (change >> 32);
    if (odd)
        change = (change >> 8 & 0xffffff) + ((change & 0xff) << 24) + (change >> 32);
    return change;
}

/* Puts a number in a packet, in network order, and adds to the change of the sum. */
static __always_inline void put_number(void *at, u32 to, u64 *change)
{
    *change += (u64)(u32)~LOAD32(at) + to;
    STORE32(at, to);
}

/*
 * Puts a number at `at` of the frame, in the place of `from`, both in network order, and tells
 * TCP's checksum. Not 0: a helper failed.
 */
__attribute__((noinline)) int skb_put_number(struct __sk_buff *skb, u32 l4, u32 at, u32 from,
                                             u32 to)
{
    return bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0) ||
           bpf_l4_csum_replace(skb, l4 + 16, 0, sum_change(from, to, (at - l4) & 1), 0);
}

/*
 * Tells the checksum of a segment, whose TCP header begins at l4, of a change. A partial one, or
 * what seems to be one, stays. If a client's is whole and only seems partial, for 1 segment in
 * 65,536, the helper, which knows, changes it; a socket's never is, unless an interface above this
 * one has completed it: then the segment is lost. Not 0: the helper failed.
 */
static __always_inline int skb_put_sum(struct __sk_buff *skb, u32 l4, void *tcp, u64 change,
                                       const struct tcp_segment *segment, const int ingress)
{
    u16 field = LOAD16(tcp + 16);

    if (field != (u16)sum_fold(segment_pseudo(segment))) {
        STORE16(tcp + 16, ~sum_fold((u16)~field + change));
        return 0;
    }
    change = (change & 0xffffffff) + (change >> 32);
    change = (change & 0xffffffff) + (change >> 32);
    return ingress && bpf_l4_csum_replace(skb, l4 + 16, 0, change, 0);
}

/*
 * Puts numbers and the timestamp, if it is where it mostly is, into the TCP header of a segment at
 * `at`, whose bytes up to `end` are there, marks it as translated if it is a client's, and tells
 * the checksum. Not 0: something is not there.
 */
static __always_inline int segment_put(struct __sk_buff *skb, u32 l4, void *at, const void *end,
                                       u32 seq, u32 ack, const struct segment_scratch *tcp,
                                       const int ingress)
{
    const struct tcp_segment *segment = &tcp->segment;
    u64 change = 0;

    if (at + TCP_BYTES > end)
        return -1;
    put_number(at + 4, bpf_htonl(seq), &change);
    if (segment->flags & TCP_ACK)
        put_number(at + 8, bpf_htonl(ack), &change);
    if (ingress && !(segment->flags & TCP_URG)) { /* a socket is not given one with URG */
        change += (u16)~segment->urgent + (u64)(u16)tcp->mark;
        STORE16(at + 18, tcp->mark);
    }
    if (segment->has_timestamps && segment->tsval_at == TSVAL_AT) {
        if (at + L4_TEXT > end)
            return -1;
        if (ingress)
            put_number(at + 28, bpf_htonl(timestamp_rx(segment->tsecr, tcp->tsval)), &change);
        else
            put_number(at + 24, bpf_htonl(segment->tsval + MC_TCP_AHEAD), &change);
    }
    return skb_put_sum(skb, l4, at, change, segment, ingress);
}

/* Translates a client's segment where it is: helpers that store take three times as long. */
static __always_inline int skb_put_rx(struct __sk_buff *skb, u32 l4, u32 seq, u32 ack,
                                      const struct segment_scratch *tcp)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    u64 at = l4;

    bound_mask(at, 511);
    return segment_put(skb, l4, data + at, end, seq, ack, tcp, 1);
}

/* Translates the timestamp of a client's segment that is not where it mostly is. */
static __always_inline int skb_put_stamp(struct __sk_buff *skb, u32 l4,
                                         const struct segment_scratch *tcp)
{
    const struct tcp_segment *segment = &tcp->segment;

    if (likely(!segment->has_timestamps || segment->tsval_at == TSVAL_AT))
        return 0;
    return skb_put_number(skb, l4, l4 + segment->tsval_at + 4, bpf_htonl(segment->tsecr),
                          bpf_htonl(timestamp_rx(segment->tsecr, tcp->tsval)));
}

/*
 * Translates a socket's segment in a copy of its header, which is stored at once. Before a program
 * that stores by itself Linux makes each packet writable that has a clone, as all have that the
 * socket may send again: that takes a quarter of what a segment needs that is not translated. What
 * a socket sends has its headers in place, and its own, even where its data is elsewhere.
 */
static __always_inline int skb_put_tx(struct __sk_buff *skb, u32 l4, u32 seq, u32 ack,
                                      const struct segment_scratch *tcp)
{
    const void *from = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    u64 header[L4_TEXT / 8], at = l4;

    bound_mask(at, 511);
    from += at;
    if (!tcp->segment.has_timestamps) {
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
    return tcp->segment.has_timestamps ? bpf_skb_store_bytes(skb, l4, header, L4_TEXT, 0)
                                       : bpf_skb_store_bytes(skb, l4, header, TCP_BYTES, 0);
}

#endif
