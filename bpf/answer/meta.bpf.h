/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * meta: "mg KEY FLAGS" with the flags v f c t s k q O h l N R in any order, each once; O has a word
 * and N and R a number behind them, all others are a letter alone. Other flags change the item, or
 * ask for what only the server knows. So may h, l, N and R: they are answered where what they ask
 * for changes nothing.
 */
#ifndef MC_META_BPF_H
#define MC_META_BPF_H

#include "bpf/answer/item.bpf.h"
#include "bpf/answer/reply.bpf.h"
#include "bpf/answer/scratch.bpf.h"
#include "bpf/answer/text.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/bytes.bpf.h"

/* Flags as bits: the letters from 'A' on. */
#define META_BIT(letter) (1ull << ((letter) - 'A'))
/* Those that are repeated in an answer, */
#define META_SHOWN                                                                                 \
    (META_BIT('f') | META_BIT('c') | META_BIT('t') | META_BIT('s') | META_BIT('k') |               \
     META_BIT('O') | META_BIT('h') | META_BIT('l'))
/* and all that are answered. */
#define META_KNOWN (META_SHOWN | META_BIT('v') | META_BIT('q') | META_BIT('N') | META_BIT('R'))
/* Of these it depends on the item; */
#define META_ASKS (META_BIT('l') | META_BIT('R'))
/* these have something behind their letter. */
#define META_VALUED (META_BIT('O') | META_BIT('N') | META_BIT('R'))

enum {
    META_FLAGS_MAX = 12,
    META_SHOWN_MAX = 8,
    META_OPAQUE_MAX = 32,             /* its letter included */
    META_DIGITS_MAX = 7,              /* of a number */
    META_RELATIVE = 60 * 60 * 24 * 30 /* seconds; more is a time since 1970 */
};

