/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_PAGE = 1,   /* page 0 holds reference 0 */
    FIXED_BYTES = 48, /* what memcached adds to chunk_min for the smallest chunk */
    CHUNK_ALIGN = 8,  /* of memcached's sizes */
    SMALL_MAX = 1024,
    MIN_CHUNK = 48,
    PAGES_AHEAD = 2, /* free ones below which a segment is fetched before it is needed */
};

static uint32_t round_up(uint32_t n, uint32_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Adds a class unless its size, rounded to units, is that of the one before. */
static bool add_class(struct slabs *slabs, uint32_t size)
{
    uint32_t rounded = round_up(size, 1u << slabs->heap->ref_shift);

    if (rounded > MC_PAGE_BYTES || rounded < MIN_CHUNK)
        return false;
    if (slabs->nclasses > 0 && slabs->classes[slabs->nclasses].size >= rounded)
        return true;
    if (slabs->nclasses == MC_CLASSES - 1)
        return false;
    slabs->nclasses++;
    slabs->classes[slabs->nclasses].size = rounded;
    slabs->classes[slabs->nclasses].per_page = MC_PAGE_BYTES / rounded;
    return true;
}

/* memcached's progression, so that its users find their classes again. */
static bool add_by_factor(struct slabs *slabs, const struct slab_config *config)
{
    uint32_t size = FIXED_BYTES + config->chunk_min, before = 0;

    while (slabs->nclasses < MC_CLASSES - 2 && size < config->chunk_max / config->growth_factor) {
        size = round_up(size, CHUNK_ALIGN);
        /* A factor close to 1 would stay where it is. */
        if (size == before)
            size += CHUNK_ALIGN;
        if (!add_class(slabs, size))
            return false;
        before = size;
        size = (uint32_t)(size * config->growth_factor);
    }
    return true;
}

static bool make_classes(struct slabs *slabs, const struct slab_config *config)
{
    if (config->slab_sizes) {
        for (const uint32_t *size = config->slab_sizes; *size; size++) {
            if (!add_class(slabs, *size))
                return false;
        }
    } else if (config->growth_factor <= 1 || !add_by_factor(slabs, config)) {
        return false;
    }
    return add_class(slabs, config->chunk_max);
}

static void index_small(struct slabs *slabs)
{
    unsigned int clsid = 1;

    for (uint32_t size = 0; size <= SMALL_MAX; size += 8) {
        while (clsid <= slabs->nclasses && slabs->classes[clsid].size < size)
            clsid++;
        slabs->small[size / 8] = clsid <= slabs->nclasses ? (uint8_t)clsid : 0;
    }
}

int slab_init(struct slabs *slabs, struct heap *heap, const struct slab_config *config)
{
    memset(slabs, 0, sizeof(*slabs));
    slabs->heap = heap;
    if (!make_classes(slabs, config))
        return -EINVAL;
    index_small(slabs);
    slabs->page_class = calloc(heap->max_segments, MC_SEGMENT_PAGES);
    if (!slabs->page_class)
        return -ENOMEM;
    slab_set_limit(slabs, config->memory_limit);
    return 0;
}

void slab_fini(struct slabs *slabs)
{
    free(slabs->page_class);
}

unsigned int slab_class_of_size(const struct slabs *slabs, size_t size)
{
    unsigned int low = 1, high = slabs->nclasses + 1;

    if (size <= SMALL_MAX)
        return slabs->small[(size + 7) / 8];
    while (low < high) {
        unsigned int middle = (low + high) / 2;

        if (slabs->classes[middle].size < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low <= slabs->nclasses ? low : 0;
}

/* The next page of the heap for a class that has `has` pages; 0: none. */
static uint32_t take_page(struct slabs *slabs, unsigned int clsid, uint32_t has)
{
    uint32_t page = 0;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    if (!slabs->exhausted && (slabs->npages < slabs->memory_limit / MC_PAGE_BYTES || has == 0)) {
        page = FIRST_PAGE + slabs->npages;
        if (heap_grow(slabs->heap, page / MC_SEGMENT_PAGES + 1) == 0) {
            slabs->page_class[page] = (uint8_t)clsid;
            __atomic_store_n(&slabs->npages, slabs->npages + 1, __ATOMIC_RELAXED);
        } else {
            /* Asking costs a system call or more, and every set would. */
            slabs->exhausted = true;
            page = 0;
        }
    }
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    return page;
}

static uint32_t carve(struct slabs *slabs, struct slab_class *class)
{
    uint32_t ref = class->carve;

    if (class->ncarve == 0) {
        uint32_t page = take_page(slabs, (unsigned int)(class - slabs->classes), class->npages);

        if (page == 0)
            return 0;
        class->npages++;
        class->ncarve = class->per_page;
        ref = (uint32_t)(((uint64_t)page * MC_PAGE_BYTES) >> slabs->heap->ref_shift);
    }
    class->ncarve--;
    class->carve = ref + (class->size >> slabs->heap->ref_shift);
    return ref;
}

uint32_t slab_alloc(struct slabs *slabs, unsigned int clsid)
{
    struct slab_class *class = &slabs->classes[clsid];
    uint32_t ref;

    lock_take(&class->lock, LOCK_SLAB);
    ref = class->free;
    if (ref) {
        class->free = ((const struct mc_item *)heap_at(slabs->heap, ref))->next;
        class->nfree--;
    } else {
        ref = carve(slabs, class);
    }
    lock_release(&class->lock, LOCK_SLAB);
    /*
     * The chunk was unlinked under a moved sequence counter. Whoever reads what
     * is written to it from here on must see that move: pairs with the
     * acquire fence of the reader before its second load of the counter.
     */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return ref;
}

void slab_free(struct slabs *slabs, uint32_t ref)
{
    struct slab_class *class = &slabs->classes[slab_class_of_ref(slabs, ref)];
    struct mc_item *chunk = heap_at(slabs->heap, ref);

    chunk->flags = MC_ITEM_SLABBED;
    lock_take(&class->lock, LOCK_SLAB);
    chunk->next = class->free;
    class->free = ref;
    class->nfree++;
    lock_release(&class->lock, LOCK_SLAB);
}

void slab_set_limit(struct slabs *slabs, uint64_t memory_limit)
{
    lock_take(&slabs->pages_lock, LOCK_PAGES);
    slabs->memory_limit = memory_limit;
    lock_release(&slabs->pages_lock, LOCK_PAGES);
}

void slab_retry(struct slabs *slabs)
{
    lock_take(&slabs->pages_lock, LOCK_PAGES);
    slabs->exhausted = false;
    lock_release(&slabs->pages_lock, LOCK_PAGES);
}

uint64_t slab_limit(struct slabs *slabs)
{
    uint64_t limit;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    limit = slabs->memory_limit;
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    return limit;
}

int slab_prealloc(struct slabs *slabs)
{
    uint64_t last = FIRST_PAGE + slab_limit(slabs) / MC_PAGE_BYTES - 1;

    return heap_grow(slabs->heap, (uint32_t)(last / MC_SEGMENT_PAGES) + 1);
}

int slab_provide(struct slabs *slabs)
{
    uint64_t last = FIRST_PAGE + slab_npages(slabs) + PAGES_AHEAD - 1;
    uint64_t end = FIRST_PAGE + slab_limit(slabs) / MC_PAGE_BYTES;

    if (last >= end)
        last = end - 1;
    return heap_grow(slabs->heap, (uint32_t)(last / MC_SEGMENT_PAGES) + 1);
}

void slab_class_stats(struct slabs *slabs, unsigned int clsid, struct slab_stats *out)
{
    struct slab_class *class = &slabs->classes[clsid];

    lock_take(&class->lock, LOCK_SLAB);
    out->chunk_size = class->size;
    out->chunks_per_page = class->per_page;
    out->total_pages = class->npages;
    out->free_chunks = class->nfree + class->ncarve;
    out->used_chunks = (uint64_t) class->npages * class->per_page - out->free_chunks;
    lock_release(&class->lock, LOCK_SLAB);
}

uint32_t slab_npages(struct slabs *slabs)
{
    return __atomic_load_n(&slabs->npages, __ATOMIC_RELAXED);
}
