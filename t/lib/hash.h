/* SPDX-License-Identifier: BSD-3-Clause */
/* hash: the hash of a key, as bpf/shared/layout.h defines it. */
#ifndef T_LIB_HASH_H
#define T_LIB_HASH_H

#include <stddef.h>
#include <string.h>

#include "bpf/shared/layout.h"

/* seeds: MC_HASH_WORDS of them. */
static inline __u64 hash_of(const __u64 *seeds, const char *key, size_t nkey)
{
    __u64 sum = 0, word;

    for (size_t at = 0; at < nkey; at += 8) {
        word = 0;
        memcpy(&word, key + at, nkey - at < 8 ? nkey - at : 8);
        sum += mc_hash_word(word, seeds[at / 8]);
    }
    return mc_hash_end(sum, nkey);
}

#endif
