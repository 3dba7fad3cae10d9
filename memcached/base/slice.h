/* SPDX-License-Identifier: BSD-3-Clause */
/* slice: a reference to bytes that somebody else owns, never NUL-terminated. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *ptr;
    size_t len;
};

/* The slice of a string literal. */
#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

#endif
