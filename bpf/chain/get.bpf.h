/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_get: looks up the keys of a get in the table, and makes the reply in struct scratch.
 *
 * An entry is valid only as long as no write has changed the word of its bucket's gate, or of the
 * whole table's, since it was filled: one load each. It is read under its sequence counter, since
 * another CPU may be filling it.
 */
#ifndef MC_CHAIN_GET_BPF_H
#define MC_CHAIN_GET_BPF_H

#include "bpf/answer/key.bpf.h"
#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/text.bpf.h"
#include "bpf/chain/maps.bpf.h"

enum { JIFFY_BITS = 64 - CHAIN_STAMP_BITS };

/*
 * Identifies a server by its IPv6 address, two words that are multiplied by secret factors of the
 * control block.
 */
static __always_inline u64 server_of(u64 high, u64 low)
{
    return high * (control.seed[0] | 1) + low * (control.seed[1] | 1);
}

/* The server that a request goes to. */
static __always_inline u64 server_asked(const struct scratch *scratch)
{
    if (scratch->offsets.v6)
        return server_of(scratch->saved.ip[3], scratch->saved.ip[4]);
    return (u32)scratch->saved.ip[2];
}

/* The part of a key's hash that an entry's stamp holds. */
static __always_inline u64 stamp_of(u64 hash)
{
    return hash >> CHAIN_STAMP_BITS;
}

/* Whether an entry may be that of the key and may be served: 0, or which miss it is. */
static __always_inline enum verdict entry_check(const struct scratch *scratch,
                                                const struct chain_bucket *bucket)
{
    u64 stamp = bucket->stamp;

    if (bucket->nkey != scratch->nkey || stamp >> CHAIN_STAMP_BITS != stamp_of(scratch->hash) ||
        bucket->server != server_asked(scratch))
        return MISS_EMPTY;
    if (bucket->word != READ_ONCE(bucket->gate.word) ||
        bucket->whole_table_word != READ_ONCE(whole_table.word))
        return MISS_WRITTEN;
    if (((bpf_jiffies64() - stamp) << JIFFY_BITS) >> JIFFY_BITS > settings.max_age)
        return MISS_AGE;
    return VERDICT_OK;
}

/*
 * Copies n bytes of a block's text, of at most `most`, behind the reply; 0, or which miss it is:
 * the text is another key's, or was written meanwhile. Copies up to 7 bytes more than n.
 */
static __always_inline enum verdict block_copy(struct scratch *scratch,
                                               const struct chain_block *block, u32 index, u64 n,
                                               const u64 most)
{
    u64 at = scratch->nreply + 6, words = (n + 7) / 8, i;
    u32 seq = READ_ONCE(block->seq);

    read_barrier();
    if (seq & 1 || READ_ONCE(block->bucket) != index ||
        !text_has_key(scratch, block->wire, 8 * KEY_WORDS))
        return MISS_EMPTY;
    bound_mask(at, 2047);
    for (i = 0; i < most / 8; i++) {
        barrier_var(at);
        if (i >= words || at > 2047)
            break;
        STORE64(scratch->reply + at, LOAD64(block->wire + 8 * i));
        at += 8;
    }
    read_barrier();
    return READ_ONCE(block->seq) == seq ? VERDICT_OK : MISS_EMPTY;
}

__attribute__((noinline)) int medium_copy(struct scratch *scratch, u32 index, u32 n)
{
    u32 place = index & (settings.nmedium - 1);
    const struct chain_block *block = bpf_map_lookup_elem(&mc_medium, &place);

    return scratch && block ? block_copy(scratch, block, index, n, CHAIN_MEDIUM) : MISS_EMPTY;
}

__attribute__((noinline)) int large_copy(struct scratch *scratch, u32 index, u32 n)
{
    u32 place = index & (settings.nlarge - 1);
    const struct chain_block *block = bpf_map_lookup_elem(&mc_large, &place);

    return scratch && block ? block_copy(scratch, block, index, n, CHAIN_LARGE) : MISS_EMPTY;
}

/* Copies the text of an entry, for which the reply has room: 0, or which miss it is. */
static __always_inline enum verdict entry_copy(struct scratch *scratch,
                                               const struct chain_bucket *bucket, u32 index)
{
    u64 at = scratch->nreply + 6;

    if (likely(bucket->size == CHAIN_IN_BUCKET)) {
        if (!text_has_key(scratch, bucket->wire, CHAIN_WIRE))
            return MISS_EMPTY;
        bound_mask(at, 2047);
        copy64(scratch->reply + at, bucket->wire);
        return VERDICT_OK;
    }
    return bucket->size == CHAIN_IN_MEDIUM ? medium_copy(scratch, index, scratch->nwire)
                                           : large_copy(scratch, index, scratch->nwire);
}

