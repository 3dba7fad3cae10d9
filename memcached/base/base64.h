/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base64: RFC 4648, section 4, for the keys of meta commands.
 *
 * The decoder takes what memcached 1.6 takes, which is more than the RFC says: bytes outside the
 * alphabet are skipped, bits that the padding leaves over need not be 0, and what follows the first
 * group with padding is not looked at.
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* Length of n bytes as text, and the most bytes that n bytes of text decode to. */
#define BASE64_TEXT_BYTES(n) (((n) + 2) / 3 * 4)
#define BASE64_MAX_BYTES(n)  ((n) / 4 * 3)

/* Writes the text without a NUL and returns its length. */
size_t base64_encode(char *out, struct slice bytes);
/* Writes *nout bytes. False: invalid base64; `out` may have been written to. */
bool base64_decode(char *out, struct slice text, size_t *nout);

#endif
