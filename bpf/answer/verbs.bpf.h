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

#include "bpf/answer/binary.bpf.h"
#include "bpf/answer/get.bpf.h"
#include "bpf/answer/item.bpf.h"
#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/meta.bpf.h"
#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"

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

/* What mg wants of an item but its bytes: FOUND_HIT or a reason. */
static __always_inline enum verdict
item_note(struct scratch *scratch, const struct item_place *place, const struct item_facts *item)
{
    scratch->mg.cas = item_cas(place);
    scratch->mg.ttl = item->exptime ? item->exptime - (u32)(item->now / 1000000000) : ~0ull;
    return scratch->mg.given & META_ASKS ? mg_agrees(scratch, place, item) : FOUND_HIT;
}

/* Adds an item to the reply as binary wants it, */
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

/* and as mg does. */
static __always_inline enum verdict item_to_meta(struct scratch *scratch,
                                                 const struct item_place *place)
{
    const struct item_suffix *suffix;
    struct item_facts item;
    enum verdict rc = item_read(scratch, place, &item);
    u64 at, n;

    if (rc == FOUND_HIT)
        rc = item_note(scratch, place, &item);
    if (rc != FOUND_HIT)
        return rc;
    suffix = item_suffix(scratch, place, &item);
    if (!suffix)
        return PASS_ITEM;
    at = mg_line(scratch, suffix);
    n = scratch->mg.given & META_BIT('v') ? item.nvalue + TAIL : 0;
    scratch->nwire = at + n - scratch->nreply;
    return reply_wire(scratch, at, place->extent, item.value, n, 0);
}

static __always_inline enum verdict item_to_verb(struct scratch *scratch,
                                                 const struct item_place *place)
{
    return scratch->verb == VERB_BINARY ? item_to_binary(scratch, place)
                                        : item_to_meta(scratch, place);
}

__attribute__((noinline)) int verb_find(struct scratch *scratch)
{
    return scratch ? key_find(scratch, item_to_verb) : PASS_ERROR;
}

/* Looks the key up, again if a writer was there: as key_find, or that the bucket is busy. */
static __always_inline enum verdict verb_find_still(struct scratch *scratch)
{
    enum verdict rc = FOUND_RETRY;
    int i;

    for (i = 0; i < TRIES_MAX; i++) {
        rc = verb_find(scratch);
        if (likely(rc != FOUND_RETRY))
            return rc;
    }
    return PASS_BUSY;
}

/* How a verb's key is looked up: by a function that tries again, or in line and once. */
enum look { LOOK_AGAIN, LOOK_ONCE };

/* The item of the key is in the reply and counted, or missing, or as key_find says. */
static __always_inline enum verdict verb_look(struct scratch *scratch, const enum verb verb,
                                              const enum look look)
{
    enum verdict rc;

    if (look == LOOK_AGAIN)
        rc = verb_find_still(scratch);
    else if (verb == VERB_BINARY)
        rc = key_find(scratch, item_to_binary);
    else
        rc = key_find(scratch, item_to_meta);
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
    return scratch ? key_step(scratch, item_to_gets) : PASS_ERROR;
}

__attribute__((noinline)) int gets_round(struct scratch *scratch)
{
    return scratch ? keys_take(scratch, gets_step) : PASS_ERROR;
}

/* --- all of them ----------------------------------------------------------------- */

/* Whether a request that begins with these bytes may be answered here. */
static __always_inline int text_is_verb(u32 text)
{
    if ((u8)text == BINARY_MAGIC)
        return binary_reads(text >> 8 & 0xff);
    return text == TEXT_GETS || (text & TEXT_META_MASK) == TEXT_META;
}

/* Answers a request of one key. STEP_END, a reason, or of LOOK_ONCE FOUND_RETRY. */
static __always_inline enum verdict verb_answer_one(struct scratch *scratch, const enum verb verb,
                                                    const enum look look)
{
    enum verdict rc;

    scratch->verb = verb;
    rc = verb == VERB_BINARY ? binary_parse(scratch) : mg_parse(scratch);
    if (rc != STEP_END)
        return rc;
    rc = verb_look(scratch, verb, look);
    if (rc == FOUND_HIT)
        return STEP_END;
    if (rc != FOUND_MISS)
        return rc;
    if (verb != VERB_BINARY)
        return mg_miss(scratch);
    binary_miss(scratch);
    return STEP_END;
}

/*
 * As get_answer, of a request that begins with one of these verbs. A call's depth has a limit of
 * eight frames, and below here are four.
 */
static __always_inline enum verdict verb_answer(struct scratch *scratch, const enum look look)
{
    u32 text;
    enum verdict rc;

    answer_begin(scratch);
    text = LOAD32(scratch->request);
    if ((u8)text == BINARY_MAGIC)
        return verb_answer_one(scratch, VERB_BINARY, look);
    if (!request_has_newline(scratch))
        return PASS_REQUEST;
    if (text != TEXT_GETS) {
        scratch->at = 3;
        return verb_answer_one(scratch, VERB_META, look);
    }
    scratch->verb = VERB_GETS;
    scratch->at = 5;
    if (scratch->request[4] != ' ')
        return PASS_COMMAND;
    /* The first is mostly the only one, and what disturbs it is looked at again among the rest. */
    rc = look == LOOK_ONCE ? key_step(scratch, item_to_gets) : gets_step(scratch);
    rc = keys_rest(scratch, rc, gets_round);
    barrier(); /* or the verifier follows the sending once for each way to get here */
    return rc;
}

/*
 * Takes a request that is still in its packet, HEAD_GET or HEAD_VERB, into `scratch`: 0 or a
 * reason. judged: its checksum is not wrong.
 */
static __always_inline enum verdict packet_take(struct packet packet, struct scratch *scratch,
                                                enum verdict kind, u32 judged)
{
    enum verdict rc = request_load(packet, scratch, kind == HEAD_GET ? NGET : 0);

    if (!rc && !judged)
        rc = request_check(packet, scratch, kind == HEAD_GET ? TEXT_GET : 0);
    return rc;
}

/* Answers such a request. STEP_END or a reason. */
static __always_inline enum verdict packet_answer(struct packet packet, struct scratch *scratch,
                                                  enum verdict kind)
{
    enum verdict rc = packet_take(packet, scratch, kind, 0);

    if (rc)
        return rc;
    if (kind != HEAD_GET)
        return verb_answer(scratch, LOOK_AGAIN);
    /* XDP has too little stack left for another call. */
    return packet.from == PACKET_XDP ? get_answer(scratch) : get_answer_any(scratch);
}

#endif
