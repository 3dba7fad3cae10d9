/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * reply: a reply's text, piece by piece, and the packet that it becomes.
 *
 * Each function of the first part writes one piece at `at` of scratch->reply and returns where it
 * ends: a place that is kept in memory would be stored and loaded for each piece. Text is stored in
 * whole words: what a piece has behind its end belongs to the next one. A reply has room for all
 * pieces of one item behind TEXT_MAX bytes, so only values are measured.
 */
#ifndef MC_REPLY_BPF_H
#define MC_REPLY_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/sum.bpf.h"

/* Up to 8 bytes. */
static __always_inline u64 reply_add(struct scratch *scratch, u64 at, u64 text, u64 n)
{
    bound_mask(at, 2047);
    STORE64(scratch->reply + at, text);
    return at + n;
}

/* " " and a letter. */
static __always_inline u64 reply_letter(struct scratch *scratch, u64 at, u8 letter)
{
    return reply_add(scratch, at, ' ' | (u64)letter << 8, 2);
}

/* The key of the request, */
static __always_inline u64 reply_key_here(struct scratch *scratch, u64 at)
{
    u64 to = at, nkey = scratch->nkey, i;

    for (i = 0; i < KEY_WORDS / 4; i++) {
        if (32 * i >= nkey)
            break;
        bound_mask(to, 2047);
        copy16(scratch->reply + to, &scratch->key[4 * i]);
        copy16(scratch->reply + to + 16, &scratch->key[4 * i + 2]);
        to += 32;
    }
    return at + READ_ONCE(scratch->nkey); /* as in key_words */
}

/* by a function where it is rarely needed. */
__attribute__((noinline)) int reply_key(struct scratch *scratch, u64 at)
{
    return scratch ? reply_key_here(scratch, at) : 0;
}

/* n bytes, up to 16, which begin there; as many are read. */
static __always_inline u64 reply_text(struct scratch *scratch, u64 at, const void *text, u64 n)
{
    bound_mask(at, 2047);
    copy16(scratch->reply + at, text);
    return at + n;
}

/* The 8 decimal digits of a number below 10^8, one a byte, the first in the low byte. */
static __always_inline u64 digits_of(u64 number)
{
    /* Multiplications divide it: into halves of 4 digits, these into pairs, these into digits. */
    u64 high = number * 3518437209ull >> 45, all, part;

    all = high | (number - high * 10000) << 32;
    part = all * 10486 >> 20 & 0x0000007f0000007full;
    all = part | (all - part * 100) << 16;
    part = all * 103 >> 10 & 0x000f000f000f000full;
    return part | (all - part * 10) << 8;
}

/* A number below 10^8, without leading zeros. */
static __always_inline u64 reply_short(struct scratch *scratch, u64 at, u64 number)
{
    u64 digits = digits_of(number), zeros;

    /* The last digit stays even if it is 0. */
    zeros = bytes_below(((digits + 0x7f * MASK_BYTES) & MASK_TOPS) | 1ull << 63);
    return reply_add(scratch, at, (digits | '0' * MASK_BYTES) >> 8 * zeros, 8 - zeros);
}

/* A number of 10^8 or more. */
__attribute__((noinline)) int reply_long(struct scratch *scratch, u64 at, u64 number)
{
    const u64 e8 = 100000000;
    u64 high = number / e8;

    if (!scratch)
        return 0;
    if (high < e8) {
        at = reply_short(scratch, at, high);
    } else {
        at = reply_short(scratch, at, high / e8);
        at = reply_add(scratch, at, digits_of(high % e8) | '0' * MASK_BYTES, 8);
    }
    return reply_add(scratch, at, digits_of(number % e8) | '0' * MASK_BYTES, 8);
}

static __always_inline u64 reply_number(struct scratch *scratch, u64 at, u64 number)
{
    return likely(number < 100000000) ? reply_short(scratch, at, number)
                                      : (u32)reply_long(scratch, at, number);
}

/* --- a get's --------------------------------------------------------------------------------- */

/* Notes that the reply has the item found last: VERDICT_OK or a reason. */
static __always_inline enum verdict hit_note(struct scratch *scratch)
{
    u64 nhits = scratch->nhits;

    if (nhits >= HITS_MAX)
        return PASS_SIZE;
    scratch->classes[nhits] = scratch->clsid;
    scratch->nhits = nhits + 1;
    return VERDICT_OK;
}

/* Takes the copied item into the reply: VERDICT_OK or a reason. */
static __always_inline enum verdict reply_hit(struct scratch *scratch)
{
    u64 at = scratch->nreply;

    if (hit_note(scratch))
        return PASS_SIZE;
    bound_mask(at, 2047);
    STORE32(scratch->reply + at, (u32)TEXT_VALUE);
    STORE16(scratch->reply + at + 4, (u16)(TEXT_VALUE >> 32));
    scratch->nreply += 6 + scratch->nwire;
    return VERDICT_OK;
}

static __always_inline void reply_end(struct scratch *scratch)
{
    u64 at = scratch->nreply;

    bound_mask(at, 2047);
    STORE32(scratch->reply + at, (u32)TEXT_END);
    scratch->reply[at + 4] = (char)(TEXT_END >> 32);
    scratch->nreply += 5;
}

/* --- its headers ----------------------------------------------------------------------------- */

/* Where the frame of the reply begins, and how long it is without padding. */
static __always_inline u64 reply_start(const struct scratch *scratch)
{
    u64 start = REPLY_TEXT - offsets_text(scratch_offsets(scratch));

    bound_mask(start, 31);
    return start;
}

static __always_inline u64 reply_size(const struct scratch *scratch)
{
    return scratch->nreply - reply_start(scratch);
}

