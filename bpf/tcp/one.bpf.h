/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_one: the short way of XDP to the answer of what is asked most: a get of one key, whose item
 * is where its hash says, or which is not there. The key is read where it lies in the frame, and
 * the item is copied to where the reply is kept, and from there into the frame. Whatever is not so
 * plain takes the way of all requests (tcp_lookup).
 */
#ifndef MC_TCP_ONE_BPF_H
#define MC_TCP_ONE_BPF_H

#include "bpf/answer/key.bpf.h"
#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/request.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/tcp/answer.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/kept.bpf.h"

enum {
    /* What is needed of an item's extent behind the item's start. */
    ONE_REACH = MC_ITEM_HEADER + 2048 + 64,
};

/* The item at `ref`, if it is the key's and may be served. */
static __always_inline const char *one_item(const struct scratch *scratch, u32 ref)
{
    u64 offset, within, meta, expiry, now;
    const char *item = extent_of(ref, &offset);

    offset %= MC_EXTENT_BYTES;
    within = offset;
    CLAMP(within, MC_EXTENT_BYTES - ONE_REACH);
    if (unlikely(!item || within != offset))
        return NULL;
    item += within;
    meta = LOAD64(item + ITEM_META);
    expiry = LOAD64(item + ITEM_EXPTIME);
    if (unlikely(META_NKEY(meta) != scratch->nkey || item_is_fit(meta, expiry, &now) != FOUND_HIT ||
                 !text_has_key(scratch, item + MC_ITEM_HEADER, 8 * KEY_WORDS)))
        return NULL;
    return item;
}

/* Takes a place for the reply of n bytes, which the client is to have room for: NULL and *rc. */
static __always_inline struct kept *one_place(struct scratch *scratch, struct segment_scratch *tcp,
                                              const struct mc_tcp_conn *conn, u64 n,
                                              enum verdict *rc)
{
    struct kept *kept;

    if (unlikely(conn_is_narrow(conn, &tcp->segment, n))) {
        *rc = PASS_TCP_WINDOW;
        return NULL;
    }
    tcp->owner = kept_owner(tcp->segment.ack, conn->slot, conn->generation);
    kept = kept_take(tcp->owner, &tcp->kept);
    if (unlikely(!kept)) {
        *rc = PASS_TCP_KEPT;
        return NULL;
    }
    kept->n = n;
    scratch->nreply = REPLY_TEXT + n;
    return kept;
}

/* The sum of an item's text that is kept, of nwire bytes: few items have none of their own. */
__attribute__((noinline)) int one_sum(const struct kept *kept, u32 nwire)
{
    u64 n = nwire;

    if (!kept)
        return 0;
    CLAMP(n, TEXT_MAX - NVALUE);
    return sum_fold(text_sum(kept->text + NVALUE, n));
}

static __always_inline enum verdict one_hit(struct scratch *scratch, struct segment_scratch *tcp,
                                            const struct mc_tcp_conn *conn,
                                            const struct mc_bucket *bucket, u32 index, u32 seq,
                                            u64 slot)
{
    const char *item = one_item(scratch, bucket_ref(bucket, slot)), *wire;
    u64 meta, nwire, at, sum;
    struct kept *kept;
    enum verdict rc = FOUND_MORE;

    if (unlikely(!item))
        return FOUND_MORE;
    meta = LOAD64(item + ITEM_META);
    nwire = LOAD64(item + ITEM_EXPTIME) >> 32;
    OPAQUE(nwire);
    if (unlikely(nwire - 9 > TEXT_MAX - (NVALUE + NEND) - 9))
        return FOUND_MORE;
    kept = one_place(scratch, tcp, conn, NVALUE + nwire + NEND, &rc);
    if (unlikely(!kept))
        return rc;
    wire = item + MC_ITEM_HEADER;
    STORE64(kept->text, TEXT_VALUE);
    kept_copy(kept->text + NVALUE, wire, nwire);
    at = nwire;
    BOUND(at, 2047);
    sum = META_FLAGS(meta) & MC_ITEM_SUMMED ? LOAD16(wire + at) : (u32)one_sum(kept, nwire);
    CLAMP(at, TEXT_MAX);
    STORE32(kept->text + NVALUE + at, (u32)TEXT_END);
    kept->text[NVALUE + 4 + at] = (char)(TEXT_END >> 32);
    read_barrier();
    if (unlikely(READ_ONCE(bucket->seq) != seq || bucket_is_behind(bucket))) {
        kept_free(tcp->kept, tcp->owner);
        return FOUND_MORE;
    }
    slot_found(scratch, bucket, index, slot);
    slot_replied(scratch);
    scratch->nwire = nwire;
    scratch->wire_sum = sum;
    scratch->classes[0] = META_CLSID(meta) % MC_CLASSES;
    scratch->nkeys = scratch->nhits = 1;
    return VERDICT_OK;
}

