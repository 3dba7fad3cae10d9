/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/flash_item.h"

#include "store/reclaim.h"

struct mc_item *flash_item_new(struct store *store, const struct mc_item *like,
                               const struct flash_at *at, rel_time now)
{
    size_t size = item_head_bytes(like) + sizeof(*at);
    unsigned int clsid = slab_class_of_size(&store->slabs, size);
    uint32_t ref = reclaim_alloc(store, size, clsid, now);
    struct mc_item *item;

    if (!ref)
        return NULL;
    item = heap_at(&store->heap, ref);
    item->cas = like->cas;
    item->exptime = like->exptime;
    item->nbytes = like->nbytes;
    item->time = __atomic_load_n(&like->time, __ATOMIC_RELAXED);
    item->refcount = 1;
    item_new_flags(item,
                   (__atomic_load_n(&like->flags, __ATOMIC_RELAXED) & ITEM_MARKS) | MC_ITEM_FLASH);
    item_clear_flags(item, MC_ITEM_READ);
    item->clsid = (__u8)clsid;
    item->nkey = like->nkey;
    item->nsuffix = like->nsuffix;
    item->epoch = like->epoch;
    memcpy(item->wire, like->wire, (size_t)like->nkey + like->nsuffix);
    *flash_item_place(item) = *at;
    __atomic_fetch_add(&store->nflash_items[clsid], 1, __ATOMIC_RELAXED);
    return item;
}

struct mc_item *flash_item_share(struct store *store, const struct mc_item *item, rel_time now)
{
    struct flash *flash = store->config.flash;
    struct mc_item *other;

    flash_share(flash, flash_item_place(item), flash_item_nbytes(item));
    other = flash_item_new(store, item, flash_item_place(item), now);
    if (!other)
        flash_drop(flash, flash_item_place(item), flash_item_nbytes(item));
    return other;
}

void flash_item_free(struct store *store, struct mc_item *item)
{
    if (item->flags & MC_ITEM_COPY) {
        flash_load_free(store, item);
        return;
    }
    __atomic_fetch_sub(&store->nflash_items[lru_class_of(item)], 1, __ATOMIC_RELAXED);
    flash_drop(store->config.flash, flash_item_place(item), flash_item_nbytes(item));
    slab_free(&store->slabs, heap_ref(&store->heap, item));
}

void flash_item_swap(struct store *store, struct mc_item *item, struct mc_item *old,
                     const struct table_spot *spot, enum lru_segment segment)
{
    struct lru *from = &store->lrus[lru_class_of(old)];
    struct lru *to = &store->lrus[lru_class_of(item)];

    item_set_flags(item, MC_ITEM_LINKED);
    table_replace(spot, heap_ref(&store->heap, item));
    lock_take(&from->lock, LOCK_LRU);
    lru_unlink(from, &store->heap, old);
    if (from != to) {
        lock_release(&from->lock, LOCK_LRU);
        lock_take(&to->lock, LOCK_LRU);
    }
    lru_link(to, &store->heap, item, segment);
    lock_release(&to->lock, LOCK_LRU);
    item_clear_flags(old, MC_ITEM_LINKED);
}

/* --- rules and statistics --------------------------------------------------- */

void store_flash_defaults(struct store_flash_rules *rules)
{
    *rules = (struct store_flash_rules){
        .item_size = 512,
        .item_age = UINT32_MAX,
        .recache_rate = 2000,
        .max_frag = 0.8,
        .free_ratio = 0.01,
    };
}

void store_flash_rules(struct store *store, struct store_flash_rules *out)
{
    lock_take(&store->flash_lock, LOCK_LOCALS);
    *out = store->flash_rules;
    lock_release(&store->flash_lock, LOCK_LOCALS);
}

void store_set_flash_rules(struct store *store, const struct store_flash_rules *rules)
{
    lock_take(&store->flash_lock, LOCK_LOCALS);
    __atomic_store_n(&store->recache_rate, rules->recache_rate, __ATOMIC_RELAXED);
    store->flash_rules = *rules;
    lock_release(&store->flash_lock, LOCK_LOCALS);
}

void store_flash_stats(struct store *store, struct store_flash_stats *out)
{
    out->compact_lost = __atomic_load_n(&store->compact_lost, __ATOMIC_RELAXED);
    out->compact_rescues = __atomic_load_n(&store->compact_rescues, __ATOMIC_RELAXED);
    out->compact_skipped = __atomic_load_n(&store->compact_skipped, __ATOMIC_RELAXED);
    flash_stats(store->config.flash, &out->files);
}

uint32_t store_flash_npages(const struct store *store)
{
    return store->config.flash ? flash_npages(store->config.flash) : 0;
}

void store_flash_page(struct store *store, uint32_t page, struct flash_page_stats *out)
{
    flash_page_stats(store->config.flash, page, out);
}

void flash_item_reset_stats(struct store *store)
{
    __atomic_store_n(&store->compact_lost, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&store->compact_rescues, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&store->compact_skipped, 0, __ATOMIC_RELAXED);
    if (store->config.flash)
        flash_reset_stats(store->config.flash);
}
