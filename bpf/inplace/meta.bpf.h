/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * meta: "mg KEY FLAGS" with the flags v f c t s k q O in any order, each once and all but O a
 * letter alone. Other flags change the item, or ask for what only the server knows.
 */
#ifndef MC_META_BPF_H
#define MC_META_BPF_H

#include "bpf/inplace/get.bpf.h"
#include "bpf/inplace/item.bpf.h"
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

/* The opaque's word, from `at` on; *end: behind it. STEP_NEXT or a reason. */
static __always_inline int mg_opaque(struct scratch *scratch, u64 at, u64 *end)
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
    *end = at + n;
    return STEP_NEXT;
}

/* What follows `at` of the request: a space and something else, or the end of the line. */
static __always_inline u64 mg_word(struct scratch *scratch, u64 *at)
{
    u64 word = request_word(scratch, *at);

    if (likely((u16)word != (' ' | ' ' << 8)))
        return word;
    scratch->at = *at;
    request_skip(scratch);
    *at = scratch->at - 1;
    return request_word(scratch, *at);
}

/* Notes a flag. 0: it is not one that is answered, or is there twice. */
static __always_inline int mg_note(struct mg *mg, u64 letter)
{
    u64 bit = letter - 'A';

    if (bit > 'z' - 'A')
        return 0;
    bit = 1ull << bit;
    if (!(bit & META_KNOWN) || (bit & mg->given))
        return 0;
    mg->given |= bit;
    if (!(bit & META_SILENT)) {
        mg->flags |= letter << (mg->nflags & 63);
        mg->nflags += 8;
    }
    return 1;
}

/* The flags of a request, which begin at scratch->at. STEP_END or a reason. */
static __always_inline int mg_flags(struct scratch *scratch)
{
    u64 at = scratch->at, word;
    int rc, i;
    u8 letter;

    scratch->mg.given = 0;
    scratch->mg.flags = 0;
    scratch->mg.nflags = 0;
    for (i = 0; i <= META_FLAGS_MAX; i++) {
        BOUND(at, REQUEST_ROOM - 1); /* see mg_line */
        word = mg_word(scratch, &at);
        letter = word;
        if (letter == ' ') {
            at++;
            letter = word >> 8;
        }
        if (letter == '\r' || letter == '\n')
            return request_ends(scratch, at);
        if ((u8)word != ' ' || !mg_note(&scratch->mg, letter))
            return MC_COUNT_PASS_COMMAND;
        if (letter == 'O') {
            rc = mg_opaque(scratch, at, &at);
            if (rc != STEP_NEXT)
                return rc;
        } else {
            at++;
            if ((u8)(word >> 16) > ' ')
                return MC_COUNT_PASS_COMMAND;
        }
    }
    return MC_COUNT_PASS_REQUEST;
}

/* Reads the request behind "mg ", key first. STEP_END or a reason. */
static __always_inline int mg_parse(struct scratch *scratch)
{
    u64 from;

    return key_next(scratch, &from) == STEP_NEXT ? mg_flags(scratch) : MC_COUNT_PASS_REQUEST;
}

static __always_inline u64 reply_opaque(struct scratch *scratch, u64 at)
{
    u64 from = scratch->mg.opaque;
    const char *word;

    BOUND(from, REQUEST_ROOM - 1);
    word = scratch->request + from;
    at = reply_add(scratch, at, ' ', 1);
    reply_text(scratch, at, word, 16);
    reply_text(scratch, at + 16, word + 16, 16);
    return at + scratch->mg.nopaque;
}

/* What a flag answers of an item. */
static __always_inline u64 mg_hit_flag(struct scratch *scratch, u64 at,
                                       const struct item_suffix *suffix, u8 letter)
{
    if (letter == 'O')
        return reply_opaque(scratch, at);
    at = reply_letter(scratch, at, letter);
    switch (letter) {
    case 'k':
        return (u32)reply_key(scratch, at);
    case 'c':
        return reply_number(scratch, at, scratch->mg.cas);
    case 't':
        return scratch->mg.ttl == ~0ull ? reply_add(scratch, at, '-' | '1' << 8, 2)
                                        : reply_number(scratch, at, scratch->mg.ttl);
    case 'f':
        return reply_text(scratch, at, suffix->bytes + 1, scratch->ndigits);
    default: /* s */
        return reply_nbytes(scratch, at, suffix);
    }
}

/* The line of a hit: where it ends. */
__attribute__((noinline)) int mg_line(struct scratch *scratch, const struct item_suffix *suffix)
{
    u64 flags, at;
    int i;

    if (!scratch || !suffix)
        return 0;
    flags = scratch->mg.flags;
    at = scratch->nreply;
    if (scratch->mg.given & META_BIT('v')) {
        at = reply_add(scratch, at, 'V' | 'A' << 8 | ' ' << 16, 3);
        at = reply_nbytes(scratch, at, suffix);
    } else {
        at = reply_add(scratch, at, 'H' | 'D' << 8, 2);
    }
    for (i = 0; i < META_FLAGS_MAX; i++) {
        BOUND(at, 2047); /* whichever flag it was: then the verifier need not follow all orders */
        if (!flags)
            break;
        at = mg_hit_flag(scratch, at, suffix, flags);
        flags >>= 8;
    }
    return reply_add(scratch, at, '\r' | '\n' << 8, 2);
}

/* The answer to a miss. STEP_END, or the reason why there is none. */
static __always_inline int mg_miss(struct scratch *scratch)
{
    u64 flags = scratch->mg.flags, at = scratch->nreply;
    int i;

    if (scratch->mg.given & META_BIT('q'))
        return MC_COUNT_PASS_COMMAND;
    at = reply_add(scratch, at, 'E' | 'N' << 8, 2);
    for (i = 0; i < META_FLAGS_MAX; i++) {
        BOUND(at, 2047);
        if (!flags)
            break;
        if ((u8)flags == 'O') {
            at = reply_opaque(scratch, at);
        } else if ((u8)flags == 'k') {
            at = reply_letter(scratch, at, 'k');
            at = (u32)reply_key(scratch, at);
        }
        flags >>= 8;
    }
    scratch->nreply = reply_add(scratch, at, '\r' | '\n' << 8, 2);
    return STEP_END;
}

#endif
