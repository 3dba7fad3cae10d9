/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * get: a whole request, answered from the server's memory into struct scratch: get and gets of any
 * number of keys, mg (meta.bpf.h), and Get, GetQ, GetK and GetKQ of the binary protocol
 * (binary.bpf.h). All but get share one lookup, which writes the text before the value and copies
 * the value behind it, under one reading of the bucket's counter.
 *
 * In scratch->request a get is without its "get ", any other begins with its verb.
 */
#ifndef MC_GET_BPF_H
#define MC_GET_BPF_H

#include "bpf/answer/binary.bpf.h"
#include "bpf/answer/item.bpf.h"
#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/meta.bpf.h"
#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/answer/text.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"

enum verb { VERB_GETS, VERB_META, VERB_BINARY };

/* The first bytes of a text as a little-endian number. */
#define TEXT_GETS      0x73746567u
#define TEXT_META      0x20676du /* "mg " */
#define TEXT_META_MASK 0xffffffu

/* Whether a request that begins with these bytes may be answered here. */
static __always_inline int text_is_verb(u32 text)
{
    if ((u8)text == BINARY_MAGIC)
        return binary_reads(text >> 8 & 0xff);
    return text == TEXT_GETS || (text & TEXT_META_MASK) == TEXT_META;
}

/* What a request that begins with these bytes seems to be: HEAD_GET, HEAD_VERB or HEAD_FOREIGN. */
static __always_inline enum verdict text_kind(u32 text)
{
    if (text == TEXT_GET)
        return HEAD_GET;
    return text_is_verb(text) ? HEAD_VERB : HEAD_FOREIGN;
}

/* --- get and gets ---------------------------------------------------------------------------- */

/*
 * One key: found and copied, or known to be missing, and the end of the request, if that is behind
 * it; or the same key once more, because a writer was there. `use` puts behind "VALUE ", whose
 * place it leaves free, scratch->nwire bytes.
 */
static __always_inline enum verdict key_step(struct scratch *scratch, item_use *use)
{
    enum verdict rc = key_next(scratch);

    if (rc != STEP_NEXT)
        return rc;
    rc = key_find(scratch, use);
    if (unlikely(rc == FOUND_RETRY)) {
        scratch->nkeys--;
        scratch->at -= scratch->nkey;
        scratch->wire_sum = 0; /* of what was disturbed, not of the hit before it */
        return ++scratch->ntries < TRIES_MAX ? STEP_NEXT : PASS_BUSY;
    }
    scratch->ntries = 0;
    if (rc == FOUND_HIT)
        rc = reply_hit(scratch);
    else if (rc == FOUND_MISS)
        rc = VERDICT_OK;
    return rc ? rc : request_goes_on(scratch);
}

__attribute__((noinline)) int get_step(struct scratch *scratch)
{
    return scratch ? key_step(scratch, item_to_reply) : PASS_ERROR;
}

/* Takes one key of a request, or several. */
typedef int take_keys(struct scratch *scratch);

enum { ROUND_KEYS = 32, ROUNDS_MAX = (KEYS_MAX + KEYS_RETRIED) / ROUND_KEYS };

/* A round's keys, by a function that takes one. The verifier looks at the loop's body for each. */
static __always_inline enum verdict keys_take(struct scratch *scratch, take_keys *step)
{
    enum verdict rc = STEP_NEXT;
    int i;

#pragma clang loop unroll_count(16)
    for (i = 0; i < ROUND_KEYS; i++) {
        rc = step(scratch);
        if (rc != STEP_NEXT)
            break;
    }
    return rc;
}

/* What `rc` says when no more keys are taken. STEP_END: the reply is complete. */
static __always_inline enum verdict keys_end(struct scratch *scratch, enum verdict rc)
{
    if (rc == STEP_END)
        reply_end(scratch);
    return rc == STEP_NEXT ? PASS_REQUEST : rc;
}

/* The keys behind the first, of which `rc` was said, by rounds of up to ROUND_KEYS. */
static __always_inline enum verdict keys_rest(struct scratch *scratch, enum verdict rc,
                                              take_keys *round)
{
    int i;

    for (i = 0; i < ROUNDS_MAX; i++) {
        if (rc != STEP_NEXT)
            break;
        rc = round(scratch);
    }
    return keys_end(scratch, rc);
}

__attribute__((noinline)) int get_round(struct scratch *scratch)
{
    return scratch ? keys_take(scratch, get_step) : PASS_ERROR;
}

/* Answers the request in scratch->request, behind what the reply has. As get_answer. */
static __always_inline enum verdict get_add(struct scratch *scratch)
{
    request_begin(scratch);
    if (!request_has_newline(scratch))
        return PASS_REQUEST;
    return keys_rest(scratch, get_step(scratch), get_round);
}

/*
 * Answers the request in scratch->request. STEP_END: the reply's text follows REPLY_TEXT bytes of
 * room for its headers; otherwise a reason to pass.
 */
static __always_inline enum verdict get_answer(struct scratch *scratch)
{
    reply_begin(scratch);
    return get_add(scratch);
}

/*
 * The same where several ways lead here, which Linux 6.1 would follow through all of it one by one.
 */
__attribute__((noinline)) int get_answer_any(struct scratch *scratch)
{
    return scratch ? get_answer(scratch) : PASS_ERROR;
}

__attribute__((noinline)) int gets_step(struct scratch *scratch)
{
    return scratch ? key_step(scratch, item_to_gets) : PASS_ERROR;
}

__attribute__((noinline)) int gets_round(struct scratch *scratch)
{
    return scratch ? keys_take(scratch, gets_step) : PASS_ERROR;
}

/* --- a verb of one key ----------------------------------------------------------------------- */

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
    rc = hit_note(scratch);
    return rc ? rc : FOUND_HIT;
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

/* --- any request ----------------------------------------------------------------------------- */

/*
 * Answers a request that begins with one of these verbs, as get_add does a get. Linux limits calls
 * to eight frames; this function needs four below it.
 */
static __always_inline enum verdict verb_add(struct scratch *scratch, const enum look look)
{
    u32 text;
    enum verdict rc;

    request_begin(scratch);
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

static __always_inline enum verdict verb_answer(struct scratch *scratch, const enum look look)
{
    reply_begin(scratch);
    return verb_add(scratch, look);
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
    return kind == HEAD_GET ? get_answer_any(scratch) : verb_answer(scratch, LOOK_AGAIN);
}

#endif
