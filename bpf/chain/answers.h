/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * answers: what a memcached says on one connection, byte by byte; the other half of follow.h.
 *
 * It is used in the same way, and finds where each answer ends. It counts rather too few than too
 * many: what it does not know is ANSWERS_LOST.
 */
#ifndef MC_ANSWERS_H
#define MC_ANSWERS_H

#include "bpf/chain/follow.h"

/*
 * Answers of one byte. To the n-th command that is ANSWERED or UNCERTAIN (bpf/chain/follow.h)
 * belongs the n-th ANSWERS_REPLY or an earlier one. Answers to quiet binary commands are not
 * counted. With ERROR it may be that to a command that was SILENT; of a server that takes text
 * otherwise than follow.h it may be the first sign of that. MN stands with the REPLY to a BARRIER.
 */
enum answers_event {
    ANSWERS_REPLY = 1 << 0,
    ANSWERS_ERROR = 1 << 1, /* with REPLY; SERVER_ERROR too. In binary never: it has opcodes */
    ANSWERS_MN = 1 << 2,
    ANSWERS_LOST = 1 << 3, /* cannot be followed from here on; comes once */
};

/*
 *  0  word      the first eight bytes of a line, the first one lowest; the last eight of a header
 *  8  skip      bytes of data that need not be looked at
 * 12  nvalue    of the value that follows
 * 16  line      bytes of the answer so far, data that was skipped not counted
 * 20  state     enum answers_state
 * 21  kind      enum answers_kind; of a binary answer the opcode
 * 22  ntoken    bytes of the token so far, at most 255
 * 23  nth       tokens that are to come before the length of the value
 * 24  protocol  enum follow_protocol
 * 25  nkey      0: a binary answer has no key
 */
struct answers {
    __u64 word;
    __u32 skip;
    __u32 nvalue;
    __u32 line;
    __u8 state;
    __u8 kind;
    __u8 ntoken;
    __u8 nth;
    __u8 protocol;
    __u8 nkey;
    __u8 unused[6];
};

enum answers_state {
    ANSWERS_WORD, /* the first of a line */
    ANSWERS_TOKEN,
    ANSWERS_NUMBER,
    ANSWERS_REST, /* of a line */
    ANSWERS_CR,   /* behind a value */
    ANSWERS_LF,
    ANSWERS_HEADER,
    ANSWERS_BODY,
    ANSWERS_NOWHERE,
};

/* What a line says. */
enum answers_kind {
    ANSWER_STRANGE, /* nothing that we know */
    ANSWER_PART,    /* others follow */
    ANSWER_END,
    ANSWER_ERROR,
    ANSWER_MN,
    ANSWER_VALUE, /* VALUE key flags length */
    ANSWER_VA,    /* VA length flags, and all is said */
};

struct answers_word {
    char name[8]; /* a longer word is known by its first eight bytes */
    __u64 kind;
};

static const struct answers_word answers_words[] = {
    {"END", ANSWER_END},        {"VALUE", ANSWER_VALUE},  {"STORED", ANSWER_END},
    {"HD", ANSWER_END},         {"VA", ANSWER_VA},        {"EN", ANSWER_END},
    {"NOT_FOUN", ANSWER_END},   {"DELETED", ANSWER_END},  {"NOT_STOR", ANSWER_END},
    {"EXISTS", ANSWER_END},     {"TOUCHED", ANSWER_END},  {"OK", ANSWER_END},
    {"STAT", ANSWER_PART},      {"NF", ANSWER_END},       {"NS", ANSWER_END},
    {"EX", ANSWER_END},         {"MN", ANSWER_MN},        {"ME", ANSWER_END},
    {"VERSION", ANSWER_END},    {"ERROR", ANSWER_ERROR},  {"CLIENT_E", ANSWER_ERROR},
    {"SERVER_E", ANSWER_ERROR}, {"RESET", ANSWER_END},    {"mg", ANSWER_PART},
    {"BUSY", ANSWER_END},       {"BADCLASS", ANSWER_END}, {"NOSPARE", ANSWER_END},
    {"NOTFULL", ANSWER_END},    {"UNSAFE", ANSWER_END},   {"SAME", ANSWER_END},
    {"NOTSTART", ANSWER_END},   {"ERROR:", ANSWER_ERROR}, {"MEMLIMIT", ANSWER_END},
    {"Error", ANSWER_ERROR},
};

