/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * reply: pieces of a reply's text, each behind what is there already.
 *
 * Text is stored in whole words: what a piece has behind its end belongs to the next one. A reply
 * has room for all pieces of one item behind TEXT_MAX bytes, so only values are measured.
 */
#ifndef MC_REPLY_BPF_H
#define MC_REPLY_BPF_H

#include "bpf/inplace/lookup.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/scratch.bpf.h"

/* Up to 8 bytes. */
static __always_inline void reply_add(struct scratch *scratch, u64 text, u32 n)
{
    u64 at = scratch->nreply;

    BOUND(at, 2047);
    STORE64(scratch->reply + at, text);
    scratch->nreply += n;
}

/* " " and a letter. */
static __always_inline void reply_letter(struct scratch *scratch, u8 letter)
{
    reply_add(scratch, ' ' | (u64)letter << 8, 2);
}

/* The key of the request. */
__attribute__((noinline)) int reply_key(struct scratch *scratch)
{
    u64 words, at, i;

    if (!scratch)
        return 0;
    words = (scratch->nkey + 7) / 8;
    at = scratch->nreply;
    for (i = 0; i < KEY_WORDS; i++) {
        if (i >= words)
            break;
        BOUND(at, 2047);
        STORE64(scratch->reply + at, scratch->key[i]);
        at += 8;
    }
    scratch->nreply += scratch->nkey;
    return 0;
}

/* Up to 32 bytes of the item's suffix from `from` on. */
static __always_inline void reply_suffix(struct scratch *scratch, u64 from, u32 n)
{
    const void *text = scratch->item.suffix;
    u64 at = scratch->nreply;
    void *out;

    BOUND(at, 2047);
    BOUND(from, 15);
    out = scratch->reply + at;
    text += from;
    STORE64(out, LOAD64(text));
    STORE64(out + 8, LOAD64(text + 8));
    STORE64(out + 16, LOAD64(text + 16));
    STORE64(out + 24, LOAD64(text + 24));
    scratch->nreply += n;
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
static __always_inline void reply_short(struct scratch *scratch, u64 number)
{
    u64 digits = digits_of(number), zeros;

    /* The last digit stays even if it is 0. */
    zeros = bytes_below(((digits + 0x7f * MASK_BYTES) & MASK_TOPS) | 1ull << 63);
    reply_add(scratch, (digits | '0' * MASK_BYTES) >> 8 * zeros, 8 - zeros);
}

__attribute__((noinline)) int reply_number(struct scratch *scratch, u64 number)
{
    const u64 e8 = 100000000;
    u64 high;

    if (!scratch)
        return 0;
    if (likely(number < e8)) {
        reply_short(scratch, number);
        return 0;
    }
    high = number / e8;
    if (high < e8) {
        reply_short(scratch, high);
    } else {
        reply_short(scratch, high / e8);
        reply_add(scratch, digits_of(high % e8) | '0' * MASK_BYTES, 8);
    }
    reply_add(scratch, digits_of(number % e8) | '0' * MASK_BYTES, 8);
    return 0;
}

/*
 * n bytes of the item's wire, at `offset` of the extent; behind them there is to be room for nrest
 * more. FOUND_HIT, FOUND_RETRY or a reason.
 */
static __always_inline int reply_wire(struct scratch *scratch, const char *extent, u64 offset,
                                      u64 n, u64 nrest)
{
    u64 at = scratch->nreply;
    int rc = FOUND_HIT;

    if (n > TEXT_MAX || at + n + nrest > REPLY_MAX)
        return MC_COUNT_PASS_SIZE;
    if (n >= 8) {
        rc = copy_bytes(scratch, at, extent, offset, n);
    } else if (n) {
        /* The word that ends with them: it begins in the header at worst. */
        offset += n - 8;
        OPAQUE(offset);
        if (offset > MC_EXTENT_BYTES - 8)
            return FOUND_RETRY;
        BOUND(at, 2047);
        STORE64(scratch->reply + at, LOAD64(extent + offset) >> (64 - 8 * n));
    }
    scratch->nreply += n;
    return rc;
}

#endif
