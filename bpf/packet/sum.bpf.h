/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * sum: sums for the checksums of RFC 1071, and what a request's checksum may say.
 *
 * A sum is congruent to that of the 16-bit words modulo 2^16 - 1, and is folded only at the end.
 */
#ifndef MC_SUM_BPF_H
#define MC_SUM_BPF_H

#include "bpf/packet/base.bpf.h"

/* What a request's checksum says of it. */
enum checksum {
    CHECKSUM_INVALID,
    CHECKSUM_VALID,   /* or there is none, with IPv4, whose own is valid */
    CHECKSUM_PARTIAL, /* partial, for hardware to complete; or it is wrong, of 1 damaged packet in
                         65,536 */
};

/* Both halves of 8 bytes: sums of 32-bit words do not overflow, and take no more to load. */
static __always_inline u64 load_halves(const void *bytes)
{
    return (u64)LOAD32(bytes) + LOAD32(bytes + 4);
}

/* A sum of 64-bit words modulo 2^64, and that of their upper halves. */
struct sum {
    u64 all, upper;
};

static __always_inline void sum_add_word(struct sum *sum, u64 word)
{
    sum->all += word;
    sum->upper += word >> 32;
}

static __always_inline u64 halves(u64 word)
{
    return (word >> 32) + (u32)word;
}

static __always_inline u64 sum_words(const struct sum *sum)
{
    return sum->all - (sum->upper << 32) + sum->upper;
}

/* The sum of n % 64 bytes; reads up to 7 bytes behind them. */
static __always_inline u64 sum_rest(const void *text, u64 n)
{
    struct sum one = {0, 0}, two = {0, 0};

    if (n & 32) {
        sum_add_word(&one, LOAD64(text));
        sum_add_word(&two, LOAD64(text + 8));
        sum_add_word(&one, LOAD64(text + 16));
        sum_add_word(&two, LOAD64(text + 24));
        text += 32;
    }
    if (n & 16) {
        sum_add_word(&one, LOAD64(text));
        sum_add_word(&two, LOAD64(text + 8));
        text += 16;
    }
    if (n & 8) {
        sum_add_word(&one, LOAD64(text));
        text += 8;
    }
    sum_add_word(&two, LOAD64(text) & ((1ull << 8 * (n & 7)) - 1));
    one.all += two.all;
    one.upper += two.upper;
    return sum_words(&one);
}

/* The same of n bytes, n <= TEXT_MAX, by whole words: quicker than text_sum up to some hundred. */
static __always_inline u64 words_sum(const void *text, u64 n)
{
    u64 blocks = n / 64, at = n, i;
    struct sum sum = {0, 0};
    const void *from = text;

    for (i = 0; i < TEXT_MAX / 64; i++) {
        if (i >= blocks)
            break;
        sum_add_word(&sum, LOAD64(from));
        sum_add_word(&sum, LOAD64(from + 8));
        sum_add_word(&sum, LOAD64(from + 16));
        sum_add_word(&sum, LOAD64(from + 24));
        sum_add_word(&sum, LOAD64(from + 32));
        sum_add_word(&sum, LOAD64(from + 40));
        sum_add_word(&sum, LOAD64(from + 48));
        sum_add_word(&sum, LOAD64(from + 56));
        from += 64;
    }
    bound_mask(at, 2047 - 63); /* not `from`: the verifier would go on once for each block */
    return sum_words(&sum) + sum_rest(text + at, n);
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

    barrier_var(at); /* or the verifier knows it behind the loop, and goes on once for each block */
    for (i = 0; i < REQUEST_MAX / SEVENS; i++) {
        if (i >= blocks)
            break;
        sevens_add(&sum, text + SEVENS * i);
    }
    n -= at;
    clamp_or_zero(at, REQUEST_MAX);
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
static __always_inline int sum_is_valid(u64 sum)
{
    return sum * 0xfffefffefffeffff <= 0x0001000100010001;
}

/* The checksum of what has this sum; 0 would say that there is none. */
static __always_inline u64 csum_finish(u64 sum)
{
    sum = sum_fold(sum);
    return sum == 0xffff ? sum : ~sum & 0xffff;
}

/* The sum of the text of a hit, whose wire bytes have this one. */
static __always_inline u64 hit_text_sum(u64 sum, u64 nwire)
{
    /* Behind an odd number of bytes the 16-bit words are others. */
    return TEXT_VALUE + sum + (TEXT_END << 8 * (nwire & 1));
}

#endif
