/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "store/table.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/hash.h"
#include "store/store_items.h"

#define BYTES_01 0x0101010101010101ull
#define BYTES_7F 0x7f7f7f7f7f7f7f7full

enum {
    MAX_STRIPES = 8192,
    COUNT_BATCH = 32, /* items pending in a counter before they go to the total */
    SPLITS = 2,       /* buckets that one insertion splits at most */
    WALK_AHEAD = 8,   /* buckets of a walk, while one is visited */
    /* Extents that the prefault thread maps before they are needed. */
    MAIN_AHEAD = 2,
    OVERFLOW_AHEAD = 1,
};

/* --- the buckets of a key ------------------------------------------------- */

uint32_t table_nbuckets(const struct table *table)
{
    return __atomic_load_n(&table->control->nbuckets, __ATOMIC_RELAXED);
}

static struct mc_bucket *head_of(const struct table *table, uint64_t hash)
{
    uint32_t nbuckets = table_nbuckets(table);
    uint32_t index = mc_bucket_of(hash, nbuckets);
    struct mc_bucket *head = &table->buckets[index];

    /* nbuckets may be older than the stripe that we hold, but the mask is current. */
    while (((uint32_t)hash & head->mask) != index) {
        index = (uint32_t)hash & head->mask;
        head = &table->buckets[index];
    }
    return head;
}

/* The high bit of each byte of `word` that is 0. */
static uint64_t zero_bytes(uint64_t word)
{
    return ~(((word & BYTES_7F) + BYTES_7F) | word | BYTES_7F);
}

static unsigned int first_slot(uint64_t high_bits)
{
    return (unsigned int)__builtin_ctzll(high_bits) / 8;
}

/* The slots of a bucket whose tag is `tag`, as high bits. */
static uint64_t slots_tagged(const struct mc_bucket *bucket, uint8_t tag)
{
    return zero_bytes(bucket->tags ^ tag * BYTES_01);
}

static struct mc_bucket *next_bucket(const struct table *table, const struct mc_bucket *bucket)
{
    return bucket->next ? &table->overflow[bucket->next] : NULL;
}

/* --- changes, which a kernel program may be watching --------------------- */

void table_begin(struct mc_bucket *head)
{
    __atomic_store_n(&head->seq, head->seq + 1, __ATOMIC_RELAXED);
    /* Odd comes before the change; pairs with the reader's fence before its second load. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

void table_end(struct mc_bucket *head)
{
    /* Even comes after the change; pairs with the reader's fence after its first load. */
    __atomic_store_n(&head->seq, head->seq + 1, __ATOMIC_RELEASE);
}

static void set_mark(uint8_t *marks, unsigned int slot, bool set)
{
    uint8_t bit = (uint8_t)(1u << slot);

    if (set)
        __atomic_fetch_or(marks, bit, __ATOMIC_RELAXED);
    else if (__atomic_load_n(marks, __ATOMIC_RELAXED) & bit)
        __atomic_fetch_and(marks, (uint8_t)~bit, __ATOMIC_RELAXED);
}

/* By the kernel, as its marks tell: 0, 1, or 2 for more. */
static void set_reads(struct mc_bucket *bucket, unsigned int slot, unsigned int reads)
{
    set_mark(&bucket->accessed, slot, reads > 0);
    set_mark(&bucket->again, slot, reads > 1);
}

static unsigned int slot_reads(const struct mc_bucket *bucket, unsigned int slot)
{
    return (__atomic_load_n(&bucket->accessed, __ATOMIC_RELAXED) >> slot & 1) +
           (__atomic_load_n(&bucket->again, __ATOMIC_RELAXED) >> slot & 1);
}

static uint8_t slot_tag(const struct mc_bucket *bucket, unsigned int slot)
{
    return (uint8_t)(bucket->tags >> (8 * slot));
}

