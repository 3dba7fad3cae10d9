/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/image.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "store/internal.h"

enum {
    /* 1 as well where large chunks had 40 bytes before the value: owns_part tells by the sizes. */
    IMAGE_VERSION = 1,
    FIRST_PAGE = 1,      /* page 0 holds reference 0 */
    SMALLEST_CHUNK = 48, /* as slab.c has it */
    WORKERS_MAX = 8,
    WORKER_STEP = 4, /* pages that a thread takes at a time */
    AHEAD = 16,      /* items whose buckets are fetched before they are entered */
    /* Flags that a restored item keeps; the others are about where it was. */
    KEPT_FLAGS = ITEM_MARKS | MC_ITEM_LINKED | MC_ITEM_CHUNKED | MC_ITEM_SUMMED,
};

static const char image_magic[8] = "MCSRheap";

struct image_list {
    uint32_t head, tail;
};

/* Fixed widths throughout, no holes. The clock of the times in it is that of base_unix. */
struct image_head {
    char magic[8];
    uint32_t version, item_header, page_bytes, tail_len;
    uint32_t ref_shift, nclasses, npages, nbuckets;
    uint64_t memory_limit, last_cas;
    int64_t base_unix;
    uint32_t flush_at, hidden_until, now;
    uint8_t epoch, oldest, cas, lru_segmented;
    uint32_t class_size[MC_CLASSES];
    struct image_list lists[MC_CLASSES][LRU_SEGMENTS];
};

_Static_assert(sizeof(struct image_head) == 80 + 4 * MC_CLASSES + 32 * MC_CLASSES, "no holes");

/* FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv). */
static uint64_t checksum(const char *bytes, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (uint8_t)bytes[i]) * 0x100000001b3ull;
    return sum;
}

static size_t image_size(uint32_t npages)
{
    return sizeof(struct image_head) + npages + sizeof(uint64_t);
}

size_t store_image_bytes(uint64_t memory_limit)
{
    /* Each class can have a page in any case. */
    return image_size((uint32_t)(memory_limit / MC_PAGE_BYTES) + MC_CLASSES);
}

/* False: it is none, or damaged. */
static bool read_head(struct slice image, struct image_head *head)
{
    uint64_t sum;

    if (image.len < sizeof(*head))
        return false;
    memcpy(head, image.ptr, sizeof(*head));
    if (memcmp(head->magic, image_magic, sizeof(image_magic)) != 0 ||
        image.len != image_size(head->npages))
        return false;
    memcpy(&sum, image.ptr + image.len - sizeof(sum), sizeof(sum));
    return sum == checksum(image.ptr, image.len - sizeof(sum)) && head->nbuckets > 0;
}

bool store_image_clock(struct slice image, int64_t *base_unix, rel_time *last)
{
    struct image_head head;

    if (!read_head(image, &head))
        return false;
    *base_unix = head.base_unix;
    *last = head.now;
    return true;
}

/* Buckets to begin with: as many as there were, but no more than the pages could need. */
static uint32_t start_buckets(const struct image_head *head)
{
    uint64_t most =
        ((uint64_t)head->npages + 1) * 2 * (MC_PAGE_BYTES / SMALLEST_CHUNK) / TABLE_LOAD;

    return head->nbuckets < most ? head->nbuckets : (uint32_t)most;
}

unsigned int image_hashpower(struct slice image)
{
    struct image_head head;
    unsigned int power;

    if (!read_head(image, &head))
        return 0;
    /* Buckets of MC_SLOTS slots. */
    power = 31u - (unsigned int)__builtin_clz(start_buckets(&head)) + 3;
    return power > TABLE_MAX_POWER ? TABLE_MAX_POWER : power;
}

/* --- saving -------------------------------------------------------------- */

static char *page_start(const struct store *store, uint32_t page)
{
    return store->heap.base + (uint64_t)page * MC_PAGE_BYTES;
}

