/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * item: what is in the chunks. A small item is one chunk, laid out as in bpf/shared/layout.h. The
 * value of a larger one lies in chunks of its own, its parts (struct item_chunk), all of the
 * largest class but the last; their references are an array in the item's chunk, so that any byte
 * is found without a walk:
 *
 *   item:  header, key, suffix, (to a multiple of 8) ref 0, ref 1, ...
 *   chunk: header, (from item_chunk_head on) as much of the value and its tail as fits
 *
 * Where the array does not fit behind the key of the longest item, it lies in parts as the value
 * does, with an array of their references in the item's chunk, and so on. Parts are numbered
 * through, those next to the item first and those of the value last.
 */
#ifndef STORE_ITEM_H
#define STORE_ITEM_H

#include "store/store_items.h"

/* The header agrees with struct mc_item where it tells what a chunk is. */
struct item_chunk {
    __u32 owner; /* reference of the item */
    __u32 index; /* the part's number */
    __u64 unused;
    __u32 unused2;
    __u32 nbytes; /* of data */
    __u32 unused3;
    __u16 unused4;
    __u16 flags; /* MC_ITEM_CHUNK */
    __u8 clsid;  /* slab class */
    __u8 unused5[7];
};

_Static_assert(offsetof(struct item_chunk, flags) == offsetof(struct mc_item, flags), "");
_Static_assert(offsetof(struct item_chunk, clsid) == offsetof(struct mc_item, clsid), "");
_Static_assert(sizeof(struct item_chunk) == 40, "");

enum { ITEM_PLACE_BYTES = 16 }; /* of an item on flash: see flash_item.h */

/* Header, key and suffix, to a multiple of 8: what stands before the references of chunks. */
static inline size_t item_head_bytes(const struct mc_item *item)
{
    return (MC_ITEM_HEADER + (size_t)item->nkey + item->nsuffix + 7) & ~(size_t)7;
}

/* Header, key, suffix, value and tail, in memory: what statistics count. */
static inline uint64_t item_bytes(const struct mc_item *item)
{
    if (__builtin_expect(__atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_FLASH, 0))
        return item_head_bytes(item) + ITEM_PLACE_BYTES;
    return MC_ITEM_HEADER + (uint64_t)item->nbytes;
}

static inline rel_time item_age(const struct mc_item *item, rel_time now)
{
    rel_time time = __atomic_load_n(&item->time, __ATOMIC_RELAXED);

    return time < now ? now - time : 0;
}

/* Flags that are copied with an item when it moves to another chunk. */
enum {
    ITEM_MARKS = MC_ITEM_FETCHED | MC_ITEM_ACTIVE | MC_ITEM_READ | MC_ITEM_STALE | MC_ITEM_WON |
                 MC_ITEM_BINKEY
};

/*
 * Time and flags change under the stripe, but the age of a tail is judged without it, and holders
 * look at the flags.
 */
static inline void item_set_time(struct mc_item *item, rel_time now)
{
    __atomic_store_n(&item->time, now, __ATOMIC_RELAXED);
}

/* Release: pairs with the mover, which reads the key of an item when it sees that it is linked. */
static inline void item_set_flags(struct mc_item *item, unsigned int flags)
{
    __atomic_store_n(&item->flags, (__u16)(item->flags | flags), __ATOMIC_RELEASE);
}

/* The item was read so many times, not 0: from the second read on the LRU keeps it. */
static inline void item_mark_reads(struct mc_item *item, unsigned int reads)
{
    unsigned int flags = MC_ITEM_FETCHED | MC_ITEM_READ;

    if (reads > 1 || item->flags & MC_ITEM_FETCHED)
        flags |= MC_ITEM_ACTIVE;
    if ((item->flags & flags) != flags)
        item_set_flags(item, flags);
}

/* Sets the flags of a chunk that was just allocated; the mover may be looking at it. */
static inline void item_new_flags(struct mc_item *item, unsigned int flags)
{
    __atomic_store_n(&item->flags, (__u16)flags, __ATOMIC_RELAXED);
}

static inline void item_clear_flags(struct mc_item *item, unsigned int flags)
{
    __atomic_store_n(&item->flags, (__u16)(item->flags & ~flags), __ATOMIC_RELAXED);
}

/*
 * A new item with one holder, in no list and not in the table; its value is for the caller to fill,
 * its tail is written. NULL: *result says why.
 */
struct mc_item *item_new(struct store *store, struct slice key, uint32_t client_flags,
                         rel_time exptime, size_t nvalue, rel_time now, enum store_result *result);
/* Lets go of a hold; the last one frees it. */
void item_put(struct store *store, struct mc_item *item);
/* Frees its chunks. */
void item_free(struct store *store, struct mc_item *item);

/*
 * Sums the wire bytes of an item that is unchanged since it was filled, if the kernel may send it
 * and it has room for the sum: MC_ITEM_SUMMED, else 0.
 */
unsigned int item_sum(const struct store *store, struct mc_item *item);

/*
 * Flags of items that have more than their own chunk (parts, or an object on flash): the mover
 * moves them only while they have no other holder.
 */
enum { ITEM_COMPOUND = MC_ITEM_CHUNKED | MC_ITEM_FLASH };
/*
 * Copies `item` to `copy`, a chunk as large: marks, value and parts, with one holder. The caller
 * puts it into table and lists. Under the stripe.
 */
void item_move(struct store *store, struct mc_item *copy, const struct mc_item *item);
/* Moves a part of an item without other holders to the chunk `to`. Under the stripe. */
void item_move_part(struct store *store, struct mc_item *item, uint32_t number, uint32_t to);

/* item_at and item_nvalue (store_items.h) for the store itself. */
struct slice item_piece(const struct store *store, const struct mc_item *item, size_t offset);
uint32_t item_length(const struct store *store, const struct mc_item *item);
uint32_t item_client_flags(const struct store *store, const struct mc_item *item);

/*
 * A chunked item: how many parts it has (never 0), the bytes of its own chunk, and of each part the
 * bytes and the reference, which is in a part of a lower number or in the item.
 */
uint32_t item_nparts(const struct store *store, const struct mc_item *item);
size_t item_own_bytes(const struct store *store, const struct mc_item *item);
uint32_t item_part_bytes(const struct store *store, const struct mc_item *item, uint32_t number);
uint32_t item_part_ref(const struct store *store, const struct mc_item *item, uint32_t number);
/* How far from its start the bytes of a part begin. */
size_t item_chunk_head(const struct store *store);

/* Copies the value of `from`, without the tail, to `offset` of the value of `to`. */
void item_copy(const struct store *store, struct mc_item *to, size_t offset,
               const struct mc_item *from);
void item_write(const struct store *store, struct mc_item *item, size_t offset, struct slice bytes);

#endif
