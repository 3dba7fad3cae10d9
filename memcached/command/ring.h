/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: a queue of records from many producers, which must not block, to one consumer.
 *
 * A producer claims its place by one compare-and-swap and publishes the record when it is complete;
 * it never blocks, not even for room. A record that does not fit is dropped and counted. Records
 * come out in the order in which their places were claimed.
 */
#ifndef COMMAND_RING_H
#define COMMAND_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct ring {
    char *bytes;
    size_t size; /* a power of two */
    uint64_t claimed __attribute__((aligned(64)));
    uint64_t nwritten, ndropped; /* records, since the start; atomic */
    uint64_t taken __attribute__((aligned(64)));
};

/* `size` is rounded up to a power of two. 0 or -ENOMEM. */
int ring_init(struct ring *ring, size_t size);
void ring_fini(struct ring *ring);
/*
 * Any thread: adds a record of both slices. False: there is no room, and it is counted as dropped.
 */
bool ring_put(struct ring *ring, struct slice head, struct slice rest);
/* One thread at a time. Copies the oldest record, of at most `size` bytes; 0: there is none. */
size_t ring_take(struct ring *ring, void *out, size_t size);

#endif