static void fill_head(struct store *store, rel_time now, struct image_head *head)
{
    const struct slabs *slabs = &store->slabs;

    *head = (struct image_head){
        .version = IMAGE_VERSION,
        .item_header = MC_ITEM_HEADER,
        .page_bytes = MC_PAGE_BYTES,
        .tail_len = (uint32_t)store->config.format.tail.len,
        .ref_shift = store->heap.ref_shift,
        .nclasses = slabs->nclasses,
        .npages = slabs->high_water,
        .nbuckets = table_nbuckets(&store->table),
        /* These as they were at the start: the next server is given the same options. */
        .memory_limit = store->config.memory_limit,
        .lru_segmented = store->segmented_at_start,
        .last_cas = store->last_cas,
        .base_unix = store->config.clock.base_unix,
        .flush_at = store->control->flush_at,
        .hidden_until = store->flush.hidden_until,
        .now = now,
        .epoch = (uint8_t)store->control->epoch,
        .oldest = (uint8_t)store->flush.oldest,
        .cas = store->config.cas,
    };
    memcpy(head->magic, image_magic, sizeof(image_magic));
    for (unsigned int i = 1; i <= slabs->nclasses; i++) {
        head->class_size[i] = slabs->classes[i].size;
        for (int s = 0; s < LRU_SEGMENTS; s++) {
            const struct lru_list *list = &store->lrus[i].lists[s];

            head->lists[i][s] = (struct image_list){list->head, list->tail};
        }
    }
}

/*
 * Where a page has given out no chunk yet it has the bytes of the class that it was of before,
 * among them clients' values: none of that may look like an item to the next server.
 */
static void clear_unused(struct store *store)
{
    for (uint32_t i = FIRST_PAGE; i < FIRST_PAGE + store->slabs.high_water; i++) {
        const struct slab_page *page = &store->slabs.pages[i];
        const struct slab_class *class = &store->slabs.classes[page->clsid];

        for (uint32_t j = page->ncarved; page->clsid && j < class->per_page; j++) {
            struct mc_item *item = (void *)(page_start(store, i) + (size_t)j * class->size);

            /* It is read first: memory that was never used stays so. */
            if (item->flags)
                item->flags = 0;
        }
    }
}

int store_save(struct store *store, rel_time now, void **image, size_t *nimage)
{
    struct image_head head;
    uint64_t sum;
    size_t size;
    char *at;

    assert(!store->locals);
    flush_settle(store, now);
    clear_unused(store);
    fill_head(store, now, &head);
    size = image_size(head.npages);
    at = malloc(size);
    if (!at)
        return -ENOMEM;
    memcpy(at, &head, sizeof(head));
    for (uint32_t i = 0; i < head.npages; i++)
        at[sizeof(head) + i] = (char)store->slabs.pages[FIRST_PAGE + i].clsid;
    sum = checksum(at, size - sizeof(sum));
    memcpy(at + size - sizeof(sum), &sum, sizeof(sum));
    *image = at;
    *nimage = size;
    return 0;
}

/* --- whether an image fits --------------------------------------------------- */

static const char *classes_mismatch(const struct slabs *slabs, const struct image_head *head,
                                    const char *classes)
{
    if (head->nclasses != slabs->nclasses)
        return "the slab classes have changed";
    for (unsigned int i = 1; i <= slabs->nclasses; i++)
        if (head->class_size[i] != slabs->classes[i].size)
            return "the slab classes have changed";
    for (uint32_t i = 0; i < head->npages; i++)
        if ((uint8_t)classes[i] > slabs->nclasses)
            return "a page has no class";
    return NULL;
}

const char *image_mismatch(const struct store *store, struct slice image)
{
    struct image_head head;

    if (!read_head(image, &head))
        return "the file is damaged";
    if (head.version != IMAGE_VERSION || head.item_header != MC_ITEM_HEADER ||
        head.page_bytes != MC_PAGE_BYTES || head.tail_len != store->config.format.tail.len)
        return "another version has written it";
    if (head.memory_limit != store->config.memory_limit || head.ref_shift != store->heap.ref_shift)
        return "the memory limit has changed";
    if (head.cas != store->config.cas)
        return "the use of CAS has changed";
    if (head.lru_segmented != store->config.tuning.lru_segmented)
        return "the use of LRU segments has changed";
    if (head.npages > (store->heap.max_extents - 1) * MC_EXTENT_PAGES)
        return "it has too many pages";
    return classes_mismatch(&store->slabs, &head, image.ptr + sizeof(head));
}

