/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ghost: which keys were evicted from the hot segment, for S3-FIFO (Yang et al., "FIFO queues are
 * all you need for cache eviction", SOSP 2023, section 4): an item whose key comes back goes
 * elsewhere.
 *
 * A cell holds the upper half of a key's hash, at the place that the lower half says, until another
 * key takes it: a key is forgotten at random and not in turn. Two keys with the same cell and upper
 * half are taken for one, and nothing worse. Used by all threads without locks.
 *
 * How long keys are known decides what S3-FIFO is worth: known for as long as the cache has items
 * evicted, or half as long, it beats the LRU; known four times as long, not. So as many cells are
 * used as suit the items that there are: 0.36 to 0.73 for each, by the buckets of the hash table.
 */
#ifndef STORE_GHOST_H
#define STORE_GHOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GHOST_SHARE = 256,      /* bytes of the cache for each cell that there can be */
    GHOST_BUCKET_CELLS = 2, /* cells for each bucket, whose number is rounded up to a power of 2 */
};

struct ghost {
    uint32_t *cells; /* NULL: none, and no key is known */
    uint64_t mask;
};

/* For a cache of so many bytes. 0 or -errno. */
int ghost_init(struct ghost *ghost, uint64_t cache_bytes);
void ghost_fini(struct ghost *ghost);

/* nbuckets: of the table now; when it grows, keys are forgotten. */
void ghost_note(struct ghost *ghost, uint64_t hash, uint32_t nbuckets);
/* Whether the key is known; it no longer is. */
bool ghost_take(struct ghost *ghost, uint64_t hash, uint32_t nbuckets);

#endif
