/* SPDX-License-Identifier: BSD-3-Clause */
/* prefix: network prefixes, as text and as numbers. Pure. */
#ifndef KMEM_PREFIX_H
#define KMEM_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PREFIX_TEXT_MAX = 64 };

/* Bits beyond the length are 0. */
struct prefix {
    uint64_t high, low; /* host order; an IPv4 address stands in the top half of high */
    uint8_t bits;
    bool six;
};

/*
 * Parses ADDRESS or ADDRESS/LENGTH, IPv4 or IPv6, and clears the bits beyond the length. False: not
 * a prefix.
 */
bool prefix_parse(const char *text, struct prefix *out);
/* The mask of a prefix of that length. */
uint64_t prefix_mask_high(unsigned int bits);
uint64_t prefix_mask_low(unsigned int bits);
/* Whether `outer` contains `inner`. */
bool prefix_holds(const struct prefix *outer, const struct prefix *inner);
/*
 * Sorts by family and address, and reduces to disjoint prefixes of the same addresses. Returns how
 * many.
 */
size_t prefix_reduce(struct prefix *prefixes, size_t n);

#endif
