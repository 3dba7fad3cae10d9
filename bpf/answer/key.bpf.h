/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * key: a get's only key, where XDP has it in the frame; and whether a text begins with a key.
 */
#ifndef MC_KEY_BPF_H
#define MC_KEY_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/sum.bpf.h"

/*
 * Takes the key out of a text of "get KEY\r\n" and hashes it into scratch. 0: the text is something
 * else, or has a byte that might not be a key's.
 */
static __always_inline int xdp_key(struct scratch *scratch, void *text, void *end)
{
    u64 at = scratch->ntext - 10, nkey, words, rest;
    u64 sum = 0, halves_sum = 0, blank = 0, word, i;
    void *from = text + unknown_zero(), *tail;

    nkey = at + 8 - NGET;
    if (unlikely(nkey - 1 >= MC_KEY_MAX))
        return 0;
    words = nkey / 8;
    rest = nkey % 8;
    /* The last eight bytes of the key, or of it and what is before it, and the newline. */
    bound_mask(at, 511);
    tail = text + at;
    if (tail + 10 > end || LOAD16(tail + 8) != 0x0a0d)
        return 0;
    scratch->nkey = nkey;
    for (i = 0; i < KEY_WORDS; i++) {
        if (i >= words || from + NGET + 8 * i + 8 > end)
            break;
        word = LOAD64(from + NGET + 8 * i);
        blank |= (word - 0x21 * MASK_BYTES) & ~word;
        scratch->key[i] = word;
        sum += mc_hash_word(word, control.seed[i]);
        halves_sum += halves(word);
    }
    if (rest) {
        word = LOAD64(tail);
        blank |= ((word - 0x21 * MASK_BYTES) & ~word) >> (64 - 8 * rest);
        word >>= 64 - 8 * rest;
        words = key_words(scratch);
        bound_mask(words, KEY_WORDS - 1);
        scratch->key[words] = word;
        sum += mc_hash_word(word, control.seed[words]);
        halves_sum += halves(word);
    }
    scratch->key_sum = halves_sum;
    scratch->hash = mc_hash_end(sum, nkey);
    return !(blank & MASK_TOPS);
}

/* What the checksum says of a request of "get KEY\r\n" with the key in `scratch`. */
static __always_inline enum checksum key_csum_verify(const struct scratch *scratch, u64 v6)
{
    u64 sum = TEXT_GET + (0x0a0dull << 8 * (scratch->nkey & 1)) + scratch->key_sum;

    if (!l4_has_checksum(&scratch->saved, v6))
        return ip4_csum_verify(&scratch->saved);
    return l4_csum_verify(&scratch->saved, v6, sum);
}

/*
 * Whether a text begins with the key of `scratch`, of at most `most` bytes, a power of two. The
 * eight bytes before the text may be read, and so may `most` from it on.
 */
static __always_inline int text_has_key(const struct scratch *scratch, const char *text,
                                        const u64 most)
{
    u64 words = scratch->nkey / 8, rest = scratch->nkey % 8, differ = 0, at, i;

    for (i = 0; i < most / 8; i++) {
        if (i >= words)
            break;
        differ |= LOAD64(text + 8 * i) ^ scratch->key[i];
    }
    if (rest) {
        at = scratch->nkey;
        bound_mask(at, most - 1);
        words = key_words(scratch);
        bound_mask(words, KEY_WORDS - 1);
        /* The word that ends with the key: it begins before the text at worst. */
        differ |= (LOAD64(text - 8 + at) >> (64 - 8 * rest)) ^ scratch->key[words];
    }
    return !differ;
}

/* The same of a text in an extent, wherever in it: each load is checked. */
static __always_inline int extent_has_key(const struct scratch *scratch, const char *extent,
                                          u64 offset)
{
    u64 nkey = scratch->nkey, differ = 0, from = offset, words, rest, last, i;

    /* A caller may have compared it: then clang leaves the loop's bound out. */
    barrier_var(nkey);
    words = nkey / 8;
    rest = nkey % 8;
    for (i = 0; i < KEY_WORDS; i++) {
        if (i >= words)
            break;
        barrier_var(from);
        if (from > MC_EXTENT_BYTES - 8)
            return 0;
        differ |= LOAD64(extent + from) ^ scratch->key[i];
        from += 8;
    }
    if (rest) {
        /* The word that ends with the key: it begins in the header at worst. */
        from = offset + nkey - 8;
        barrier_var(from);
        if (from > MC_EXTENT_BYTES - 8)
            return 0;
        last = key_words(scratch);
        bound_mask(last, KEY_WORDS - 1);
        differ |= (LOAD64(extent + from) >> (64 - 8 * rest)) ^ scratch->key[last];
    }
    return !differ;
}

#endif