/* --- one item ------------------------------------------------------------ */

struct worker {
    struct store *store;
    const struct image_head *head;
    void (*pass)(struct worker *worker, uint32_t page);
    uint32_t *next_page; /* shared; atomic */
    bool left_parts;     /* an item was left out, and perhaps not its parts */
    struct {
        uint64_t nitems, nbytes;
        bool broken;
    } lists[MC_CLASSES][LRU_SEGMENTS];
};

/* The chunk of a reference found in the extents, with its class; NULL: there is none. */
static void *chunk_at(const struct store *store, uint32_t ref, unsigned int *clsid)
{
    const struct slabs *slabs = &store->slabs;
    uint64_t offset = (uint64_t)ref << store->heap.ref_shift;
    uint64_t page = offset / MC_PAGE_BYTES;
    uint32_t within = offset % MC_PAGE_BYTES;
    const struct slab_class *class;

    if (page < FIRST_PAGE || page >= FIRST_PAGE + (uint64_t)slabs->high_water)
        return NULL;
    *clsid = slabs->pages[page].clsid;
    class = &slabs->classes[*clsid];
    if (*clsid == 0 || within % class->size != 0 || within / class->size >= class->per_page)
        return NULL;
    return heap_at(&store->heap, ref);
}

static unsigned int flags_of(const void *chunk)
{
    return __atomic_load_n(&((const struct mc_item *)chunk)->flags, __ATOMIC_RELAXED);
}

/* Whether the part of that number is there and the item's own; those of lower numbers are. */
static bool owns_part(const struct store *store, const struct mc_item *item, uint32_t number)
{
    unsigned int clsid;
    const struct item_chunk *chunk = chunk_at(store, item_part_ref(store, item, number), &clsid);

    return chunk && flags_of(chunk) == MC_ITEM_CHUNK &&
           chunk->owner == heap_ref(&store->heap, item) && chunk->index == number &&
           chunk->nbytes == item_part_bytes(store, item, number) && chunk->clsid == clsid &&
           item_chunk_head(store) + chunk->nbytes <= store->slabs.classes[clsid].size;
}

static bool parts_are_sound(const struct store *store, const struct mc_item *item, uint32_t size)
{
    uint32_t nparts = item_nparts(store, item);

    if (lru_class_of(item) != store->slabs.largest || nparts == 0 ||
        item_own_bytes(store, item) > size)
        return false;
    for (uint32_t i = 0; i < nparts; i++)
        if (!owns_part(store, item, i))
            return false;
    return true;
}

/*
 * Whether what stands around the value is what it was stored with: replies have it as it is, and
 * clients find the end of a value by it.
 */
static bool frame_is_sound(const struct store *store, const struct mc_item *item)
{
    const struct store_format *format = &store->config.format;
    const struct slice is = item_suffix(item);
    char suffix[STORE_SUFFIX_MAX];
    size_t at = item_length(store, item);

    if (format->suffix(suffix, item_client_flags(store, item), (uint32_t)at) != is.len ||
        memcmp(suffix, is.ptr, is.len) != 0)
        return false;
    for (size_t i = 0; i < format->tail.len; i++)
        if (*item_piece(store, item, at + i).ptr != format->tail.ptr[i])
            return false;
    return true;
}

