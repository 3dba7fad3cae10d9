/* SPDX-License-Identifier: BSD-3-Clause */
/* wire: numbers in network order, and the sums of RFC 1071, byte by byte. */
#ifndef T_BPF_WIRE_H
#define T_BPF_WIRE_H

#include <stddef.h>
#include <stdint.h>

static inline void put16(uint8_t *at, unsigned int value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

static inline unsigned int get16(const uint8_t *at)
{
    return (unsigned int)at[0] << 8 | at[1];
}

static inline uint32_t get32(const uint8_t *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

/* The sum of n bytes in words of network order, the last one padded. */
static inline uint32_t words_sum(const uint8_t *bytes, size_t n)
{
    uint32_t sum = 0;
    size_t i;

    for (i = 0; i < n; i++)
        sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    return sum;
}

static inline unsigned int folded(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

#endif
