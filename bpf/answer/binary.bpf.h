/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * binary: Get, GetQ, GetK and GetKQ of the binary protocol, one request in a datagram. In network
 * order:
 *
 *   0 magic   1 opcode   2 key length   4 extras length   5 data type   6 vbucket, or status
 *   8 body length   12 opaque   16 cas   24 extras, key, value
 */
#ifndef MC_BINARY_BPF_H
#define MC_BINARY_BPF_H

#include "bpf/answer/item.bpf.h"
#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/answer/text.bpf.h"
#include "bpf/packet/base.bpf.h"

/* Opcodes that only read. */
enum {
    BINARY_GET = 0x00,
    BINARY_GETQ = 0x09,
    BINARY_GETK = 0x0c,
    BINARY_GETKQ = 0x0d,
};

enum {
    BINARY_MAGIC = 0x80,
    BINARY_HEAD = 24,
    BINARY_FLAGS = 4, /* extras of an answer with an item */
    BINARY_REPLY = 0x81,
    BINARY_NOT_FOUND = 1,
};

static __always_inline int binary_reads(u32 opcode)
{
    return opcode == BINARY_GET || opcode == BINARY_GETQ || opcode == BINARY_GETK ||
           opcode == BINARY_GETKQ;
}

static __always_inline u32 binary_opcode(const struct scratch *scratch)
{
    return (u8)scratch->request[1];
}

static __always_inline int binary_with_key(const struct scratch *scratch)
{
    u32 opcode = binary_opcode(scratch);

    return opcode == BINARY_GETK || opcode == BINARY_GETKQ;
}

/* Takes the key, which may have any bytes, and hashes it. */
static __always_inline void binary_key(struct scratch *scratch, u64 nkey)
{
    u64 words = nkey / 8, rest = nkey % 8, sum = 0, word, i;

    scratch->nkey = nkey;
    for (i = 0; i < KEY_WORDS; i++) {
        if (i >= words)
            break;
        word = request_word(scratch, BINARY_HEAD + 8 * i);
        scratch->key[i] = word;
        sum += mc_hash_word(word, control.seed[i]);
    }
    if (rest) {
        words = key_words(scratch);
        word = request_word(scratch, BINARY_HEAD + 8 * words) & ((1ull << 8 * rest) - 1);
        bound_mask(words, KEY_WORDS - 1);
        scratch->key[words] = word;
        sum += mc_hash_word(word, control.seed[words]);
    }
    scratch->hash = mc_hash_end(sum, nkey);
    scratch->nkeys = 1;
}

/* Reads the request. STEP_END or a reason. */
static __always_inline enum verdict binary_parse(struct scratch *scratch)
{
    u64 nkey = bpf_ntohs(LOAD16(scratch->request + 2));

    if (scratch->nrequest < BINARY_HEAD || nkey - 1 >= MC_KEY_MAX || scratch->request[4] ||
        bpf_ntohl(LOAD32(scratch->request + 8)) != nkey)
        return PASS_REQUEST;
    /* Of several requests in a datagram the server makes several answers. */
    if (scratch->nrequest != BINARY_HEAD + nkey)
        return PASS_COMMAND;
    binary_key(scratch, nkey);
    return STEP_END;
}

static __always_inline u64 reply_binary_head(struct scratch *scratch, u64 nkey, u64 nextras,
                                             u64 status, u32 nbody, u64 cas)
{
    u64 opaque = LOAD32(scratch->request + 12), at = scratch->nreply;

    at = reply_add(scratch, at,
                   BINARY_REPLY | binary_opcode(scratch) << 8 | (u64)bpf_htons(nkey) << 16 |
                       nextras << 32 | (u64)bpf_htons(status) << 48,
                   8);
    at = reply_add(scratch, at, bpf_htonl(nbody) | opaque << 32, 8);
    return reply_add(scratch, at, bpf_cpu_to_be64(cas), 8);
}

/* The client flags, which the item has as text. */
static __always_inline u32 suffix_flags(const struct scratch *scratch,
                                        const struct item_suffix *suffix)
{
    u64 number = 0, i;

    for (i = 0; i < 10; i++) {
        if (i >= scratch->ndigits)
            break;
        number = number * 10 + (LOAD8(suffix->bytes + 1 + i) - '0');
    }
    return number;
}

/* What stands before the value in the answer to a hit: where it ends. */
static __always_inline u64 binary_line(struct scratch *scratch, const struct item_suffix *suffix,
                                       u64 nvalue, u64 cas)
{
    u64 nkey, at;

    nkey = binary_with_key(scratch) ? scratch->nkey : 0;
    at = reply_binary_head(scratch, nkey, BINARY_FLAGS, 0, BINARY_FLAGS + nkey + nvalue, cas);
    at = reply_add(scratch, at, bpf_htonl(suffix_flags(scratch, suffix)), BINARY_FLAGS);
    return nkey ? reply_key_here(scratch, at) : at;
}

/* The answer to a miss, none to a quiet one. */
static __always_inline void binary_miss(struct scratch *scratch)
{
    u32 opcode = binary_opcode(scratch);
    u64 at;

    if (opcode == BINARY_GETQ || opcode == BINARY_GETKQ)
        return;
    if (opcode == BINARY_GETK) {
        at = reply_binary_head(scratch, scratch->nkey, 0, BINARY_NOT_FOUND, scratch->nkey, 0);
        scratch->nreply = reply_key_here(scratch, at);
    } else {
        at = reply_binary_head(scratch, 0, 0, BINARY_NOT_FOUND, 9, 0);
        at = reply_add(scratch, at, 0x6e756f6620746f4eull, 8); /* "Not foun" */
        scratch->nreply = reply_add(scratch, at, 'd', 1);
    }
}

/* Adds an item to the reply as the binary protocol has it. */
static __always_inline enum verdict item_to_binary(struct scratch *scratch,
                                                   const struct item_place *place)
{
    const struct item_suffix *suffix;
    struct item_facts item;
    enum verdict rc = item_read(scratch, place, &item);
    u64 at;

    if (rc != FOUND_HIT)
        return rc;
    suffix = item_suffix(scratch, place, &item);
    if (!suffix)
        return PASS_ITEM;
    at = binary_line(scratch, suffix, item.nvalue, item_cas(place));
    scratch->nwire = at + item.nvalue - scratch->nreply;
    return reply_wire(scratch, at, place->extent, item.value, item.nvalue, 0);
}

#endif