/* Ethernet pads short frames; a request that is long enough becomes no shorter than that. */
static __always_inline u64 frame_size(u64 nreply, u64 nframe)
{
    if (nreply >= FRAME_MIN || nframe < FRAME_MIN)
        return nreply;
    return FRAME_MIN;
}

/* The sum of the reply's text, folded. Not inlined: it needs room on its caller's stack. */
__attribute__((noinline)) int reply_text_sum(struct scratch *scratch)
{
    u64 ntext;

    if (!scratch)
        return 0;
    ntext = scratch->nreply - REPLY_TEXT;
    bound_mask(ntext, 2047);
    return (int)sum_fold(text_sum(scratch->reply + REPLY_TEXT, ntext));
}

/*
 * The sum of the reply's text of ntext bytes; that of a single hit follows from its item's.
 * at_once: any other is computed without a call, which takes room on the caller's stack.
 */
static __always_inline u64 reply_sum(struct scratch *scratch, u64 ntext, const int at_once)
{
    u64 nwire = scratch->nwire;

    if (scratch->wire_sum && scratch->nhits == 1 && ntext == NVALUE + nwire + NEND)
        return hit_text_sum(scratch->wire_sum, nwire);
    if (at_once)
        return words_sum(scratch->reply + REPLY_TEXT, ntext);
    return (u32)reply_text_sum(scratch);
}

/*
 * Writes the headers before the reply's text, and zeros behind it, where there may be padding.
 * partial: the checksum is partial, for hardware to complete.
 */
__attribute__((noinline)) int reply_headers(struct scratch *scratch, int partial)
{
    u64 nreply, ntext;
    void *l4;

    if (!scratch)
        return 0;
    nreply = scratch->nreply;
    ntext = nreply - REPLY_TEXT;
    link_reply(scratch->reply + reply_start(scratch), &scratch->saved,
               scratch->offsets.ip != ETH_HLEN);
    bound_mask(nreply, 2047);
    STORE64(scratch->reply + nreply, 0);
    l4 = scratch->reply + REPLY_TEXT - L4_TEXT;
    if (scratch->offsets.v6)
        l4_reply(l4 - IP6_BYTES, &scratch->saved, 1, ntext, reply_sum(scratch, ntext, 0));
    else
        l4_reply(l4 - IP4_BYTES, &scratch->saved, 0, ntext, reply_sum(scratch, ntext, 0));
    if (partial && scratch->offsets.v6)
        l4_put_partial(l4 - IP6_BYTES, 1);
    else if (partial)
        l4_put_partial(l4 - IP4_BYTES, 0);
    return 0;
}

/* --- the frame that XDP has ------------------------------------------------------------------ */

/* Writes the reply of `scratch` into a frame of IPv4 without tags. 0: it has not its size. */
static __always_inline int xdp_write_plain(struct xdp_md *ctx, struct scratch *scratch)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    const struct offsets offsets = OFFSETS(0, 0);
    u64 ntext = scratch->nreply - REPLY_TEXT;

    if (data + offsets_text(offsets) + 8 > end)
        return 0;
    link_reply(data, &scratch->saved, 0);
    l4_reply(data + offsets.ip, &scratch->saved, 0, ntext, reply_sum(scratch, ntext, 1));
    if (ntext < 9) {
        STORE64(data + offsets_text(offsets),
                LOAD64(scratch->reply + REPLY_TEXT) << (64 - 8 * ntext) >> (64 - 8 * ntext));
        return 1;
    }
    return copy_blocks(data + offsets_text(offsets), end, scratch->reply + REPLY_TEXT, ntext,
                       TEXT_MAX);
}

/*
 * The same of any frame, which has come in scratch->nframe bytes. How many it has now is found from
 * that again: if it were handed on, the verifier would follow the copying once for each way to make
 * room.
 */
static __always_inline int xdp_write_reply(struct xdp_md *ctx, struct scratch *scratch)
{
    u64 nframe;

    if (likely(scratch->offsets.ip == ETH_HLEN && !scratch->offsets.v6) &&
        xdp_write_plain(ctx, scratch))
        return 1;
    reply_headers(scratch, 0);
    nframe = frame_size(reply_size(scratch), READ_ONCE(scratch->nframe));
    bound_size(nframe, 2047);
    return !bpf_xdp_store_bytes(ctx, 0, scratch->reply + reply_start(scratch), nframe);
}

/* --- counting it ----------------------------------------------------------------------------- */

/* Counts a quiet request that finds nothing, which gets no answer. */
static __always_inline void count_silence(struct scratch *scratch, enum mc_count by)
{
    scratch->counts.count[MC_COUNT_BYTES_READ] += l4_payload(scratch->ntext);
    scratch->counts.count[MC_COUNT_MISSES] += scratch->nkeys;
    scratch->counts.count[by]++;
}

__attribute__((noinline)) int count_classes(struct scratch *scratch)
{
    u32 i;

    if (!scratch)
        return 0;
    for (i = 0; i < HITS_MAX; i++) {
        if (i >= scratch->nhits)
            break;
        scratch->counts.class_hits[scratch->classes[i] % MC_CLASSES]++;
    }
    return 0;
}

/* Counts the hits of the reply's items in their slab classes. */
static __always_inline void count_hits(struct scratch *scratch)
{
    scratch->counts.count[MC_COUNT_MISSES] += scratch->nkeys - scratch->nhits;
    if (scratch->nhits == 1)
        scratch->counts.class_hits[scratch->classes[0] % MC_CLASSES]++;
    else if (scratch->nhits)
        count_classes(scratch);
}

#endif
