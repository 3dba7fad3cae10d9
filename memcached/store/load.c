/* SPDX-License-Identifier: BSD-3-Clause */
/* load: values that come back from flash, for a reply or for good. */
#include <stdlib.h>

#include "base/countdown.h"
#include "store/external.h"
#include "store/reclaim.h"
#include "store/verbs.h"

enum { MIN_LOADS = 64 << 20 }; /* bytes of copies that there may be at a time, at least */

/* A copy of a whole item, outside the heap. */
struct load {
    struct flash_read read;
    struct countdown *wait;
    struct mc_item *stub; /* the external item, held */
    size_t size;
    bool get; /* it was counted as a hit */
    bool judged;
    struct mc_item item;
};

static struct load *load_of(const struct mc_item *copy)
{
    return (struct load *)((char *)(uintptr_t)copy - offsetof(struct load, item));
}

/* The object in a copy: the value is in its place, the key before it over key and middle. */
static char *object_at(struct mc_item *copy)
{
    return copy->wire + copy->nmid - 1;
}

/* Whether there may be so many more bytes; they are counted then. */
static bool take_bytes(struct store *store, size_t size)
{
    uint64_t limit = slab_limit(&store->slabs);

    if (__atomic_add_fetch(&store->loads, size, __ATOMIC_RELAXED) <=
        (limit > MIN_LOADS ? limit : MIN_LOADS))
        return true;
    __atomic_fetch_sub(&store->loads, size, __ATOMIC_RELAXED);
    return false;
}

void load_free(struct store *store, struct mc_item *copy)
{
    struct load *load = load_of(copy);

    __atomic_fetch_sub(&store->loads, load->size, __ATOMIC_RELAXED);
    item_put(store, load->stub);
    free(load);
}

/* A copy of the item, its value still to be read; takes over the hold on it. NULL: no memory. */
static struct load *load_new(struct store *store, struct mc_item *stub)
{
    size_t size = offsetof(struct load, item) + MC_ITEM_HEADER + stub->nbytes;
    struct load *load = take_bytes(store, size) ? malloc(size) : NULL;

    if (!load)
        return NULL;
    *load = (struct load){.stub = stub, .size = size};
    load->item = (struct mc_item){
        .cas = __atomic_load_n(&stub->cas, __ATOMIC_RELAXED),
        .exptime = __atomic_load_n(&stub->exptime, __ATOMIC_RELAXED),
        .nbytes = stub->nbytes,
        .refcount = 1,
        .flags =
            (__u16)((__atomic_load_n(&stub->flags, __ATOMIC_RELAXED) & ITEM_MARKS) | MC_ITEM_COPY),
        .nkey = stub->nkey,
        .nmid = stub->nmid,
    };
    memcpy(load->item.wire, stub->wire, (size_t)stub->nkey + stub->nmid);
    load->read = (struct flash_read){
        .at = *external_place(stub),
        .buffer = object_at(&load->item),
        .nbytes = external_nbytes(stub),
    };
    return load;
}

/* Whether what was read is the value of the key; then the copy is whole. */
static bool complete(struct load *load)
{
    const struct mc_item *stub = load->stub;
    const char *object = object_at(&load->item);

    if (load->read.result == FLASH_READ &&
        ((uint8_t)object[0] != stub->nkey || memcmp(object + 1, stub->wire, stub->nkey) != 0))
        load->read.result = FLASH_BAD;
    memcpy(load->item.wire, stub->wire, (size_t)stub->nkey + stub->nmid);
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
    item_copy(store, item, 0, &load->item);
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

/* --- for a reply ---------------------------------------------------------- */

struct mc_item *store_load(struct store_local *local, struct mc_item *item, bool get)
{
    struct load *load = load_new(local->store, item);

    if (!load) {
        count(&local->counts.counts.get_oom_extstore);
        return NULL;
    }
    load->get = get;
    return &load->item;
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

        /* The hit was counted by segment: here it is taken off, modulo 2^64. */
        __atomic_store_n(hits, *hits - 1, __ATOMIC_RELAXED);
        count(&counts->get_misses);
    }
}

/* Every so many reads the value is kept in memory from then on. */
static void consider_recache(struct store_local *local, struct load *load, rel_time now)
{
    uint32_t rate = __atomic_load_n(&local->store->recache_rate, __ATOMIC_RELAXED);

    if (rate == 0 || ++local->nloads % rate != 0)
        return;
    if (move_in(local, load, now))
        count(&local->counts.counts.recache_from_extstore);
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

/* --- for good --------------------------------------------------------------- */

enum store_result external_recall(struct store_local *local, struct mc_item *item, rel_time now)
{
    struct store *store = local->store;
    struct load *load = load_new(store, item);
    bool moved = true;

    if (!load) {
        item_put(store, item);
        return STORE_NO_MEMORY;
    }
    flash_read_wait(store->config.flash, &load->read);
    if (complete(load)) {
        moved = move_in(local, load, now);
    } else {
        count_miss(local, load);
        forget(store, item);
    }
    load_free(store, &load->item);
    return moved ? STORE_DONE : STORE_NO_MEMORY;
}
