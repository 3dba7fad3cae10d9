/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * request_parser: parses what a client sends to a memcached on one connection, or in one datagram,
 * byte by byte.
 *
 * It reports which keys are written, at the latest with the byte after which the server can have
 * executed the command, and which commands will be answered (doc/chain.md). It is pure: the same
 * code runs in the kernel and in the tests. It knows the text, meta and binary protocols; the first
 * byte decides, as in memcached.
 *
 *     req_init(&p, PARSER_ANY);
 *     for (each byte)
 *         if (p.skip)               bytes of a value, none of which needs to be parsed
 *             p.skip--;             (any number of them at once)
 *         else
 *             events = req_step(&p, byte, seeds);
 *
 * While p.skip_line is not 0, the bytes before the next '\n' need not be parsed either (the keys of
 * a long get); the newline itself must be.
 *
 * Requests that servers treat differently, and malformed ones, are REQ_LOST; after it the parser
 * reports nothing until it is initialised where a command is known to begin.
 */
#ifndef MC_REQUEST_PARSER_H
#define MC_REQUEST_PARSER_H

#include <linux/types.h>

#include "bpf/shared/layout.h"

/*
 * Events of one byte; any number of them at once.
 *
 * A command ends with exactly one of ANSWERED, SILENT, UNCERTAIN, or with ANSWERED | UNCERTAIN: one
 * or two responses. A caller that counts each ANSWERED and each UNCERTAIN as one response counts at
 * least as many as the response parser will see COMPLETE (bpf/chain/response_parser.h): so the n-th
 * response is that of the n-th command or of a later one. BARRIER resets the difference: the n-th
 * MN among the responses is that to the n-th BARRIER.
 *
 * WRITE and WRITE_ALL come before the end of their command or with it; a command may have several.
 * The events of one byte happen in the order below.
 */
enum req_event {
    REQ_WRITE = 1 << 0,     /* a key is written; p->hash is its mc_hash_end */
    REQ_WRITE_ALL = 1 << 1, /* any key may be written, until p->seconds after the response */
    REQ_UNKNOWN = 1 << 2,   /* with WRITE_ALL: an unknown command */
    REQ_DATA = 1 << 3,      /* the command's value has ended; p->hash is still its key's */
    REQ_ANSWERED = 1 << 4,  /* a command has ended, and will have one response */
    REQ_UNCERTAIN = 1 << 5, /* one response or none (meta with q) */
    REQ_SILENT = 1 << 6,    /* none, but in text there may be an ERROR (noreply); quiet binary */
    REQ_BARRIER = 1 << 7,   /* with ANSWERED: mn */
    REQ_LOST = 1 << 8,      /* cannot be parsed from here on; comes once */
};

/*
 *  0  sum       hash of the key's 8-byte words so far
 *  8  word      the token's bytes behind the last full word, the first one lowest
 * 16  head      the token's first word; undefined before it is full
 * 24  hash      of the last complete key
 * 32  number    value of a token of digits; the last eight bytes of a binary header
 * 40  given     meta flags of ms so far, one bit for each
 * 48  skip      bytes of data that need not be parsed
 * 52  line      bytes of this command so far, without skipped data
 * 56  nvalue    length of its value; in binary, of everything behind the header
 * 60  seconds   delay of flush_all; above 30 days it is a time since 1970, as in memcached
 * 64  plan      kinds of the tokens to come: enum req_token, four bits each
 * 68  state     enum req_state
 * 69  command   enum req_command; in binary the opcode
 * 70  ntoken    bytes of the token so far, at most 255
 * 71  nth       number of complete tokens
 * 72  flags     enum req_line
 * 73  protocol  enum parser_protocol
 * 74  skip_line
 * 75  nextras   in binary: length of the extras
 * 76  nkey      in binary: length of the key
 */
struct request_parser {
    __u64 sum;
    __u64 word;
    __u64 head;
    __u64 hash;
    __u64 number;
    __u64 given;
    __u32 skip;
    __u32 line;
    __u32 nvalue;
    __u32 seconds;
    __u32 plan;
    __u8 state;
    __u8 command;
    __u8 ntoken;
    __u8 nth;
    __u8 flags;
    __u8 protocol;
    __u8 skip_line;
    __u8 nextras;
    __u16 nkey;
    __u16 unused;
};

