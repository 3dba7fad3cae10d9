/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * one: the short way from a get's only key to its item, where the hash says that it is, or in the
 * first overflow bucket, or nowhere: what is asked most. The caller copies the item from the
 * server's memory to where its reply is, and one_holds then says whether a writer was there.
 * Whatever is not so plain (a moving bucket, a second tag, a second overflow bucket, an item at the
 * end of its extent) is FOUND_MORE, for key_find.
 */
#ifndef MC_ONE_BPF_H
#define MC_ONE_BPF_H

#include "bpf/answer/key.bpf.h"
#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/sum.bpf.h"

/* What is needed of an item's extent behind the item's start. */
enum { ONE_REACH = MC_ITEM_HEADER + 2048 + 64 };

struct one {
    struct mc_bucket *head; /* the key's chain begins with it */
    u32 seq;                /* its counter, */
    u64 tags;               /* and its tags, read behind that */
    /* The item, and the slot that refers to it. */
    struct mc_bucket *bucket;
    u64 number; /* of that bucket */
    u64 slot;
    const char *wire;
    u64 nwire;
    u64 meta;
};

/*
 * Begins to look for the key: loads its bucket, which takes as long as many checks do, so that they
 * can be made meanwhile. 0: there is none.
 */
static __always_inline int one_begin(struct scratch *scratch, struct one *one)
{
    scratch->index = mc_bucket_of(scratch->hash, READ_ONCE(control.nbuckets));
    one->head = bucket_main(scratch->index);
    if (unlikely(!one->head))
        return 0;
    one->seq = READ_ONCE(one->head->seq);
    read_barrier();
    one->tags = READ_ONCE(one->head->tags);
    return 1;
}

/* The item in the slot, if it is the key's and may be served: FOUND_HIT or FOUND_MORE. */
static __always_inline enum verdict one_item(struct scratch *scratch, struct one *one)
{
    u64 offset, within, meta, expiry, nwire;
    const char *item = extent_of(bucket_ref(one->bucket, one->slot), &offset);

    if (unlikely(!item))
        return FOUND_MORE;
    offset %= MC_EXTENT_BYTES;
    within = offset;
    clamp_or_zero(within, MC_EXTENT_BYTES - ONE_REACH);
    if (unlikely(within != offset))
        return FOUND_MORE;
    item += within;
    meta = LOAD64(item + ITEM_META);
    expiry = LOAD64(item + ITEM_EXPTIME);
    nwire = expiry >> 32;
    barrier_var(nwire);
    one->wire = item + MC_ITEM_HEADER;
    one->nwire = nwire;
    one->meta = meta;
    if (unlikely((meta & META_MASK) != META_OF(scratch->nkey, (u8)READ_ONCE(control.epoch)) ||
                 nwire - 9 > TEXT_MAX - (NVALUE + NEND) - 9 ||
                 !text_has_key(scratch, one->wire, 8 * KEY_WORDS)))
        return FOUND_MORE;
    return (u32)expiry && unlikely(item_has_expired(scratch, expiry)) ? FOUND_MORE : FOUND_HIT;
}

/* Goes on where one_begin has begun: FOUND_HIT, FOUND_MISS or FOUND_MORE. */
static __always_inline enum verdict one_find(struct scratch *scratch, struct one *one)
{
    u64 hash = scratch->hash, matches = tags_match(one->tags, hash);
    u32 next;

    if (unlikely(one->seq & 1 || ((u32)hash & READ_ONCE(one->head->mask)) != scratch->index))
        return FOUND_MORE;
    one->bucket = one->head;
    one->number = scratch->index;
    next = matches ? 0 : READ_ONCE(one->head->next);
    if (unlikely(next)) {
        one->number = OVERFLOW_FIRST + next;
        one->bucket = bucket_overflow(next);
        if (!one->bucket)
            return FOUND_MORE;
        matches = bucket_matches(one->bucket, hash);
        if (!matches && READ_ONCE(one->bucket->next))
            return FOUND_MORE;
    }
    if (matches) {
        one->slot = bytes_below(matches);
        return one_item(scratch, one);
    }
    read_barrier();
    return unlikely(READ_ONCE(one->head->seq) != one->seq) ? FOUND_MORE : FOUND_MISS;
}

/* The sum of wire bytes behind which it does not stand. Not inlined: few items are without it. */
static __attribute__((noinline)) u64 wire_sum(const char *wire, u64 nwire)
{
    return sum_fold(text_sum(wire, nwire));
}

/* The sum of a hit's wire bytes, folded. */
static __always_inline u64 one_sum(const struct one *one)
{
    u64 at = one->nwire;

    bound_mask(at, 2047);
    return META_FLAGS(one->meta) & MC_ITEM_SUMMED ? LOAD16(one->wire + at)
                                                  : wire_sum(one->wire, one->nwire);
}

/* Whether what was read of a hit meanwhile is still the item, and may be served. */
static __always_inline int one_holds(const struct one *one)
{
    read_barrier();
    /* A delayed flush was looked at behind the first barrier: see doc/coherence.md. */
    return likely(!(READ_ONCE(one->head->seq) != one->seq || bucket_is_behind(one->head) ||
                    (weakly_ordered && META_EPOCH(one->meta) != (u8)READ_ONCE(control.epoch))));
}

#endif
