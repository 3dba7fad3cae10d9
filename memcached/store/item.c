/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/item.h"

#include "store/external.h"
#include "store/internal.h"
#include "store/reclaim.h"

/* The sizes of an item to be. */
struct shape {
    char middle[STORE_MIDDLE_MAX];
    uint8_t nmiddle;
    size_t nvalue; /* with the tail */
    size_t nfirst; /* bytes of the item's own chunk */
    uint32_t nchunks;
    unsigned int clsid; /* of the item, for its LRU and its statistics */
};

static size_t index_offset(size_t nkey, size_t nmiddle)
{
    return (MC_ITEM_HEADER + nkey + nmiddle + 7) & ~(size_t)7;
}

static uint32_t *chunk_refs(const struct mc_item *item)
{
    return (uint32_t *)((char *)item + item_head_bytes(item));
}

/* Bytes of value in each chunk but the last. */
static size_t chunk_room(const struct store *store)
{
    return store->slabs.classes[store->slabs.nclasses].size - sizeof(struct item_chunk);
}

static size_t value_bytes(const struct mc_item *item)
{
    return item->nbytes - item->nkey - item->nmid;
}

static uint32_t nchunks_for(const struct store *store, size_t nvalue)
{
    return (uint32_t)((nvalue + chunk_room(store) - 1) / chunk_room(store));
}

/* false: too large. */
static bool shape_item(const struct store *store, struct slice key, uint32_t client_flags,
                       size_t nvalue, struct shape *shape)
{
    const struct store_format *format = &store->config.format;
    size_t total;

    if (nvalue > store->config.item_max)
        return false;
    shape->nmiddle = format->middle(shape->middle, client_flags, (uint32_t)nvalue);
    shape->nvalue = nvalue + format->tail.len;
    total = MC_ITEM_HEADER + key.len + shape->nmiddle + shape->nvalue;
    if (total > store->config.item_max)
        return false;
    shape->nfirst = total;
    shape->nchunks = 0;
    shape->clsid = slab_class_of_size(&store->slabs, total);
    if (shape->clsid)
        return true;
    shape->clsid = store->slabs.nclasses;
    shape->nchunks = nchunks_for(store, shape->nvalue);
    shape->nfirst = index_offset(key.len, shape->nmiddle) + shape->nchunks * sizeof(uint32_t);
    return slab_class_of_size(&store->slabs, shape->nfirst) != 0;
}

uint32_t item_chunk_room(const struct store *store)
{
    return (uint32_t)chunk_room(store);
}

uint32_t item_nchunks(const struct store *store, const struct mc_item *item)
{
    return nchunks_for(store, value_bytes(item));
}

size_t item_chunk_offset(const struct mc_item *item)
{
    return index_offset(item->nkey, item->nmid);
}

uint32_t item_chunk_ref(const struct mc_item *item, uint32_t index)
{
    return chunk_refs(item)[index];
}

/* Frees the first n chunks of a chunked item, then its own. */
static void free_chunks(struct store *store, struct mc_item *item, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        slab_free(&store->slabs, chunk_refs(item)[i]);
    slab_free(&store->slabs, heap_ref(&store->heap, item));
}

