/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/item.h"

#include "base/sum.h"
#include "store/flash_item.h"
#include "store/internal.h"
#include "store/reclaim.h"

enum { LEVELS_MAX = 16 };

/* What the value of a chunked item lies in. */
struct parts {
    unsigned int nlevels; /* 0: it is not chunked */
    uint32_t nparts;      /* of all levels */
    uint32_t n[LEVELS_MAX];
    size_t nbytes[LEVELS_MAX]; /* of all parts of the level: value and tail, or references */
};

/* The sizes of an item to be. */
struct shape {
    char suffix[STORE_SUFFIX_MAX];
    uint8_t nsuffix;
    size_t nvalue; /* with the tail */
    size_t nfirst; /* bytes of the item's own chunk */
    struct parts parts;
    unsigned int clsid; /* of the item, for its LRU and its statistics */
};

static size_t index_offset(size_t nkey, size_t nsuffix)
{
    return (MC_ITEM_HEADER + nkey + nsuffix + 7) & ~(size_t)7;
}

static uint32_t *chunk_refs(const struct mc_item *item)
{
    return (uint32_t *)((char *)item + item_head_bytes(item));
}

/*
 * Many CPUs copy at a third of their speed, or less, where the destination is up to 31 bytes behind
 * the source modulo 4096. Linux often has a request at the start of a page, and puts a reply there:
 * a line of some 20 to 300 bytes, then the value. So in a large chunk the value begins behind where
 * it can begin in either.
 */
size_t item_chunk_head(const struct store *store)
{
    enum { LARGE = 512 << 10, LARGE_HEAD = 512 };

    return store->slabs.classes[store->slabs.largest].size < LARGE ? sizeof(struct item_chunk)
                                                                   : LARGE_HEAD;
}

static char *chunk_data(const struct store *store, const struct item_chunk *chunk)
{
    return (char *)(uintptr_t)chunk + item_chunk_head(store);
}

/* Bytes of value in each chunk but the last. */
static size_t chunk_room(const struct store *store)
{
    return store->slabs.classes[store->slabs.largest].size - item_chunk_head(store);
}

static size_t value_bytes(const struct mc_item *item)
{
    return item->nbytes - item->nkey - item->nsuffix;
}

/*
 * The parts of a value behind a head of `nhead` bytes. No levels: the largest chunk has no room for
 * references behind the head.
 */
static void find_parts(const struct store *store, size_t nhead, size_t nvalue, struct parts *parts)
{
    size_t room = chunk_room(store), size = store->slabs.classes[store->slabs.largest].size;
    size_t nbytes = nvalue;

    parts->nlevels = parts->nparts = 0;
    while (nhead + sizeof(uint32_t) <= size && parts->nlevels < LEVELS_MAX) {
        uint32_t n = (uint32_t)((nbytes + room - 1) / room);

        parts->n[parts->nlevels] = n;
        parts->nbytes[parts->nlevels++] = nbytes;
        parts->nparts += n;
        nbytes = n * sizeof(uint32_t);
        if (nhead + nbytes <= size)
            return;
    }
    parts->nlevels = parts->nparts = 0;
}

static void parts_of(const struct store *store, const struct mc_item *item, struct parts *parts)
{
    find_parts(store, item_head_bytes(item), value_bytes(item), parts);
}

/* Where the reference of a part is: its parent must be there. */
static uint32_t *ref_slot(const struct store *store, const struct mc_item *item,
                          const struct parts *parts, unsigned int level, size_t index)
{
    size_t nrefs = chunk_room(store) / sizeof(uint32_t);
    struct item_chunk *parent;

    if (level + 1 == parts->nlevels)
        return chunk_refs(item) + index;
    parent = heap_at(&store->heap, *ref_slot(store, item, parts, level + 1, index / nrefs));
    return (uint32_t *)chunk_data(store, parent) + index % nrefs;
}

/* Level and index of the part of that number. */
static unsigned int find_level(const struct parts *parts, uint32_t number, uint32_t *index)
{
    unsigned int level = parts->nlevels - 1;

    while (number >= parts->n[level])
        number -= parts->n[level--];
    *index = number;
    return level;
}

static uint32_t *slot_of_part(const struct store *store, const struct mc_item *item,
                              const struct parts *parts, uint32_t number)
{
    uint32_t index;
    unsigned int level = find_level(parts, number, &index);

    return ref_slot(store, item, parts, level, index);
}

static uint32_t part_bytes(const struct store *store, const struct parts *parts, uint32_t number)
{
    size_t room = chunk_room(store);
    uint32_t index;
    unsigned int level = find_level(parts, number, &index);
    size_t left = parts->nbytes[level] - index * room;

    return (uint32_t)(left < room ? left : room);
}

