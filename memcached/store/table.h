/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table: from keys to items, by linear hashing over the buckets of bpf/shared/layout.h, which see.
 * It grows by splitting one bucket after the other, a little with each insertion, and never stops
 * for it.
 *
 * Each stripe locks the buckets whose number is equal to its own in the low bits. There are no more
 * stripes than buckets at the start, so that a bucket and all that is ever split from it have one
 * stripe, which is that of the key. Unless it says otherwise a function here is called under the
 * key's stripe.
 *
 * Each bucket of a chain but the last is full.
 *
 * The sequence counter is a seqlock for the kernel programs: the server's own threads read under
 * the stripe. A thread that changes an item's fields marked [k] while it is in the table does so
 * between table_begin and table_end.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "store/background.h"
#include "store/heap.h"
#include "store/lock.h"

enum {
    TABLE_MIN_POWER = 12, /* log2 of the slots */
    TABLE_MAX_POWER = 31,
    TABLE_LOAD = 11, /* items for each two buckets above which it grows */
    TABLE_COUNTERS = 16,
};

/* Items counted under some of the stripes and not yet in the total. */
struct table_counter {
    int32_t pending;
} __attribute__((aligned(64)));

struct table {
    struct mc_bucket *buckets;
    struct mc_bucket *overflow; /* by number; 0 is none */
    struct mc_control *control;
    struct heap *heap;
    struct lock *stripes;
    uint32_t stripe_mask;
    bool expand;

    int64_t nitems __attribute__((aligned(64))); /* atomic, short by what is pending */
    struct lock growth;
    bool growth_failed; /* the provider has no more buckets for now (racy hint) */

    struct lock mapping; /* for what the provider does; nmain_extents and noverflow_extents are
                            atomic to read */
    struct provider *provider;
    uint32_t max_extents;        /* extents of either that there is address space for */
    uint32_t nmain_extents;      /* extents of buckets */
    uint32_t noverflow_extents;  /* extents of overflow buckets */
    bool exhausted;              /* the provider has no more of either for now (racy hint) */
    struct background *prefault; /* maps more of both when it is woken; NULL: none */

    struct lock memory;          /* guards what follows */
    uint32_t overflow_unused;    /* the next overflow bucket never used */
    uint32_t overflow_free_list; /* list of those given back, by mc_bucket.next */
    uint32_t noverflow_used;

    void *reservation;
    size_t nreservation;
    struct table_counter counters[TABLE_COUNTERS];
};

/* Where an item is. Good until the next change of its chain. */
struct table_spot {
    struct mc_bucket *head; /* of the chain */
    struct mc_bucket *bucket;
    unsigned int slot;
};

/* power: log2 of the slots at the start, at most TABLE_MAX_POWER. 0 or -errno. */
int table_init(struct table *table, struct heap *heap, struct provider *provider,
               unsigned int power, bool expand);
void table_fini(struct table *table);

static inline struct lock *table_stripe(const struct table *table, uint64_t hash)
{
    return &table->stripes[hash & table->stripe_mask];
}

/* The item of the key and its spot, or NULL. */
struct mc_item *table_find(const struct table *table, uint64_t hash, struct slice key,
                           struct table_spot *spot);
/* Whether the item `ref` is in the table, and its spot. */
bool table_find_ref(const struct table *table, uint64_t hash, uint32_t ref,
                    struct table_spot *spot);
/* Adds an item whose key is not there. false: no memory for an overflow bucket. */
bool table_insert(struct table *table, uint64_t hash, uint32_t ref);
/* Puts an item with the same key into the spot. */
void table_replace(const struct table_spot *spot, uint32_t ref);
void table_remove(struct table *table, uint64_t hash, const struct table_spot *spot);
/* How often the kernel has served the item since the last call: 0, 1, or 2 for more. */
unsigned int table_take_reads(const struct table_spot *spot);

/* Around a change of what the kernel reads through a chain. */
void table_begin(struct mc_bucket *head);
void table_end(struct mc_bucket *head);

/* Under no lock. Whether the next insertion should call table_grow. */
bool table_crowded(const struct table *table);
/* Splits up to two buckets, or none if another thread is at it. */
void table_grow(struct table *table);
/* Grows an empty table to so many buckets, if it has fewer and memory allows. */
void table_presize(struct table *table, uint32_t nbuckets);
/* Fetches the bucket of a hash into the cache. Under no lock. */
void table_prefetch(const struct table *table, uint64_t hash);
/* Maps the extents that will be needed next, for the prefault thread. 0 or -errno. */
int table_prefault(struct table *table);
/* Lets growth try again after it ran out of memory. */
void table_retry(struct table *table);

uint32_t table_nbuckets(const struct table *table);
/* Bytes of buckets in use, overflow buckets included. Under no lock. */
uint64_t table_bytes(struct table *table);

/* Returns whether it removed the item, by table_remove. */
typedef bool table_visit(void *context, struct mc_item *item, uint64_t hash,
                         const struct table_spot *spot);
/* The bucket of a hash, and that of a number with its stripe. */
struct mc_bucket *table_head(const struct table *table, uint64_t hash);
struct mc_bucket *table_bucket(const struct table *table, uint32_t index, struct lock **stripe);
/* Shows each item of a chain to `visit`. */
void table_visit_chain(struct table *table, struct mc_bucket *head, table_visit *visit,
                       void *context);
/* The chain has nothing that is of an earlier epoch. */
void table_set_swept(struct mc_bucket *head, uint32_t epoch);

/* The callbacks of a walk over the table. Both are called under a stripe. */
struct table_walker {
    void *context;
    /* Whether to visit an item, judged by its reference alone: the item is not read. */
    bool (*wants)(void *context, uint32_t ref);
    /* Returns whether it removed the item, by table_remove. */
    bool (*visit)(void *context, struct mc_item *item, const struct table_spot *spot);
};

enum { TABLE_WALK_BITS = 32 }; /* of a position */

/*
 * Visits the items of one bucket, and returns how far the walk gets by it: the walk goes in the
 * order of the hash's bits from the low ones on, where a bucket covers an interval. A split only
 * divides an interval, so a walk that covers 2^TABLE_WALK_BITS meets each item that is there all
 * the time exactly once, however the table grows meanwhile. It may begin at 0 or where another one
 * ended, and goes round. Takes the stripe itself, for this bucket.
 */
uint64_t table_walk(struct table *table, uint32_t position, const struct table_walker *walker);

#endif