/* Allocates the chunks of an item; on failure the item is gone. */
static bool add_chunks(struct store *store, struct mc_item *item, const struct shape *shape,
                       rel_time now)
{
    size_t left = shape->nvalue;

    for (uint32_t i = 0; i < shape->nchunks; i++) {
        size_t n = left < chunk_room(store) ? left : chunk_room(store);
        uint32_t ref = reclaim_alloc(store, sizeof(struct item_chunk) + n, shape->clsid, now);
        struct item_chunk *chunk;

        if (!ref) {
            free_chunks(store, item, i);
            return false;
        }
        chunk = heap_at(&store->heap, ref);
        chunk->owner = heap_ref(&store->heap, item);
        chunk->index = i;
        chunk->nbytes = (uint32_t)n;
        chunk->clsid = (uint8_t)slab_class_of_ref(&store->slabs, ref);
        /* Release: pairs with the mover, which reads whose it is when it sees what it is. */
        __atomic_store_n(&chunk->flags, MC_ITEM_CHUNK, __ATOMIC_RELEASE);
        chunk_refs(item)[i] = ref;
        left -= n;
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
    ref = reclaim_alloc(store, shape.nfirst, shape.clsid, now);
    if (!ref) {
        *result = STORE_NO_MEMORY;
        return NULL;
    }
    item = heap_at(&store->heap, ref);
    item->cas = 0;
    item->exptime = exptime;
    item->nbytes = (uint32_t)(key.len + shape.nmiddle + shape.nvalue);
    item->time = now;
    item->refcount = 1;
    item_new_flags(item, shape.nchunks ? MC_ITEM_CHUNKED : 0);
    item->clsid = (uint8_t)shape.clsid;
    item->nkey = (uint8_t)key.len;
    item->nmid = shape.nmiddle;
    memcpy(item->wire, key.ptr, key.len);
    memcpy(item->wire + key.len, shape.middle, shape.nmiddle);
    if (shape.nchunks && !add_chunks(store, item, &shape, now)) {
        *result = STORE_NO_MEMORY;
        return NULL;
    }
    item_write(store, item, nvalue, store->config.format.tail);
    return item;
}

/* A one's complement sum. */
static uint64_t sum_add(uint64_t sum, uint64_t word)
{
    return __builtin_add_overflow(sum, word, &sum) ? sum + 1 : sum;
}

/* As RFC 1071 has it, by words of 8 bytes, two at a time: a sum waits for the one before. */
static uint16_t sum_of(const char *bytes, size_t n)
{
    uint64_t sum = 0, other = 0, words[2] = {0};

    for (; n >= sizeof(words); bytes += sizeof(words), n -= sizeof(words)) {
        memcpy(words, bytes, sizeof(words));
        sum = sum_add(sum, words[0]);
        other = sum_add(other, words[1]);
    }
    memset(words, 0, sizeof(words));
    memcpy(words, bytes, n);
    sum = sum_add(sum_add(sum, words[0]), sum_add(other, words[1]));
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

unsigned int item_sum(const struct store *store, struct mc_item *item)
{
    unsigned int chunk = store->slabs.classes[lru_class_of(item)].size;
    uint16_t sum;

    if (!store->config.sums || item->flags & ITEM_COMPOUND ||
        MC_ITEM_HEADER + item->nbytes + MC_ITEM_SUM > chunk)
        return 0;
    sum = sum_of(item->wire, item->nbytes);
    memcpy(item->wire + item->nbytes, &sum, MC_ITEM_SUM);
    return MC_ITEM_SUMMED;
}

void item_put(struct store *store, struct mc_item *item)
{
    /* Release our reads of the item to whoever frees it, who acquires them. */
    if (__atomic_sub_fetch(&item->refcount, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (__builtin_expect(item->flags & (MC_ITEM_EXTERN | MC_ITEM_COPY), 0)) {
        external_free(store, item);
        return;
    }
    free_chunks(store, item,
                item->flags & MC_ITEM_CHUNKED ? nchunks_for(store, value_bytes(item)) : 0);
}

void item_move(struct store *store, struct mc_item *copy, const struct mc_item *item)
{
    size_t nbytes = item_bytes(item) - MC_ITEM_HEADER; /* in memory */
    uint32_t nparts = 0;

    if (item->flags & MC_ITEM_CHUNKED) {
        nparts = nchunks_for(store, value_bytes(item));
        nbytes = item_head_bytes(item) + nparts * sizeof(uint32_t) - MC_ITEM_HEADER;
    }
    copy->cas = item->cas;
    copy->exptime = item->exptime;
    copy->nbytes = item->nbytes;
    copy->time = item->time;
    copy->refcount = 1;
    copy->clsid = item->clsid;
    copy->nkey = item->nkey;
    copy->nmid = item->nmid;
    copy->epoch = item->epoch;
    if (item->flags & MC_ITEM_SUMMED)
        nbytes += MC_ITEM_SUM;
    memcpy(copy->wire, item->wire, nbytes);
    for (uint32_t i = 0; i < nparts; i++) {
        struct item_chunk *chunk = heap_at(&store->heap, chunk_refs(item)[i]);

        chunk->owner = heap_ref(&store->heap, copy);
    }
    __atomic_store_n(&copy->flags, item->flags, __ATOMIC_RELEASE);
}

void item_move_part(struct store *store, struct mc_item *item, uint32_t index, uint32_t to)
{
    const struct item_chunk *chunk = heap_at(&store->heap, chunk_refs(item)[index]);
    struct item_chunk *copy = heap_at(&store->heap, to);

    copy->owner = chunk->owner;
    copy->index = index;
    copy->nbytes = chunk->nbytes;
    copy->clsid = chunk->clsid;
    memcpy(copy->data, chunk->data, chunk->nbytes);
    chunk_refs(item)[index] = to;
    __atomic_store_n(&copy->flags, MC_ITEM_CHUNK, __ATOMIC_RELEASE);
}

struct slice item_piece(const struct store *store, const struct mc_item *item, size_t offset)
{
    size_t nvalue = value_bytes(item), room, within;
    const struct item_chunk *chunk;

    assert(!item_is_external(item));
    if (offset >= nvalue)
        return (struct slice){NULL, 0};
    if (!(__atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_CHUNKED))
        return (struct slice){item->wire + item->nkey + item->nmid + offset, nvalue - offset};
    room = chunk_room(store);
    chunk = heap_at(&store->heap, chunk_refs(item)[offset / room]);
    within = offset % room;
    return (struct slice){chunk->data + within, chunk->nbytes - within};
}

uint32_t item_length(const struct store *store, const struct mc_item *item)
{
    return (uint32_t)(value_bytes(item) - store->config.format.tail.len);
}

uint32_t item_client_flags(const struct store *store, const struct mc_item *item)
{
    struct slice middle = item_middle(item);

    return store->config.format.client_flags(middle.ptr, (uint8_t)middle.len);
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
