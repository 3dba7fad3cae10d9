/* SPDX-License-Identifier: BSD-3-Clause */
/* load: reads values from flash into memory, for a reply. */
#include <stdlib.h>

#include "base/countdown.h"
#include "store/external.h"
#include "store/reclaim.h"
#include "store/verbs.h"

/* One read into a copy of the item. The copy has the address of this in place of its links. */
struct load {
    struct flash_read read;
    struct countdown *wait;
    struct mc_item *stub; /* the external item, held */
    struct mc_item *copy;
    bool get; /* it was counted as a hit */
    bool judged;
    struct iovec iov[]; /* of the object: its length and key, then the value's pieces */
};

_Static_assert(offsetof(struct mc_item, next) == 0 && offsetof(struct mc_item, prev) == 4,
               "the links are as long as an address");

static struct load *load_of(const struct mc_item *copy)
{
    struct load *load;

    memcpy(&load, copy, sizeof(load));
    return load;
}

/* Where the object's first bytes (length and key) are read to: the value follows the suffix. */
static char *object_at(struct mc_item *copy)
{
    return copy->wire + copy->nsuffix - 1;
}

void load_free(struct store *store, struct mc_item *copy)
{
    struct load *load = load_of(copy);

    item_free(store, copy);
    item_put(store, load->stub);
    free(load);
}

/* Where the object goes. */
static void add_pieces(const struct store *store, struct load *load)
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
        .at = *external_place(load->stub),
        .iov = load->iov,
        .niov = n,
    };
}

/* A new item like the external one, its value still to be read. NULL: no memory. */
static struct mc_item *copy_new(struct store *store, const struct mc_item *stub, rel_time now)
{
    enum store_result result;
    struct mc_item *copy = item_new(store, item_key(stub), item_client_flags(store, stub),
                                    __atomic_load_n(&stub->exptime, __ATOMIC_RELAXED),
                                    item_length(store, stub), now, &result);

    if (!copy)
        return NULL;
    assert(copy->nsuffix == stub->nsuffix && copy->nbytes == stub->nbytes);
    copy->cas = __atomic_load_n(&stub->cas, __ATOMIC_RELAXED);
    item_set_flags(copy,
                   (__atomic_load_n(&stub->flags, __ATOMIC_RELAXED) & ITEM_MARKS) | MC_ITEM_COPY);
    return copy;
}

/* A copy of the item, its value still to be read; takes over the hold on it. NULL: no memory. */
static struct load *load_new(struct store *store, struct mc_item *stub, rel_time now)
{
    struct mc_item *copy = copy_new(store, stub, now);
    struct load *load;
    size_t npieces;

    if (!copy)
        return NULL;
    npieces = copy->flags & MC_ITEM_CHUNKED ? item_nparts(store, copy) : 1;
    load = malloc(sizeof(*load) + (1 + npieces) * sizeof(load->iov[0]));
    if (!load) {
        item_free(store, copy);
        return NULL;
    }
    *load = (struct load){.stub = stub, .copy = copy};
    memcpy(copy, &load, sizeof(load));
    add_pieces(store, load);
    return load;
}

/* Whether what was read is the value of the key; then the copy is whole. */
static bool complete(struct load *load)
{
    const struct mc_item *stub = load->stub;
    struct mc_item *copy = load->copy;
    const char *object = object_at(copy);

    if (load->read.result == FLASH_READ &&
        ((uint8_t)object[0] != stub->nkey || memcmp(object + 1, stub->wire, stub->nkey) != 0))
        load->read.result = FLASH_BAD;
    memcpy(copy->wire, stub->wire, (size_t)stub->nkey + stub->nsuffix);
    return load->read.result == FLASH_READ;
}

/* Removes an item that cannot be read, if the key still has it. */
static void forget(struct store *store, struct mc_item *stub)
{
    uint64_t hash = hash_key(store->control, item_key(stub));
    struct lock *stripe = table_stripe(&store->table, hash);
    struct table_spot spot;

    lock_take(stripe, LOCK_STRIPE);
    if (table_find_ref(&store->table, hash, heap_ref(&store->heap, stub), &spot))
        reclaim_unlink(store, stub, hash, &spot);
    lock_release(stripe, LOCK_STRIPE);
}

