/* SPDX-License-Identifier: BSD-3-Clause */
/* Slab classes, pages and chunks. */
#include <errno.h>

#include "store/slab.h"
#include "t/unit/store_fixture.h"

/* By number: memcached's, the small ones less 8, and behind them the first one in full. */
static const uint32_t default_sizes[] = {
    88,    112,    144,    184,    232,    296,    376,    472,    592,    744,
    936,   1176,   1472,   1856,   2320,   2904,   3632,   4544,   5680,   7104,
    8880,  11104,  13880,  17352,  21696,  27120,  33904,  42384,  52984,  66232,
    82792, 103496, 129376, 161720, 202152, 252696, 315872, 394840, 524288, 96};

enum { NDEFAULT = COUNT(default_sizes) };

struct bed {
    struct provider *memory;
    struct heap heap;
    struct slabs slabs;
};

static struct slab_config defaults(uint64_t memory_limit)
{
    return (struct slab_config){.chunk_max = 512 << 10,
                                .chunk_min = 48,
                                .growth_factor = 1.25,
                                .memory_limit = memory_limit};
}

static int open_bed(struct bed *bed, const struct slab_config *config, unsigned int ref_shift)
{
    bed->memory = anonymous_new(false);
    if (heap_init(&bed->heap, bed->memory, ref_shift, 1ull << (32 + ref_shift))) {
        printf("Bail out! no heap\n");
        exit(1);
    }
    return slab_init(&bed->slabs, &bed->heap, config);
}

static void close_bed(struct bed *bed)
{
    slab_fini(&bed->slabs);
    heap_fini(&bed->heap);
    anonymous_free(bed->memory);
}

static void test_default_classes(void)
{
    struct slab_config config = defaults(64 << 20);
    struct bed bed;
    unsigned int wrong = 0;

    open_bed(&bed, &config, 3);
    ok(bed.slabs.nclasses == NDEFAULT, "there are 40 classes by default");
    for (unsigned int i = 0; i < NDEFAULT; i++)
        wrong += bed.slabs.classes[i + 1].size != default_sizes[i];
    ok(wrong == 0, "the first 39 have memcached's sizes, or 8 bytes less");
    for (size_t size = 1; size <= 524288; size++) {
        unsigned int clsid = slab_class_of_size(&bed.slabs, size);

        wrong += clsid == 0 || default_sizes[clsid - 1] < size;
        for (unsigned int i = 0; i < NDEFAULT && clsid > 0; i++)
            wrong += default_sizes[i] >= size && default_sizes[i] < default_sizes[clsid - 1];
    }
    ok(wrong == 0 && slab_class_of_size(&bed.slabs, 524289) == 0,
       "each size has the smallest class that holds it");
    close_bed(&bed);
}

static void test_other_classes(void)
{
    static const uint32_t sizes[] = {100, 512, 4096, 0};
    struct slab_config config = defaults(64 << 20);
    struct bed bed;
    bool multiples = true;

    open_bed(&bed, &config, 6);
    for (unsigned int i = 1; i <= bed.slabs.nclasses; i++)
        multiples &= bed.slabs.classes[i].size % 64 == 0;
    ok(multiples && bed.slabs.classes[1].size == 128, "sizes are multiples of the unit");
    close_bed(&bed);
    config.slab_sizes = sizes;
    open_bed(&bed, &config, 3);
    ok(bed.slabs.nclasses == 4 && bed.slabs.classes[1].size == 104 &&
           bed.slabs.classes[3].size == 4096 && bed.slabs.classes[4].size == 524288,
       "given sizes are used, and the largest chunk is added");
    close_bed(&bed);
    config.slab_sizes = NULL;
    config.growth_factor = 1.01;
    ok(open_bed(&bed, &config, 3) == 0 && bed.slabs.nclasses == MC_CLASSES - 1,
       "a small factor ends at the last class number");
    close_bed(&bed);
    config.growth_factor = 1;
    ok(open_bed(&bed, &config, 3) == -EINVAL, "a factor of 1 is refused");
    close_bed(&bed);
    config = defaults(64 << 20);
    config.chunk_max = (1 << 20) + 8;
    ok(open_bed(&bed, &config, 3) == -EINVAL, "a chunk larger than a page is refused");
    close_bed(&bed);
}

static void test_ref_shift(void)
{
    ok(heap_ref_shift(64ull << 20) == 3 && heap_ref_shift(16ull << 30) == 3 &&
           heap_ref_shift((16ull << 30) + 1) == 4 && heap_ref_shift(128ull << 30) == 6 &&
           heap_ref_shift((128ull << 30) + 1) == 6,
       "references can name twice the memory limit in the smallest unit");
    ok(heap_ref_shift(255ull << 30) == 6 && heap_ref_shift(256ull << 30) == 0,
       "references can name at least all of the memory limit");
}

