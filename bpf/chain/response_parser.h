/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * response_parser: parses what a memcached sends on one connection, byte by byte; the counterpart
 * of request_parser.h.
 *
 * It is used in the same way, and finds where each response ends. It may count too few but never
 * too many: a line that it does not know is RESP_LOST.
 */
#ifndef MC_RESPONSE_PARSER_H
#define MC_RESPONSE_PARSER_H

#include "bpf/chain/request_parser.h"

/*
 * Events of one byte. The response to the n-th command that is ANSWERED or UNCERTAIN
 * (bpf/chain/request_parser.h) is the n-th COMPLETE or an earlier one. Responses to quiet binary
 * commands are not counted. COMPLETE with ERROR may be the response to a SILENT command; or it is
 * the first sign that the server parses text differently from request_parser.h. The response to a
 * BARRIER has MN.
 */
enum resp_event {
    RESP_COMPLETE = 1 << 0,
    RESP_ERROR = 1 << 1, /* with COMPLETE; SERVER_ERROR too; never in binary */
    RESP_MN = 1 << 2,
    RESP_LOST = 1 << 3, /* cannot be parsed from here on; comes once */
};

/*
 *  0  word      the first eight bytes of a line, the first one lowest; the last eight of a header
 *  8  skip      bytes of data that need not be parsed
 * 12  nvalue    length of the value that follows
 * 16  line      bytes of this response so far, without skipped data
 * 20  state     enum resp_state
 * 21  kind      enum resp_kind; in binary the opcode
 * 22  ntoken    bytes of the token so far, at most 255
 * 23  nth       number of tokens to come before the length of the value
 * 24  protocol  enum parser_protocol
 * 25  nkey      0: a binary response has no key
 */