static void set_slot(struct mc_bucket *bucket, unsigned int slot, uint8_t tag, uint32_t ref)
{
    uint64_t tags = (bucket->tags & ~(0xffull << (8 * slot))) | (uint64_t)tag << (8 * slot);

    __atomic_store_n(&bucket->refs[slot], ref, __ATOMIC_RELAXED);
    __atomic_store_n(&bucket->tags, tags, __ATOMIC_RELAXED);
}

static void set_next(struct mc_bucket *bucket, uint32_t number)
{
    __atomic_store_n(&bucket->next, number, __ATOMIC_RELAXED);
}

/* --- memory -------------------------------------------------------------- */

/* Maps extents of buckets until there are `wanted`, and no more than that. 0 or -errno. */
static int map_buckets(struct table *table, uint32_t *nmapped, uint32_t first,
                       struct mc_bucket *buckets, uint32_t wanted)
{
    int error = 0;

    lock_take(&table->mapping, LOCK_MAPPING);
    for (uint32_t n = *nmapped; n < wanted && !error; n++) {
        error = n == table->max_extents
                    ? -ENOSPC
                    : table->provider->table(table->provider, first + n,
                                             &buckets[(size_t)n * MC_TABLE_BUCKETS]);
        /* Release: a thread that sees the number may use the buckets. */
        if (!error)
            __atomic_store_n(nmapped, n + 1, __ATOMIC_RELEASE);
    }
    lock_release(&table->mapping, LOCK_MAPPING);
    return error;
}

static int map_main(struct table *table, uint32_t wanted)
{
    return map_buckets(table, &table->nmain_extents, 0, table->buckets, wanted);
}

static int map_overflow(struct table *table, uint32_t wanted)
{
    return map_buckets(table, &table->noverflow_extents, MC_OVERFLOW_TABLE, table->overflow,
                       wanted);
}

static uint32_t nmapped(const uint32_t *nextents)
{
    return __atomic_load_n(nextents, __ATOMIC_ACQUIRE);
}

static void wake_prefault(const struct table *table)
{
    if (table->prefault)
        background_wake(table->prefault);
}

/* Then the provider is not called: each set would make a system call in vain. */
static bool is_exhausted(const struct table *table)
{
    return __atomic_load_n(&table->exhausted, __ATOMIC_RELAXED);
}

static void set_exhausted(struct table *table, bool exhausted)
{
    __atomic_store_n(&table->exhausted, exhausted, __ATOMIC_RELAXED);
}

/* An overflow bucket that was given back or never used; 0: none is mapped. */
static uint32_t overflow_pop(struct table *table)
{
    uint32_t number, mapped = nmapped(&table->noverflow_extents) * (uint32_t)MC_TABLE_BUCKETS;
    bool low = false;

    lock_take(&table->memory, LOCK_MEMORY);
    number = table->overflow_free_list;
    if (number) {
        table->overflow_free_list = table->overflow[number].next;
    } else if (table->overflow_unused < mapped) {
        number = table->overflow_unused++;
        low = mapped - table->overflow_unused == MC_TABLE_BUCKETS / 2;
    }
    table->noverflow_used += number != 0;
    lock_release(&table->memory, LOCK_MEMORY);
    if (low)
        wake_prefault(table);
    return number;
}

/* An empty overflow bucket, or 0. */
static uint32_t overflow_alloc(struct table *table)
{
    uint32_t number;

    for (;;) {
        uint32_t wanted = nmapped(&table->noverflow_extents) + 1;

        number = overflow_pop(table);
        if (number || is_exhausted(table))
            break;
        if (map_overflow(table, wanted) != 0) {
            set_exhausted(table, true);
            break;
        }
    }
    if (number) {
        struct mc_bucket *bucket = &table->overflow[number];

        __atomic_store_n(&bucket->tags, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&bucket->accessed, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&bucket->again, 0, __ATOMIC_RELAXED);
        set_next(bucket, 0);
    }
    return number;
}

