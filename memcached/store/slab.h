/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slab: chunks of fixed sizes, carved from pages of MC_PAGE_BYTES. Pages count against the memory
 * limit, but each class can have its first one in any case: as in memcached such a page stays
 * beyond the limit, and takes none from another class, until a page comes free or the limit is set
 * again.
 *
 * A free chunk is marked MC_ITEM_SLABBED and is on the list of its page, through mc_item.next;
 * chunks that were never used are on none: they are given out in order, so that memory is used only
 * when it is needed. The pages that have chunks to give are in a list of their class, the one that
 * got a chunk back last in front.
 *
 * So a page can leave its class without a look at the others: once it is taken off that list
 * (slab_page_close) it gives no more chunks, and when the last one has come back it is free
 * (slab_page_take). A free page goes to another class or to the pool, from which any class takes
 * it; pages over the limit leave the pool, and their memory goes back to the provider.
 *
 * Classes have the numbers that memcached's have, and hold what those hold. Our items are at least
 * SLAB_SAVED bytes smaller, so the classes of small items are as much smaller: the hash table takes
 * more for an item than memcached's. The smallest items lose by that where they are a little too
 * large for the first class, so behind the largest there is a class of the first one's full size.
 *
 * The memory limit is one of pages; once a hash table counts against it (slab_count_table), there
 * are so many pages less.
 *
 * Locks: one for each class, then one for the pages. Under its class's lock a chunk that is not
 * marked MC_ITEM_SLABBED is not freed.
 */
#ifndef STORE_SLAB_H
#define STORE_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "store/background.h"
#include "store/heap.h"

enum {
    SLAB_SAVED = 8,        /* bytes that the chunks of small classes have less than memcached's */
    SLAB_SAVED_MAX = 1480, /* up to this size of memcached's */
    SLAB_SMALL_MAX = 2048, /* bytes of what finds its class without a search */
};

struct slab_config {
    uint32_t chunk_max;
    uint32_t chunk_min;
    double growth_factor;
    const uint32_t *slab_sizes; /* 0-terminated, or NULL */
    uint64_t memory_limit;      /* bytes */
};

/* One page of the heap. */
struct slab_page {
    uint32_t free;       /* list of chunks that were used before */
    uint32_t prev, next; /* of the class's list, or the pool's (next) */
    uint16_t navail;     /* chunks on the list or never used */
    uint16_t ncarved;    /* chunks that were used once */
    uint8_t clsid;       /* 0: of no class; written before the page is used */
    bool closed;         /* on no list, and gives no chunks */
};

struct slab_class {
    struct lock lock;
    uint32_t size;     /* bytes of a chunk */
    uint32_t per_page; /* chunks */
    uint32_t avail;    /* list of pages that have chunks to give */
    uint32_t npages;
    uint64_t navail; /* of all pages */
    uint64_t nkept;  /* that the flash writer keeps free: it is woken when half are left */
} __attribute__((aligned(64)));

struct slabs {
    struct heap *heap;
    unsigned int nclasses; /* classes are 1 to nclasses */
    unsigned int largest;  /* the class of the largest chunks; one behind it has small ones */
    struct lock pages_lock;
    uint64_t memory_limit;           /* bytes */
    const uint32_t *nbuckets;        /* of the hash table that counts against it, or NULL. Atomic */
    uint32_t nbuckets_free;          /* buckets that do not count */
    uint32_t npages;                 /* of classes and pool */
    uint32_t nbeyond;                /* of those: over the limit, as first pages of their classes */
    uint32_t high_water;             /* pages of the heap that were ever in use */
    uint32_t pool, npool;            /* list of pages that any class may take */
    uint32_t retired;                /* list of those that were over the limit */
    struct background *prefault;     /* maps more of the heap when it is woken; NULL: none */
    struct background *flash_writer; /* woken when a class has few chunks left; NULL: no flash */
    bool exhausted;                  /* the provider has no more for now */
    struct slab_page *pages;
    uint8_t small[SLAB_SMALL_MAX / 8 + 1]; /* class of sizes to that, by 8 bytes */
    struct slab_class classes[MC_CLASSES];
};

/* 0, -EINVAL for sizes that cannot be used, or -ENOMEM. */
int slab_init(struct slabs *slabs, struct heap *heap, const struct slab_config *config);
void slab_fini(struct slabs *slabs);
/*
 * From now on a hash table counts against the limit, but for nfree of its *nbuckets buckets: with
 * what it takes beyond memcached's table of as many items, so that both keep to the same memory.
 */
