/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * verbs: the requests other than get that are answered: gets, mg (meta.bpf.h), and Get, GetQ, GetK
 * and GetKQ of the binary protocol (binary.bpf.h). They share one lookup, which writes the text
 * before the value and copies the value behind it, under one reading of the bucket's counter.
 *
 * The request in scratch->request begins with the verb.
 */
#ifndef MC_VERBS_BPF_H
#define MC_VERBS_BPF_H

#include "bpf/inplace/binary.bpf.h"
#include "bpf/inplace/get.bpf.h"
#include "bpf/inplace/lookup.bpf.h"
#include "bpf/inplace/meta.bpf.h"
#include "bpf/inplace/reply.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/scratch.bpf.h"

enum verb { VERB_GETS, VERB_META, VERB_BINARY };

/* The first bytes of a text as a little-endian number. */
#define TEXT_GETS      0x73746567u
#define TEXT_META      0x20676du /* "mg " */
#define TEXT_META_MASK 0xffffffu

enum {
    SUFFIX_LEAST = 6, /* " 0 0\r\n" */
    SUFFIX_MOST = 8 * SUFFIX_WORDS,
    TAIL = 2,     /* of a value: "\r\n" */
    GETS_END = 5, /* "END\r\n" */
};

/* --- an item's facts --------------------------------------------------------- */

/* Loads the suffix. FOUND_HIT, FOUND_RETRY or a reason. */
static __always_inline int suffix_load(struct scratch *scratch, const struct item_place *place,
                                       u64 nsuffix)
{
    u64 from = place->offset + MC_ITEM_HEADER + scratch->nkey, blank, ndigits = 0, i;

    for (i = 0; i < SUFFIX_WORDS; i++) {
        OPAQUE(from);
        /* The end of the heap's last item, perhaps: of no interest to take apart. */
        if (from > MC_EXTENT_BYTES - 8)
            return MC_COUNT_PASS_ITEM;
        scratch->item.suffix[i] = LOAD64(place->extent + from);
        from += 8;
    }
    /* The blank behind the client flags. */
    blank = bytes_zero(LOAD64((const char *)scratch->item.suffix + 1) ^ ' ' * MASK_BYTES);
    if (unlikely(!blank)) {
        blank = bytes_zero(LOAD64((const char *)scratch->item.suffix + 9) ^ ' ' * MASK_BYTES);
        ndigits = 8;
    }
    if (!blank)
        return FOUND_RETRY;
    ndigits += bytes_below(blank);
    if (ndigits + 4 >= nsuffix)
        return FOUND_RETRY;
    scratch->item.ndigits = ndigits;
    scratch->item.nsuffix = nsuffix;
    return FOUND_HIT;
}

/* "VALUE key flags bytes cas\r\n" */
static __always_inline void gets_line(struct scratch *scratch)
{
    reply_add(scratch, TEXT_VALUE, 6);
    reply_key(scratch);
    reply_suffix(scratch, 0, scratch->item.nsuffix - TAIL);
    reply_add(scratch, ' ', 1);
    reply_number(scratch, scratch->item.cas);
    reply_add(scratch, '\r' | '\n' << 8, 2);
}

/* Adds an item to the reply as the verb wants it. */
static __always_inline int item_show(struct scratch *scratch, const struct item_place *place)
{
    u64 meta = LOAD64(place->extent + place->offset + ITEM_META);
    u64 expiry = LOAD64(place->extent + place->offset + ITEM_EXPTIME);
    u64 nsuffix = META_NSUFFIX(meta), nwire = expiry >> 32, nhead = scratch->nkey + nsuffix;
    int rc = item_is_fit(meta, expiry);

    if (rc != FOUND_HIT)
        return rc;
    if (nsuffix < SUFFIX_LEAST || nsuffix > SUFFIX_MOST || nwire < nhead + TAIL)
        return FOUND_RETRY;
    rc = suffix_load(scratch, place, nsuffix);
    if (rc != FOUND_HIT)
        return rc;
    scratch->clsid = META_CLSID(meta) % MC_CLASSES;
    scratch->item.exptime = expiry;
    scratch->item.nvalue = nwire - nhead - TAIL;
    scratch->item.cas = control.without_cas ? 0 : LOAD64(place->extent + place->offset + ITEM_CAS);
    if (scratch->verb == VERB_BINARY)
        binary_line(scratch);
    else if (scratch->verb == VERB_META)
        mg_line(scratch);
    else
        gets_line(scratch);
    if (scratch->verb == VERB_META && !(scratch->mg.given & META_BIT('v')))
        return FOUND_HIT;
    return reply_wire(scratch, place->extent, place->offset + MC_ITEM_HEADER + nhead,
                      scratch->item.nvalue + (scratch->verb == VERB_BINARY ? 0 : TAIL),
                      scratch->verb == VERB_GETS ? GETS_END : 0);
}