/* Gives back the overflow buckets from `number` on. */
static void overflow_free(struct table *table, uint32_t number)
{
    if (!number)
        return;
    lock_take(&table->memory, LOCK_MEMORY);
    while (number) {
        uint32_t next = table->overflow[number].next;

        set_next(&table->overflow[number], table->overflow_free_list);
        table->overflow_free_list = number;
        table->noverflow_used--;
        number = next;
    }
    lock_release(&table->memory, LOCK_MEMORY);
}

static uint32_t extents_of(uint32_t nbuckets)
{
    return (nbuckets + MC_TABLE_BUCKETS - 1) / MC_TABLE_BUCKETS;
}

static int map_start(struct table *table, uint32_t nbuckets)
{
    int error = map_main(table, extents_of(nbuckets));

    return error ? error : map_overflow(table, 1);
}

/* A quarter of the items' address space holds the buckets of the smallest ones twice. */
static uint32_t extents_max(const struct heap *heap, uint32_t nbuckets)
{
    uint64_t most = (uint64_t)heap->max_extents * (MC_EXTENT_BYTES / MC_TABLE_BYTES) / 4;

    if (most < extents_of(nbuckets))
        most = extents_of(nbuckets);
    return most < MC_OVERFLOW_TABLE ? (uint32_t)most : MC_OVERFLOW_TABLE;
}

/* Each bucket is written at the start: an error is better than being killed for lack of memory. */
static bool fits_memory(uint64_t bytes)
{
    long npages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return npages <= 0 || page <= 0 || bytes < (uint64_t)npages * (uint64_t)page / 2;
}

int table_init(struct table *table, struct heap *heap, struct provider *provider,
               unsigned int power, bool expand)
{
    uint32_t nbuckets = 1u << (power - 3);
    uint32_t nstripes = nbuckets < MAX_STRIPES ? nbuckets : MAX_STRIPES;
    size_t stripes_size;
    int error;

    memset(table, 0, sizeof(*table));
    if (!fits_memory((uint64_t)nbuckets * sizeof(struct mc_bucket)))
        return -ENOMEM;
    table->max_extents = extents_max(heap, nbuckets);
    table->nreservation = (size_t)table->max_extents * 2 * MC_TABLE_BYTES;
    table->reservation = mmap(NULL, table->nreservation, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table->reservation == MAP_FAILED) {
        table->reservation = NULL;
        return -errno;
    }
    /* aligned_alloc wants a multiple of the alignment. */
    stripes_size = (nstripes * sizeof(*table->stripes) + 63) & ~(size_t)63;
    table->stripes = aligned_alloc(64, stripes_size);
    if (!table->stripes)
        return -ENOMEM;
    memset(table->stripes, 0, stripes_size);
    table->stripe_mask = nstripes - 1;
    table->buckets = table->reservation;
    table->overflow = table->buckets + (size_t)table->max_extents * MC_TABLE_BUCKETS;
    table->overflow_unused = 1;
    table->heap = heap;
    table->provider = provider;
    table->control = provider->control(provider);
    table->expand = expand;
    error = map_start(table, nbuckets);
    if (error)
        return error;
    for (uint32_t i = 0; i < nbuckets; i++)
        table->buckets[i].mask = nbuckets - 1;
    __atomic_store_n(&table->control->nbuckets, nbuckets, __ATOMIC_RELEASE);
    return 0;
}

void table_fini(struct table *table)
{
    free(table->stripes);
    if (table->reservation)
        munmap(table->reservation, table->nreservation);
}

/* --- verbs --------------------------------------------------------------- */

struct mc_item *table_find(const struct table *table, uint64_t hash, struct slice key,
                           struct table_spot *spot)
{
    struct mc_bucket *head = head_of(table, hash);
    uint8_t tag = mc_hash_tag(hash);

