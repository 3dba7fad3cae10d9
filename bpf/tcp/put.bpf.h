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

/* TCP's checksum, which was this, behind a change. */
static __always_inline u16 sum_changed(u16 field, u64 change)
{
    return ~sum_fold((u16)~field + change);
}

/* Whether the checksum of a segment is partial, or seems to be. */
static __always_inline int segment_is_partial(const struct tcp_segment *segment, u16 field)
{
    return field == (u16)sum_fold(segment_pseudo(segment));
}

/*
 * Tells the checksum of a client's segment, whose TCP header begins at l4, of a change. A partial
 * one stays. If it is whole and only seems partial, for 1 segment in 65,536, the helper, which
 * knows, changes it. Not 0: the helper failed.
 */
static __always_inline int skb_put_sum(struct __sk_buff *skb, u32 l4, void *tcp, u64 change,
                                       const struct tcp_segment *segment)
{
    u16 field = LOAD16(tcp + 16);

    if (!segment_is_partial(segment, field)) {
        STORE16(tcp + 16, sum_changed(field, change));
        return 0;
    }
    change = (change & 0xffffffff) + (change >> 32);
    change = (change & 0xffffffff) + (change >> 32);
    return bpf_l4_csum_replace(skb, l4 + 16, 0, change, 0);
}

/*
 * Translates a client's segment where it is, since helpers that store take three times as long:
 * puts numbers and the timestamp, if it is where it mostly is, into its TCP header, marks it as
 * translated, and tells the checksum. Not 0: something is not there.
 */
static __always_inline int skb_put_rx(struct __sk_buff *skb, u32 l4, u32 seq, u32 ack,
                                      const struct segment_scratch *tcp)
{
    void *at = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const struct tcp_segment *segment = &tcp->segment;
    u64 change = 0, place = l4;

    bound_mask(place, 511);
    at += place;
    if (at + TCP_BYTES > end)
        return -1;
    put_number(at + 4, bpf_htonl(seq), &change);
    if (segment->flags & TCP_ACK)
        put_number(at + 8, bpf_htonl(ack), &change);
    if (!(segment->flags & TCP_URG)) { /* a socket is not given one with URG */
        change += (u16)~segment->urgent + (u64)(u16)tcp->mark;
        STORE16(at + 18, tcp->mark);
    }
    if (segment->has_timestamps && segment->tsval_at == TSVAL_AT) {
        if (at + L4_TEXT > end)
            return -1;
        put_number(at + 28, bpf_htonl(timestamp_rx(segment->tsecr, tcp->tsval)), &change);
    }
    return skb_put_sum(skb, l4, at, change, segment);
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
 * Translates a socket's segment: what stands in its header from the numbers on is stored at once,
 * made of words, which the helper reads as such. Before a program that stores by itself Linux makes
 * each packet writable that has a clone, as all have that the socket may send again: that takes a
 * quarter of what a segment needs that is not translated. What a socket sends has its headers in
 * place, and its own, even where its data is elsewhere. Its checksum is partial, unless the card
 * does none, or an interface above this one has completed it: then a whole one that seems partial
 * stays, and the segment is lost.
 */
static __always_inline int skb_put_tx(struct __sk_buff *skb, u32 l4, u32 seq, u32 ack,
                                      const struct segment_scratch *tcp)
{
    const void *from = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const struct tcp_segment *segment = &tcp->segment;
    const u32 tsval = bpf_htonl(segment->tsval + MC_TCP_AHEAD);
    u64 words[3], at = l4, change;
    u16 field;

    bound_mask(at, 511);
    from += at;
    if (from + TCP_BYTES > end)
        return -1;
    ack = segment->flags & TCP_ACK ? bpf_htonl(ack) : LOAD32(from + 8);
    seq = bpf_htonl(seq);
    words[0] = seq | (u64)ack << 32;
    words[1] = LOAD64(from + 12);
    words[2] = TCP_TIMESTAMPS | (u64)tsval << 32;
    field = words[1] >> 32;
    if (unlikely(!segment_is_partial(segment, field))) {
        change = (u64)(u32)~LOAD32(from + 4) + seq + (u32)~LOAD32(from + 8) + ack;
        if (segment->has_timestamps)
            change += (u64)(u32)~bpf_htonl(segment->tsval) + tsval;
        words[1] &= ~(0xffffull << 32);
        words[1] |= (u64)sum_changed(field, change) << 32;
    }
    return segment->has_timestamps ? bpf_skb_store_bytes(skb, l4 + 4, words, 24, 0)
                                   : bpf_skb_store_bytes(skb, l4 + 4, words, 16, 0);
}

#endif
