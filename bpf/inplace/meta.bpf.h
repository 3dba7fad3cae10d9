/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * meta: "mg KEY FLAGS" with the flags v f c t s k q O in any order, each once and all but O a
 * letter alone. Other flags change the item, or ask for what only the server knows.
 */
#ifndef MC_META_BPF_H
#define MC_META_BPF_H

#include "bpf/inplace/get.bpf.h"
#include "bpf/inplace/reply.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/scratch.bpf.h"

/* Flags as bits: the letters from 'A' on. */
#define META_BIT(letter) (1ull << ((letter) - 'A'))
#define META_KNOWN                                                                                 \
    (META_BIT('v') | META_BIT('f') | META_BIT('c') | META_BIT('t') | META_BIT('s') |               \
     META_BIT('k') | META_BIT('q') | META_BIT('O'))
/* These are not repeated in an answer. */
#define META_SILENT (META_BIT('v') | META_BIT('q'))

enum {
    META_FLAGS_MAX = 8,
    META_OPAQUE_MAX = 32, /* its letter included */
};

/* The opaque's word, from `at` on: its length. STEP_NEXT or a reason. */
static __always_inline int mg_opaque(struct scratch *scratch, u64 at)
{
    u64 n = 0, blank = 0, i;

    for (i = 0; i <= META_OPAQUE_MAX / 8; i++) {
        blank = bytes_blank(request_word(scratch, at + n));
        if (blank)
            break;
        n += 8;
    }
    if (!blank)
        return MC_COUNT_PASS_REQUEST;
    n += bytes_below(blank);
    if (n > META_OPAQUE_MAX)
        return MC_COUNT_PASS_REQUEST;
    scratch->mg.opaque = at;
    scratch->mg.nopaque = n;
    scratch->at = at + n;
    return STEP_NEXT;
}

/* Takes the next flag: STEP_NEXT, STEP_END or a reason. */
__attribute__((noinline)) int mg_flag(struct scratch *scratch)
{
    u64 at, bit;
    u8 letter;
    int rc;

    if (!scratch)
        return MC_COUNT_PASS_ERROR;
    at = scratch->at;
    letter = request_word(scratch, at);
    if (likely(letter == ' ')) {
        /* One is the rule. */
        scratch->at = ++at;
        letter = request_word(scratch, at);
    }
    if (unlikely(letter == ' ')) {
        rc = request_skip(scratch);
        if (rc != STEP_NEXT)
            return rc;
        at = scratch->at;
        letter = request_word(scratch, at);
    }
    if (letter == '\r' || letter == '\n')
        return request_ends(scratch, at);
    bit = letter - 'A';
    if (bit > 'z' - 'A')
        return MC_COUNT_PASS_COMMAND;
    bit = 1ull << bit;
    if (!(bit & META_KNOWN) || (bit & scratch->mg.given))
        return MC_COUNT_PASS_COMMAND;
    scratch->mg.given |= bit;
    if (!(bit & META_SILENT)) {
        scratch->mg.flags |= (u64)letter << (scratch->mg.nflags & 63);
        scratch->mg.nflags += 8;
    }
    if (letter == 'O')
        return mg_opaque(scratch, at);
    if (letter == 't')
        scratch->mg.now = (coarse_ns() - control.base_ns) / 1000000000;
    scratch->at = ++at;
    return (u8)request_word(scratch, at) > ' ' ? MC_COUNT_PASS_COMMAND : STEP_NEXT;
}

/* Reads the request behind "mg ", key first. STEP_END or a reason. */
static __always_inline int mg_parse(struct scratch *scratch)
{
    u64 from;
    int rc, i;

    scratch->mg.given = 0;
    scratch->mg.flags = 0;
    scratch->mg.nflags = 0;
    rc = key_next(scratch, &from);
    if (rc != STEP_NEXT)
        return MC_COUNT_PASS_REQUEST;
    for (i = 0; i <= META_FLAGS_MAX; i++) {
        rc = mg_flag(scratch);
        if (rc != STEP_NEXT)
            return rc;
    }
    return MC_COUNT_PASS_REQUEST;
}

static __always_inline void reply_opaque(struct scratch *scratch)
{
    u64 from = scratch->mg.opaque, at = scratch->nreply;
    void *out;

    BOUND(from, REQUEST_ROOM - 1);
    BOUND(at, 2047);
    out = scratch->reply + at;
    STORE64(out, LOAD64(scratch->request + from));
    STORE64(out + 8, LOAD64(scratch->request + from + 8));
    STORE64(out + 16, LOAD64(scratch->request + from + 16));
    STORE64(out + 24, LOAD64(scratch->request + from + 24));
    scratch->nreply += scratch->mg.nopaque;
}

/* What is to follow what a flag has answered: the key, scratch->mg.number. */
enum { META_ALL, META_KEY, META_NUMBER };

/* What a flag answers; `hit`: of an item. What is to follow is the caller's: one call less deep. */
__attribute__((noinline)) int mg_answer_flag(struct scratch *scratch, u32 letter, u32 hit)
{
    if (!scratch)
        return META_ALL;
    if (letter == 'O') {
        reply_add(scratch, ' ', 1);
        reply_opaque(scratch);
        return META_ALL;
    }
    if (!hit && letter != 'k')
        return META_ALL;
    reply_letter(scratch, letter);
    if (letter == 'k')
        return META_KEY;
    if (letter == 'c') {
        scratch->mg.number = scratch->item.cas;
        return META_NUMBER;
    }
    if (letter == 't' && scratch->item.exptime) {
        scratch->mg.number = scratch->item.exptime - scratch->mg.now;
        return META_NUMBER;
    }
    if (letter == 'f')
        reply_suffix(scratch, 1, scratch->item.ndigits);
    else if (letter == 's')
        reply_suffix(scratch, scratch->item.ndigits + 2,
                     scratch->item.nsuffix - scratch->item.ndigits - 4);
    else /* t */
        reply_add(scratch, '-' | '1' << 8, 2);
    return META_ALL;
}

static __always_inline void mg_answer_flags(struct scratch *scratch, u32 hit)
{
    u64 flags = scratch->mg.flags;
    int i, rest;

    for (i = 0; i < META_FLAGS_MAX; i++) {
        if (!flags)
            break;
        rest = mg_answer_flag(scratch, flags & 0xff, hit);
        if (rest == META_KEY)
            reply_key(scratch);
        else if (rest == META_NUMBER)
            reply_number(scratch, scratch->mg.number);
        flags >>= 8;
    }
    reply_add(scratch, '\r' | '\n' << 8, 2);
}

/* The line of a hit. */
static __always_inline void mg_line(struct scratch *scratch)
{
    if (scratch->mg.given & META_BIT('v')) {
        reply_add(scratch, 'V' | 'A' << 8 | ' ' << 16, 3);
        reply_suffix(scratch, scratch->item.ndigits + 2,
                     scratch->item.nsuffix - scratch->item.ndigits - 4);
    } else {
        reply_add(scratch, 'H' | 'D' << 8, 2);
    }
    mg_answer_flags(scratch, 1);
}

/* The answer to a miss. STEP_END, or the reason why there is none. */
static __always_inline int mg_miss(struct scratch *scratch)
{
    if (scratch->mg.given & META_BIT('q'))
        return MC_COUNT_PASS_COMMAND;
    reply_add(scratch, 'E' | 'N' << 8, 2);
    mg_answer_flags(scratch, 0);
    return STEP_END;
}

#endif
