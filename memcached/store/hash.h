/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash: the hash of a key as bpf/shared/layout.h defines it, for the server's side.
 */
#ifndef STORE_HASH_H
#define STORE_HASH_H

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"
#include "bpf/shared/layout.h"

static inline uint64_t hash_load64(const char *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof(word));
    return le64toh(word);
}

static inline uint64_t hash_load32(const char *from)
{
    uint32_t word;

    memcpy(&word, from, sizeof(word));
    return le32toh(word);
}

/* The last 1 to 7 bytes of a key as a word, without reading behind them. */
static inline uint64_t hash_load_rest(const char *from, size_t n)
{
    if (n >= 4)
        return hash_load32(from) | hash_load32(from + n - 4) << (8 * (n - 4));
    return (uint64_t)(uint8_t)from[0] | (uint64_t)(uint8_t)from[n / 2] << (8 * (n / 2)) |
           (uint64_t)(uint8_t)from[n - 1] << (8 * (n - 1));
}

/* key.len is 1 to MC_KEY_MAX. */
static inline uint64_t hash_key(const struct mc_control *control, struct slice key)
{
    const uint64_t *seed = (const uint64_t *)control->seed;
    const char *at = key.ptr;
    size_t left = key.len;
    uint64_t sum = 0;

    assert(left > 0 && left <= MC_KEY_MAX);
    for (; left >= 8; left -= 8, at += 8)
        sum += mc_hash_word(hash_load64(at), *seed++);
    if (left > 0)
        sum += mc_hash_word(hash_load_rest(at, left), *seed);
    return mc_hash_end(sum, key.len);
}

#endif