/* false: too large. */
static bool shape_item(const struct store *store, struct slice key, uint32_t client_flags,
                       size_t nvalue, struct shape *shape)
{
    const struct store_format *format = &store->config.format;
    size_t total, head;

    if (nvalue > store->config.item_max)
        return false;
    shape->nsuffix = format->suffix(shape->suffix, client_flags, (uint32_t)nvalue);
    shape->nvalue = nvalue + format->tail.len;
    total = MC_ITEM_HEADER + key.len + shape->nsuffix + shape->nvalue;
    if (total > store->config.item_max)
        return false;
    shape->nfirst = total;
    shape->parts.nlevels = 0;
    shape->clsid = slab_class_of_size(&store->slabs, total);
    if (shape->clsid)
        return true;
    shape->clsid = store->slabs.largest;
    head = index_offset(key.len, shape->nsuffix);
    find_parts(store, head, shape->nvalue, &shape->parts);
    if (shape->parts.nlevels == 0)
        return false;
    shape->nfirst = head + shape->parts.n[shape->parts.nlevels - 1] * sizeof(uint32_t);
    return true;
}

uint32_t item_nparts(const struct store *store, const struct mc_item *item)
{
    struct parts parts;

    parts_of(store, item, &parts);
    return parts.nparts;
}

size_t item_own_bytes(const struct store *store, const struct mc_item *item)
{
    struct parts parts;

    parts_of(store, item, &parts);
    return item_head_bytes(item) +
           (parts.nlevels ? parts.n[parts.nlevels - 1] * sizeof(uint32_t) : 0);
}

uint32_t item_part_ref(const struct store *store, const struct mc_item *item, uint32_t number)
{
    struct parts parts;

    parts_of(store, item, &parts);
    return *slot_of_part(store, item, &parts, number);
}

uint32_t item_part_bytes(const struct store *store, const struct mc_item *item, uint32_t number)
{
    struct parts parts;

    parts_of(store, item, &parts);
    return part_bytes(store, &parts, number);
}

/* Frees the first n parts of a chunked item, those that others are found by last, then its own. */
static void free_parts(struct store *store, struct mc_item *item, const struct parts *parts,
                       uint32_t n)
{
    while (n-- > 0)
        slab_free(&store->slabs, *slot_of_part(store, item, parts, n));
    slab_free(&store->slabs, heap_ref(&store->heap, item));
}

/* Allocates the parts of an item; on failure the item is gone. */
static bool add_parts(struct store *store, struct mc_item *item, const struct shape *shape,
                      rel_time now)
{
    for (uint32_t i = 0; i < shape->parts.nparts; i++) {
        uint32_t n = part_bytes(store, &shape->parts, i);
        uint32_t ref = reclaim_alloc(store, item_chunk_head(store) + n, shape->clsid, now);
        struct item_chunk *chunk;

        if (!ref) {
            free_parts(store, item, &shape->parts, i);
            return false;
        }
        chunk = heap_at(&store->heap, ref);
        chunk->owner = heap_ref(&store->heap, item);
        chunk->index = i;
        chunk->nbytes = n;
        chunk->clsid = (uint8_t)slab_class_of_ref(&store->slabs, ref);
        /* Release: pairs with the mover, which reads whose it is when it sees what it is. */
        __atomic_store_n(&chunk->flags, MC_ITEM_CHUNK, __ATOMIC_RELEASE);
        *slot_of_part(store, item, &shape->parts, i) = ref;
    }
    return true;
}

struct mc_item *item_new(struct store *store, struct slice key, uint32_t client_flags,
                         rel_time exptime, size_t nvalue, rel_time now, enum store_result *result)
{
    struct shape shape;
    struct mc_item *item;
    uint32_t ref;

    if (!shape_item(store, key, client_flags, nvalue, &shape)) {
        *result = STORE_TOO_LARGE;
        return NULL;
    }
    if (!store->config.maintained)
        reclaim_dead(store, shape.clsid, now);
    ref = reclaim_alloc(store, shape.nfirst, shape.clsid, now);
    if (!ref) {
        *result = STORE_NO_MEMORY;
        return NULL;
    }
    item = heap_at(&store->heap, ref);
    item->cas = 0;
    item->exptime = exptime;
    item->nbytes = (uint32_t)(key.len + shape.nsuffix + shape.nvalue);
    item->time = now;
    item->refcount = 1;
    item_new_flags(item, shape.parts.nlevels ? MC_ITEM_CHUNKED : 0);
    item->clsid = (uint8_t)shape.clsid;
    item->nkey = (uint8_t)key.len;
    item->nsuffix = shape.nsuffix;
    memcpy(item->wire, key.ptr, key.len);
    memcpy(item->wire + key.len, shape.suffix, shape.nsuffix);
    if (shape.parts.nlevels && !add_parts(store, item, &shape, now)) {
        *result = STORE_NO_MEMORY;
        return NULL;
    }
    item_write(store, item, nvalue, store->config.format.tail);
    return item;
}

