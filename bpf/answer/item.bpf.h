/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * item: what verbs other than get need of an item that was found; and it in the reply to gets.
 */
#ifndef MC_ITEM_BPF_H
#define MC_ITEM_BPF_H

#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"

enum {
    SUFFIX_LEAST = 6, /* " 0 0\r\n" */
    SUFFIX_MOST = 32,
    SUFFIX_REACH = 64, /* from the suffix on may be read */
    TAIL = 2,          /* of a value: "\r\n" */
};

/* A suffix in its extent, " flags bytes\r\n", and what may be read with it. */
struct item_suffix {
    char bytes[SUFFIX_REACH];
};

/* In registers, and all of it the writer's, until the bucket's counter is looked at again. */
struct item_facts {
    u64 nsuffix;
    u64 value;  /* where in the extent it begins */
    u64 nvalue; /* without its tail */
    u64 now;    /* if it expires, the server's clock in nanoseconds, before that moment */
    u32 exptime;
};

static __always_inline u64 item_cas(const struct item_place *place)
{
    return control.without_cas ? 0 : LOAD64(place->extent + place->offset + ITEM_CAS);
}

/* FOUND_HIT, FOUND_RETRY or a reason. */
static __always_inline enum verdict
item_read(struct scratch *scratch, const struct item_place *place, struct item_facts *item)
{
    const char *header = place->extent + place->offset;
    u64 meta = LOAD64(header + ITEM_META), expiry = LOAD64(header + ITEM_EXPTIME);
    u64 nwire = expiry >> 32, nkey = scratch->nkey;
    enum verdict rc = item_is_answerable(meta, expiry, &item->now);

    if (rc != FOUND_HIT)
        return rc;
    item->nsuffix = META_NSUFFIX(meta);
    if (item->nsuffix - SUFFIX_LEAST > SUFFIX_MOST - SUFFIX_LEAST ||
        nwire < nkey + item->nsuffix + TAIL)
        return FOUND_RETRY;
    item->exptime = expiry;
    item->value = place->offset + MC_ITEM_HEADER + nkey + item->nsuffix;
    item->nvalue = nwire - nkey - item->nsuffix - TAIL;
    scratch->clsid = META_CLSID(meta) % MC_CLASSES;
    return FOUND_HIT;
}

/*
 * Takes the suffix apart: its lengths into `scratch`. NULL: a writer is there, or it is at the end
 * of the extent, and of no interest to take apart.
 */
static __always_inline const struct item_suffix *
item_suffix(struct scratch *scratch, const struct item_place *place, const struct item_facts *item)
{
    u64 from = item->value - item->nsuffix, begin = from, blank, ndigits = 0;
    const struct item_suffix *suffix;

    barrier_var(begin);
    clamp_or_zero(begin, MC_EXTENT_BYTES - SUFFIX_REACH);
    if (!is_same(begin, from))
        return NULL;
    suffix = (const void *)(place->extent + begin);
    /* The blank behind the client flags. */
    blank = bytes_zero(LOAD64(suffix->bytes + 1) ^ ' ' * MASK_BYTES);
    if (unlikely(!blank)) {
        blank = bytes_zero(LOAD64(suffix->bytes + 9) ^ ' ' * MASK_BYTES);
        ndigits = 8;
    }
    if (!blank)
        return NULL;
    ndigits += bytes_below(blank);
    if (ndigits + 4 >= item->nsuffix)
        return NULL;
    scratch->ndigits = ndigits;
    scratch->nsize = item->nsuffix - ndigits - 4;
    return suffix;
}

/* The value's length, as the suffix has it in digits. */
static __always_inline u64 reply_nbytes(struct scratch *scratch, u64 at,
                                        const struct item_suffix *suffix)
{
    u64 from = scratch->ndigits + 2;

    bound_mask(from, 31);
    return reply_text(scratch, at, suffix->bytes + from, scratch->nsize);
}

/*
 * n bytes of the item's wire, at `offset` of the extent; the reply must have room for nrest more
 * behind them.
 */
static __always_inline enum verdict reply_wire(struct scratch *scratch, u64 at, const char *extent,
                                               u64 offset, u64 n, u64 nrest)
{
    if (n > TEXT_MAX || at + n + nrest > REPLY_MAX)
        return PASS_SIZE;
    if (n >= 8)
        return copy_bytes(scratch, at, extent, offset, n);
    if (n) {
        /* The word that ends with them: it begins in the header at worst. */
        offset += n - 8;
        barrier_var(offset);
        if (offset > MC_EXTENT_BYTES - 8)
            return FOUND_RETRY;
        bound_mask(at, 2047);
        STORE64(scratch->reply + at, LOAD64(extent + offset) >> (64 - 8 * n));
    }
    return FOUND_HIT;
}

/*
 * "key flags bytes cas\r\n" and the value, behind "VALUE ": the item's text, into which the unique
 * number is put.
 */
static __always_inline enum verdict item_to_gets(struct scratch *scratch,
                                                 const struct item_place *place)
{
    struct item_facts item;
    enum verdict rc = item_read(scratch, place, &item);
    u64 at, n;

    if (rc != FOUND_HIT)
        return rc;
    n = scratch->nkey + item.nsuffix;
    scratch->value = item.value;
    scratch->nvalue = item.nvalue;
    rc = copy_bytes(scratch, scratch->nreply + NVALUE, place->extent,
                    place->offset + MC_ITEM_HEADER, n < 8 ? 8 : n);
    if (rc != FOUND_HIT)
        return rc;
    at = reply_add(scratch, scratch->nreply + NVALUE + n - TAIL, ' ', 1);
    at = reply_number(scratch, at, item_cas(place));
    at = reply_add(scratch, at, '\r' | '\n' << 8, 2);
    item.value = READ_ONCE(scratch->value);
    item.nvalue = READ_ONCE(scratch->nvalue);
    scratch->nwire = at + item.nvalue + TAIL - scratch->nreply - NVALUE;
    return reply_wire(scratch, at, place->extent, item.value, item.nvalue + TAIL, NEND);
}

#endif
