/* SPDX-License-Identifier: BSD-3-Clause */
/* The table by itself: hash, chains, growth, marks, and lack of memory. */
#include <errno.h>

#include "store/hash.h"
#include "store/table.h"
#include "t/unit/store_fixture.h"

enum { NITEMS = 100000, ITEM_STRIDE = 64, HEAP_BYTES = 16 << 20 };

/* A provider whose table memory runs out after `left` extents. */
struct scarce {
    struct provider provider;
    struct provider *memory;
    int left;
};

struct bed {
    struct scarce scarce;
    struct heap heap;
    struct table table;
};

static int scarce_extent(struct provider *provider, uint32_t index, void *addr)
{
    struct scarce *scarce = (struct scarce *)provider;

    return scarce->memory->extent(scarce->memory, index, addr);
}

static int scarce_table(struct provider *provider, uint32_t index, void *addr)
{
    struct scarce *scarce = (struct scarce *)provider;

    if (scarce->left == 0)
        return -ENOMEM;
    scarce->left--;
    return scarce->memory->table(scarce->memory, index, addr);
}

static struct mc_control *scarce_control(struct provider *provider)
{
    struct scarce *scarce = (struct scarce *)provider;

    return scarce->memory->control(scarce->memory);
}

static void open_bed(struct bed *bed, unsigned int power, bool expand, int extents)
{
    struct mc_control *control;

    bed->scarce = (struct scarce){.provider = {scarce_extent, scarce_table, scarce_control, NULL},
                                  .memory = anonymous_new(false),
                                  .left = extents};
    control = bed->scarce.memory->control(bed->scarce.memory);
    for (int i = 0; i < MC_HASH_WORDS; i++)
        control->seed[i] = 0x9e3779b97f4a7c15ull * (unsigned int)(i + 1);
    if (heap_init(&bed->heap, &bed->scarce.provider, 3, 1ull << 35) ||
        heap_grow(&bed->heap, HEAP_BYTES / MC_EXTENT_BYTES) ||
        table_init(&bed->table, &bed->heap, &bed->scarce.provider, power, expand)) {
        printf("Bail out! no table\n");
        exit(1);
    }
}

static void close_bed(struct bed *bed)
{
    table_fini(&bed->table);
    heap_fini(&bed->heap);
    anonymous_free(bed->scarce.memory);
}

/* Item i has an address of its own in the heap. */
static struct mc_item *make_item(struct bed *bed, unsigned int i)
{
    struct mc_item *item = (void *)(bed->heap.base + MC_PAGE_BYTES + (size_t)i * ITEM_STRIDE);
    char name[32];

    item->nkey = (uint8_t)sprintf(name, "item-%u", i);
    memcpy((char *)item + MC_ITEM_HEADER, name, item->nkey);
    return item;
}

static uint64_t hash_of(struct bed *bed, const struct mc_item *item)
{
    return hash_key(bed->table.control, item_key(item));
}

static bool insert(struct bed *bed, unsigned int i)
{
    struct mc_item *item = make_item(bed, i);
    uint64_t hash = hash_of(bed, item);
    bool done;

    lock_take(table_stripe(&bed->table, hash), LOCK_STRIPE);
    done = table_insert(&bed->table, hash, heap_ref(&bed->heap, item));
    lock_release(table_stripe(&bed->table, hash), LOCK_STRIPE);
    if (table_crowded(&bed->table))
        table_grow(&bed->table);
    return done;
}

/* Finds item i, by key and by reference. */
static bool find(struct bed *bed, unsigned int i, struct table_spot *spot)
{
    struct mc_item *item = make_item(bed, i);
    struct table_spot other;
    uint64_t hash = hash_of(bed, item);
    struct mc_item *found;

    lock_take(table_stripe(&bed->table, hash), LOCK_STRIPE);
    found = table_find(&bed->table, hash, item_key(item), spot);
    if (found && (!table_find_ref(&bed->table, hash, heap_ref(&bed->heap, item), &other) ||
                  other.bucket != spot->bucket || other.slot != spot->slot))
        found = NULL;
    lock_release(table_stripe(&bed->table, hash), LOCK_STRIPE);
    return found == item;
}

static void remove_item(struct bed *bed, unsigned int i)
{
    struct mc_item *item = make_item(bed, i);
    uint64_t hash = hash_of(bed, item);
    struct table_spot spot;

    lock_take(table_stripe(&bed->table, hash), LOCK_STRIPE);
    if (table_find(&bed->table, hash, item_key(item), &spot))
        table_remove(&bed->table, hash, &spot);
    lock_release(table_stripe(&bed->table, hash), LOCK_STRIPE);
}

static unsigned int count_found(struct bed *bed, unsigned int from, unsigned int to)
{
    struct table_spot spot;
    unsigned int n = 0;

    for (unsigned int i = from; i < to; i++)
        n += find(bed, i, &spot);
    return n;
}

static unsigned int popcount_tags(uint64_t tags)
{
    unsigned int n = 0;

    for (; tags; tags >>= 8)
        n += (tags & 0xff) != 0;
    return n;
}