unsigned int item_sum(const struct store *store, struct mc_item *item)
{
    unsigned int chunk = store->slabs.classes[lru_class_of(item)].size;
    uint16_t sum;

    if (!store->config.sums || item->flags & ITEM_COMPOUND || item->nbytes > MC_REPLY_MOST ||
        MC_ITEM_HEADER + item->nbytes + MC_ITEM_SUM > chunk)
        return 0;
    sum = sum_of(item->wire, item->nbytes);
    memcpy(item->wire + item->nbytes, &sum, MC_ITEM_SUM);
    return MC_ITEM_SUMMED;
}

void item_put(struct store *store, struct mc_item *item)
{
    /* Release our reads of the item to the thread that frees it, which acquires them. */
    if (__atomic_sub_fetch(&item->refcount, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (__builtin_expect(item->flags & (MC_ITEM_FLASH | MC_ITEM_COPY), 0)) {
        flash_item_free(store, item);
        return;
    }
    item_free(store, item);
}

void item_free(struct store *store, struct mc_item *item)
{
    struct parts parts;

    parts.nparts = 0;
    if (item->flags & MC_ITEM_CHUNKED)
        parts_of(store, item, &parts);
    free_parts(store, item, &parts, parts.nparts);
}

void item_move(struct store *store, struct mc_item *copy, const struct mc_item *item)
{
    size_t nbytes = item_bytes(item) - MC_ITEM_HEADER; /* in memory */
    struct parts parts = {.nparts = 0};

    if (item->flags & MC_ITEM_CHUNKED) {
        parts_of(store, item, &parts);
        nbytes = item_own_bytes(store, item) - MC_ITEM_HEADER;
    }
    copy->cas = item->cas;
    copy->exptime = item->exptime;
    copy->nbytes = item->nbytes;
    copy->time = item->time;
    copy->refcount = 1;
    copy->clsid = item->clsid;
    copy->nkey = item->nkey;
    copy->nsuffix = item->nsuffix;
    copy->epoch = item->epoch;
    if (item->flags & MC_ITEM_SUMMED)
        nbytes += MC_ITEM_SUM;
    memcpy(copy->wire, item->wire, nbytes);
    for (uint32_t i = 0; i < parts.nparts; i++) {
        struct item_chunk *chunk = heap_at(&store->heap, *slot_of_part(store, item, &parts, i));

        chunk->owner = heap_ref(&store->heap, copy);
    }
    __atomic_store_n(&copy->flags, item->flags, __ATOMIC_RELEASE);
}

void item_move_part(struct store *store, struct mc_item *item, uint32_t number, uint32_t to)
{
    struct item_chunk *copy = heap_at(&store->heap, to);
    const struct item_chunk *chunk;
    struct parts parts;
    uint32_t *slot;

    parts_of(store, item, &parts);
    slot = slot_of_part(store, item, &parts, number);
    chunk = heap_at(&store->heap, *slot);
    copy->owner = chunk->owner;
    copy->index = number;
    copy->nbytes = chunk->nbytes;
    copy->clsid = chunk->clsid;
    memcpy(chunk_data(store, copy), chunk_data(store, chunk), chunk->nbytes);
    *slot = to;
    __atomic_store_n(&copy->flags, MC_ITEM_CHUNK, __ATOMIC_RELEASE);
}

struct slice item_piece(const struct store *store, const struct mc_item *item, size_t offset)
{
    size_t nvalue = value_bytes(item), room, within;
    const struct item_chunk *chunk;
    struct parts parts;

    assert(!item_is_on_flash(item));
    if (offset >= nvalue)
        return (struct slice){NULL, 0};
    if (!(__atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_CHUNKED))
        return (struct slice){item->wire + item->nkey + item->nsuffix + offset, nvalue - offset};
    room = chunk_room(store);
    parts_of(store, item, &parts);
    chunk = heap_at(&store->heap, *ref_slot(store, item, &parts, 0, offset / room));
    within = offset % room;
    return (struct slice){chunk_data(store, chunk) + within, chunk->nbytes - within};
}

uint32_t item_length(const struct store *store, const struct mc_item *item)
{
    return (uint32_t)(value_bytes(item) - store->config.format.tail.len);
}

uint32_t item_client_flags(const struct store *store, const struct mc_item *item)
{
    struct slice suffix = item_suffix(item);

    return store->config.format.client_flags(suffix.ptr, (uint8_t)suffix.len);
}

void item_write(const struct store *store, struct mc_item *item, size_t offset, struct slice bytes)
{
    while (bytes.len > 0) {
        struct slice room = item_piece(store, item, offset);
        size_t n = room.len < bytes.len ? room.len : bytes.len;

        memcpy((char *)room.ptr, bytes.ptr, n);
        bytes.ptr += n;
        bytes.len -= n;
        offset += n;
    }
}

void item_copy(const struct store *store, struct mc_item *to, size_t offset,
               const struct mc_item *from)
{
    size_t length = item_length(store, from);

    for (size_t done = 0; done < length;) {
        struct slice piece = item_piece(store, from, done);

        if (piece.len > length - done)
            piece.len = length - done;
        item_write(store, to, offset + done, piece);
        done += piece.len;
    }
}
