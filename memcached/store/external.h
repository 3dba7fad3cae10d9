/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * external: items whose value is on flash. What stays in memory, the stub, is the header, key and
 * suffix, and behind them, at a multiple of 8, the place of the rest:
 *
 *   item:   header, key, suffix, (to a multiple of 8) struct flash_at
 *   object: length of the key (one byte), key, value, tail
 *
 * Its nbytes is that of the whole item. It is flagged MC_ITEM_EXTERN for all its life, and its
 * object counts as used on flash as long as anybody holds it.
 *
 * A value that has been read is in a copy of the whole item, flagged MC_ITEM_COPY. Only its holders
 * have a reference to it, and they release it like any other item (load.c).
 */
#ifndef STORE_EXTERNAL_H
#define STORE_EXTERNAL_H

#include "flash/flash.h"
#include "store/internal.h"

_Static_assert(sizeof(struct flash_at) == ITEM_PLACE_BYTES, "");

static inline struct flash_at *external_place(const struct mc_item *item)
{
    return (struct flash_at *)((char *)item + item_head_bytes(item));
}

/* Bytes of the object. */
static inline uint32_t external_nbytes(const struct mc_item *item)
{
    return 1 + item->nbytes - item->nsuffix;
}

static inline bool item_is_external(const struct mc_item *item)
{
    return __atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_EXTERN;
}

/* Whether the value can no longer be had: then the item is dead. */
static inline bool external_is_lost(const struct store *store, const struct mc_item *item)
{
    return __builtin_expect(item_is_external(item), 0) &&
           !flash_is_there(store->config.flash, external_place(item));
}

/*
 * An item like the given one, with its value at `at`, where it has not been read yet; a new one
 * with one holder. Takes over the object, as long as there is memory. NULL: no memory.
 */
struct mc_item *external_new(struct store *store, const struct mc_item *like,
                             const struct flash_at *at, rel_time now);
/* One more item with the same object. */
struct mc_item *external_share(struct store *store, const struct mc_item *item, rel_time now);
/* The last holder of an external item or a copy has let go. */
void external_free(struct store *store, struct mc_item *item);

/*
 * Puts `item` into the place of `old`, which is in the table at `spot`; it has the age of the old
 * one and goes to the head of the LRU segment. The table's holds change. Under the stripe.
 */
void external_swap(struct store *store, struct mc_item *item, struct mc_item *old,
                   const struct table_spot *spot, enum lru_segment segment);

void external_reset_stats(struct store *store);

/* --- reading: load.c ------------------------------------------------------ */

void load_free(struct store *store, struct mc_item *copy);

/* --- the threads: spill.c, compact.c -------------------------------------- */

/* One round; returns how much was done. The threads' bodies, for tests too. */
unsigned int spill_round(struct store *store, rel_time now);
unsigned int compact_round(struct store *store, rel_time now);

#endif
