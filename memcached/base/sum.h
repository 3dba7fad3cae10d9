/* SPDX-License-Identifier: BSD-3-Clause */
/* sum: one's complement sums of 16-bit words, as RFC 1071 has them, in the machine's byte order. */
#ifndef BASE_SUM_H
#define BASE_SUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t sum_add(uint64_t sum, uint64_t word)
{
    return __builtin_add_overflow(sum, word, &sum) ? sum + 1 : sum;
}

/* The sum in 16 bits: 0 only for a sum of zeros. */
static inline uint16_t sum_fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/*
 * The last `left` of n bytes, less than a word, as a word: cut out of the last one, where there is
 * one, since to copy so few bytes is a call.
 */
static inline uint64_t sum_end(const char *at, size_t left, size_t n)
{
    uint64_t word = 0;
    const size_t over = 8 * (sizeof(word) - left);

    if (n < sizeof(word)) {
        memcpy(&word, at, left);
        return word;
    }
    memcpy(&word, at + left - sizeof(word), sizeof(word));
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? word << over : word >> over;
}

/*
 * The sum of n bytes, an odd one padded with a zero; so the sum of several pieces is that of their
 * sums if all but the last are even. By words of 8 bytes, two at a time: a sum waits for the one
 * before.
 */
static inline uint16_t sum_of(const void *bytes, size_t n)
{
    uint64_t sum = 0, other = 0, words[2];
    const char *at = bytes;
    size_t left = n;

    for (; left >= sizeof(words); at += sizeof(words), left -= sizeof(words)) {
        memcpy(words, at, sizeof(words));
        sum = sum_add(sum, words[0]);
        other = sum_add(other, words[1]);
    }
    if (left >= sizeof(*words)) {
        memcpy(words, at, sizeof(*words));
        sum = sum_add(sum, words[0]);
        at += sizeof(*words);
        left -= sizeof(*words);
    }
    if (left)
        other = sum_add(other, sum_end(at, left, n));
    return sum_fold(sum_add(sum, other));
}

#endif