static __always_inline enum verdict one_miss(struct scratch *scratch, struct segment_scratch *tcp,
                                             const struct mc_tcp_conn *conn,
                                             const struct mc_bucket *bucket, u32 seq)
{
    struct kept *kept;
    enum verdict rc = FOUND_MORE;

    if (unlikely(READ_ONCE(bucket->next)))
        return FOUND_MORE;
    read_barrier();
    if (unlikely(READ_ONCE(bucket->seq) != seq))
        return FOUND_MORE;
    kept = one_place(scratch, tcp, conn, NEND, &rc);
    if (unlikely(!kept))
        return rc;
    STORE64(kept->text, TEXT_END);
    scratch->nkeys = 1;
    scratch->nhits = 0;
    return VERDICT_OK;
}

/* Takes the key out of a frame: 0, or why not. */
static __always_inline enum verdict one_key(struct xdp_md *ctx, struct scratch *scratch,
                                            struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

    if (!xdp_key(scratch, data + offsets_text(offsets), end))
        return FOUND_MORE;
    return unlikely(key_judge(scratch, offsets.v6) == CHECKSUM_WRONG) ? PASS_TCP_SEGMENT
                                                                      : VERDICT_OK;
}

/* Looks up the key of a get in a frame whose headers are in `scratch`, and keeps the reply. */
static __always_inline enum verdict one_lookup(struct xdp_md *ctx, struct scratch *scratch,
                                               struct segment_scratch *tcp,
                                               const struct mc_tcp_conn *conn)
{
    const struct mc_bucket *bucket;
    u32 nbuckets, index, seq;
    u64 matches;
    enum verdict rc;

    if (unlikely(tcp_is_bypassed()))
        return PASS_TCP_BYPASS;
    rc = scratch->offsets.v6 ? one_key(ctx, scratch, OFFSETS(0, 1))
                             : one_key(ctx, scratch, OFFSETS(0, 0));
    if (unlikely(rc))
        return rc;
    scratch->nmarks = 0;
    nbuckets = READ_ONCE(control.nbuckets);
    index = mc_bucket_of(scratch->hash, nbuckets);
    bucket = bucket_main(index);
    if (unlikely(!bucket))
        return FOUND_MORE;
    seq = READ_ONCE(bucket->seq);
    read_barrier();
    if (unlikely(seq & 1 || ((u32)scratch->hash & READ_ONCE(bucket->mask)) != index))
        return FOUND_MORE;
    matches = bucket_matches(bucket, scratch->hash);
    if (matches)
        return one_hit(scratch, tcp, conn, bucket, index, seq, bytes_below(matches));
    return one_miss(scratch, tcp, conn, bucket, seq);
}

/* As copy_blocks: n bytes of a kept text, 9 <= n <= TEXT_MAX. */
static __always_inline int one_copy(void *to, void *end, const struct kept *kept, u64 n)
{
    u64 blocks = n / 64, at = n - 64, i;

    if (n < 64)
        return copy_blocks(to, end, kept->text, n, TEXT_MAX);
    for (i = 0; i < TEXT_MAX / 64; i++) {
        if (i >= blocks)
            break;
        if (to + 64 * i + 64 > end)
            return 0;
        copy64(to + 64 * i, kept->text + 64 * i);
    }
    CLAMP(at, TEXT_MAX - 64);
    to += at;
    if (to + 64 > end)
        return 0;
    copy64(to, kept->text + at);
    return 1;
}

static __always_inline int one_write_as(struct xdp_md *ctx, const struct scratch *scratch,
                                        const struct segment_scratch *tcp, struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *text = data + offsets_text(offsets);
    u32 at = tcp->kept;
    const struct kept *kept = bpf_map_lookup_elem(&tcp_kept, &at);
    u64 n = scratch->nreply - REPLY_TEXT;

    if (!kept || text + NEND > end)
        return 0;
    if (scratch->nhits) {
        write_headers(data, scratch, offsets, n, hit_text_sum(scratch->wire_sum, scratch->nwire));
        if (n < 9 || !one_copy(text, end, kept, n))
            return 0;
    } else {
        write_headers(data, scratch, offsets, NEND, TEXT_END);
        STORE32(text, (u32)TEXT_END);
        *(u8 *)(text + 4) = TEXT_END >> 32;
    }
    read_barrier();
    return READ_ONCE(kept->owner) == tcp->owner;
}

/*
 * Writes the reply whose text is kept into the frame, which has its size. 0: it has not; or the
 * text is another's, because the client has acknowledged it, and needs it no more.
 */
__attribute__((noinline)) int one_write(struct xdp_md *ctx)
{
    const struct segment_scratch *tcp = segment_scratch_get();
    const struct scratch *scratch = scratch_get();

    if (!tcp || !scratch)
        return 0;
    return scratch->offsets.v6 ? one_write_as(ctx, scratch, tcp, OFFSETS(0, 1))
                               : one_write_as(ctx, scratch, tcp, OFFSETS(0, 0));
}

#endif