/* The opaque's word, from `at` on; *end: behind it. STEP_NEXT or a reason. */
static __always_inline enum verdict mg_opaque(struct scratch *scratch, u64 at, u64 *end)
{
    u64 n = 0, blank = 0, i;

    for (i = 0; i <= META_OPAQUE_MAX / 8; i++) {
        blank = bytes_blank(request_word(scratch, at + n));
        if (blank)
            break;
        n += 8;
    }
    if (!blank)
        return PASS_REQUEST;
    n += bytes_below(blank);
    if (n > META_OPAQUE_MAX)
        return PASS_REQUEST;
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

/* A number's digits, from `at` on; *end: behind them. STEP_NEXT or a reason. */
static __always_inline enum verdict mg_number(struct scratch *scratch, u64 at, u64 *number,
                                              u64 *end)
{
    u64 word = request_word(scratch, at), blank = bytes_blank(word), n;

    if (!blank)
        return PASS_COMMAND;
    n = bytes_below(blank);
    if (n - 1 >= META_DIGITS_MAX)
        return PASS_COMMAND;
    /* One digit a byte, the first in the lowest that is none of the zeros put before them. */
    word = (word ^ '0' * MASK_BYTES) << 8 * (8 - n);
    if (((word + (0x7f - 9) * MASK_BYTES) | word) & MASK_TOPS)
        return PASS_COMMAND;
    word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ff;
    word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffff;
    *number = (u32)(word * 10000 + (word >> 32));
    *end = at + n;
    return STEP_NEXT;
}

/*
 * What is behind the letter of O, N or R, from `at` on: where it ends, or a reason times -1. A
 * function: the verifier follows it once, and not for each flag.
 */
__attribute__((noinline)) int mg_value(struct scratch *scratch, u32 letter, u32 at)
{
    u64 number = 0, end = at;
    enum verdict rc;

    if (!scratch)
        return -PASS_ERROR;
    if (letter == 'O') {
        rc = mg_opaque(scratch, end - 1, &end);
        return rc == STEP_NEXT ? (int)end : -rc;
    }
    rc = mg_number(scratch, end, &number, &end);
    if (rc != STEP_NEXT || number > META_RELATIVE)
        return -PASS_COMMAND;
    if (letter == 'R')
        scratch->mg.recache = number;
    return end;
}

/* Notes a flag, and *bit: its. 0: it is not one that is answered, or is there twice. */
static __always_inline int mg_note(struct mg *mg, u64 letter, u64 *out)
{
    u64 bit = letter - 'A';

    if (bit > 'z' - 'A')
        return 0;
    *out = bit = 1ull << bit;
    if (!(bit & META_KNOWN) || (bit & mg->given))
        return 0;
    mg->given |= bit;
    if (bit & META_SHOWN) {
        mg->shown |= letter << (mg->nshown & 63);
        mg->nshown += 8;
    }
    return 1;
}

/*
 * The flags of a request, which begin at scratch->at. STEP_END or a reason. What was read is in
 * memory, where the verifier forgets it: Linux 6.1 follows all orders of what is in registers.
 */
static __always_inline enum verdict mg_flags(struct scratch *scratch)
{
    u64 at = scratch->at, word, bit;
    int rc, i;
    u8 letter;

    scratch->mg.given = 0;
    scratch->mg.shown = 0;
    scratch->mg.nshown = 0;
    for (i = 0; i <= META_FLAGS_MAX; i++) {
        bound_mask(at, REQUEST_ROOM - 1); /* see mg_line */
        word = mg_word(scratch, &at);
        letter = word;
        if (letter == ' ') {
            at++;
            letter = word >> 8;
        }
        if (letter == '\r' || letter == '\n')
            return request_ends(scratch, at);
        if ((u8)word != ' ' || !mg_note(&scratch->mg, letter, &bit))
            return PASS_COMMAND;
        at++;
        if (bit & META_VALUED) {
            rc = mg_value(scratch, letter, at);
            if (rc < 0)
                return -rc;
            at = rc;
        } else if ((u8)(word >> 16) > ' ') {
            return PASS_COMMAND;
        }
    }
    return PASS_REQUEST;
}

/* A letter of a word's two bytes n as a bit: META_BIT moved up by one; bit 0: no letter. */
#define SHORT_BIT(word, n) (1ull << ((word) >> (16 * (n) + 8) & 63))

/*
 * The same of one to four flags that are a letter alone, with one space before each and "\r\n"
 * behind the last: most requests. All are in one word. 0: it is none of these; nothing is noted.
 */
static __always_inline int mg_flags_short(struct scratch *scratch)
{
    const u64 letters = 0x4020402040204020;
    u64 at = scratch->at, n = scratch->nrequest - at - 2, word, none, given, sum;

    if (n - 1 >= 8 || n & 1 || (u16)request_word(scratch, at + n) != 0x0a0d)
        return 0;
    /* To the upper end, zeros before it. */
    none = 64 - 8 * n;
    word = request_word(scratch, at) << none;
    if ((word & 0xc0ffc0ffc0ffc0ff) != letters << none)
        return 0;
    given = SHORT_BIT(word, 0) | SHORT_BIT(word, 1) | SHORT_BIT(word, 2) | SHORT_BIT(word, 3);
    sum = SHORT_BIT(word, 0) + SHORT_BIT(word, 1) + SHORT_BIT(word, 2) + SHORT_BIT(word, 3);
    given = (given & ~1ull) >> 1;
    /* Each once: then there is no carry. */
    if (sum - none / 16 != given << 1 || given & ~(META_KNOWN & ~META_VALUED))
        return 0;
    word = word >> 8 & 0x00ff00ff00ff00ff;
    word = (word | word >> 8) & 0x0000ffff0000ffff;
    scratch->mg.given = given;
    scratch->mg.shown = (u32)(word | word >> 16) >> none / 2;
    return 1;
}

/* Reads the request behind "mg ", key first. STEP_END or a reason. */
static __always_inline enum verdict mg_parse(struct scratch *scratch)
{
    enum verdict rc;

    if (key_next(scratch) != STEP_NEXT)
        return PASS_REQUEST;
    rc = mg_flags_short(scratch) ? STEP_END : mg_flags(scratch);
    /* A hit leaves a mark that says that an item was read: h is looked at before. */
    if (scratch->mg.given & META_BIT('h'))
        scratch->needs = MC_ITEM_FETCHED;
    return rc;
}

/* " O" and its word: where it ends. A function: rarely asked for, and long to verify. */
__attribute__((noinline)) int reply_opaque(struct scratch *scratch, u64 at)
{
    const char *word;
    u64 from;

    if (!scratch)
        return 0;
    from = scratch->mg.opaque;
    bound_mask(from, REQUEST_ROOM - 1);
    word = scratch->request + from;
    at = reply_add(scratch, at, ' ', 1);
    reply_text(scratch, at, word, 16);
    reply_text(scratch, at + 16, word + 16, 16);
    return at + scratch->mg.nopaque;
}

/*
 * Whether what META_ASKS asks of an item changes nothing: it has been read in this second (l: so
 * its age is 0), and does not expire so soon that somebody is to store it again (R). FOUND_HIT or a
 * reason.
 */
static __always_inline enum verdict mg_agrees(const struct scratch *scratch,
                                              const struct item_place *place,
                                              const struct item_facts *item)
{
    const char *header = place->extent + place->offset;
    u64 given = scratch->mg.given, recache = scratch->mg.recache, now;

    now = (item->exptime ? item->now : coarse_ns() - control.base_ns) / 1000000000;
    if (given & META_BIT('l') && LOAD32(header + ITEM_TIME) < now)
        return PASS_ITEM;
    if (given & META_BIT('R') && item->exptime && recache && item->exptime < now + recache)
        return PASS_ITEM;
    return FOUND_HIT;
}

/* What a flag answers of an item. */
static __always_inline u64 mg_hit_flag(struct scratch *scratch, u64 at,
                                       const struct item_suffix *suffix, u8 letter)
{
    if (letter == 'O')
        return (u32)reply_opaque(scratch, at);
    if (letter == 'v' || letter == 'q')
        return at;
    at = reply_letter(scratch, at, letter);
    switch (letter) {
    case 'k':
        return (u32)reply_key(scratch, at);
    case 'h':
        return reply_add(scratch, at, '1', 1);
    case 'l':
        return reply_add(scratch, at, '0', 1);
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
static __always_inline u64 mg_line(struct scratch *scratch, const struct item_suffix *suffix)
{
    u64 flags, at;
    int i;

    flags = scratch->mg.shown;
    at = scratch->nreply;
    if (scratch->mg.given & META_BIT('v')) {
        at = reply_add(scratch, at, 'V' | 'A' << 8 | ' ' << 16, 3);
        at = reply_nbytes(scratch, at, suffix);
    } else {
        at = reply_add(scratch, at, 'H' | 'D' << 8, 2);
    }
    for (i = 0; i < META_SHOWN_MAX; i++) {
        bound_mask(at,
                   2047); /* whichever flag it was: then the verifier need not follow all orders */
        if (!flags)
            break;
        at = mg_hit_flag(scratch, at, suffix, flags);
        flags >>= 8;
    }
    return reply_add(scratch, at, '\r' | '\n' << 8, 2);
}

/* The answer to a miss, none to a quiet one. STEP_END, or a reason. */
static __always_inline enum verdict mg_miss(struct scratch *scratch)
{
    u64 flags = scratch->mg.shown, at = scratch->nreply;
    int i;

    if (scratch->mg.given & META_BIT('N'))
        return PASS_COMMAND;
    if (scratch->mg.given & META_BIT('q'))
        return STEP_END;
    if (!(scratch->mg.given & (META_BIT('k') | META_BIT('O')))) {
        scratch->nreply = reply_add(scratch, at, 'E' | 'N' << 8 | '\r' << 16 | '\n' << 24, 4);
        return STEP_END;
    }
    at = reply_add(scratch, at, 'E' | 'N' << 8, 2);
    for (i = 0; i < META_SHOWN_MAX; i++) {
        bound_mask(at, 2047);
        if (!flags)
            break;
        if ((u8)flags == 'O') {
            at = (u32)reply_opaque(scratch, at);
        } else if ((u8)flags == 'k') {
            at = reply_letter(scratch, at, 'k');
            at = (u32)reply_key(scratch, at);
        }
        flags >>= 8;
    }
    scratch->nreply = reply_add(scratch, at, '\r' | '\n' << 8, 2);
    return STEP_END;
}

/* What mg wants of an item but its bytes: FOUND_HIT or a reason. */
static __always_inline enum verdict
item_note(struct scratch *scratch, const struct item_place *place, const struct item_facts *item)
{
    scratch->mg.cas = item_cas(place);
    scratch->mg.ttl = item->exptime ? item->exptime - (u32)(item->now / 1000000000) : ~0ull;
    return scratch->mg.given & META_ASKS ? mg_agrees(scratch, place, item) : FOUND_HIT;
}

/* Adds an item to the reply as mg does. */
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

#endif