void slab_count_table(struct slabs *slabs, const uint32_t *nbuckets, uint32_t nfree);

/* The class of the smallest chunks that hold `size` bytes; 0: none does. */
unsigned int slab_class_of_size(const struct slabs *slabs, size_t size);
/* A chunk, its bytes undefined but for the flags; 0: the class has none and gets no page. */
uint32_t slab_alloc(struct slabs *slabs, unsigned int clsid);
/* A chunk that the class has already: it gets no page for it. 0: it has none. */
uint32_t slab_alloc_spare(struct slabs *slabs, unsigned int clsid);
void slab_free(struct slabs *slabs, uint32_t ref);

static inline uint32_t slab_page_of_ref(const struct slabs *slabs, uint32_t ref)
{
    return (uint32_t)(((uint64_t)ref << slabs->heap->ref_shift) / MC_PAGE_BYTES);
}

/* The class that the page of a chunk belongs to. */
static inline unsigned int slab_class_of_ref(const struct slabs *slabs, uint32_t ref)
{
    return slabs->pages[slab_page_of_ref(slabs, ref)].clsid;
}

/* The first chunk of a page. */
static inline uint32_t slab_page_ref(const struct slabs *slabs, uint32_t page)
{
    return (uint32_t)(((uint64_t)page * MC_PAGE_BYTES) >> slabs->heap->ref_shift);
}

/*
 * Takes over the first n pages of the heap, filled before, all their chunks in use: pages[i] is the
 * class of page i + 1, 0: it has none. Before any other call. 0 or -errno.
 */
int slab_adopt(struct slabs *slabs, const uint8_t *pages, uint32_t n);

void slab_set_limit(struct slabs *slabs, uint64_t memory_limit);
/* Frees pages of the pool that are over the limit: the hash table may have grown. */
void slab_trim_pool(struct slabs *slabs);
/* Bytes, as it was set. */
uint64_t slab_limit(struct slabs *slabs);
/* Whether there may be more pages. */
bool slab_has_room(struct slabs *slabs);
/* How many pages any class may still take, those of the pool included. */
uint32_t slab_room(struct slabs *slabs);
/* Gives a class a page of the pool, or one that no class has had. False: there is none. */
bool slab_pool_give(struct slabs *slabs, unsigned int to);
/* How many free chunks the flash writer keeps in a class from now on. */
void slab_keep(struct slabs *slabs, unsigned int clsid, uint64_t nchunks);
/* Lets classes ask for pages again after the provider had none. */
void slab_retry(struct slabs *slabs);
/*
 * Maps memory for all pages of the limit, or only for the next ones (ahead of need). 0 or -errno.
 */
int slab_prealloc(struct slabs *slabs);
int slab_provide(struct slabs *slabs);
/* Maps the extents that will be needed next, for the prefault thread. 0 or -errno. */
int slab_prefault(struct slabs *slabs);

/* --- pages on the move; one thread at a time ------------------------------ */

/* The page of a class with the most free chunks, other than `avoid`; 0: none. */
uint32_t slab_page_pick(struct slabs *slabs, unsigned int clsid, uint32_t avoid);
/* The page gives no more chunks. Returns how many of its chunks were ever used. */
unsigned int slab_page_close(struct slabs *slabs, uint32_t page);
/* It gives chunks again. */
void slab_page_open(struct slabs *slabs, uint32_t page);
/* Takes a closed page from its class if all its chunks are free, and gives it to another one (0:
 * the pool). */
bool slab_page_take(struct slabs *slabs, uint32_t page, unsigned int to);
/* How many pages classes and pool have to give up. */
uint32_t slab_excess(struct slabs *slabs);

struct slab_stats {
    uint32_t chunk_size, chunks_per_page;
    uint64_t total_pages, used_chunks, free_chunks;
    uint64_t kept_chunks; /* of the free ones, by the flash writer */
};
void slab_class_stats(struct slabs *slabs, unsigned int clsid, struct slab_stats *out);
/* Pages of classes and pool, and those of the pool. */
uint32_t slab_npages(struct slabs *slabs);
uint32_t slab_npool(struct slabs *slabs);

#endif
