/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * text: a request's text, brought into struct scratch, and taken apart key by key.
 *
 * Only what the server's parser reads the same way is accepted: keys of printable bytes, separated
 * by spaces, up to one newline that ends the request. The caller looks the keys up.
 */
#ifndef MC_TEXT_BPF_H
#define MC_TEXT_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/sum.bpf.h"

static __always_inline u64 request_word(const struct scratch *scratch, u64 at)
{
    bound_mask(at, REQUEST_ROOM - 1);
    return LOAD64(scratch->request + at);
}

/* --- bringing it in -------------------------------------------------------------------------- */

/* The sum of a request that is not short. */
__attribute__((noinline)) int request_sum(struct scratch *scratch)
{
    u64 n;

    if (!scratch)
        return 0;
    n = scratch->nrequest;
    clamp_or_zero(n, REQUEST_MAX);
    return sum_fold(text_sum(scratch->request, n));
}

/*
 * What the checksum says of the request in `scratch`, the sum of whose text before scratch->request
 * is `before`.
 */
static __always_inline enum checksum request_csum_verify(struct scratch *scratch, u64 before)
{
    u64 n = scratch->nrequest;

    if (!l4_has_checksum(&scratch->saved, scratch->offsets.v6))
        return ip4_csum_verify(&scratch->saved);
    before += n < 64 ? sum_rest(scratch->request, n) : (u64)request_sum(scratch);
    return scratch->offsets.v6 ? l4_csum_verify(&scratch->saved, 1, before)
                               : l4_csum_verify(&scratch->saved, 0, before);
}

/* Brings the request behind the text's first `skip` bytes into `scratch`: 0 or a reason. */
static __always_inline enum verdict request_load(struct packet packet, struct scratch *scratch,
                                                 u64 skip)
{
    u64 nrequest = scratch->ntext - skip, at;

    if (nrequest - 1 >= REQUEST_MAX)
        return PASS_REQUEST;
    scratch->nrequest = nrequest;
    at = offsets_text(scratch_offsets(scratch)) + skip;
    if (packet.from == PACKET_XDP && nrequest - 8 <= LOAD_DIRECT - 8 &&
        xdp_load_direct(packet.ctx, at, scratch->request, nrequest))
        return VERDICT_OK;
    bound_size(nrequest, REQUEST_ROOM - 1);
    if (packet_load(packet, at, scratch->request, nrequest))
        return PASS_ERROR;
    return VERDICT_OK;
}

/*
 * Whether a request's checksum, with `before` as in request_csum_verify, is not wrong: 0 or a
 * reason. TC has to know more: whether it is whole or partial. It is both, of 1 packet in 65,536,
 * by chance: then it cannot be told which.
 */
static __always_inline enum verdict request_check(struct packet packet, struct scratch *scratch,
                                                  u32 before)
{
    enum checksum found = request_csum_verify(scratch, before);

    if (found == CHECKSUM_INVALID)
        return PASS_PACKET;
    if (packet.from != PACKET_XDP && found == CHECKSUM_VALID && scratch->checksum_partial)
        return PASS_PACKET;
    return VERDICT_OK;
}

/* --- keys ------------------------------------------------------------------------------------ */

/* Before a reply's first byte is written. */
static __always_inline void reply_begin(struct scratch *scratch)
{
    scratch->nhits = 0;
    scratch->nmarks = 0;
    scratch->wire_sum = 0;
    scratch->nreply = REPLY_TEXT;
}

/* Before a request's first word is looked at, whose reply goes on where that is. */
static __always_inline void request_begin(struct scratch *scratch)
{
    u64 at = scratch->nrequest;

    scratch->at = 0;
    scratch->nkeys = 0;
    scratch->ntries = 0;
    scratch->needs = 0;
    /* Zeros behind the request end every search for its end. */
    bound_mask(at, REQUEST_ROOM - 1);
    STORE64(scratch->request + at, 0);
}

static __always_inline void answer_begin(struct scratch *scratch)
{
    reply_begin(scratch);
    request_begin(scratch);
}

static __always_inline int request_has_newline(const struct scratch *scratch)
{
    u64 at = scratch->nrequest - 1;

    bound_mask(at, REQUEST_ROOM - 1);
    return scratch->request[at] == '\n';
}

