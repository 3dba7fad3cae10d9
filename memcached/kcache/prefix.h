/* SPDX-License-Identifier: BSD-3-Clause */
/* prefix: addresses that begin alike, as text and as numbers. Pure. */
#ifndef KCACHE_PREFIX_H
#define KCACHE_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PREFIX_TEXT_MAX = 64 };

/* Bits behind the length are 0. */
struct prefix {
    uint64_t high, low; /* host order; an IPv4 address stands in the top half of high */
    uint8_t bits;
    bool six;
};

/* Reads ADDRESS or ADDRESS/LENGTH, IPv4 or IPv6; bits behind the length are cut. False: it is none.
 */
bool prefix_parse(const char *text, struct prefix *out);
/* The bits that an address must have in common with a prefix of that length. */
uint64_t prefix_mask_high(unsigned int bits);
uint64_t prefix_mask_low(unsigned int bits);
/* Whether each address of `inner` is one of `outer`. */
bool prefix_holds(const struct prefix *outer, const struct prefix *inner);
/*
 * Sorts, by family and address, and leaves prefixes that are apart from each other and mean the
 * same addresses. Returns how many.
 */
size_t prefix_reduce(struct prefix *prefixes, size_t n);

#endif
