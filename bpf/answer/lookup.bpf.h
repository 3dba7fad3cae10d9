/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * lookup: from a key to its item, in memory that the server is writing.
 *
 * The key and its hash are in struct scratch. A lookup either copies a live item's wire bytes
 * behind the reply, or finds that the key is not there, or returns the reason to leave the request
 * to the server. Copies count only when the bucket's sequence counter was even before and is the
 * same after.
 *
 * An item is marked as read when its reply leaves, once: until then the request may still be passed
 * to the server, or to TC, which looks the key up again and counts the read itself. A lookup notes
 * which slots lack a mark; mostly none does.
 */
#ifndef MC_LOOKUP_BPF_H
#define MC_LOOKUP_BPF_H

#include "bpf/answer/key.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"

/* Each of one value, so that a place in it is found by arithmetic and not by an index in memory. */
struct extent_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(key_size, sizeof(u32));
    __uint(value_size, MC_EXTENT_BYTES);
    __uint(max_entries, 1);
};

struct table_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(key_size, sizeof(u32));
    __uint(value_size, MC_TABLE_BYTES);
    __uint(max_entries, 1);
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(key_size, sizeof(u32));
    __uint(max_entries, MC_MAX_EXTENTS);
    __array(values, struct extent_map);
} mc_heap SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(key_size, sizeof(u32));
    __uint(max_entries, MC_MAX_TABLE_EXTENTS);
    __array(values, struct table_map);
} mc_table SEC(".maps");

/* The item fields that are compared at once: refcount to epoch. */
enum {
    ITEM_CAS = 8,
    ITEM_EXPTIME = 16,
    ITEM_TIME = 24,
    ITEM_META = 28,
    ITEM_BYTES = sizeof(struct mc_item),
};
#define META_FLAGS(meta)     ((u32)((meta) >> 16) & 0xffff)
#define META_CLSID(meta)     ((u32)((meta) >> 32) & 0xff)
#define META_NKEY(meta)      ((u32)((meta) >> 40) & 0xff)
#define META_NSUFFIX(meta)   ((u32)((meta) >> 48) & 0xff)
#define META_EPOCH(meta)     ((u32)((meta) >> 56))
#define META_MASK            ((u64)MC_ITEM_PASS << 16 | 0xffull << 40 | 0xffull << 56)
#define META_OF(nkey, epoch) ((u64)(nkey) << 40 | (u64)(epoch) << 56)

static __always_inline struct mc_bucket *bucket_at(u32 extent, u64 index)
{
    u32 zero = 0;
    void *buckets = bpf_map_lookup_elem(&mc_table, &extent);

    if (unlikely(!buckets))
        return NULL;
    buckets = bpf_map_lookup_elem(buckets, &zero);
    if (unlikely(!buckets))
        return NULL;
    bound_mask(index, MC_TABLE_BUCKETS - 1);
    return buckets + index * sizeof(struct mc_bucket);
}

static __always_inline struct mc_bucket *bucket_main(u32 index)
{
    return bucket_at(index / MC_TABLE_BUCKETS, index);
}

static __always_inline struct mc_bucket *bucket_overflow(u32 number)
{
    return bucket_at(MC_OVERFLOW_TABLE + number / MC_TABLE_BUCKETS, number);
}

/* The extent of a reference, and where in it its chunk begins, yet to be bounded. */
static __always_inline char *extent_of(u32 ref, u64 *offset)
{
    u64 at = (u64)ref << (control.ref_shift & 7);
    u32 index = at / MC_EXTENT_BYTES, zero = 0;
    void *extent = bpf_map_lookup_elem(&mc_heap, &index);

    *offset = at;
    return extent ? bpf_map_lookup_elem(extent, &zero) : NULL;
}

/* The first slots of a bucket that may hold the tag, as bytes_zero shows them. */
static __always_inline u64 tags_match(u64 tags, u64 hash)
{
    return bytes_zero(tags ^ mc_hash_tag(hash) * MASK_BYTES);
}

static __always_inline u64 bucket_matches(const struct mc_bucket *bucket, u64 hash)
{
    return tags_match(READ_ONCE(bucket->tags), hash);
}

static __always_inline u32 bucket_ref(const struct mc_bucket *bucket, u64 slot)
{
    bound_mask(slot, MC_SLOTS - 1);
    return READ_ONCE(*(const u32 *)((const char *)bucket->refs + slot * 4));
}

/*
 * Copies n bytes from `offset` of the extent to `at` of the reply, 8 <= n <= TEXT_MAX; up to 64
 * bytes behind them may change.
 */
