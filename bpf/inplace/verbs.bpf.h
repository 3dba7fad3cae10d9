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
#include "bpf/inplace/item.bpf.h"
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

/* --- an item in the reply ---------------------------------------------------- */

/*
 * "key flags bytes cas\r\n" and the value, behind "VALUE ": the item's text, into which the unique
 * number is put.
 */
static __always_inline int item_to_gets(struct scratch *scratch, const struct item_place *place)
{
    struct item_facts item;
    int rc = item_read(scratch, place, &item);
    u64 at, n;

    if (rc != FOUND_HIT)
        return rc;
    n = scratch->nkey + item.nsuffix;
    rc = copy_bytes(scratch, scratch->nreply + NVALUE, place->extent,
                    place->offset + MC_ITEM_HEADER, n < 8 ? 8 : n);
    if (rc != FOUND_HIT)
        return rc;
    at = reply_add(scratch, scratch->nreply + NVALUE + n - TAIL, ' ', 1);
    at = reply_number(scratch, at, item.cas);
    at = reply_add(scratch, at, '\r' | '\n' << 8, 2);
    scratch->nwire = at + item.nvalue + TAIL - scratch->nreply - NVALUE;
    return reply_wire(scratch, at, place->extent, item.value, item.nvalue + TAIL, NEND);
}

/* Adds an item to the reply as binary and mg want it. */
static __always_inline int item_show(struct scratch *scratch, const struct item_place *place)
{
    const struct item_suffix *suffix;
    struct item_facts item;
    int rc = item_read(scratch, place, &item);
    u64 at, n = item.nvalue;

    if (rc != FOUND_HIT)
        return rc;
    suffix = item_suffix(scratch, place, &item);
    if (!suffix)
        return MC_COUNT_PASS_ITEM;
    if (scratch->verb == VERB_BINARY) {
        at = (u32)binary_line(scratch, suffix, n, item.cas);
    } else {
        if (scratch->mg.given & META_ASKS) {
            rc = mg_agrees(scratch, place, &item);
            if (rc != FOUND_HIT)
                return rc;
        }
        scratch->mg.cas = item.cas;
        scratch->mg.ttl = item.exptime ? item.exptime - (u32)(item.now / 1000000000) : ~0ull;
        at = (u32)mg_line(scratch, suffix);
        n = scratch->mg.given & META_BIT('v') ? n + TAIL : 0;
    }
    scratch->nwire = at + n - scratch->nreply;
    return reply_wire(scratch, at, place->extent, item.value, n, 0);
}

__attribute__((noinline)) int verb_find(struct scratch *scratch)
{
    return scratch ? key_find(scratch, item_show) : MC_COUNT_PASS_ERROR;
}

/* The item of the key is in the reply and counted, or missing, or there is a reason. */
static __always_inline int verb_look(struct scratch *scratch)
{
    int rc = FOUND_RETRY, i;

    for (i = 0; i < TRIES_MAX; i++) {
        rc = verb_find(scratch);
        if (likely(rc != FOUND_RETRY))
            break;
    }
    if (rc == FOUND_RETRY)
        return MC_COUNT_PASS_BUSY;
    if (rc != FOUND_HIT)
        return rc;
    scratch->nreply += scratch->nwire;
    scratch->classes[0] = scratch->clsid;
    scratch->nhits = 1;
    return FOUND_HIT;
}

/* --- gets ---------------------------------------------------------------------- */

__attribute__((noinline)) int gets_step(struct scratch *scratch)
{
    return scratch ? key_step(scratch, item_to_gets) : MC_COUNT_PASS_ERROR;
}

__attribute__((noinline)) int gets_round(struct scratch *scratch)
{
    return scratch ? keys_round(scratch, gets_step) : MC_COUNT_PASS_ERROR;
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
    if (scratch->verb != VERB_BINARY)
        return mg_miss(scratch);
    binary_miss(scratch);
    return STEP_END;
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
    return scratch->request[4] == ' ' ? keys_answer(scratch, gets_step, gets_round)
                                      : MC_COUNT_PASS_COMMAND;
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