/* Takes chunks of a class until none is left; returns how many. */
static unsigned int take_all(struct bed *bed, unsigned int clsid, uint32_t *refs)
{
    unsigned int n = 0;

    while ((refs[n] = slab_alloc(&bed->slabs, clsid)) != 0)
        n++;
    return n;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Whether chunks do not overlap, and each lies within its page. */
static bool apart(struct bed *bed, uint32_t *refs, unsigned int n, uint32_t size)
{
    qsort(refs, n, sizeof(*refs), by_value);
    for (unsigned int i = 0; i < n; i++) {
        uint64_t at = (uint64_t)refs[i] << bed->heap.ref_shift;

        if (refs[i] == 0 || at / MC_PAGE_BYTES != (at + size - 1) / MC_PAGE_BYTES ||
            (i > 0 && at < ((uint64_t)refs[i - 1] << bed->heap.ref_shift) + size))
            return false;
    }
    return true;
}

/* The table takes pages from classes that have not asked for them yet. */
static void test_table_counts(void)
{
    static uint32_t refs[1 << 17];
    struct slab_config config = defaults(8 << 20);
    uint32_t nbuckets = 1000;
    struct bed bed;

    open_bed(&bed, &config, 3);
    slab_count_table(&bed.slabs, &nbuckets, 1000);
    ok(take_all(&bed, 20, refs) == 8 * (MC_PAGE_BYTES / 7104),
       "a table's first buckets leave the classes all pages");
    close_bed(&bed);
    open_bed(&bed, &config, 3);
    slab_count_table(&bed.slabs, &nbuckets, 1000);
    nbuckets += (5 << 19) / 42 + 1;
    take_all(&bed, 20, refs);
    ok(slab_npages(&bed.slabs) == 5 && slab_limit(&bed.slabs) == 8 << 20 &&
           !slab_has_room(&bed.slabs),
       "a larger table leaves them fewer, and the limit as it was set");
    nbuckets += (1 << 20) / 42 + 1;
    ok(slab_excess(&bed.slabs) == 1, "when it grows further they have a page too many");
    nbuckets = UINT32_MAX;
    ok(slab_excess(&bed.slabs) == 5, "no table takes more than all of it");
    close_bed(&bed);
}

static void test_pages(void)
{
    static uint32_t refs[1 << 16];
    struct slab_config config = defaults(3 << 20);
    struct slab_stats stats;
    struct bed bed;
    unsigned int n;
    uint32_t ref;

    open_bed(&bed, &config, 3);
    n = take_all(&bed, 1, refs);
    ok(n == 3 * (MC_PAGE_BYTES / 88), "a class gets the pages of the limit");
    ok(apart(&bed, refs, n, 88), "chunks do not overlap, nor cross a page, nor have reference 0");
    ok(slab_alloc(&bed.slabs, 31) != 0, "another class gets its first page beyond the limit");
    for (int i = 1; i < 12; i++)
        slab_alloc(&bed.slabs, 31);
    ok(slab_alloc(&bed.slabs, 31) == 0 && slab_npages(&bed.slabs) == 4,
       "another class gets no second page beyond the limit");
    ref = refs[77];
    slab_free(&bed.slabs, ref);
    slab_class_stats(&bed.slabs, 1, &stats);
    ok(stats.free_chunks == 1 && stats.used_chunks == n - 1 && stats.total_pages == 3,
       "statistics count used and free chunks");
    ok(slab_alloc(&bed.slabs, 1) == ref, "a freed chunk is used again");
    slab_set_limit(&bed.slabs, 5 << 20);
    ok(slab_alloc(&bed.slabs, 1) != 0, "with a higher limit a class gets another page");
    close_bed(&bed);
}

/* As a server leaves them whose limit was raised while it ran. */
static void test_adopted_beyond_limit(void)
{
    static const uint8_t pages[] = {1, 1, 1, 31, 1, 1, 0, 2, 1};
    struct slab_config config = defaults(3 << 20);
    struct bed bed;

    open_bed(&bed, &config, 3);
    if (slab_adopt(&bed.slabs, pages, sizeof(pages)))
        printf("Bail out! no pages\n");
    ok(slab_npages(&bed.slabs) == 8 && slab_excess(&bed.slabs) == 3,
       "of pages over the limit that a store takes over, only first ones of their classes stay");
    close_bed(&bed);
}

static void test_ahead(void)
{
    struct slab_config config = defaults(64 << 20);
    struct bed bed;

    open_bed(&bed, &config, 3);
    ok(bed.heap.nextents == 0, "no memory is mapped at first");
    slab_provide(&bed.slabs);
    ok(bed.heap.nextents == 1, "one extent is mapped ahead of use");
    /* A page has two of these chunks, and page 0 is not used. */
    for (int i = 0; i < 2 * (MC_EXTENT_PAGES - 3); i++)
        slab_alloc(&bed.slabs, 39);
    slab_provide(&bed.slabs);
    ok(bed.heap.nextents == 1, "no further extent is mapped while two pages are left");
    slab_alloc(&bed.slabs, 39);
    slab_provide(&bed.slabs);
    ok(bed.heap.nextents == 2, "the next extent is mapped before the first is full");
    slab_prealloc(&bed.slabs);
    ok(bed.heap.nextents == 64 / MC_EXTENT_PAGES + 1,
       "preallocation maps all extents: 64 pages and page 0");
    close_bed(&bed);
}

int main(void)
{
    test_default_classes();
    test_other_classes();
    test_ref_shift();
    test_table_counts();
    test_pages();
    test_adopted_beyond_limit();
    test_ahead();
    return done();
}