/* Makes the copy's value an item in memory, in the place of the external one. False: no memory. */
static bool move_in(struct store_local *local, struct load *load, rel_time now)
{
    struct store *store = local->store;
    struct mc_item *stub = load->stub;
    uint64_t hash = hash_key(store->control, item_key(stub));
    struct lock *stripe = table_stripe(&store->table, hash);
    struct table_spot spot;
    enum store_result result;
    struct mc_item *item = item_new(store, item_key(stub), item_client_flags(store, stub), 0,
                                    item_length(store, stub), now, &result);
    bool linked;

    if (!item)
        return false;
    item_copy(store, item, 0, load->copy);
    lock_take(stripe, LOCK_STRIPE);
    linked = table_find_ref(&store->table, hash, heap_ref(&store->heap, stub), &spot);
    if (linked) {
        item->cas = stub->cas;
        item->exptime = stub->exptime;
        item_set_flags(item, stub->flags & ITEM_MARKS);
        verb_swap(store, item, stub, &spot, stub->epoch, now);
    }
    lock_release(stripe, LOCK_STRIPE);
    item_put(store, linked ? stub : item);
    return true;
}

struct mc_item *store_load(struct store_local *local, struct mc_item *item, bool get, rel_time now)
{
    struct load *load = load_new(local->store, item, now);

    if (!load) {
        count(&local->counts.counts.get_oom_extstore);
        return NULL;
    }
    load->get = get;
    return load->copy;
}

bool store_load_shares(const struct mc_item *copy, const struct mc_item *item)
{
    return (copy->flags & MC_ITEM_COPY) && load_of(copy)->stub == item;
}

static void on_read(struct flash_read *read)
{
    struct load *load = (struct load *)((char *)read - offsetof(struct load, read));
    struct countdown *wait = load->wait;

    if (countdown_end(wait))
        wait->done(wait->context);
}

void store_load_start(struct store_local *local, struct mc_item *copy, struct countdown *wait)
{
    struct flash *flash = local->store->config.flash;
    struct load *load = load_of(copy);

    if (flash_read_now(flash, &load->read))
        return;
    load->wait = wait;
    load->read.done = on_read;
    countdown_add(wait);
    flash_read_later(flash, &load->read);
}

static void count_miss(struct store_local *local, const struct load *load)
{
    struct store_counts *counts = &local->counts.counts;

    count(&counts->miss_from_extstore);
    if (load->read.result == FLASH_BAD)
        count(&counts->badcrc_from_extstore);
    if (load->get) {
        unsigned int clsid =
            slab_class_of_ref(&local->store->slabs, heap_ref(&local->store->heap, load->stub));
        uint64_t *hits = &counts->classes[clsid].get_hits;

        /* The hit was counted by LRU segment: here it is taken off, modulo 2^64. */
        __atomic_store_n(hits, *hits - 1, __ATOMIC_RELAXED);
        count(&counts->get_misses);
    }
}

/* One read in recache_rate brings the value back to memory. */
static void consider_recache(struct store_local *local, struct load *load, rel_time now)
{
    uint32_t rate = __atomic_load_n(&local->store->recache_rate, __ATOMIC_RELAXED);

    if (rate == 0 || ++local->nloads % rate != 0)
        return;
    if (move_in(local, load, now))
        count(&local->counts.counts.recache_from_extstore);
}

void store_load_abort(struct store_local *local, size_t n)
{
    struct store_counts *counts = &local->counts.counts;

    for (size_t i = 0; i < n; i++) {
        count(&counts->get_extstore);
        count(&counts->get_aborted_extstore);
    }
}

bool store_load_end(struct store_local *local, struct mc_item *copy, rel_time now)
{
    struct load *load = load_of(copy);

    if (load->judged)
        return load->read.result == FLASH_READ;
    load->judged = true;
    if (!complete(load)) {
        count_miss(local, load);
        forget(local->store, load->stub);
        return false;
    }
    count(&local->counts.counts.get_extstore);
    consider_recache(local, load, now);
    return true;
}
