/* SPDX-License-Identifier: BSD-3-Clause */
/* flash_load: reads values from flash into memory, for a reply. */
#include <stdlib.h>

#include "base/countdown.h"
#include "store/flash_item.h"
#include "store/reclaim.h"
#include "store/verbs.h"

/* One read into a copy of the item. The copy has the address of this in place of its links. */
struct flash_load {
    struct flash_read read;
    struct countdown *wait;
    struct mc_item *flash_item; /* the item on flash, held */
    struct mc_item *copy;
    bool get; /* it was counted as a hit */
    bool judged;
    struct iovec iov[]; /* of the object: its length and key, then the value's pieces */
};

_Static_assert(offsetof(struct mc_item, next) == 0 && offsetof(struct mc_item, prev) == 4,
               "the links are as long as an address");

static struct flash_load *flash_load_of(const struct mc_item *copy)
{
    struct flash_load *load;

    memcpy(&load, copy, sizeof(load));
    return load;
}

/* Where the object's first bytes (length and key) are read to: the value follows the suffix. */
static char *object_at(struct mc_item *copy)
{
    return copy->wire + copy->nsuffix - 1;
}

void flash_load_free(struct store *store, struct mc_item *copy)
{
    struct flash_load *load = flash_load_of(copy);

    item_free(store, copy);
    item_put(store, load->flash_item);
    free(load);
}

/* Where the object goes. */
static void add_pieces(const struct store *store, struct flash_load *load)
{
    struct mc_item *copy = load->copy;
    struct slice piece;
    size_t offset = 0;
    int n = 1;

    load->iov[0] = (struct iovec){object_at(copy), 1 + (size_t)copy->nkey};
    while ((piece = item_piece(store, copy, offset)).len > 0) {
        load->iov[n++] = (struct iovec){(void *)(uintptr_t)piece.ptr, piece.len};
        offset += piece.len;
    }
    load->read = (struct flash_read){
        .at = *flash_item_place(load->flash_item),
        .iov = load->iov,
        .niov = n,
    };
}

/* A new item like the one on flash, its value still to be read. NULL: no memory. */
static struct mc_item *copy_new(struct store *store, const struct mc_item *flash_item, rel_time now)
{
    enum store_result result;
    struct mc_item *copy =
        item_new(store, item_key(flash_item), item_client_flags(store, flash_item),
                 __atomic_load_n(&flash_item->exptime, __ATOMIC_RELAXED),
                 item_length(store, flash_item), now, &result);

    if (!copy)
        return NULL;
    assert(copy->nsuffix == flash_item->nsuffix && copy->nbytes == flash_item->nbytes);
    copy->cas = __atomic_load_n(&flash_item->cas, __ATOMIC_RELAXED);
    item_set_flags(copy, (__atomic_load_n(&flash_item->flags, __ATOMIC_RELAXED) & ITEM_MARKS) |
                             MC_ITEM_COPY);
    return copy;
}

/* A copy of the item, its value still to be read; takes over the hold on it. NULL: no memory. */
static struct flash_load *flash_load_new(struct store *store, struct mc_item *flash_item,
                                         rel_time now)
{
    struct mc_item *copy = copy_new(store, flash_item, now);
    struct flash_load *load;
    size_t npieces;

    if (!copy)
        return NULL;
    npieces = copy->flags & MC_ITEM_CHUNKED ? item_nparts(store, copy) : 1;
    load = malloc(sizeof(*load) + (1 + npieces) * sizeof(load->iov[0]));
    if (!load) {
        item_free(store, copy);
        return NULL;
    }
    *load = (struct flash_load){.flash_item = flash_item, .copy = copy};
    memcpy(copy, &load, sizeof(load));
    add_pieces(store, load);
    return load;
}

/* Whether what was read is the value of the key; then the copy is whole. */
static bool complete(struct flash_load *load)
{
    const struct mc_item *flash_item = load->flash_item;
    struct mc_item *copy = load->copy;
    const char *object = object_at(copy);

    if (load->read.result == FLASH_READ &&
        ((uint8_t)object[0] != flash_item->nkey ||
         memcmp(object + 1, flash_item->wire, flash_item->nkey) != 0))
        load->read.result = FLASH_BAD;
    memcpy(copy->wire, flash_item->wire, (size_t)flash_item->nkey + flash_item->nsuffix);
    return load->read.result == FLASH_READ;
}