/* Whether a chunk of class `clsid` holds an item that may be linked. */
static bool is_sound(const struct store *store, const struct mc_item *item, unsigned int clsid)
{
    uint32_t size = store->slabs.classes[clsid].size;
    uint64_t least = (uint64_t)item->nkey + item->nsuffix + store->config.format.tail.len;
    uint32_t nsum = item->flags & MC_ITEM_SUMMED ? MC_ITEM_SUM : 0;

    if (!(item->flags & MC_ITEM_LINKED) ||
        item->flags & (MC_ITEM_CHUNK | MC_ITEM_FLASH | MC_ITEM_COPY))
        return false;
    if (item->nkey == 0 || item->nkey > MC_KEY_MAX || item->nsuffix > STORE_SUFFIX_MAX ||
        item->nbytes < least || item->nbytes > INT32_MAX)
        return false;
    if (item->flags & MC_ITEM_CHUNKED)
        return nsum == 0 && parts_are_sound(store, item, size) && frame_is_sound(store, item);
    return lru_class_of(item) == clsid && MC_ITEM_HEADER + item->nbytes + nsum <= size &&
           frame_is_sound(store, item);
}

/* --- passes -------------------------------------------------------------- */

/*
 * The first: clears the flags of what is no sound item. Chunks of large items are only read: other
 * threads are checking the items that own them.
 */
static void check_page(struct worker *worker, uint32_t page)
{
    struct store *store = worker->store;
    unsigned int clsid = store->slabs.pages[page].clsid;
    const struct slab_class *class = &store->slabs.classes[clsid];

    for (uint32_t i = 0; i < class->per_page; i++) {
        struct mc_item *item = (void *)(page_start(store, page) + (size_t)i * class->size);

        if (item->flags == MC_ITEM_CHUNK)
            continue;
        if (!is_sound(store, item, clsid)) {
            __atomic_store_n(&item->flags, 0, __ATOMIC_RELAXED);
            continue;
        }
        __atomic_store_n(&item->flags, (__u16)(item->flags & KEPT_FLAGS), __ATOMIC_RELAXED);
        item->refcount = 1;
    }
}

/* Whether the item on one side of a link says the same of it. 0: this is the list's end. */
static bool link_agrees(const struct store *store, const struct mc_item *item, uint32_t ref,
                        uint32_t end, bool forward)
{
    uint32_t local = heap_ref(&store->heap, item);
    const struct mc_item *other;
    unsigned int clsid;

    if (ref == 0)
        return end == local;
    other = chunk_at(store, ref, &clsid);
    return other && flags_of(other) & MC_ITEM_LINKED && other->clsid == item->clsid &&
           (forward ? other->prev : other->next) == local;
}

static void check_links(struct worker *worker, const struct mc_item *item)
{
    unsigned int clsid = lru_class_of(item), segment = lru_segment_of(item);
    const struct image_list *list = &worker->head->lists[clsid][segment];

    worker->lists[clsid][segment].nitems++;
    worker->lists[clsid][segment].nbytes += item_bytes(item);
    if (!link_agrees(worker->store, item, item->next, list->tail, true) ||
        !link_agrees(worker->store, item, item->prev, list->head, false))
        worker->lists[clsid][segment].broken = true;
}

/* False: there is one of that key already, or no memory for it. */
static bool enter(struct store *store, struct mc_item *item, uint64_t hash)
{
    struct lock *stripe = table_stripe(&store->table, hash);
    struct table_spot spot;
    bool entered;

    lock_take(stripe, LOCK_STRIPE);
    entered = !table_find(&store->table, hash, item_key(item), &spot) &&
              table_insert(&store->table, hash, heap_ref(&store->heap, item));
    lock_release(stripe, LOCK_STRIPE);
    if (table_crowded(&store->table))
        table_grow(&store->table);
    return entered;
}

static bool is_owned(const struct store *store, const struct item_chunk *chunk)
{
    unsigned int clsid;
    const struct mc_item *owner = chunk_at(store, chunk->owner, &clsid);

    return owner &&
           (flags_of(owner) & (MC_ITEM_LINKED | MC_ITEM_CHUNKED)) ==
               (MC_ITEM_LINKED | MC_ITEM_CHUNKED) &&
           chunk->index < item_nparts(store, owner) &&
           item_part_ref(store, owner, chunk->index) == heap_ref(&store->heap, chunk);
}

