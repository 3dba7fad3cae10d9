/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slab: chunks of fixed sizes, carved from pages of MC_PAGE_BYTES. A class
 * keeps the pages it has got. Pages count against the memory limit, but each
 * class can have its first one in any case.
 *
 * A free chunk is marked MC_ITEM_SLABBED and linked through mc_item.next.
 * Chunks that were never used are not on the list: they are handed out from
 * the last page in order, so that memory is touched only when it is needed.
 *
 * Locks: one for each class, then one for the pages.
 */
#ifndef STORE_SLAB_H
#define STORE_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "store/heap.h"

struct slab_config {
    uint32_t chunk_max;
    uint32_t chunk_min;
    double growth_factor;
    const uint32_t *slab_sizes; /* 0-terminated, or NULL */
    uint64_t memory_limit;      /* bytes */
};

struct slab_class {
    struct lock lock;
    uint32_t size;     /* bytes of a chunk */
    uint32_t per_page; /* chunks */
    uint32_t free;     /* list of chunks that were used before */
    uint32_t carve;    /* the next chunk that never was */
    uint32_t ncarve;   /* how many of those are left in the page */
    uint32_t npages;
    uint64_t nfree; /* on the list */
} __attribute__((aligned(64)));

struct slabs {
    struct heap *heap;
    unsigned int nclasses; /* classes are 1 to nclasses */
    struct lock pages_lock;
    uint64_t memory_limit; /* bytes */
    uint32_t npages;       /* handed out */
    bool exhausted;        /* the provider has no more for now */
    uint8_t *page_class;   /* of each page of the heap; written before the page is used */
    uint8_t small[MC_PAGE_BYTES / 1024 / 8 + 1]; /* class of sizes to 1 KiB, by 8 bytes */
    struct slab_class classes[MC_CLASSES];
};

/* 0, -EINVAL with sizes that make no sense, or -ENOMEM. */
int slab_init(struct slabs *slabs, struct heap *heap, const struct slab_config *config);
void slab_fini(struct slabs *slabs);

/* The class of the smallest chunks that hold `size` bytes; 0: none does. */
unsigned int slab_class_of_size(const struct slabs *slabs, size_t size);
/* A chunk, its bytes undefined; 0: the class has none and gets no page. */
uint32_t slab_alloc(struct slabs *slabs, unsigned int clsid);
void slab_free(struct slabs *slabs, uint32_t ref);

/* The class that the page of a chunk belongs to. */
static inline unsigned int slab_class_of_ref(const struct slabs *slabs, uint32_t ref)
{
    return slabs->page_class[((uint64_t)ref << slabs->heap->ref_shift) / MC_PAGE_BYTES];
}

void slab_set_limit(struct slabs *slabs, uint64_t memory_limit);
/* Bytes. */
uint64_t slab_limit(struct slabs *slabs);
/* Lets classes ask for pages again after the provider had none. */
void slab_retry(struct slabs *slabs);
/* Maps memory for all pages of the limit, or only for the next ones (ahead of need). 0 or -errno.
 */
int slab_prealloc(struct slabs *slabs);
int slab_provide(struct slabs *slabs);

struct slab_stats {
    uint32_t chunk_size, chunks_per_page;
    uint64_t total_pages, used_chunks, free_chunks;
};
void slab_class_stats(struct slabs *slabs, unsigned int clsid, struct slab_stats *out);
/* Pages handed out. */
uint32_t slab_npages(struct slabs *slabs);

#endif