/* Whether each bucket has an even counter, the right mask, and is full where another follows. */
static bool is_sound(struct bed *bed)
{
    uint32_t nbuckets = table_nbuckets(&bed->table);
    uint32_t top = UINT32_MAX >> __builtin_clz(nbuckets - 1);

    for (uint32_t i = 0; i < nbuckets; i++) {
        const struct mc_bucket *bucket = &bed->table.buckets[i];
        /* The buckets from nbuckets - (top + 1) / 2 on to the middle wait for their split. */
        bool split = i > top / 2 || i + top / 2 + 1 < nbuckets;

        if (bucket->seq & 1 || bucket->mask != (split ? top : top / 2))
            return false;
        for (; bucket->next; bucket = &bed->table.overflow[bucket->next])
            if (popcount_tags(bucket->tags) != MC_SLOTS)
                return false;
    }
    return true;
}

static void test_growth(struct bed *bed)
{
    struct table_spot spot;
    unsigned int inserted = 0;
    uint64_t full;

    ok(!find(bed, 0, &spot), "an empty table has no item");
    for (unsigned int i = 0; i < NITEMS; i++)
        inserted += insert(bed, i);
    ok(inserted == NITEMS && count_found(bed, 0, NITEMS) == NITEMS,
       "all items are found after many splits");
    diag("%u buckets and %u overflow buckets for %d items", table_nbuckets(&bed->table),
         bed->table.noverflow_used, NITEMS);
    ok(table_nbuckets(&bed->table) > 2 * NITEMS / TABLE_LOAD - 200 &&
           table_nbuckets(&bed->table) <= 2 * NITEMS / TABLE_LOAD,
       "the number of buckets follows the load");
    ok(is_sound(bed), "masks say how far each bucket was split, and chains are dense");
    ok(bed->table.noverflow_used < table_nbuckets(&bed->table) / 5, "few buckets overflow");
    full = table_bytes(&bed->table);
    for (unsigned int i = 0; i < NITEMS; i += 2)
        remove_item(bed, i);
    ok(count_found(bed, 0, NITEMS) == NITEMS / 2, "removed items are not found, the others are");
    ok(is_sound(bed), "removal keeps chains dense");
    for (unsigned int i = 1; i < NITEMS; i += 2)
        remove_item(bed, i);
    ok(bed->table.noverflow_used == 0 && table_bytes(&bed->table) < full,
       "an empty table has freed its overflow buckets");
}

static void test_fixed(struct bed *bed)
{
    for (unsigned int i = 0; i < 40000; i++)
        insert(bed, i);
    ok(table_nbuckets(&bed->table) == 512 && count_found(bed, 0, 40000) == 40000,
       "a table that may not grow has longer chains");
}

static void test_scarce(void)
{
    struct bed bed;
    unsigned int inserted = 0;

    /* One extent of buckets and one of overflow buckets: 16,384 each. */
    open_bed(&bed, 12, true, 2);
    for (unsigned int i = 0; i < 240000; i++)
        inserted += insert(&bed, i);
    ok(table_nbuckets(&bed.table) == MC_TABLE_BUCKETS,
       "without memory for buckets the table stops growing");
    ok(inserted < 240000, "without memory for overflow buckets an insertion fails");
    ok(count_found(&bed, 0, 240000) == inserted && is_sound(&bed), "no other item is lost");
    bed.scarce.left = 100;
    table_retry(&bed.table);
    for (unsigned int i = 0; i < 240000; i++) {
        struct table_spot spot;

        if (!find(&bed, i, &spot))
            inserted += insert(&bed, i);
    }
    ok(inserted == 240000 && count_found(&bed, 0, 240000) == 240000 &&
           table_nbuckets(&bed.table) > 2 * MC_TABLE_BUCKETS,
       "with memory again the table grows");
    close_bed(&bed);
}

/* How often the kernel has read an item: each third once, and each sixth twice. */
static unsigned int reads_of(unsigned int i)
{
    return i % 3 ? 0 : i % 6 ? 1 : 2;
}

static void mark(struct bed *bed, unsigned int n)
{
    struct table_spot spot;

    for (unsigned int i = 0; i < n; i += 3) {
        if (!find(bed, i, &spot))
            continue;
        spot.bucket->accessed |= (uint8_t)(1u << spot.slot);
        if (reads_of(i) == 2)
            spot.bucket->again |= (uint8_t)(1u << spot.slot);
    }
}

static void test_marks(struct bed *bed)
{
    struct table_spot spot;
    unsigned int wrong = 0;

    for (unsigned int i = 0; i < 2500; i++)
        insert(bed, i);
    mark(bed, 2500);
    for (unsigned int i = 2500; i < 20000; i++)
        insert(bed, i);
    for (unsigned int i = 2500; i < 20000; i++)
        remove_item(bed, i);
    for (unsigned int i = 0; i < 2500; i++)
        wrong += !find(bed, i, &spot) || table_take_reads(&spot) != reads_of(i);
    ok(wrong == 0, "the kernel's marks move with their items");
    wrong = 0;
    for (unsigned int i = 0; i < 2500; i++)
        wrong += !find(bed, i, &spot) || table_take_reads(&spot);
    ok(wrong == 0, "taking a mark clears it");
    mark(bed, 1);
    find(bed, 0, &spot);
    table_replace(&spot, spot.bucket->refs[spot.slot]);
    ok(!table_take_reads(&spot), "a new item in a slot does not inherit a mark");
}