    for (struct mc_bucket *bucket = head; bucket; bucket = next_bucket(table, bucket)) {
        for (uint64_t hits = slots_tagged(bucket, tag); hits; hits &= hits - 1) {
            unsigned int slot = first_slot(hits);
            struct mc_item *item = heap_at(table->heap, bucket->refs[slot]);

            if (item->nkey == key.len && memcmp(item->wire, key.ptr, key.len) == 0) {
                *spot = (struct table_spot){head, bucket, slot};
                return item;
            }
        }
    }
    return NULL;
}

bool table_find_ref(const struct table *table, uint64_t hash, uint32_t ref, struct table_spot *spot)
{
    struct mc_bucket *head = head_of(table, hash);
    uint8_t tag = mc_hash_tag(hash);

    for (struct mc_bucket *bucket = head; bucket; bucket = next_bucket(table, bucket)) {
        for (uint64_t hits = slots_tagged(bucket, tag); hits; hits &= hits - 1) {
            unsigned int slot = first_slot(hits);

            if (bucket->refs[slot] == ref) {
                *spot = (struct table_spot){head, bucket, slot};
                return true;
            }
        }
    }
    return false;
}

static void count_item(struct table *table, uint64_t hash, int change)
{
    struct table_counter *counter = &table->counters[hash & (TABLE_COUNTERS - 1)];
    int32_t pending = __atomic_add_fetch(&counter->pending, change, __ATOMIC_RELAXED);

    if (pending >= COUNT_BATCH || pending <= -COUNT_BATCH) {
        __atomic_fetch_sub(&counter->pending, pending, __ATOMIC_RELAXED);
        __atomic_fetch_add(&table->nitems, pending, __ATOMIC_RELAXED);
    }
}

bool table_insert(struct table *table, uint64_t hash, uint32_t ref)
{
    struct mc_bucket *head = head_of(table, hash);
    struct mc_bucket *last = head, *bucket;
    uint32_t number = 0;
    uint64_t empty;

    while (last->next)
        last = next_bucket(table, last);
    bucket = last;
    empty = zero_bytes(bucket->tags);
    if (!empty) {
        number = overflow_alloc(table);
        if (!number)
            return false;
        bucket = &table->overflow[number];
        empty = zero_bytes(0);
    }
    table_begin(head);
    set_slot(bucket, first_slot(empty), mc_hash_tag(hash), ref);
    set_reads(bucket, first_slot(empty), 0);
    if (number)
        set_next(last, number);
    table_end(head);
    count_item(table, hash, 1);
    return true;
}

void table_replace(const struct table_spot *spot, uint32_t ref)
{
    table_begin(spot->head);
    __atomic_store_n(&spot->bucket->refs[spot->slot], ref, __ATOMIC_RELAXED);
    set_reads(spot->bucket, spot->slot, 0);
    table_end(spot->head);
}

void table_remove(struct table *table, uint64_t hash, const struct table_spot *spot)
{
    struct mc_bucket *last = spot->head, *before = NULL;
    uint32_t number = 0;
    unsigned int from;

    while (last->next) {
        before = last;
        last = next_bucket(table, last);
    }
    table_begin(spot->head);
    if (before) {
        /* The chain stays dense: its last item fills the hole. */
        from = 7 - (unsigned int)__builtin_clzll(last->tags) / 8;
        set_slot(spot->bucket, spot->slot, slot_tag(last, from), last->refs[from]);
        set_reads(spot->bucket, spot->slot, slot_reads(last, from));
        set_slot(last, from, 0, 0);
        if (last->tags == 0) {
            number = before->next;
            set_next(before, 0);
        }
    } else {
        set_slot(spot->bucket, spot->slot, 0, 0);
    }
    table_end(spot->head);
    overflow_free(table, number);
    count_item(table, hash, -1);
}

unsigned int table_take_reads(const struct table_spot *spot)
{
    unsigned int reads = slot_reads(spot->bucket, spot->slot);

    if (reads)
        set_reads(spot->bucket, spot->slot, 0);
    return reads;
}

struct mc_bucket *table_head(const struct table *table, uint64_t hash)
{
    return head_of(table, hash);
}

