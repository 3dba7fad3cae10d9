/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * num: parses numbers of the wire and formats them.
 *
 * What is accepted is what memcached accepts, which is what strtoull of C99 reads: blanks before
 * the number, one sign, decimal digits, and then the end or a blank (what follows it is ignored). A
 * number out of its type's range is refused, except client flags and times, of which memcached
 * reads 64 bits and keeps 32.
 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum { NUM_U64_MAX = 20 }; /* digits of the longest */

/* False: not a number; *out is unchanged. */
bool num_parse_u64(struct slice text, uint64_t *out);
bool num_parse_i64(struct slice text, int64_t *out);
/* The low 32 bits of such a number: client flags, a time. */
bool num_cut_u32(struct slice text, uint32_t *out);
bool num_cut_i32(struct slice text, int64_t *out);

/* Writes the decimal digits of `value` without a NUL and returns how many. */
size_t num_format_u64(char out[NUM_U64_MAX], uint64_t value);

#endif
