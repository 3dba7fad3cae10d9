/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * reply: pieces of a reply's text. Each function writes one at `at` of scratch->reply and returns
 * where it ends: a place that is kept in memory would be stored and loaded for each piece.
 *
 * Text is stored in whole words: what a piece has behind its end belongs to the next one. A reply
 * has room for all pieces of one item behind TEXT_MAX bytes, so only values are measured.
 */
#ifndef MC_REPLY_BPF_H
#define MC_REPLY_BPF_H

#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"

/* Up to 8 bytes. */
static __always_inline u64 reply_add(struct scratch *scratch, u64 at, u64 text, u64 n)
{
    BOUND(at, 2047);
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
        BOUND(to, 2047);
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
    BOUND(at, 2047);
    copy16(scratch->reply + at, text);
    return at + n;
}

/* The 8 decimal digits of a number below 10^8, one a byte, the first in the low byte. */
static __always_inline u64 digits_of(u64 number)
{
    /* By multiplication: halves of 4 digits, of these pairs, of these digits. */
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

/*
 * n bytes of the item's wire, at `offset` of the extent; behind them there is to be room for nrest
 * more. FOUND_HIT, FOUND_RETRY or a reason.
 */
static __always_inline enum verdict reply_wire(struct scratch *scratch, u64 at, const char *extent,
                                               u64 offset, u64 n, u64 nrest)
{
    if (n > TEXT_MAX || at + n + nrest > REPLY_MAX)
        return PASS_SIZE;
    if (n >= 8)
        return copy_bytes(scratch, at, extent, offset, n);
    if (n) {
        /* The word that ends with them: it begins in the header at worst. */
        offset += n - 8;
        OPAQUE(offset);
        if (offset > MC_EXTENT_BYTES - 8)
            return FOUND_RETRY;
        BOUND(at, 2047);
        STORE64(scratch->reply + at, LOAD64(extent + offset) >> (64 - 8 * n));
    }
    return FOUND_HIT;
}

#endif