struct response_parser {
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

enum resp_state {
    RESP_STATE_WORD, /* the first word of a line */
    RESP_STATE_TOKEN,
    RESP_STATE_NUMBER,
    RESP_STATE_REST, /* of a line */
    RESP_STATE_CR,   /* behind a value */
    RESP_STATE_LF,
    RESP_STATE_HEADER,
    RESP_STATE_BODY,
    RESP_STATE_LOST,
};

/* What a line means. */
enum resp_kind {
    RESP_KIND_UNKNOWN, /* not known */
    RESP_KIND_PART,    /* more lines follow */
    RESP_KIND_END,
    RESP_KIND_ERROR,
    RESP_KIND_MN,
    RESP_KIND_VALUE, /* VALUE key flags length */
    RESP_KIND_VA,    /* VA length flags, which is the whole response */
};

struct resp_first_word {
    char name[8]; /* of a longer word the first eight bytes */
    __u64 kind;
};

static const struct resp_first_word resp_first_words[] = {
    {"END", RESP_KIND_END},        {"VALUE", RESP_KIND_VALUE},  {"STORED", RESP_KIND_END},
    {"HD", RESP_KIND_END},         {"VA", RESP_KIND_VA},        {"EN", RESP_KIND_END},
    {"NOT_FOUN", RESP_KIND_END},   {"DELETED", RESP_KIND_END},  {"NOT_STOR", RESP_KIND_END},
    {"EXISTS", RESP_KIND_END},     {"TOUCHED", RESP_KIND_END},  {"OK", RESP_KIND_END},
    {"STAT", RESP_KIND_PART},      {"NF", RESP_KIND_END},       {"NS", RESP_KIND_END},
    {"EX", RESP_KIND_END},         {"MN", RESP_KIND_MN},        {"ME", RESP_KIND_END},
    {"VERSION", RESP_KIND_END},    {"ERROR", RESP_KIND_ERROR},  {"CLIENT_E", RESP_KIND_ERROR},
    {"SERVER_E", RESP_KIND_ERROR}, {"RESET", RESP_KIND_END},    {"mg", RESP_KIND_PART},
    {"BUSY", RESP_KIND_END},       {"BADCLASS", RESP_KIND_END}, {"NOSPARE", RESP_KIND_END},
    {"NOTFULL", RESP_KIND_END},    {"UNSAFE", RESP_KIND_END},   {"SAME", RESP_KIND_END},
    {"NOTSTART", RESP_KIND_END},   {"ERROR:", RESP_KIND_ERROR}, {"MEMLIMIT", RESP_KIND_END},
    {"Error", RESP_KIND_ERROR},
};

enum { RESP_FIRST_WORDS = sizeof(resp_first_words) / sizeof(*resp_first_words) };

PARSER_INLINE __u32 resp_lose(struct response_parser *p)
{
    p->state = RESP_STATE_LOST;
    p->skip = 0;
    return RESP_LOST;
}

PARSER_INLINE void resp_next(struct response_parser *p, __u8 state)
{
    p->word = 0;
    p->nvalue = 0;
    p->line = 0;
    p->state = state;
    p->kind = RESP_KIND_UNKNOWN;
    p->ntoken = 0;
    p->nkey = 0;
}

/* --- text ------------------------------------------------------------------ */

/* What a line means by its first word, which has ended. */
PARSER_INLINE __u8 resp_kind(const struct response_parser *p)
{
    __u8 first = (__u8)p->word;
    __u64 name;
    __u32 i;

    for (i = 0; i < RESP_FIRST_WORDS; i++) {
        __builtin_memcpy(&name, resp_first_words[i].name, sizeof(name));
        if (name == p->word)
            return (__u8)resp_first_words[i].kind;
    }
    if (first >= '0' && first <= '9')
        return RESP_KIND_END;
    return (__u32)p->word == ('k' | 'e' << 8 | 'y' << 16 | '=' << 24) ? RESP_KIND_PART
                                                                      : RESP_KIND_UNKNOWN;
}

PARSER_INLINE __u32 resp_line_end(struct response_parser *p)
{
    __u8 kind = p->kind;

    if (kind == RESP_KIND_VALUE || kind == RESP_KIND_VA) {
        p->skip = p->nvalue;
        p->state = RESP_STATE_CR;
        return 0;
    }
    resp_next(p, RESP_STATE_WORD);
    if (kind == RESP_KIND_PART) {
        p->line = 1;
        return 0;
    }
    if (kind == RESP_KIND_ERROR)
        return RESP_COMPLETE | RESP_ERROR;
    return kind == RESP_KIND_MN ? RESP_COMPLETE | RESP_MN : RESP_COMPLETE;
}

PARSER_INLINE __u32 resp_word(struct response_parser *p, __u8 byte)
{
    if (byte != ' ' && byte != '\r' && byte != '\n') {
        if (p->ntoken < 8)
            p->word |= (__u64)byte << p->ntoken * 8;
        if (p->ntoken < 255)
            p->ntoken++;
        return 0;
    }
    p->kind = resp_kind(p);
    if (p->kind == RESP_KIND_UNKNOWN)
        return resp_lose(p);
    p->state = RESP_STATE_REST;
    if (p->kind == RESP_KIND_VALUE || p->kind == RESP_KIND_VA) {
        if (byte != ' ')
            return resp_lose(p);
        p->nth = p->kind == RESP_KIND_VALUE ? 2 : 0;
        p->state = p->nth ? RESP_STATE_TOKEN : RESP_STATE_NUMBER;
    }
    p->ntoken = 0;
    return byte == '\n' ? resp_line_end(p) : 0;
}

/* A byte of the tokens before the length of a value. */
PARSER_INLINE __u32 resp_token(struct response_parser *p, __u8 byte)
{
    if (byte == '\n')
        return resp_lose(p);
    if (byte == ' ' && --p->nth == 0)
        p->state = RESP_STATE_NUMBER;
    return 0;
}

PARSER_INLINE __u32 resp_number(struct response_parser *p, __u8 byte)
{
    __u32 digit = byte - '0';

    if (digit <= 9 && p->ntoken < 10) {
        __u64 number = p->nvalue * 10ull + digit;

        p->ntoken++;
        p->nvalue = (__u32)number;
        return number >> 32 ? resp_lose(p) : 0;
    }
    if (p->ntoken == 0 || (byte != ' ' && byte != '\r'))
        return resp_lose(p);
    p->state = RESP_STATE_REST;
    return 0;
}

/* The value and its end are complete. */
PARSER_INLINE __u32 resp_value_end(struct response_parser *p)
{
    __u8 kind = p->kind;

    resp_next(p, RESP_STATE_WORD);
    if (kind == RESP_KIND_VA)
        return RESP_COMPLETE;
    p->line = 1;
    return 0;
}

PARSER_INLINE __u32 resp_text(struct response_parser *p, __u8 byte)
{
    switch ((enum resp_state)p->state) {
    case RESP_STATE_WORD:
        p->line++;
        return resp_word(p, byte);
    case RESP_STATE_TOKEN:
        return resp_token(p, byte);
    case RESP_STATE_NUMBER:
        return resp_number(p, byte);
    case RESP_STATE_REST:
        return byte == '\n' ? resp_line_end(p) : 0;
    case RESP_STATE_CR:
        p->state = RESP_STATE_LF;
        return byte == '\r' ? 0 : resp_lose(p);
    case RESP_STATE_LF:
        return byte == '\n' ? resp_value_end(p) : resp_lose(p);
    case RESP_STATE_HEADER:
    case RESP_STATE_BODY:
    case RESP_STATE_LOST:
        break;
    }
    return 0;
}

/* --- binary ---------------------------------------------------------------- */

/* A response is complete. The response to stat is many packets, and the last one has no key. */
PARSER_INLINE __u32 resp_end(struct response_parser *p)
{
    int counted = req_is_counted(p->kind) && (p->kind != OPCODE_STAT || p->nkey == 0);

    resp_next(p, RESP_STATE_HEADER);
    return counted ? RESP_COMPLETE : 0;
}

PARSER_INLINE __u32 resp_header(struct response_parser *p, __u8 byte)
{
    __u32 at = p->line++;

    if (at == 0 && byte != PARSER_MAGIC_RESPONSE)
        return resp_lose(p);
    p->word = p->word << 8 | byte;
    if (at == 1)
        p->kind = byte;
    else if (at == 3)
        p->nkey = (p->word & 0xffff) != 0;
    else if (at == 11)
        p->nvalue = (__u32)p->word;
    if (at < PARSER_HEADER_BYTES - 1)
        return 0;
    if (p->nvalue == 0)
        return resp_end(p);
    p->skip = p->nvalue - 1;
    p->state = RESP_STATE_BODY;
    return 0;
}

/* --- both ------------------------------------------------------------------ */

/* A response begins at the next byte. PARSER_ANY: with it a connection does. */
static inline void resp_init(struct response_parser *p, __u8 protocol)
{
    *p = (struct response_parser){
        .protocol = protocol,
        .state = protocol == PARSER_BINARY ? RESP_STATE_HEADER : RESP_STATE_WORD,
    };
}

/* Whether no byte of a response has come since the last one ended. */
static inline int resp_between(const struct response_parser *p)
{
    return p->line == 0 && p->state != RESP_STATE_LOST;
}

/* Parses one byte; p->skip must be 0. */
PARSER_INLINE __u32 resp_step(struct response_parser *p, __u8 byte)
{
    if (p->protocol == PARSER_ANY) {
        p->protocol = byte == PARSER_MAGIC_RESPONSE ? PARSER_BINARY : PARSER_TEXT;
        p->state = p->protocol == PARSER_BINARY ? RESP_STATE_HEADER : RESP_STATE_WORD;
    }
    if (p->protocol == PARSER_TEXT)
        return resp_text(p, byte);
    if (p->state == RESP_STATE_HEADER)
        return resp_header(p, byte);
    return p->state == RESP_STATE_BODY ? resp_end(p) : 0;
}

#endif