static __always_inline enum verdict copy_bytes(struct scratch *scratch, u64 at, const char *extent,
                                               u64 offset, u64 n)
{
    u64 blocks = n / 64, words = n % 64 / 8, from = offset, to = at, i;

    for (i = 0; i < TEXT_MAX / 64 + 1; i++) {
        if (i >= blocks)
            break;
        barrier_var(from);
        if (from > MC_EXTENT_BYTES - 64)
            return FOUND_RETRY;
        bound_mask(to, 2047);
        copy64(scratch->reply + to, extent + from);
        from += 64;
        to += 64;
    }
    barrier_var(from);
    if (likely(from <= MC_EXTENT_BYTES - 64)) {
        bound_mask(to, 2047);
        copy64(scratch->reply + to, extent + from);
        return FOUND_HIT;
    }
    /* The extent ends behind the item. */
    for (i = 0; i < 8; i++) {
        if (i >= words)
            break;
        barrier_var(from);
        if (from > MC_EXTENT_BYTES - 8)
            return FOUND_RETRY;
        bound_mask(to, 2047);
        STORE64(scratch->reply + to, LOAD64(extent + from));
        from += 8;
        to += 8;
    }
    /* The last word, over bytes that may have been copied before. */
    from = offset + n - 8;
    to = at + n - 8;
    barrier_var(from);
    if (from > MC_EXTENT_BYTES - 8)
        return FOUND_RETRY;
    bound_mask(to, 2047);
    STORE64(scratch->reply + to, LOAD64(extent + from));
    return FOUND_HIT;
}

/* An item in its extent. */
struct item_place {
    const char *extent;
    u64 offset;
};

/* Where the item at `ref` is. 0: nowhere; a writer was there. */
static __always_inline int item_at(u32 ref, struct item_place *place)
{
    u64 begin, offset;
    const char *extent = extent_of(ref, &begin);

    begin %= MC_EXTENT_BYTES;
    offset = begin;
    clamp_or_zero(offset, MC_EXTENT_BYTES - ITEM_BYTES);
    place->extent = extent;
    place->offset = offset;
    return extent && is_same(offset, begin);
}

/*
 * Whether the item at `ref` is the key's: FOUND_HIT, FOUND_OTHER, FOUND_RETRY; a reason if it lacks
 * a flag that the request needs, before its slot is marked as read.
 */
static __always_inline enum verdict item_match(const struct scratch *scratch, u32 ref,
                                               struct item_place *place)
{
    u64 meta;

    if (!item_at(ref, place))
        return FOUND_RETRY;
    meta = LOAD64(place->extent + place->offset + ITEM_META);
    if (META_NKEY(meta) != scratch->nkey ||
        !extent_has_key(scratch, place->extent, place->offset + MC_ITEM_HEADER))
        return FOUND_OTHER;
    return unlikely(scratch->needs & ~META_FLAGS(meta)) ? PASS_ITEM : FOUND_HIT;
}

/* What is made of an item that was found: FOUND_HIT, FOUND_RETRY or a reason. */
typedef enum verdict item_use(struct scratch *scratch, const struct item_place *place);

/*
 * Whether an item's second has come. To read the clock is a call, which takes as long as a lookup:
 * if the second is far away, the ticks since this CPU did so tell that it has not. The clock moves
 * with the ticks; twice as far is room for how it is steered.
 */
enum { CLOCK_TICKS = 64 };

static __always_inline int item_has_expired(struct scratch *scratch, u32 second)
{
    u64 tick = bpf_jiffies64();

    if (tick - scratch->clock_tick >= CLOCK_TICKS) {
        scratch->clock_ns = coarse_ns();
        scratch->clock_tick = tick;
    }
    if (likely(scratch->clock_ns - control.base_ns + 2 * CLOCK_TICKS * tick_ns <
               second * 1000000000ull))
        return 0;
    return second_reached(second);
}

/*
 * Whether an item may be served: FOUND_HIT or a reason. *now: if it expires, the server's clock by
 * which it has not, in nanoseconds.
 */
static __always_inline enum verdict item_is_answerable(u64 meta, u64 expiry, u64 *now)
{
    u32 exptime = expiry;

    if (META_FLAGS(meta) & MC_ITEM_PASS)
        return PASS_ITEM;
    if (META_EPOCH(meta) != (u8)READ_ONCE(control.epoch) ||
        (exptime && second_reached_at(exptime, now)))
        return PASS_EXPIRED;
    return FOUND_HIT;
}