/* In chains, where the last item is moved to the slot of a removed one. */
static void test_marks_in_chains(struct bed *bed)
{
    struct table_spot spot;
    unsigned int wrong = 0;

    for (unsigned int i = 0; i < 99; i++)
        insert(bed, i);
    mark(bed, 99);
    for (unsigned int i = 1; i < 99; i += 3)
        remove_item(bed, i);
    for (unsigned int i = 100; i < 133; i++)
        insert(bed, i);
    for (unsigned int i = 100; i < 133; i++)
        wrong += !find(bed, i, &spot) || table_take_reads(&spot);
    ok(wrong == 0, "new items do not inherit the marks of removed ones");
    for (unsigned int i = 0; i < 99; i++)
        wrong += i % 3 != 1 && (!find(bed, i, &spot) || table_take_reads(&spot) != reads_of(i));
    ok(wrong == 0, "an item that is moved to another slot keeps its mark");
}

/* --- hash ------------------------------------------------------------------- */

/* Chi-square of n keys over 1024 cells by the hash's bits from `shift` on. */
static double spread(const struct mc_control *control, unsigned int shift,
                     size_t (*name)(char *, unsigned int))
{
    enum { CELLS = 1024, KEYS = 100 * CELLS };
    static unsigned int cells[CELLS];
    double sum = 0;

    memset(cells, 0, sizeof(cells));
    for (unsigned int i = 0; i < KEYS; i++) {
        char key[MC_KEY_MAX];
        size_t n = name(key, i);

        cells[hash_key(control, (struct slice){key, n}) >> shift & (CELLS - 1)]++;
    }
    for (int i = 0; i < CELLS; i++)
        sum += ((double)cells[i] - 100) * ((double)cells[i] - 100) / 100;
    return sum;
}

static size_t name_decimal(char *out, unsigned int i)
{
    return (size_t)sprintf(out, "key-%u", i);
}

static size_t name_padded(char *out, unsigned int i)
{
    return (size_t)sprintf(out, "user:%010u:profile", i);
}

static size_t name_binary(char *out, unsigned int i)
{
    memset(out, 'k', 16);
    memcpy(out + 6, &i, 4);
    return 16;
}

static size_t name_long(char *out, unsigned int i)
{
    memset(out, 'x', MC_KEY_MAX);
    memcpy(out + MC_KEY_MAX - 4, &i, 4);
    return MC_KEY_MAX;
}

static size_t name_short(char *out, unsigned int i)
{
    memcpy(out, &i, 3);
    return 3;
}

static void test_hash(struct bed *bed)
{
    static const struct {
        const char *what;
        size_t (*name)(char *, unsigned int);
    } kinds[] = {{"decimal", name_decimal},
                 {"padded", name_padded},
                 {"binary", name_binary},
                 {"long", name_long},
                 {"short", name_short}};

    for (size_t i = 0; i < COUNT(kinds); i++) {
        double low = spread(bed->table.control, 0, kinds[i].name);
        double high = spread(bed->table.control, 54, kinds[i].name);

        /* 1,023 degrees of freedom: mean 1,023, standard deviation 45. */
        ok(low < 1300 && high < 1300, "%s keys spread over buckets and tags (%.0f, %.0f)",
           kinds[i].what, low, high);
    }
}

static void test_hash_bounds(struct bed *bed)
{
    unsigned int wrong = 0;

    for (size_t n = 1; n <= MC_KEY_MAX; n++) {
        char *exact = malloc(n);
        char padded[MC_KEY_MAX + 8] = {0};

        for (size_t i = 0; i < n; i++)
            padded[i] = exact[i] = (char)(i * 7 + n);
        wrong += hash_key(bed->table.control, (struct slice){exact, n}) !=
                 hash_key(bed->table.control, (struct slice){padded, n});
        wrong += hash_key(bed->table.control, (struct slice){padded, n}) ==
                 hash_key(bed->table.control, (struct slice){padded, n - 1 ? n - 1 : 2});
        free(exact);
    }
    ok(wrong == 0, "a hash depends on the key and its length, not on the bytes behind it");
}

static void in_bed(void (*test)(struct bed *bed), unsigned int power, bool expand, int extents)
{
    struct bed bed;

    open_bed(&bed, power, expand, extents);
    test(&bed);
    close_bed(&bed);
}

int main(void)
{
    in_bed(test_growth, 12, true, 100);
    in_bed(test_fixed, 12, false, 100);
    test_scarce();
    in_bed(test_marks, 12, true, 100);
    in_bed(test_marks_in_chains, 5, false, 100);
    in_bed(test_hash, 12, true, 100);
    in_bed(test_hash_bounds, 12, true, 100);
    return done();
}