#ifndef __bpf__
_Static_assert(sizeof(struct request_parser) == 80, "");
#endif

enum parser_protocol { PARSER_ANY, PARSER_TEXT, PARSER_BINARY };

enum req_state {
    REQ_STATE_BLANK, /* between tokens, and where a command begins */
    REQ_STATE_TOKEN,
    REQ_STATE_REST, /* of a line, none of which matters */
    REQ_STATE_CR,   /* its '\n' follows */
    REQ_STATE_DATA_CR,
    REQ_STATE_DATA_LF,
    REQ_STATE_HEADER,
    REQ_STATE_EXTRAS, /* of flush; those of other commands are skipped */
    REQ_STATE_KEY,
    REQ_STATE_BODY, /* its last byte follows */
    REQ_STATE_LOST,
};

#define PARSER_INLINE static inline __attribute__((always_inline))

/* Parsing ends here. */
PARSER_INLINE __u32 req_lose(struct request_parser *p)
{
    p->state = REQ_STATE_LOST;
    p->skip = 0;
    p->skip_line = 0;
    return REQ_LOST;
}

/* The next byte begins a token or a key. */
PARSER_INLINE void req_token_begin(struct request_parser *p)
{
    p->sum = 0;
    p->word = 0;
    p->number = 0;
    p->ntoken = 0;
}

/* A command has ended. The hash of its key stays. */
PARSER_INLINE void req_next(struct request_parser *p, __u8 state)
{
    req_token_begin(p);
    p->line = 0;
    p->given = 0;
    p->state = state;
    p->command = 0;
    p->nth = 0;
    p->flags = 0;
    p->skip_line = 0;
}

/* Adds a byte to the token and to its hash. */
PARSER_INLINE void req_fold(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    __u8 n = p->ntoken;
    __u64 word = p->word | (__u64)byte << (n & 7) * 8;

    if (n == 255)
        return;
    p->ntoken = n + 1;
    if ((n & 7) == 7) {
        p->sum += mc_hash_word(word, seeds[n >> 3]);
        if (n == 7)
            p->head = word;
        word = 0;
    }
    p->word = word;
}

/* The token was a key. */
PARSER_INLINE void req_key_end(struct request_parser *p, const __u64 *seeds)
{
    __u64 sum = p->sum;

    if (p->ntoken & 7)
        sum += mc_hash_word(p->word, seeds[p->ntoken >> 3]);
    p->hash = mc_hash_end(sum, p->ntoken);
}

#include "bpf/chain/request_binary.h"
#include "bpf/chain/request_text.h"

/* A command begins at the next byte. PARSER_ANY: with it a connection or a datagram does. */
static inline void req_init(struct request_parser *p, __u8 protocol)
{
    *p = (struct request_parser){
        .protocol = protocol,
        .state = protocol == PARSER_BINARY ? REQ_STATE_HEADER : REQ_STATE_BLANK,
    };
}

/* Whether no byte of a command has come since the last one ended. */
static inline int req_between(const struct request_parser *p)
{
    return p->line == 0 && p->state != REQ_STATE_LOST;
}

/* Parses one byte; p->skip must be 0. seeds are those of mc_hash_word, MC_HASH_WORDS of them. */
PARSER_INLINE __u32 req_step(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    if (p->protocol == PARSER_TEXT)
        return req_text(p, byte, seeds);
    if (p->protocol == PARSER_BINARY)
        return req_binary(p, byte, seeds);
    if (byte != PARSER_MAGIC_REQUEST) {
        p->protocol = PARSER_TEXT;
        return req_text(p, byte, seeds);
    }
    p->protocol = PARSER_BINARY;
    p->state = REQ_STATE_HEADER;
    return req_binary(p, byte, seeds);
}

/*
 * The same, but only for a byte within a key in text; 0: it is another one, call req_step. Small
 * enough to be inlined in a loop, where a call for each byte costs more than the step itself.
 */
PARSER_INLINE int req_more(struct request_parser *p, __u8 byte, const __u64 *seeds)
{
    if (p->state != REQ_STATE_TOKEN || byte <= ' ' || p->nth == 0 || (p->plan & 15) != TOKEN_KEY)
        return 0;
    p->line++;
    req_fold(p, byte, seeds);
    return 1;
}

#endif