/* The sum of an item's wire bytes, which follows them; 0: the item has none. */
static __always_inline u32 item_sum(u64 meta, const struct item_place *place, u64 nwire)
{
    u64 at = place->offset + MC_ITEM_HEADER + nwire;

    barrier_var(at);
    if (!(META_FLAGS(meta) & MC_ITEM_SUMMED) || at > MC_EXTENT_BYTES - 2)
        return 0;
    return LOAD16(place->extent + at);
}

/* Copies the item if it may be served. */
static __always_inline enum verdict item_to_reply(struct scratch *scratch,
                                                  const struct item_place *place)
{
    u64 meta = LOAD64(place->extent + place->offset + ITEM_META);
    u64 expiry = LOAD64(place->extent + place->offset + ITEM_EXPTIME), nwire;

    if (META_FLAGS(meta) & MC_ITEM_PASS)
        return PASS_ITEM;
    if (META_EPOCH(meta) != (u8)READ_ONCE(control.epoch) ||
        ((u32)expiry && item_has_expired(scratch, expiry)))
        return PASS_EXPIRED;
    nwire = expiry >> 32;
    barrier_var(nwire);
    if (nwire < 8)
        return FOUND_RETRY;
    if (nwire > TEXT_MAX || scratch->nreply + 6 + nwire + 5 > REPLY_MAX)
        return PASS_SIZE;
    scratch->nwire = nwire;
    scratch->wire_sum = item_sum(meta, place, nwire);
    scratch->clsid = META_CLSID(meta) % MC_CLASSES;
    return copy_bytes(scratch, scratch->nreply + 6, place->extent, place->offset + MC_ITEM_HEADER,
                      nwire);
}

/* item_match as a function: the verifier follows it once, and not for each slot of a chain. */
__attribute__((noinline)) int item_compare(struct scratch *scratch, u32 ref)
{
    struct item_place place;

    return scratch ? item_match(scratch, ref, &place) : FOUND_RETRY;
}

/* --- the marks that the LRU reads ------------------------------------------------------------- */

/* Both marks of a slot, as they lie in the bucket; the low one is that of a first read. */
static __always_inline u16 marks_of(u64 slot)
{
    return 0x101 << (slot & 7);
}

static __always_inline u16 bucket_marks(const struct mc_bucket *bucket)
{
    return READ_ONCE(*(const u16 *)&bucket->accessed);
}

/* Marks a slot as read; a hot item has both marks, so that its bucket's cache line stays clean. */
static __always_inline void bucket_mark(struct mc_bucket *bucket, u64 slot)
{
    u16 marks = bucket_marks(bucket), both = marks_of(slot);

    if ((marks & both) != both)
        WRITE_ONCE(*(u16 *)&bucket->accessed, marks | (marks & both ? both : (u16)(both & 0xff)));
}

/* Overflow buckets have numbers behind those of all others. */
enum { OVERFLOW_FIRST = MC_OVERFLOW_TABLE * MC_TABLE_BUCKETS };

/* No slot: one of a bucket is its number * MC_SLOTS and its own. */
#define UNMARKED_NONE (~0ull)

/* The item that was found lies in this slot of a bucket with this number. */
static __always_inline void slot_found(struct scratch *scratch, const struct mc_bucket *bucket,
                                       u64 number, u64 slot)
{
    u16 both = marks_of(slot);

    scratch->unmarked =
        (bucket_marks(bucket) & both) == both ? UNMARKED_NONE : number * MC_SLOTS + (slot & 7);
}

/* The item found last is in the reply. */
static __always_inline void slot_replied(struct scratch *scratch)
{
    u64 n = scratch->nmarks;

    if (likely(scratch->unmarked == UNMARKED_NONE))
        return;
    bound_mask(n, MARKS_MAX - 1);
    scratch->marks[n] = scratch->unmarked;
    scratch->nmarks = n + 1;
}

__attribute__((noinline)) int marks_set(struct scratch *scratch)
{
    struct mc_bucket *bucket;
    u32 n, i;

    if (!scratch)
        return 0;
    n = scratch->nmarks;
    for (i = 0; i < MARKS_MAX; i++) {
        if (i >= n)
            break;
        bucket = bucket_main(scratch->marks[i] / MC_SLOTS);
        if (bucket)
            bucket_mark(bucket, scratch->marks[i] % MC_SLOTS);
    }
    return 0;
}

/* The reply has left: its items were read. */
static __always_inline void reply_read(struct scratch *scratch)
{
    if (unlikely(scratch->nmarks))
        marks_set(scratch);
}

/* --- the search ------------------------------------------------------------------------------- */