/* A byte behind the keys: a newline that ends the request, or why not. */
static __always_inline enum verdict request_ends(const struct scratch *scratch, u64 at)
{
    u64 word = request_word(scratch, at);
    u64 nend = (u16)word == 0x0a0d ? 2 : 1;

    if (nend == 1 && (u8)word != '\n')
        return PASS_REQUEST;
    if (at + nend != scratch->nrequest)
        return PASS_COMMAND; /* another command behind the first */
    return scratch->nkeys ? STEP_END : PASS_REQUEST;
}

/*
 * Skips spaces, many at a time: a request may be almost nothing else. The zeros behind it end the
 * search; what a round could read behind the request's room is there, too.
 */
__attribute__((noinline)) int request_skip(struct scratch *scratch)
{
    u64 at, word = 0, i, j;
    const char *from;

    if (!scratch)
        return PASS_ERROR;
    at = scratch->at;
    for (i = 0; i < REQUEST_MAX / 64 + 1; i++) {
        from = scratch->request;
        bound_mask(at, REQUEST_ROOM - 1);
        from += at;
#pragma clang loop unroll(full)
        for (j = 0; j < 8; j++) {
            word = LOAD64(from + 8 * j) ^ ' ' * MASK_BYTES;
            if (word)
                break;
            at += 8;
        }
        if (word)
            break;
    }
    scratch->at = at;
    /* Of the last eight bytes those up to the first that is no space. */
    word |= word >> 4;
    word |= word >> 2;
    word |= word >> 1;
    word = (word & MASK_BYTES) << 7;
    scratch->at += word ? bytes_below(word) : 0;
    return STEP_NEXT;
}

/* Takes the next key into scratch->key and hashes it; `at` moves to the byte behind it. */
static __always_inline enum verdict request_key(struct scratch *scratch)
{
    u64 at = scratch->at, nkey = 0, sum = 0, word = 0, blank = 0, keep, i;

    for (i = 0; i < KEY_WORDS; i++) {
        word = request_word(scratch, at + nkey);
        blank = bytes_blank(word);
        if (blank)
            break;
        scratch->key[i] = word;
        sum += mc_hash_word(word, control.seed[i]);
        nkey += 8;
    }
    if (!blank)
        return PASS_REQUEST;
    scratch->nkey = nkey;
    nkey = READ_ONCE(scratch->nkey); /* as in key_words */
    /* Ones below the top bit of the first blank byte: the bytes to keep. */
    keep = ((blank - 1) & ~blank) >> 7;
    if (keep) {
        i = nkey / 8;
        scratch->key[i & (KEY_WORDS - 1)] = word & keep;
        sum += mc_hash_word(word & keep, control.seed[i & (KEY_WORDS - 1)]);
        nkey += bytes_below(blank);
    }
    if (nkey > MC_KEY_MAX)
        return PASS_REQUEST;
    scratch->nkey = nkey;
    scratch->hash = mc_hash_end(sum, nkey);
    scratch->at = at + nkey;
    return STEP_NEXT;
}

/* Takes the next key of several: STEP_NEXT, STEP_END or a reason. It ends at scratch->at. */
static __always_inline enum verdict key_next(struct scratch *scratch)
{
    u64 at = scratch->at;
    char first;
    enum verdict rc;

    /* Between two keys one space is the rule. */
    if (scratch->nkeys && (char)request_word(scratch, at) == ' ')
        scratch->at = ++at;
    first = request_word(scratch, at);
    if (first == ' ') {
        rc = request_skip(scratch);
        if (rc != STEP_NEXT)
            return rc;
        at = scratch->at;
        first = request_word(scratch, at);
    }
    if (first == '\r' || first == '\n')
        return request_ends(scratch, at);
    rc = request_key(scratch);
    if (rc != STEP_NEXT)
        return rc;
    if (!scratch->nkey)
        return PASS_REQUEST;
    scratch->nkeys++;
    return STEP_NEXT;
}

/* What follows a key that was looked up: another, STEP_NEXT, or the end as request_ends has it. */
static __always_inline enum verdict request_goes_on(const struct scratch *scratch)
{
    u64 at = scratch->at;
    char next = request_word(scratch, at);

    return next == '\r' || next == '\n' ? request_ends(scratch, at) : STEP_NEXT;
}

#endif
