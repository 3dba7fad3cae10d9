/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_PAGE = 1,    /* page 0 holds reference 0 */
    FIXED_BYTES = 48,  /* what memcached adds to chunk_min for the smallest chunk */
    CHUNK_ALIGN = 8,   /* of memcached's sizes */
    BUCKET_BYTES = 42, /* what counts of a bucket, by measurement */
    MIN_CHUNK = 48,
    PAGES_AHEAD = 2, /* free ones below which an extent is fetched before it is needed */
};

static uint32_t round_up(uint32_t n, uint32_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void set_size(struct slab_class *class, uint32_t size)
{
    class->size = size;
    class->per_page = MC_PAGE_BYTES / size;
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
    set_size(&slabs->classes[++slabs->nclasses], rounded);
    return true;
}

/* The sizes are those of memcached, so that users find the classes that they know; see slab.h. */
static bool add_by_factor(struct slabs *slabs, const struct slab_config *config)
{
    uint32_t size = FIXED_BYTES + config->chunk_min, before = 0;

    while (slabs->nclasses < MC_CLASSES - 2 && size < config->chunk_max / config->growth_factor) {
        size = round_up(size, CHUNK_ALIGN);
        /* A factor close to 1 would stay where it is. */
        if (size == before)
            size += CHUNK_ALIGN;
        if (!add_class(slabs, size <= SLAB_SAVED_MAX ? size - SLAB_SAVED : size))
            return false;
        before = size;
        size = (uint32_t)(size * config->growth_factor);
    }
    return true;
}

/* The class of the first one's full size, if it is one of its own. */
static void add_behind_largest(struct slabs *slabs, uint32_t size)
{
    size = round_up(size, 1u << slabs->heap->ref_shift);
    if (slabs->largest > 1 && size > slabs->classes[1].size && size < slabs->classes[2].size &&
        slabs->nclasses < MC_CLASSES - 1)
        set_size(&slabs->classes[++slabs->nclasses], size);
}

static bool make_classes(struct slabs *slabs, const struct slab_config *config)
{
    if (config->slab_sizes) {
        for (const uint32_t *size = config->slab_sizes; *size; size++)
            if (!add_class(slabs, *size))
                return false;
    } else if (config->growth_factor <= 1 || !add_by_factor(slabs, config)) {
        return false;
    }
    if (!add_class(slabs, config->chunk_max))
        return false;
    slabs->largest = slabs->nclasses;
    if (!config->slab_sizes)
        add_behind_largest(slabs, round_up(FIXED_BYTES + config->chunk_min, CHUNK_ALIGN));
    return true;
}

/* The smallest chunks that hold `size` bytes, of classes in any order. */
static unsigned int best_class(const struct slabs *slabs, uint32_t size)
{
    unsigned int best = 0;

    for (unsigned int i = 1; i <= slabs->nclasses; i++)
        if (slabs->classes[i].size >= size &&
            (best == 0 || slabs->classes[i].size < slabs->classes[best].size))
            best = i;
    return best;
}

static void index_small(struct slabs *slabs)
{
    for (uint32_t size = 0; size <= SLAB_SMALL_MAX; size += 8)
        slabs->small[size / 8] = (uint8_t)best_class(slabs, size);
}

int slab_init(struct slabs *slabs, struct heap *heap, const struct slab_config *config)
{
    memset(slabs, 0, sizeof(*slabs));
    slabs->heap = heap;
    if (!make_classes(slabs, config))
        return -EINVAL;
    index_small(slabs);
    slabs->pages = calloc((size_t)heap->max_extents * MC_EXTENT_PAGES, sizeof(*slabs->pages));
    if (!slabs->pages)
        return -ENOMEM;
    slab_set_limit(slabs, config->memory_limit);
    return 0;
}

void slab_fini(struct slabs *slabs)
{
    free(slabs->pages);
}

void slab_count_table(struct slabs *slabs, const uint32_t *nbuckets, uint32_t nfree)
{
    slabs->nbuckets = nbuckets;
    slabs->nbuckets_free = nfree;
}

unsigned int slab_class_of_size(const struct slabs *slabs, size_t size)
{
    unsigned int low = 1, high = slabs->largest + 1;

    if (size <= SLAB_SMALL_MAX)
        return slabs->small[(size + 7) / 8];
    while (low < high) {
        unsigned int middle = (low + high) / 2;

        if (slabs->classes[middle].size < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low <= slabs->largest ? low : 0;
}

/* The class is atomic for slab_page_pick, which looks at pages of all classes. */
static void page_reset(struct slab_page *page, unsigned int clsid)
{
    page->free = page->prev = page->next = 0;
    page->navail = page->ncarved = 0;
    page->closed = false;
    __atomic_store_n(&page->clsid, (uint8_t)clsid, __ATOMIC_RELAXED);
}

/* --- lists of pages ------------------------------------------------------- */

/* Under the class's lock. */
static void page_link(struct slabs *slabs, struct slab_class *class, uint32_t number)
{
    struct slab_page *page = &slabs->pages[number];

    page->prev = 0;
    page->next = class->avail;
    if (class->avail)
        slabs->pages[class->avail].prev = number;
    class->avail = number;
}

static void page_unlink(struct slabs *slabs, struct slab_class *class, uint32_t number)
{
    const struct slab_page *page = &slabs->pages[number];

    if (page->prev)
        slabs->pages[page->prev].next = page->next;
    else
        class->avail = page->next;
    if (page->next)
        slabs->pages[page->next].prev = page->prev;
}

/* A page that is on no list becomes one of the class. Under its lock. */
static void page_enter(struct slabs *slabs, struct slab_class *class, uint32_t number)
{
    page_reset(&slabs->pages[number], (unsigned int)(class - slabs->classes));
    slabs->pages[number].navail = (uint16_t) class->per_page;
    page_link(slabs, class, number);
    class->npages++;
    class->navail += class->per_page;
}

/* Under pages_lock. */
static uint32_t list_pop(struct slabs *slabs, uint32_t *list)
{
    uint32_t number = *list;

    if (number)
        *list = slabs->pages[number].next;
    return number;
}

static void list_push(struct slabs *slabs, uint32_t *list, uint32_t number)
{
    page_reset(&slabs->pages[number], 0);
    slabs->pages[number].next = *list;
    *list = number;
}

/* The hash table in pages, as far as it counts. */
static uint32_t table_pages(const struct slabs *slabs)
{
    uint32_t n = slabs->nbuckets ? __atomic_load_n(slabs->nbuckets, __ATOMIC_RELAXED) : 0;
    uint64_t nbytes =
        n > slabs->nbuckets_free ? (uint64_t)(n - slabs->nbuckets_free) * BUCKET_BYTES : 0;

    return (uint32_t)((nbytes + MC_PAGE_BYTES / 2) / MC_PAGE_BYTES);
}

static uint32_t limit_pages(const struct slabs *slabs)
{
    uint32_t all = (uint32_t)(slabs->memory_limit / MC_PAGE_BYTES), taken = table_pages(slabs);

    return taken < all ? all - taken : 0;
}

/* Pages over the limit, those beyond it included. Under pages_lock. */
static uint32_t over_limit(const struct slabs *slabs)
{
    uint32_t limit = limit_pages(slabs);

    return slabs->npages > limit ? slabs->npages - limit : 0;
}

/* A page of those over the limit is gone. Under pages_lock. */
static void uncount_page(struct slabs *slabs)
{
    __atomic_store_n(&slabs->npages, slabs->npages - 1, __ATOMIC_RELAXED);
    if (slabs->nbeyond > over_limit(slabs))
        slabs->nbeyond = over_limit(slabs);
}

/* A page that was never in use, or that was retired since. Under pages_lock. */
static uint32_t fresh_page(struct slabs *slabs)
{
    uint32_t number = list_pop(slabs, &slabs->retired);

    if (number)
        return number;
    number = FIRST_PAGE + slabs->high_water;
    if (heap_grow(slabs->heap, number / MC_EXTENT_PAGES + 1) != 0) {
        /* Each further set would make a system call in vain. */
        slabs->exhausted = true;
        return 0;
    }
    __atomic_store_n(&slabs->high_water, slabs->high_water + 1, __ATOMIC_RELAXED);
    if (number % MC_EXTENT_PAGES == 0 && slabs->prefault)
        background_wake(slabs->prefault);
    return number;
}

/* A page for a class that has `has` pages; 0: none. */
static uint32_t take_page(struct slabs *slabs, uint32_t has)
{
    uint32_t number;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    number = list_pop(slabs, &slabs->pool);
    if (number) {
        __atomic_store_n(&slabs->npool, slabs->npool - 1, __ATOMIC_RELAXED);
    } else if (!slabs->exhausted && (slabs->npages < limit_pages(slabs) || has == 0)) {
        number = fresh_page(slabs);
        slabs->nbeyond += number && slabs->npages >= limit_pages(slabs);
        __atomic_store_n(&slabs->npages, slabs->npages + (number != 0), __ATOMIC_RELAXED);
    }
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    return number;
}

/* Gives the memory of a page that is no longer counted back; the page may be used again. */
static void retire(struct slabs *slabs, uint32_t number)
{
    heap_release(slabs->heap, number);
    lock_take(&slabs->pages_lock, LOCK_PAGES);
    list_push(slabs, &slabs->retired, number);
    lock_release(&slabs->pages_lock, LOCK_PAGES);
}

/* Puts a page into the pool, if it is not over the limit. */
static void pool_page(struct slabs *slabs, uint32_t number)
{
    bool over;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    over = over_limit(slabs) > 0;
    if (over) {
        uncount_page(slabs);
    } else {
        __atomic_store_n(&slabs->npool, slabs->npool + 1, __ATOMIC_RELAXED);
        list_push(slabs, &slabs->pool, number);
    }
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    if (over)
        retire(slabs, number);
}

/* Takes a page of the pool that is over the limit out of it, 0: none is. */
static uint32_t shrink_pool(struct slabs *slabs)
{
    uint32_t number = 0;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    if (over_limit(slabs) > 0)
        number = list_pop(slabs, &slabs->pool);
    if (number) {
        __atomic_store_n(&slabs->npool, slabs->npool - 1, __ATOMIC_RELAXED);
        uncount_page(slabs);
    }
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    return number;
}

/* --- chunks ---------------------------------------------------------------- */

/* Only the mover looks at the flags of a chunk that it does not hold. */
static void mark_free(struct mc_item *chunk)
{
    __atomic_store_n(&chunk->flags, MC_ITEM_SLABBED, __ATOMIC_RELAXED);
}

/* Takes a chunk from the first page of the class's list, which has one. Under the lock. */
static uint32_t pop_chunk(struct slabs *slabs, struct slab_class *class)
{
    struct slab_page *page = &slabs->pages[class->avail];
    uint32_t ref = page->free;

    if (ref) {
        page->free = ((const struct mc_item *)heap_at(slabs->heap, ref))->next;
    } else {
        ref = slab_page_ref(slabs, class->avail) +
              page->ncarved++ * (class->size >> slabs->heap->ref_shift);
        mark_free(heap_at(slabs->heap, ref));
    }
    class->navail--;
    if (--page->navail == 0)
        page_unlink(slabs, class, class->avail);
    return ref;
}

static uint32_t alloc(struct slabs *slabs, unsigned int clsid, bool grow)
{
    struct slab_class *class = &slabs->classes[clsid];
    uint32_t ref = 0, number = 0;
    bool low;

    lock_take(&class->lock, LOCK_SLAB);
    if (__builtin_expect(!class->avail, 0) && grow) {
        number = take_page(slabs, class->npages);
        if (number)
            page_enter(slabs, class, number);
    }
    if (class->avail)
        ref = pop_chunk(slabs, class);
    low = number || (class->nkept && class->navail == class->nkept / 2);
    lock_release(&class->lock, LOCK_SLAB);
    if (__builtin_expect(low, 0) && slabs->flash_writer)
        background_wake(slabs->flash_writer);
    /*
     * The chunk was unlinked under a moved sequence counter. A reader of what is written to it from
     * here on must see that move: pairs with the acquire fence of the reader before its second load
     * of the counter.
     */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return ref;
}

uint32_t slab_alloc(struct slabs *slabs, unsigned int clsid)
{
    return alloc(slabs, clsid, true);
}

uint32_t slab_alloc_spare(struct slabs *slabs, unsigned int clsid)
{
    return alloc(slabs, clsid, false);
}

void slab_free(struct slabs *slabs, uint32_t ref)
{
    uint32_t number = slab_page_of_ref(slabs, ref);
    struct slab_page *page = &slabs->pages[number];
    struct slab_class *class = &slabs->classes[page->clsid];
    struct mc_item *chunk = heap_at(slabs->heap, ref);

    lock_take(&class->lock, LOCK_SLAB);
    mark_free(chunk);
    chunk->next = page->free;
    page->free = ref;
    class->navail++;
    if (page->navail++ == 0 && !page->closed)
        page_link(slabs, class, number);
    lock_release(&class->lock, LOCK_SLAB);
}

int slab_adopt(struct slabs *slabs, const uint8_t *pages, uint32_t n)
{
    int error = heap_grow(slabs->heap, (FIRST_PAGE + n - 1) / MC_EXTENT_PAGES + 1);

    if (error)
        return error;
    slabs->high_water = slabs->npages = n;
    for (uint32_t i = 0; i < n; i++) {
        struct slab_class *class = &slabs->classes[pages[i]];
        uint32_t number = FIRST_PAGE + i;

        if (pages[i] == 0) {
            pool_page(slabs, number);
            continue;
        }
        page_reset(&slabs->pages[number], pages[i]);
        slabs->pages[number].ncarved = (uint16_t) class->per_page;
        class->npages++;
    }
    /* Further pages over the limit are of a limit that was set later than the start. */
    for (unsigned int clsid = 1; clsid <= slabs->nclasses; clsid++)
        slabs->nbeyond += slabs->classes[clsid].npages == 1;
    if (slabs->nbeyond > over_limit(slabs))
        slabs->nbeyond = over_limit(slabs);
    return 0;
}

/* --- the limit -------------------------------------------------------------- */

void slab_set_limit(struct slabs *slabs, uint64_t memory_limit)
{
    lock_take(&slabs->pages_lock, LOCK_PAGES);
    slabs->memory_limit = memory_limit;
    slabs->nbeyond = 0;
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    /* Pages of classes wait for the mover. */
    slab_trim_pool(slabs);
}

void slab_trim_pool(struct slabs *slabs)
{
    uint32_t number;

    while ((number = shrink_pool(slabs)) != 0)
        retire(slabs, number);
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

bool slab_has_room(struct slabs *slabs)
{
    bool room;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    room = slabs->npages < limit_pages(slabs);
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    return room;
}

uint32_t slab_room(struct slabs *slabs)
{
    uint32_t limit, room;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    limit = limit_pages(slabs);
    room = slabs->npool + (slabs->npages < limit ? limit - slabs->npages : 0);
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    return room;
}

void slab_keep(struct slabs *slabs, unsigned int clsid, uint64_t nchunks)
{
    struct slab_class *class = &slabs->classes[clsid];

    lock_take(&class->lock, LOCK_SLAB);
    class->nkept = nchunks;
    lock_release(&class->lock, LOCK_SLAB);
}

int slab_prealloc(struct slabs *slabs)
{
    uint64_t last = FIRST_PAGE + slab_limit(slabs) / MC_PAGE_BYTES - 1;

    return heap_grow(slabs->heap, (uint32_t)(last / MC_EXTENT_PAGES) + 1);
}

/* Maps memory for so many pages more, as far as the limit allows. */
static int provide(struct slabs *slabs, uint32_t npages)
{
    uint32_t high_water = __atomic_load_n(&slabs->high_water, __ATOMIC_RELAXED);
    uint64_t last = FIRST_PAGE + (uint64_t)high_water + npages - 1, end;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    end = FIRST_PAGE + limit_pages(slabs);
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    if (last >= end)
        last = end - 1;
    return heap_grow(slabs->heap, (uint32_t)(last / MC_EXTENT_PAGES) + 1);
}

int slab_provide(struct slabs *slabs)
{
    return provide(slabs, PAGES_AHEAD);
}

int slab_prefault(struct slabs *slabs)
{
    return provide(slabs, MC_EXTENT_PAGES);
}

/* --- pages on the move ------------------------------------------------------- */

uint32_t slab_page_pick(struct slabs *slabs, unsigned int clsid, uint32_t avoid)
{
    struct slab_class *class = &slabs->classes[clsid];
    uint32_t n = __atomic_load_n(&slabs->high_water, __ATOMIC_RELAXED), best = 0;
    int most = -1;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = FIRST_PAGE + i;
        const struct slab_page *page = &slabs->pages[number];

        if (__atomic_load_n(&page->clsid, __ATOMIC_RELAXED) != clsid)
            continue;
        lock_take(&class->lock, LOCK_SLAB);
        if (page->navail > most && number != avoid) {
            most = page->navail;
            best = number;
        }
        lock_release(&class->lock, LOCK_SLAB);
    }
    return best;
}

unsigned int slab_page_close(struct slabs *slabs, uint32_t number)
{
    struct slab_page *page = &slabs->pages[number];
    struct slab_class *class = &slabs->classes[page->clsid];
    unsigned int ncarved;

    lock_take(&class->lock, LOCK_SLAB);
    if (page->navail > 0)
        page_unlink(slabs, class, number);
    page->closed = true;
    ncarved = page->ncarved;
    lock_release(&class->lock, LOCK_SLAB);
    return ncarved;
}

void slab_page_open(struct slabs *slabs, uint32_t number)
{
    struct slab_page *page = &slabs->pages[number];
    struct slab_class *class = &slabs->classes[page->clsid];

    lock_take(&class->lock, LOCK_SLAB);
    page->closed = false;
    if (page->navail > 0)
        page_link(slabs, class, number);
    lock_release(&class->lock, LOCK_SLAB);
}

static void enter_class(struct slabs *slabs, uint32_t number, unsigned int clsid)
{
    struct slab_class *class = &slabs->classes[clsid];

    lock_take(&class->lock, LOCK_SLAB);
    page_enter(slabs, class, number);
    lock_release(&class->lock, LOCK_SLAB);
}

bool slab_page_take(struct slabs *slabs, uint32_t number, unsigned int to)
{
    struct slab_page *page = &slabs->pages[number];
    struct slab_class *class = &slabs->classes[page->clsid];
    bool empty;

    lock_take(&class->lock, LOCK_SLAB);
    empty = page->navail == class->per_page;
    if (empty) {
        class->npages--;
        class->navail -= class->per_page;
    }
    lock_release(&class->lock, LOCK_SLAB);
    if (empty && to)
        enter_class(slabs, number, to);
    else if (empty)
        pool_page(slabs, number);
    return empty;
}

bool slab_pool_give(struct slabs *slabs, unsigned int to)
{
    uint32_t number = take_page(slabs, 1);

    if (number)
        enter_class(slabs, number, to);
    return number != 0;
}

uint32_t slab_excess(struct slabs *slabs)
{
    uint32_t excess;

    lock_take(&slabs->pages_lock, LOCK_PAGES);
    excess = over_limit(slabs) > slabs->nbeyond ? over_limit(slabs) - slabs->nbeyond : 0;
    lock_release(&slabs->pages_lock, LOCK_PAGES);
    return excess;
}

/* --- statistics ---------------------------------------------------------------- */

void slab_class_stats(struct slabs *slabs, unsigned int clsid, struct slab_stats *out)
{
    struct slab_class *class = &slabs->classes[clsid];

    lock_take(&class->lock, LOCK_SLAB);
    out->chunk_size = class->size;
    out->chunks_per_page = class->per_page;
    out->total_pages = class->npages;
    out->free_chunks = class->navail;
    out->kept_chunks = class->nkept < class->navail ? class->nkept : class->navail;
    out->used_chunks = (uint64_t) class->npages * class->per_page - out->free_chunks;
    lock_release(&class->lock, LOCK_SLAB);
}

uint32_t slab_npages(struct slabs *slabs)
{
    return __atomic_load_n(&slabs->npages, __ATOMIC_RELAXED);
}

uint32_t slab_npool(struct slabs *slabs)
{
    return __atomic_load_n(&slabs->npool, __ATOMIC_RELAXED);
}