/* Removes an item that cannot be read, if the key still has it. */
static void forget(struct store *store, struct mc_item *flash_item)
{
    uint64_t hash = hash_key(store->control, item_key(flash_item));
    struct lock *stripe = table_stripe(&store->table, hash);
    struct table_spot spot;

    lock_take(stripe, LOCK_STRIPE);
    if (table_find_ref(&store->table, hash, heap_ref(&store->heap, flash_item), &spot))
        reclaim_unlink(store, flash_item, hash, &spot);
    lock_release(stripe, LOCK_STRIPE);
}

/* Makes the copy's value an item in memory, in the place of the one on flash. False: no memory. */
static bool move_in(struct store_local *local, struct flash_load *load, rel_time now)
{
    struct store *store = local->store;
    struct mc_item *flash_item = load->flash_item;
    uint64_t hash = hash_key(store->control, item_key(flash_item));
    struct lock *stripe = table_stripe(&store->table, hash);
    struct table_spot spot;
    enum store_result result;
    struct mc_item *item =
        item_new(store, item_key(flash_item), item_client_flags(store, flash_item), 0,
                 item_length(store, flash_item), now, &result);
    bool linked;

    if (!item)
        return false;
    item_copy(store, item, 0, load->copy);
    lock_take(stripe, LOCK_STRIPE);
    linked = table_find_ref(&store->table, hash, heap_ref(&store->heap, flash_item), &spot);
    if (linked) {
        item->cas = flash_item->cas;
        item->exptime = flash_item->exptime;
        item_set_flags(item, flash_item->flags & ITEM_MARKS);
        verb_swap(store, item, flash_item, &spot, flash_item->epoch, now);
    }
    lock_release(stripe, LOCK_STRIPE);
    item_put(store, linked ? flash_item : item);
    return true;
}

struct mc_item *store_flash_load(struct store_local *local, struct mc_item *item, bool get,
                                 rel_time now)
{
    struct flash_load *load = flash_load_new(local->store, item, now);

    if (!load) {
        count(&local->counts.counts.get_oom_extstore);
        return NULL;
    }
    load->get = get;
    return load->copy;
}

bool store_flash_load_shares(const struct mc_item *copy, const struct mc_item *item)
{
    return (copy->flags & MC_ITEM_COPY) && flash_load_of(copy)->flash_item == item;
}

static void on_read(struct flash_read *read)
{
    struct flash_load *load =
        (struct flash_load *)((char *)read - offsetof(struct flash_load, read));
    struct countdown *wait = load->wait;

    if (countdown_end(wait))
        wait->done(wait->context);
}

void store_flash_load_start(struct store_local *local, struct mc_item *copy, struct countdown *wait)
{
    struct flash *flash = local->store->config.flash;
    struct flash_load *load = flash_load_of(copy);

    if (flash_read_now(flash, &load->read))
        return;
    load->wait = wait;
    load->read.done = on_read;
    countdown_add(wait);
    flash_read_later(flash, &load->read);
}

static void count_miss(struct store_local *local, const struct flash_load *load)
{
    struct store_counts *counts = &local->counts.counts;

    count(&counts->miss_from_extstore);
    if (load->read.result == FLASH_BAD)
        count(&counts->badcrc_from_extstore);
    if (load->get) {
        unsigned int clsid = slab_class_of_ref(&local->store->slabs,
                                               heap_ref(&local->store->heap, load->flash_item));
        uint64_t *hits = &counts->classes[clsid].get_hits;

        /* The hit was counted by LRU segment: here it is taken off, modulo 2^64. */
        __atomic_store_n(hits, *hits - 1, __ATOMIC_RELAXED);
        count(&counts->get_misses);
    }
}

/* One read in recache_rate brings the value back to memory. */
static void consider_recache(struct store_local *local, struct flash_load *load, rel_time now)
{
    uint32_t rate = __atomic_load_n(&local->store->recache_rate, __ATOMIC_RELAXED);

    if (rate == 0 || ++local->nloads % rate != 0)
        return;
    if (move_in(local, load, now))
        count(&local->counts.counts.recache_from_extstore);
}

void store_flash_load_abort(struct store_local *local, size_t n)
{
    struct store_counts *counts = &local->counts.counts;

    for (size_t i = 0; i < n; i++) {
        count(&counts->get_extstore);
        count(&counts->get_aborted_extstore);
    }
}

bool store_flash_load_end(struct store_local *local, struct mc_item *copy, rel_time now)
{
    struct flash_load *load = flash_load_of(copy);

    if (load->judged)
        return load->read.result == FLASH_READ;
    load->judged = true;
    if (!complete(load)) {
        count_miss(local, load);
        forget(local->store, load->flash_item);
        return false;
    }
    count(&local->counts.counts.get_extstore);
    consider_recache(local, load, now);
    return true;
}