/* Appends the entry of scratch->key to the reply: 0, which miss it is, or a reason to pass. */
static __always_inline enum verdict entry_take(struct scratch *scratch)
{
    u32 index = bucket_index(scratch->hash), seq;
    const struct chain_bucket *bucket = bucket_get(index);
    enum verdict rc;

    if (unlikely(!bucket))
        return MISS_EMPTY;
    seq = READ_ONCE(bucket->seq);
    read_barrier();
    rc = entry_check(scratch, bucket);
    if (rc)
        return rc;
    scratch->nwire = bucket->nwire;
    if (scratch->nwire > TEXT_MAX || scratch->nreply + 6 + scratch->nwire + 5 > REPLY_MAX)
        rc = PASS_SIZE;
    else
        rc = entry_copy(scratch, bucket, index);
    read_barrier();
    if (unlikely(seq & 1 || READ_ONCE(bucket->seq) != seq))
        return MISS_EMPTY;
    return rc;
}

/* --- a request of one key ---------------------------------------------------------- */

/*
 * A request that is just "get KEY\r\n", in the frame's first buffer: STEP_END with the reply,
 * STEP_MISS, a reason, or STEP_MANY: call chain_get_many. *why: which miss.
 */
static __always_inline enum verdict chain_get_one(struct xdp_md *ctx, struct scratch *scratch,
                                                  int *why)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    u64 at = offsets_text(scratch_offsets(scratch));

    bound_mask(at, 127);
    if (data + at > end || !xdp_key(scratch, data + at, end))
        return STEP_MANY;
    scratch->nreply = REPLY_TEXT;
    *why = entry_take(scratch);
    if (*why)
        return STEP_MISS;
    if (unlikely(key_csum_verify(scratch, scratch->offsets.v6) == CHECKSUM_INVALID))
        return PASS_PACKET;
    STORE64(scratch->reply + REPLY_TEXT - 2, TEXT_VALUE << 16);
    scratch->nreply += 6 + scratch->nwire;
    scratch->nhits = 1;
    reply_end(scratch);
    return STEP_END;
}

/* --- of any number ---------------------------------------------------------------- */

/*
 * Takes the next key: appends its entry to the reply, or sets chain->missing; or ends the request.
 */
__attribute__((noinline)) int get_next(struct scratch *scratch, struct chain_scratch *chain)
{
    enum verdict rc;

    if (!scratch || !chain)
        return PASS_ERROR;
    rc = key_next(scratch);
    if (rc != STEP_NEXT || chain->missing)
        return rc;
    rc = entry_take(scratch);
    if (!rc)
        rc = reply_hit(scratch);
    chain->missing = rc;
    return STEP_NEXT;
}

/* Looks up all keys: STEP_END with the reply, STEP_MISS, or a reason: it is no plain get. */
static __always_inline enum verdict get_all(struct scratch *scratch, struct chain_scratch *chain)
{
    enum verdict rc = STEP_NEXT;
    int i;

    answer_begin(scratch);
    chain->missing = 0;
    if (!request_has_newline(scratch))
        return PASS_REQUEST;
    for (i = 0; i < KEYS_MAX; i++) {
        rc = get_next(scratch, chain);
        if (rc != STEP_NEXT)
            break;
    }
    if (rc != STEP_END)
        return rc == STEP_NEXT ? PASS_REQUEST : rc;
    if (chain->missing)
        return STEP_MISS;
    reply_end(scratch);
    return STEP_END;
}

/* Counts why a well-formed get is not answered: a miss, or a reason from PASS_SIZE on. */
static __always_inline void get_count(struct scratch *scratch, struct chain_scratch *chain, u32 why)
{
    if (why >= VERDICT_MISS)
        chain_count(chain, why);
    else
        count_reason(scratch, why);
}

__attribute__((noinline)) int chain_get_many(struct xdp_md *ctx)
{
    struct chain_scratch *chain = chain_scratch_get();
    struct scratch *scratch = scratch_get();
    enum verdict rc;

    if (!scratch || !chain)
        return PASS_ERROR;
    rc = request_load(packet_xdp(ctx), scratch, NGET);
    if (!rc)
        rc = request_check(packet_xdp(ctx), scratch, TEXT_GET);
    if (rc)
        return rc;
    return get_all(scratch, chain);
}

#endif