static void enter_chunk(struct worker *worker, struct mc_item *item, uint64_t hash)
{
    struct store *store = worker->store;

    if (item->flags & MC_ITEM_LINKED && enter(store, item, hash)) {
        check_links(worker, item);
    } else if (item->flags & MC_ITEM_LINKED) {
        worker->left_parts |= item->flags & MC_ITEM_CHUNKED;
        worker->lists[lru_class_of(item)][lru_segment_of(item)].broken = true;
        slab_free(&store->slabs, heap_ref(&store->heap, item));
    } else if (item->flags != MC_ITEM_CHUNK || !is_owned(store, (const void *)item)) {
        slab_free(&store->slabs, heap_ref(&store->heap, item));
    }
}

/* The second: items into the table, the rest to the free lists. */
static void enter_page(struct worker *worker, uint32_t page)
{
    struct store *store = worker->store;
    const struct slab_class *class = &store->slabs.classes[store->slabs.pages[page].clsid];
    char *start = page_start(store, page);
    uint64_t hashes[AHEAD];

    for (uint32_t i = 0; i < class->per_page; i += AHEAD) {
        uint32_t n = class->per_page - i < AHEAD ? class->per_page - i : AHEAD;

        for (uint32_t j = 0; j < n; j++) {
            struct mc_item *item = (void *)(start + (size_t)(i + j) * class->size);

            hashes[j] = 0;
            if (item->flags & MC_ITEM_LINKED) {
                hashes[j] = hash_key(store->control, item_key(item));
                table_prefetch(&store->table, hashes[j]);
            }
        }
        for (uint32_t j = 0; j < n; j++)
            enter_chunk(worker, (void *)(start + (size_t)(i + j) * class->size), hashes[j]);
    }
}

/* The third, if need be: frees the parts of items that were left out after a look at the parts. */
static void free_parts_left(struct worker *worker, uint32_t page)
{
    struct store *store = worker->store;
    const struct slab_class *class = &store->slabs.classes[store->slabs.pages[page].clsid];

    for (uint32_t i = 0; i < class->per_page; i++) {
        struct mc_item *item = (void *)(page_start(store, page) + (size_t)i * class->size);

        if (item->flags == MC_ITEM_CHUNK && !is_owned(store, (const void *)item))
            slab_free(&store->slabs, heap_ref(&store->heap, item));
    }
}

static void *run_pass(void *context)
{
    struct worker *worker = context;
    uint32_t end = FIRST_PAGE + worker->head->npages;

    for (;;) {
        uint32_t page = __atomic_fetch_add(worker->next_page, WORKER_STEP, __ATOMIC_RELAXED);

        if (page >= end)
            return NULL;
        for (uint32_t i = page; i < end && i < page + WORKER_STEP; i++)
            if (worker->store->slabs.pages[i].clsid)
                worker->pass(worker, i);
    }
}