enum { ANSWERS_WORDS = sizeof(answers_words) / sizeof(*answers_words) };

FOLLOW_INLINE __u32 answers_lose(struct answers *a)
{
    a->state = ANSWERS_NOWHERE;
    a->skip = 0;
    return ANSWERS_LOST;
}

FOLLOW_INLINE void answers_next(struct answers *a, __u8 state)
{
    a->word = 0;
    a->nvalue = 0;
    a->line = 0;
    a->state = state;
    a->kind = ANSWER_STRANGE;
    a->ntoken = 0;
    a->nkey = 0;
}

/* --- text ------------------------------------------------------------------ */

/* The first word of a line has ended. */
FOLLOW_INLINE __u8 answers_kind(const struct answers *a)
{
    __u8 first = (__u8)a->word;
    __u64 name;
    __u32 i;

    for (i = 0; i < ANSWERS_WORDS; i++) {
        __builtin_memcpy(&name, answers_words[i].name, sizeof(name));
        if (name == a->word)
            return (__u8)answers_words[i].kind;
    }
    if (first >= '0' && first <= '9')
        return ANSWER_END;
    return (__u32)a->word == ('k' | 'e' << 8 | 'y' << 16 | '=' << 24) ? ANSWER_PART
                                                                      : ANSWER_STRANGE;
}

FOLLOW_INLINE __u32 answers_line_end(struct answers *a)
{
    __u8 kind = a->kind;

    if (kind == ANSWER_VALUE || kind == ANSWER_VA) {
        a->skip = a->nvalue;
        a->state = ANSWERS_CR;
        return 0;
    }
    answers_next(a, ANSWERS_WORD);
    if (kind == ANSWER_PART) {
        a->line = 1;
        return 0;
    }
    if (kind == ANSWER_ERROR)
        return ANSWERS_REPLY | ANSWERS_ERROR;
    return kind == ANSWER_MN ? ANSWERS_REPLY | ANSWERS_MN : ANSWERS_REPLY;
}

FOLLOW_INLINE __u32 answers_word(struct answers *a, __u8 byte)
{
    if (byte != ' ' && byte != '\r' && byte != '\n') {
        if (a->ntoken < 8)
            a->word |= (__u64)byte << a->ntoken * 8;
        if (a->ntoken < 255)
            a->ntoken++;
        return 0;
    }
    a->kind = answers_kind(a);
    if (a->kind == ANSWER_STRANGE)
        return answers_lose(a);
    a->state = ANSWERS_REST;
    if (a->kind == ANSWER_VALUE || a->kind == ANSWER_VA) {
        if (byte != ' ')
            return answers_lose(a);
        a->nth = a->kind == ANSWER_VALUE ? 2 : 0;
        a->state = a->nth ? ANSWERS_TOKEN : ANSWERS_NUMBER;
    }
    a->ntoken = 0;
    return byte == '\n' ? answers_line_end(a) : 0;
}

/* A byte of what stands before the length of a value. */
FOLLOW_INLINE __u32 answers_token(struct answers *a, __u8 byte)
{
    if (byte == '\n')
        return answers_lose(a);
    if (byte == ' ' && --a->nth == 0)
        a->state = ANSWERS_NUMBER;
    return 0;
}

FOLLOW_INLINE __u32 answers_number(struct answers *a, __u8 byte)
{
    __u32 digit = byte - '0';

    if (digit <= 9 && a->ntoken < 10) {
        __u64 number = a->nvalue * 10ull + digit;

        a->ntoken++;
        a->nvalue = (__u32)number;
        return number >> 32 ? answers_lose(a) : 0;
    }
    if (a->ntoken == 0 || (byte != ' ' && byte != '\r'))
        return answers_lose(a);
    a->state = ANSWERS_REST;
    return 0;
}

