/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefix: counts gets, hits, sets and deletes by key prefix, the part of a key before the
 * delimiter, for `stats detail`. A key without the delimiter is not counted.
 *
 * From any thread; each call takes the lock of one shard for a moment. There are at most PREFIX_MAX
 * prefixes: keys with further ones are not counted.
 */
#ifndef COMMAND_PREFIX_H
#define COMMAND_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "bpf/shared/layout.h"

enum { PREFIX_MAX = 1 << 14 };

struct prefix {
    uint64_t gets, hits, sets, deletes;
    uint8_t len; /* of text */
    char text[MC_KEY_MAX];
};

enum prefix_event { PREFIX_GET, PREFIX_HIT /* a get too */, PREFIX_SET, PREFIX_DELETE };

/* NULL with errno. */
struct prefixes *prefixes_new(char delimiter);
void prefixes_free(struct prefixes *prefixes);
/* False: the limit of prefixes was exceeded, for the first time since the start or a clear. */
bool prefixes_count(struct prefixes *prefixes, struct slice key, enum prefix_event event);
/* A copy of the next prefix; begin with *cursor 0. False: there are no more. */
bool prefixes_next(struct prefixes *prefixes, size_t *cursor, struct prefix *out);
void prefixes_clear(struct prefixes *prefixes);

#endif