/* Looks for the key in one bucket; *slot: where it is. */
static __always_inline enum verdict bucket_search(struct scratch *scratch,
                                                  const struct mc_bucket *bucket, u64 *slot)
{
    u64 matches = bucket_matches(bucket, scratch->hash);
    enum verdict found;

    for (*slot = 0; *slot < MC_SLOTS; (*slot)++) {
        if (matches >> (8 * *slot) & 0x80) {
            found = item_compare(scratch, bucket_ref(bucket, *slot));
            if (found != FOUND_OTHER)
                return found;
        }
    }
    return FOUND_OTHER;
}

/*
 * Whether the epochs of a chain's items mean what they say. After they were compared: an epoch that
 * was read later is no smaller.
 */
static __always_inline int bucket_is_behind(const struct mc_bucket *head)
{
    return mc_is_behind(READ_ONCE(control.epoch), READ_ONCE(head->swept));
}

/*
 * The bucket that holds the hash, once a split has been followed; *seq is its even counter, *number
 * its own.
 */
static __always_inline struct mc_bucket *bucket_find(u64 hash, u32 *seq, u32 *number)
{
    u32 nbuckets = READ_ONCE(control.nbuckets);
    u32 index = mc_bucket_of(hash, nbuckets), next;
    struct mc_bucket *bucket;
    int hop;

    for (hop = 0; hop < HOPS_MAX; hop++) {
        bucket = bucket_main(index);
        if (!bucket)
            return NULL;
        *seq = READ_ONCE(bucket->seq);
        *number = index;
        read_barrier();
        next = (u32)hash & READ_ONCE(bucket->mask);
        if (*seq & 1)
            return NULL;
        if (next == index)
            return bucket;
        index = next;
    }
    return NULL;
}

/*
 * Looks for the key in all of its chain: FOUND_HIT, and scratch->ref is the item's; FOUND_MISS,
 * FOUND_RETRY, or that the chain is too long. A function, which is rarely needed: the verifier
 * follows its loops once, and not in each of its callers.
 */
__attribute__((noinline)) int chain_search(struct scratch *scratch)
{
    struct mc_bucket *bucket;
    u32 next, seq, number;
    u64 slot = 0, i;
    enum verdict found;

    if (!scratch)
        return FOUND_RETRY;
    bucket = bucket_find(scratch->hash, &seq, &number);
    if (!bucket)
        return FOUND_RETRY;
    for (i = 0; i < BUCKETS_MAX; i++) {
        found = bucket_search(scratch, bucket, &slot);
        if (found == FOUND_HIT) {
            scratch->ref = bucket_ref(bucket, slot);
            slot_found(scratch, bucket, number, slot);
        }
        if (found != FOUND_OTHER)
            return found;
        next = READ_ONCE(bucket->next);
        if (!next)
            return FOUND_MISS;
        number = OVERFLOW_FIRST + next;
        bucket = bucket_main(number);
        if (!bucket)
            return FOUND_RETRY;
    }
    return PASS_BUSY;
}

/*
 * Looks for the key in a chain that begins with `head`, whose number is given: as chain_search, and
 * where the item is. Mostly it is in the first slot that has its tag, or nowhere.
 */
static __always_inline enum verdict item_find(struct scratch *scratch, const struct mc_bucket *head,
                                              u32 number, struct item_place *place)
{
    u64 matches = bucket_matches(head, scratch->hash), slot;
    enum verdict found;

    if (!matches && !READ_ONCE(head->next))
        return FOUND_MISS;
    if (likely(matches)) {
        slot = bytes_below(matches);
        found = item_match(scratch, bucket_ref(head, slot), place);
        if (likely(found == FOUND_HIT)) {
            slot_found(scratch, head, number, slot);
            return FOUND_HIT;
        }
    }
    found = chain_search(scratch);
    if (found == FOUND_HIT && !item_at(scratch->ref, place))
        return FOUND_RETRY;
    return found;
}

/*
 * Looks the key of `scratch` up: FOUND_HIT (`use` was made of it), FOUND_MISS, FOUND_RETRY, or a
 * reason.
 */
static __always_inline enum verdict key_find(struct scratch *scratch, item_use *use)
{
    struct item_place place;
    struct mc_bucket *head;
    u32 number;
    enum verdict found;

    head = bucket_find(scratch->hash, &scratch->seq, &number);
    if (!head)
        return FOUND_RETRY;
    found = item_find(scratch, head, number, &place);
    if (found == FOUND_HIT)
        found = use(scratch, &place);
    read_barrier();
    if (found == FOUND_HIT && unlikely(bucket_is_behind(head)))
        found = PASS_EXPIRED;
    if (READ_ONCE(head->seq) != scratch->seq)
        return FOUND_RETRY;
    if (found == FOUND_HIT)
        slot_replied(scratch);
    return found;
}

#endif