__attribute__((noinline)) int verb_find(struct scratch *scratch)
{
    return scratch ? key_find(scratch, item_show) : MC_COUNT_PASS_ERROR;
}

/* The item of the key is in the reply and counted, or missing, or there is a reason. */
static __always_inline int verb_look(struct scratch *scratch)
{
    u32 nreply = scratch->nreply;
    u64 nhits = scratch->nhits;
    int rc = FOUND_RETRY, i;

    for (i = 0; i < TRIES_MAX; i++) {
        scratch->nreply = nreply;
        rc = verb_find(scratch);
        if (likely(rc != FOUND_RETRY))
            break;
    }
    if (rc == FOUND_RETRY)
        return MC_COUNT_PASS_BUSY;
    if (rc != FOUND_HIT)
        return rc;
    if (nhits >= HITS_MAX)
        return MC_COUNT_PASS_SIZE;
    scratch->classes[nhits] = scratch->clsid;
    scratch->nhits = nhits + 1;
    return FOUND_HIT;
}

/* --- gets ---------------------------------------------------------------------- */

/* One key, or the end of the request. STEP_NEXT, STEP_END or a reason. */
__attribute__((noinline)) int gets_step(struct scratch *scratch)
{
    u64 from;
    int rc;

    if (!scratch)
        return MC_COUNT_PASS_ERROR;
    rc = key_next(scratch, &from);
    if (rc != STEP_NEXT)
        return rc;
    rc = verb_look(scratch);
    return rc == FOUND_HIT || rc == FOUND_MISS ? STEP_NEXT : rc;
}

static __always_inline int gets_answer(struct scratch *scratch)
{
    int rc, i;

    for (i = 0; i < KEYS_MAX; i++) {
        rc = gets_step(scratch);
        if (rc == STEP_NEXT)
            continue;
        if (rc == STEP_END)
            reply_end(scratch);
        return rc;
    }
    return MC_COUNT_PASS_REQUEST;
}

/* --- all of them ----------------------------------------------------------------- */

/* Whether a request that begins with these bytes may be answered here. */
static __always_inline int text_is_verb(u32 text)
{
    if ((u8)text == BINARY_MAGIC)
        return binary_reads(text >> 8 & 0xff);
    return text == TEXT_GETS || (text & TEXT_META_MASK) == TEXT_META;
}

/* Answers a request of one key. STEP_END or a reason. */
static __always_inline int verb_answer_one(struct scratch *scratch)
{
    int rc = scratch->verb == VERB_BINARY ? binary_parse(scratch) : mg_parse(scratch);

    if (rc != STEP_END)
        return rc;
    rc = verb_look(scratch);
    if (rc == FOUND_HIT)
        return STEP_END;
    if (rc != FOUND_MISS)
        return rc;
    return scratch->verb == VERB_BINARY ? binary_miss(scratch) : mg_miss(scratch);
}

/*
 * As get_answer, of a request that begins with one of these verbs. A call's depth has a limit of
 * eight frames, and below here are three.
 */
static __always_inline int verb_answer(struct scratch *scratch)
{
    u32 text;

    answer_begin(scratch);
    text = LOAD32(scratch->request);
    if ((u8)text == BINARY_MAGIC) {
        scratch->verb = VERB_BINARY;
        return verb_answer_one(scratch);
    }
    if (!request_has_newline(scratch))
        return MC_COUNT_PASS_REQUEST;
    if (text != TEXT_GETS) {
        scratch->verb = VERB_META;
        scratch->at = 3;
        return verb_answer_one(scratch);
    }
    scratch->verb = VERB_GETS;
    scratch->at = 5;
    return scratch->request[4] == ' ' ? gets_answer(scratch) : MC_COUNT_PASS_COMMAND;
}

/*
 * Answers a request that is still in its packet, HEAD_GET or HEAD_VERB. judged: its checksum is not
 * wrong. STEP_END or a reason.
 */
static __always_inline int packet_answer(struct packet packet, struct scratch *scratch, int kind,
                                         u32 judged)
{
    int rc = request_load(packet, scratch, kind == HEAD_GET ? NGET : 0);

    if (!rc && !judged)
        rc = request_check(packet, scratch, kind == HEAD_GET ? TEXT_GET : 0);
    if (rc)
        return rc;
    return kind == HEAD_GET ? get_answer(scratch) : verb_answer(scratch);
}

#endif