/* The value and its end were seen. */
FOLLOW_INLINE __u32 answers_value_end(struct answers *a)
{
    __u8 kind = a->kind;

    answers_next(a, ANSWERS_WORD);
    if (kind == ANSWER_VA)
        return ANSWERS_REPLY;
    a->line = 1;
    return 0;
}

FOLLOW_INLINE __u32 answers_text(struct answers *a, __u8 byte)
{
    switch ((enum answers_state)a->state) {
    case ANSWERS_WORD:
        a->line++;
        return answers_word(a, byte);
    case ANSWERS_TOKEN:
        return answers_token(a, byte);
    case ANSWERS_NUMBER:
        return answers_number(a, byte);
    case ANSWERS_REST:
        return byte == '\n' ? answers_line_end(a) : 0;
    case ANSWERS_CR:
        a->state = ANSWERS_LF;
        return byte == '\r' ? 0 : answers_lose(a);
    case ANSWERS_LF:
        return byte == '\n' ? answers_value_end(a) : answers_lose(a);
    case ANSWERS_HEADER:
    case ANSWERS_BODY:
    case ANSWERS_NOWHERE:
        break;
    }
    return 0;
}

/* --- binary ---------------------------------------------------------------- */

/* An answer is complete. That to stat is one of many, and the last of them has no key. */
FOLLOW_INLINE __u32 answers_end(struct answers *a)
{
    int counted = follow_counted(a->kind) && (a->kind != OPCODE_STAT || a->nkey == 0);

    answers_next(a, ANSWERS_HEADER);
    return counted ? ANSWERS_REPLY : 0;
}

FOLLOW_INLINE __u32 answers_header(struct answers *a, __u8 byte)
{
    __u32 at = a->line++;

    if (at == 0 && byte != FOLLOW_MAGIC_REPLY)
        return answers_lose(a);
    a->word = a->word << 8 | byte;
    if (at == 1)
        a->kind = byte;
    else if (at == 3)
        a->nkey = (a->word & 0xffff) != 0;
    else if (at == 11)
        a->nvalue = (__u32)a->word;
    if (at < FOLLOW_HEADER_BYTES - 1)
        return 0;
    if (a->nvalue == 0)
        return answers_end(a);
    a->skip = a->nvalue - 1;
    a->state = ANSWERS_BODY;
    return 0;
}

/* --- both ------------------------------------------------------------------ */

/* A connection begins. */
static inline void answers_init(struct answers *a)
{
    *a = (struct answers){.protocol = FOLLOW_ANY};
}

/* An answer begins at the next byte, in the same protocol as before. */
static inline void answers_again(struct answers *a)
{
    __u8 protocol = a->protocol;

    *a = (struct answers){
        .protocol = protocol,
        .state = protocol == FOLLOW_BINARY ? ANSWERS_HEADER : ANSWERS_WORD,
    };
}

/* Whether nothing of an answer was seen since the last one ended. */
static inline int answers_between(const struct answers *a)
{
    return a->line == 0 && a->state != ANSWERS_NOWHERE;
}

/* One byte, while a->skip is 0. */
FOLLOW_INLINE __u32 answers_step(struct answers *a, __u8 byte)
{
    if (a->protocol == FOLLOW_ANY) {
        a->protocol = byte == FOLLOW_MAGIC_REPLY ? FOLLOW_BINARY : FOLLOW_TEXT;
        a->state = a->protocol == FOLLOW_BINARY ? ANSWERS_HEADER : ANSWERS_WORD;
    }
    if (a->protocol == FOLLOW_TEXT)
        return answers_text(a, byte);
    if (a->state == ANSWERS_HEADER)
        return answers_header(a, byte);
    return a->state == ANSWERS_BODY ? answers_end(a) : 0;
}

#endif