struct mc_bucket *table_bucket(const struct table *table, uint32_t index, struct lock **stripe)
{
    *stripe = &table->stripes[index & table->stripe_mask];
    return &table->buckets[index];
}

void table_visit_chain(struct table *table, struct mc_bucket *head, table_visit *visit,
                       void *context)
{
    struct table_spot spot = {.head = head, .bucket = head};

    while (spot.bucket) {
        for (spot.slot = 0; spot.slot < MC_SLOTS; spot.slot++) {
            struct mc_item *item = heap_at(table->heap, spot.bucket->refs[spot.slot]);

            if (slot_tag(spot.bucket, spot.slot) == 0 ||
                !visit(context, item, hash_key(table->control, item_key(item)), &spot))
                continue;
            /* The chain's last item is here now, perhaps from a bucket that was given back. */
            spot.bucket = spot.head;
            spot.slot = (unsigned int)-1;
        }
        spot.bucket = next_bucket(table, spot.bucket);
    }
}

void table_set_swept(struct mc_bucket *head, uint32_t epoch)
{
    table_begin(head);
    __atomic_store_n(&head->swept, epoch, __ATOMIC_RELAXED);
    table_end(head);
}

/* --- walks ---------------------------------------------------------------- */

static uint32_t reverse_bits(uint32_t word)
{
    word = (word >> 1 & 0x55555555) | (word & 0x55555555) << 1;
    word = (word >> 2 & 0x33333333) | (word & 0x33333333) << 2;
    word = (word >> 4 & 0x0f0f0f0f) | (word & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(word);
}

/* The items of a bucket are anywhere in the heap: prefetches all before the first is read. */
static void prefetch_items(const struct table *table, const struct mc_bucket *bucket,
                           const struct table_walker *walker)
{
    for (unsigned int slot = 0; slot < MC_SLOTS; slot++)
        if (slot_tag(bucket, slot) && walker->wants(walker->context, bucket->refs[slot]))
            __builtin_prefetch(heap_at(table->heap, bucket->refs[slot]));
}

/* Visits the slots of a chain. Under the stripe. */
static void visit_chain(struct table *table, struct mc_bucket *head,
                        const struct table_walker *walker)
{
    struct table_spot spot = {.head = head};

    for (spot.bucket = head; spot.bucket; spot.bucket = next_bucket(table, spot.bucket)) {
        prefetch_items(table, spot.bucket, walker);
        spot.slot = 0;
        while (spot.slot < MC_SLOTS) {
            uint64_t others = spot.bucket->tags & ~(0xffull << (8 * spot.slot));
            uint32_t ref = spot.bucket->refs[spot.slot];
            bool last = spot.bucket != head && !spot.bucket->next && others == 0;

            if (!slot_tag(spot.bucket, spot.slot) || !walker->wants(walker->context, ref) ||
                !walker->visit(walker->context, heap_at(table->heap, ref), &spot))
                spot.slot++;
            else if (last)
                return; /* the bucket is given back, and may be another's by now */
            /* Otherwise the chain's last item is here now, or nothing. */
        }
    }
}

uint64_t table_walk(struct table *table, uint32_t position, const struct table_walker *walker)
{
    uint32_t hash = reverse_bits(position);
    struct lock *stripe = table_stripe(table, hash);
    struct mc_bucket *head;
    uint32_t nbuckets;
    uint64_t width;

    lock_take(stripe, LOCK_STRIPE);
    head = head_of(table, hash);
    width = (1ull << TABLE_WALK_BITS) / ((uint64_t)head->mask + 1);
    visit_chain(table, head, walker);
    lock_release(stripe, LOCK_STRIPE);
    /* The next buckets are anywhere in the table: prefetches one of them. */
    nbuckets = table_nbuckets(table);
    hash = reverse_bits((uint32_t)(position + WALK_AHEAD * width));
    __builtin_prefetch(&table->buckets[mc_bucket_of(hash, nbuckets)]);
    return width;
}

/* --- growth -------------------------------------------------------------- */

/* The next slot of a chain that is being read or written. */
struct cursor {
    struct mc_bucket *bucket;
    unsigned int slot;
};

static void cursor_step(const struct table *table, struct cursor *cursor)
{
    if (++cursor->slot == MC_SLOTS && cursor->bucket->next) {
        cursor->bucket = next_bucket(table, cursor->bucket);
        cursor->slot = 0;
    }
}

static bool cursor_at_end(const struct cursor *cursor)
{
    return cursor->slot == MC_SLOTS;
}

static uint64_t hash_at(const struct table *table, const struct cursor *cursor)
{
    const struct mc_item *item = heap_at(table->heap, cursor->bucket->refs[cursor->slot]);

    return hash_key(table->control, item_key(item));
}

/* How many items of a chain have `bit` set in their hash. */
static uint32_t count_moving(const struct table *table, struct mc_bucket *head, uint32_t bit)
{
    struct cursor at = {head, 0};
    uint32_t n = 0;

    for (; !cursor_at_end(&at); cursor_step(table, &at))
        if (slot_tag(at.bucket, at.slot))
            n += (hash_at(table, &at) & bit) != 0;
    return n;
}

/* Gives an unpublished bucket overflow buckets for n items, or leaves it without any. */
static bool make_room(struct table *table, struct mc_bucket *head, uint32_t n)
{
    struct mc_bucket *bucket = head;

    for (uint32_t room = MC_SLOTS; room < n; room += MC_SLOTS) {
        uint32_t number = overflow_alloc(table);

        if (!number) {
            overflow_free(table, head->next);
            set_next(head, 0);
            return false;
        }
        set_next(bucket, number);
        bucket = &table->overflow[number];
    }
    return true;
}

static void move_slot(const struct table *table, const struct cursor *from, struct cursor *to)
{
    if (from->bucket == to->bucket && from->slot == to->slot) {
        cursor_step(table, to);
        return;
    }
    set_slot(to->bucket, to->slot, slot_tag(from->bucket, from->slot),
             from->bucket->refs[from->slot]);
    set_reads(to->bucket, to->slot, slot_reads(from->bucket, from->slot));
    cursor_step(table, to);
}

/* Empties a chain behind the first `n` items; returns the overflow buckets it no longer needs. */
static uint32_t truncate_chain(const struct table *table, struct mc_bucket *bucket, uint32_t n)
{
    uint32_t rest;

    for (; n > MC_SLOTS; n -= MC_SLOTS)
        bucket = next_bucket(table, bucket);
    for (uint32_t slot = n; slot < MC_SLOTS; slot++)
        set_slot(bucket, slot, 0, 0);
    rest = bucket->next;
    set_next(bucket, 0);
    return rest;
}

/*
 * Moves what belongs to bucket `index` out of bucket `from`, and widens their masks. Under the
 * stripe of both. A reader that comes to `from` with the older number of buckets sees from its mask
 * that it has to go on to `index`, which is complete by then.
 */
static bool split(struct table *table, uint32_t from, uint32_t index, uint32_t mask)
{
    struct mc_bucket *old = &table->buckets[from], *new = &table->buckets[index];
    struct cursor at = {old, 0}, keep = {old, 0}, move = {new, 0};
    uint32_t bit = mask & ~(mask >> 1), nkept = 0, rest;

    if (!make_room(table, new, count_moving(table, old, bit)))
        return false;
    new->mask = mask;
    new->swept = old->swept;
    table_begin(old);
    for (; !cursor_at_end(&at); cursor_step(table, &at)) {
        bool moves;

        if (slot_tag(at.bucket, at.slot) == 0)
            continue;
        moves = (hash_at(table, &at) & bit) != 0;
        nkept += !moves;
        move_slot(table, &at, moves ? &move : &keep);
    }
    rest = truncate_chain(table, old, nkept);
    /* Release: a reader that goes on to the new bucket finds there what was moved. */
    __atomic_store_n(&old->mask, mask, __ATOMIC_RELEASE);
    table_end(old);
    overflow_free(table, rest);
    return true;
}

/* Whether bucket `index` is mapped, or can be now. With a prefault thread it may be later. */
static bool bucket_is_there(struct table *table, uint32_t index)
{
    uint32_t wanted = index / MC_TABLE_BUCKETS + 1;

    if (index % MC_TABLE_BUCKETS == 0 && !is_exhausted(table))
        wake_prefault(table);
    if (wanted <= nmapped(&table->nmain_extents))
        return true;
    if (!table->prefault && map_main(table, wanted) != 0)
        __atomic_store_n(&table->growth_failed, true, __ATOMIC_RELAXED);
    return wanted <= nmapped(&table->nmain_extents);
}

/* Under table->growth. */
static bool split_next(struct table *table)
{
    uint32_t index = table_nbuckets(table);
    uint32_t mask = mc_table_mask(index + 1);
    uint32_t from = index & (mask >> 1);
    struct lock *stripe = &table->stripes[from & table->stripe_mask];
    bool done;

    if (!bucket_is_there(table, index))
        return false;
    lock_take(stripe, LOCK_STRIPE);
    done = split(table, from, index, mask);
    /* Release: a thread that sees the new number finds the bucket behind it prepared. */
    if (done)
        __atomic_store_n(&table->control->nbuckets, index + 1, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&table->growth_failed, true, __ATOMIC_RELAXED);
    lock_release(stripe, LOCK_STRIPE);
    return done;
}

bool table_crowded(const struct table *table)
{
    uint32_t nbuckets = table_nbuckets(table);

    return table->expand && nbuckets < table->max_extents * (uint32_t)MC_TABLE_BUCKETS &&
           2 * __atomic_load_n(&table->nitems, __ATOMIC_RELAXED) > (int64_t)TABLE_LOAD * nbuckets &&
           !__atomic_load_n(&table->growth_failed, __ATOMIC_RELAXED);
}

void table_grow(struct table *table)
{
    if (!lock_try(&table->growth, LOCK_GROWTH))
        return;
    for (int i = 0; i < SPLITS && table_crowded(table); i++)
        if (!split_next(table))
            break;
    lock_release(&table->growth, LOCK_GROWTH);
}

void table_presize(struct table *table, uint32_t nbuckets)
{
    lock_take(&table->growth, LOCK_GROWTH);
    while (table_nbuckets(table) < nbuckets && split_next(table))
        continue;
    lock_release(&table->growth, LOCK_GROWTH);
}

void table_prefetch(const struct table *table, uint64_t hash)
{
    uint32_t nbuckets = table_nbuckets(table);

    __builtin_prefetch(&table->buckets[mc_bucket_of(hash, nbuckets)], 1);
}

int table_prefault(struct table *table)
{
    uint32_t noverflow_extents, nmain_extents = extents_of(table_nbuckets(table)) + MAIN_AHEAD;
    int error = 0;

    lock_take(&table->memory, LOCK_MEMORY);
    noverflow_extents = extents_of(table->overflow_unused);
    lock_release(&table->memory, LOCK_MEMORY);
    if (table->expand)
        error = map_main(table,
                         nmain_extents < table->max_extents ? nmain_extents : table->max_extents);
    if (!error)
        error = map_overflow(table, noverflow_extents + OVERFLOW_AHEAD);
    set_exhausted(table, error != 0);
    return error;
}

void table_retry(struct table *table)
{
    __atomic_store_n(&table->growth_failed, false, __ATOMIC_RELAXED);
    set_exhausted(table, false);
}

uint64_t table_bytes(struct table *table)
{
    uint64_t nbuckets;

    lock_take(&table->memory, LOCK_MEMORY);
    nbuckets = (uint64_t)table_nbuckets(table) + table->noverflow_used;
    lock_release(&table->memory, LOCK_MEMORY);
    return nbuckets * sizeof(struct mc_bucket);
}
