/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * meta: "mg KEY FLAGS" with the flags v f c t s k q O in any order, each once and all but O a
 * letter alone. Other flags change the item, or ask for what only the server knows.
 */
#ifndef MC_META_BPF_H
#define MC_META_BPF_H

#include "bpf/inplace/get.bpf.h"
#include "bpf/inplace/reply.bpf.h"
#include "bpf/packet/kernel.bpf.h"
#include "bpf/packet/packet.bpf.h"

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
static __always_inline int meta_opaque(struct work *work, u64 at)
{
    u64 n = 0, blank = 0, i;

    for (i = 0; i <= META_OPAQUE_MAX / 8; i++) {
        blank = bytes_blank(request_word(work, at + n));
        if (blank)
            break;
        n += 8;
    }
    if (!blank)
        return MC_COUNT_PASS_REQUEST;
    n += bytes_below(blank);
    if (n > META_OPAQUE_MAX)
        return MC_COUNT_PASS_REQUEST;
    work->opaque = at;
    work->nopaque = n;
    work->at = at + n;
    return STEP_NEXT;
}

/* Takes the next flag: STEP_NEXT, STEP_END or a reason. */
__attribute__((noinline)) int meta_flag(struct work *work)
{
    u64 at, bit;
    u8 letter;
    int rc;

    if (!work)
        return MC_COUNT_PASS_ERROR;
    at = work->at;
    letter = request_word(work, at);
    if (likely(letter == ' ')) {
        /* One is the rule. */
        work->at = ++at;
        letter = request_word(work, at);
    }
    if (unlikely(letter == ' ')) {
        rc = request_skip(work);
        if (rc != STEP_NEXT)
            return rc;
        at = work->at;
        letter = request_word(work, at);
    }
    if (letter == '\r' || letter == '\n')
        return request_ends(work, at);
    bit = letter - 'A';
    if (bit > 'z' - 'A')
        return MC_COUNT_PASS_COMMAND;
    bit = 1ull << bit;
    if (!(bit & META_KNOWN) || (bit & work->given))
        return MC_COUNT_PASS_COMMAND;
    work->given |= bit;
    if (!(bit & META_SILENT)) {
        work->flags |= (u64)letter << (work->nflags & 63);
        work->nflags += 8;
    }
    if (letter == 'O')
        return meta_opaque(work, at);
    if (letter == 't')
        work->now = (coarse_ns() - control.base_ns) / 1000000000;
    work->at = ++at;
    return (u8)request_word(work, at) > ' ' ? MC_COUNT_PASS_COMMAND : STEP_NEXT;
}

/* Reads the request behind "mg ", key first. STEP_END or a reason. */
static __always_inline int meta_parse(struct work *work)
{
    u64 from;
    int rc, i;

    work->given = 0;
    work->flags = 0;
    work->nflags = 0;
    rc = key_next(work, &from);
    if (rc != STEP_NEXT)
        return MC_COUNT_PASS_REQUEST;
    for (i = 0; i <= META_FLAGS_MAX; i++) {
        rc = meta_flag(work);
        if (rc != STEP_NEXT)
            return rc;
    }
    return MC_COUNT_PASS_REQUEST;
}

static __always_inline void reply_opaque(struct work *work)
{
    u64 from = work->opaque, at = work->nreply;
    void *out;

    BOUND(from, REQUEST_ROOM - 1);
    BOUND(at, 2047);
    out = work->reply + at;
    STORE64(out, LOAD64(work->request + from));
    STORE64(out + 8, LOAD64(work->request + from + 8));
    STORE64(out + 16, LOAD64(work->request + from + 16));
    STORE64(out + 24, LOAD64(work->request + from + 24));
    work->nreply += work->nopaque;
}

/* What is to follow what a flag has answered: the key, work->number. */
enum { META_ALL, META_KEY, META_NUMBER };

/* What a flag answers; `hit`: of an item. What is to follow is the caller's: one call less deep. */
__attribute__((noinline)) int meta_answer_flag(struct work *work, u32 letter, u32 hit)
{
    if (!work)
        return META_ALL;
    if (letter == 'O') {
        reply_add(work, ' ', 1);
        reply_opaque(work);
        return META_ALL;
    }
    if (!hit && letter != 'k')
        return META_ALL;
    reply_letter(work, letter);
    if (letter == 'k')
        return META_KEY;
    if (letter == 'c') {
        work->number = work->cas;
        return META_NUMBER;
    }
    if (letter == 't' && work->exptime) {
        work->number = work->exptime - work->now;
        return META_NUMBER;
    }
    if (letter == 'f')
        reply_suffix(work, 1, work->ndigits);
    else if (letter == 's')
        reply_suffix(work, work->ndigits + 2, work->nsuffix - work->ndigits - 4);
    else /* t */
        reply_add(work, '-' | '1' << 8, 2);
    return META_ALL;
}

static __always_inline void meta_answer_flags(struct work *work, u32 hit)
{
    u64 flags = work->flags;
    int i, rest;

    for (i = 0; i < META_FLAGS_MAX; i++) {
        if (!flags)
            break;
        rest = meta_answer_flag(work, flags & 0xff, hit);
        if (rest == META_KEY)
            reply_key(work);
        else if (rest == META_NUMBER)
            reply_number(work, work->number);
        flags >>= 8;
    }
    reply_add(work, '\r' | '\n' << 8, 2);
}

/* The line of a hit. */
static __always_inline void meta_line(struct work *work)
{
    if (work->given & META_BIT('v')) {
        reply_add(work, 'V' | 'A' << 8 | ' ' << 16, 3);
        reply_suffix(work, work->ndigits + 2, work->nsuffix - work->ndigits - 4);
    } else {
        reply_add(work, 'H' | 'D' << 8, 2);
    }
    meta_answer_flags(work, 1);
}

/* The answer to a miss. STEP_END, or the reason why there is none. */
static __always_inline int meta_miss(struct work *work)
{
    if (work->given & META_BIT('q'))
        return MC_COUNT_PASS_COMMAND;
    reply_add(work, 'E' | 'N' << 8, 2);
    meta_answer_flags(work, 0);
    return STEP_END;
}

#endif
