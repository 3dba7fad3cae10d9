/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * get: a whole request (request.bpf.h), answered from the server's memory into struct scratch.
 */
#ifndef MC_GET_BPF_H
#define MC_GET_BPF_H

#include "bpf/answer/lookup.bpf.h"
#include "bpf/answer/request.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"

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

/*
 * Answers the request in scratch->request. STEP_END: the reply's text stands behind REPLY_TEXT
 * bytes of room for its headers; otherwise a reason to pass.
 */
static __always_inline enum verdict get_answer(struct scratch *scratch)
{
    answer_begin(scratch);
    if (!request_has_newline(scratch))
        return PASS_REQUEST;
    return keys_rest(scratch, get_step(scratch), get_round);
}

/* The same where several ways lead here, which Linux 6.1 would follow through all of it one by one.
 */
__attribute__((noinline)) int get_answer_any(struct scratch *scratch)
{
    return scratch ? get_answer(scratch) : PASS_ERROR;
}

#endif