/* Runs one pass over all pages; the caller's thread is one of the workers. */
static void run_workers(struct worker *workers, unsigned int nworkers,
                        void (*pass)(struct worker *, uint32_t))
{
    pthread_t threads[WORKERS_MAX];
    unsigned int nthreads = 0;
    uint32_t next = FIRST_PAGE;

    for (unsigned int i = 0; i < nworkers; i++) {
        workers[i].pass = pass;
        workers[i].next_page = &next;
    }
    while (nthreads + 1 < nworkers &&
           thread_start(&threads[nthreads], run_pass, &workers[nthreads + 1]) == 0)
        nthreads++;
    run_pass(&workers[0]);
    for (unsigned int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
}

/* --- lists --------------------------------------------------------------- */

/* Links the items of a list anew, in the order of their addresses. */
static void relink_list(struct store *store, unsigned int clsid, enum lru_segment segment)
{
    struct lru *lru = &store->lrus[clsid];
    uint8_t wanted = (uint8_t)(clsid + segment * MC_CLASSES);

    lru->lists[segment] = (struct lru_list){0};
    for (uint32_t page = FIRST_PAGE; page < FIRST_PAGE + store->slabs.high_water; page++) {
        const struct slab_class *class = &store->slabs.classes[store->slabs.pages[page].clsid];

        for (uint32_t i = 0; i < class->per_page && store->slabs.pages[page].clsid; i++) {
            struct mc_item *item = (void *)(page_start(store, page) + (size_t)i * class->size);

            if (item->flags & MC_ITEM_LINKED && item->clsid == wanted)
                lru_link(lru, &store->heap, item, segment);
        }
    }
}

static void take_list(struct store *store, const struct image_head *head,
                      const struct worker *workers, unsigned int nworkers, unsigned int clsid,
                      enum lru_segment segment)
{
    struct lru_list *list = &store->lrus[clsid].lists[segment];
    const struct image_list *ends = &head->lists[clsid][segment];
    bool broken = false;

    for (unsigned int i = 0; i < nworkers; i++) {
        list->nitems += workers[i].lists[clsid][segment].nitems;
        list->nbytes += workers[i].lists[clsid][segment].nbytes;
        broken |= workers[i].lists[clsid][segment].broken;
    }
    list->head = ends->head;
    list->tail = ends->tail;
    if (broken || (list->nitems == 0 && (list->head || list->tail)))
        relink_list(store, clsid, segment);
}

/* Items are counted by size when they are linked: links all restored items again. */
static void take_sizes(struct store *store)
{
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++)
        for (unsigned int segment = 0; segment < LRU_SEGMENTS; segment++)
            relink_list(store, clsid, segment);
}

/* --- loading ------------------------------------------------------------- */

static unsigned int count_workers(const struct image_head *head)
{
    long ncpus = sysconf(_SC_NPROCESSORS_ONLN);
    long nworkers = ncpus < 1 ? 1 : ncpus > WORKERS_MAX ? WORKERS_MAX : ncpus;

    return head->npages < (uint32_t)nworkers * WORKER_STEP ? 1 : (unsigned int)nworkers;
}

static int load_items(struct store *store, const struct image_head *head)
{
    unsigned int nworkers = count_workers(head);
    struct worker *workers = calloc(nworkers, sizeof(*workers));
    bool left_parts = false;

    if (!workers)
        return -ENOMEM;
    for (unsigned int i = 0; i < nworkers; i++) {
        workers[i].store = store;
        workers[i].head = head;
    }
    run_workers(workers, nworkers, check_page);
    run_workers(workers, nworkers, enter_page);
    for (unsigned int i = 0; i < nworkers; i++)
        left_parts |= workers[i].left_parts;
    if (left_parts)
        run_workers(workers, nworkers, free_parts_left);
    for (unsigned int clsid = 1; clsid <= store->slabs.nclasses; clsid++)
        for (unsigned int segment = 0; segment < LRU_SEGMENTS; segment++)
            take_list(store, head, workers, nworkers, clsid, segment);
    free(workers);
    if (sizes_on(&store->sizes))
        take_sizes(store);
    return 0;
}

/*
 * The file has the low bytes of the epochs; `oldest` is the nearest epoch before the present one.
 */
static void take_epoch(struct store *store, const struct image_head *head)
{
    uint32_t epoch = MC_EPOCHS + head->epoch;
    uint32_t oldest = epoch - (uint8_t)(head->epoch - head->oldest);

    store->control->epoch = epoch;
    store->flush.oldest = oldest;
    for (uint32_t i = 0; i < table_nbuckets(&store->table); i++) {
        struct lock *stripe;

        table_set_swept(table_bucket(&store->table, i, &stripe), oldest);
    }
}

int image_load(struct store *store, struct slice image)
{
    struct image_head head;
    int error;

    if (!read_head(image, &head))
        return -EINVAL;
    error = slab_adopt(&store->slabs, (const uint8_t *)image.ptr + sizeof(head), head.npages);
    if (error)
        return error;
    table_presize(&store->table, start_buckets(&head));
    store->last_cas = head.last_cas;
    store->control->flush_at = head.flush_at;
    store->flush.hidden_until = head.hidden_until;
    take_epoch(store, &head);
    return load_items(store, &head);
}
