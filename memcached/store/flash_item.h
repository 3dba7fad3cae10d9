/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flash_item: items whose value is on flash. Their header, key and suffix stay in memory, and
 * behind them, at a multiple of 8, the place of the rest:
 *
 *   item:   header, key, suffix, (to a multiple of 8) struct flash_at
 *   object: length of the key (one byte), key, value, tail
 *
 * Its nbytes is that of the whole item. It is flagged MC_ITEM_FLASH for all its life, and its
 * object counts as used on flash as long as anybody holds it.
 *
 * A value that has been read is in a copy of the whole item, flagged MC_ITEM_COPY. Only its holders
 * have a reference to it, and they release it like any other item (flash_load.c).
 */
#ifndef STORE_FLASH_ITEM_H
#define STORE_FLASH_ITEM_H

#include "flash/flash.h"
#include "store/internal.h"

_Static_assert(sizeof(struct flash_at) == ITEM_PLACE_BYTES, "");

static inline struct flash_at *flash_item_place(const struct mc_item *item)
{
    return (struct flash_at *)((char *)item + item_head_bytes(item));
}

/* Bytes of the object. */
static inline uint32_t flash_item_nbytes(const struct mc_item *item)
{
    return 1 + item->nbytes - item->nsuffix;
}

/* Whether the value can no longer be had: then the item is dead. */
static inline bool flash_item_is_lost(const struct store *store, const struct mc_item *item)
{
    return __builtin_expect(item_is_on_flash(item), 0) &&
           !flash_is_there(store->config.flash, flash_item_place(item));
}

/*
 * An item like the given one, with its value at `at`, where it has not been read yet; a new one
 * with one holder. Takes over the object, as long as there is memory. NULL: no memory.
 */
struct mc_item *flash_item_new(struct store *store, const struct mc_item *like,
                               const struct flash_at *at, rel_time now);
/* One more item with the same object. */
struct mc_item *flash_item_share(struct store *store, const struct mc_item *item, rel_time now);
/* The last holder of an item on flash or a copy has let go. */
void flash_item_free(struct store *store, struct mc_item *item);

/*
 * Puts `item` into the place of `old`, which is in the table at `spot`; it has the age of the old
 * one and goes to the head of the LRU segment. The table's holds change. Under the stripe.
 */
void flash_item_swap(struct store *store, struct mc_item *item, struct mc_item *old,
                     const struct table_spot *spot, enum lru_segment segment);

void flash_item_reset_stats(struct store *store);

/* --- reading: flash_load.c ------------------------------------------------------ */

void flash_load_free(struct store *store, struct mc_item *copy);

/* --- the threads: flash_write.c, flash_compact.c -------------------------------------- */

/* One round; returns how much was done. The threads' bodies, for tests too. */
unsigned int flash_write_round(struct store *store, rel_time now);
unsigned int flash_compact_round(struct store *store, rel_time now);

#endif
