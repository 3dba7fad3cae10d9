/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * request_parser: what a client says to a memcached on one connection, or in one datagram, byte by
 * byte.
 *
 * For whoever watches the packets (doc/chain.md): it tells which keys are written, at the latest
 * when the server can have executed the command, and which commands will be answered. Pure: the
 * same code runs in the kernel and in the tests. Text, meta and binary; the first byte decides, as
 * it does in memcached.
 *
 *     req_init(&p);
 *     for (each byte)
 *         if (p.skip)               bytes of a value, none of which needs to be looked at
 *             p.skip--;             (any number of them may be taken off at once)
 *         else
 *             events = req_step(&p, byte, seeds);
 *
 * While p.skip_line is not 0, nothing up to the next '\n' needs to be looked at either (the keys of
 * a long get): the newline itself is to be stepped.
 *
 * What servers do differently, or what no server should be sent, is REQ_LOST; after it nothing is
 * known until a command is known to begin: req_again.
 */
#ifndef MC_REQUEST_PARSER_H
#define MC_REQUEST_PARSER_H

#include <linux/types.h>

#include "bpf/shared/layout.h"

/*
 * Events of one byte, any number of them at once.
 *
 * A command is over with exactly one of ANSWERED, SILENT, UNCERTAIN, or, of two answers at most and
 * one at least, ANSWERED | UNCERTAIN. Who counts ANSWERED and UNCERTAIN alike as one, and two if
 * both are there, has counted at least as many as COMPLETE (bpf/chain/response_parser.h) ever will:
 * the n-th reply then is that of the n-th command or of a later one. BARRIER sets this right again:
 * the n-th MN among the replies is that to the n-th BARRIER.
 *
 * WRITE and WRITE_ALL come within the command that they belong to, one byte's events being in the
 * order below; a command may have several.
 */
enum req_event {
    REQ_WRITE = 1 << 0,     /* a key is written, p->hash: mc_hash_end of it */
    REQ_WRITE_ALL = 1 << 1, /* keys that are not known, and p->seconds from the reply on */
    REQ_UNKNOWN = 1 << 2,   /* with WRITE_ALL: no command that we know */
    REQ_DATA = 1 << 3,      /* the command's value has ended; p->hash still is its key's */
    REQ_ANSWERED = 1 << 4,  /* a command is over, and will have one answer */
    REQ_UNCERTAIN = 1 << 5, /* one answer or none (meta with q) */
    REQ_SILENT = 1 << 6,    /* none, but in text an ERROR may come (noreply); quiet binary */
    REQ_BARRIER = 1 << 7,   /* with ANSWERED: mn */
    REQ_LOST = 1 << 8,      /* cannot be followed from here on; comes once */
};

/*
 *  0  sum       of the key's words that are complete
 *  8  word      the bytes of the token behind the last full eight, the first one lowest
 * 16  head      the first eight of them, if there are eight; else what was
 * 24  hash      of the last key that is complete
 * 32  number    of a token of digits; the last eight bytes of a binary header
 * 40  given     meta flags of ms so far, a bit each
 * 48  skip      bytes of data that need not be looked at
 * 52  line      bytes of this command so far, data that was skipped not counted
 * 56  nvalue    bytes of its value; of a binary command, of all behind the header
 * 60  seconds   of flush_all; above 30 days it is a time since 1970, as memcached takes it
 * 64  plan      what the tokens to come are: enum req_token, four bits each
 * 68  state     enum req_state
 * 69  command   enum req_command; of a binary command the opcode
 * 70  ntoken    bytes of the token so far, at most 255
 * 71  nth       tokens that are complete
 * 72  found     enum req_line
 * 73  protocol  enum parser_protocol
 * 74  skip_line
 * 75  nextras   of a binary command,
 * 76  nkey      and its key
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
    __u8 found;
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
    REQ_STATE_REST, /* of a line that can say nothing more */
    REQ_STATE_CR,   /* its '\n' follows */
    REQ_STATE_DATA_CR,
    REQ_STATE_DATA_LF,
    REQ_STATE_HEADER,
    REQ_STATE_EXTRAS, /* of flush; others are skipped */
    REQ_STATE_KEY,
    REQ_STATE_BODY, /* its last byte follows */
    REQ_STATE_LOST,
};

#define PARSER_INLINE static inline __attribute__((always_inline))

/* Nothing is known any more. */
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

/* A command is over. What it wrote is still there. */
PARSER_INLINE void req_next(struct request_parser *p, __u8 state)
{
    req_token_begin(p);
    p->line = 0;
    p->given = 0;
    p->state = state;
    p->command = 0;
    p->nth = 0;
    p->found = 0;
    p->skip_line = 0;
}

/* Takes a byte into the token, and into its hash. */
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

/* A connection or a datagram begins. */
static inline void req_init(struct request_parser *p)
{
    *p = (struct request_parser){.protocol = PARSER_ANY};
}

/* A command begins at the next byte, of the same protocol as before. */
static inline void req_again(struct request_parser *p)
{
    __u8 protocol = p->protocol;

    *p = (struct request_parser){
        .protocol = protocol,
        .state = protocol == PARSER_BINARY ? REQ_STATE_HEADER : REQ_STATE_BLANK,
    };
}

/* Whether nothing of a command was seen since the last one was over. */
static inline int req_between(const struct request_parser *p)
{
    return p->line == 0 && p->state != REQ_STATE_LOST;
}

/* One byte, while p->skip is 0; seeds are those of mc_hash_word, MC_HASH_WORDS of them. */
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
 * The same for one more byte of a key in text; any other is not taken: 0. Small enough to stand in
 * a loop where a call for each byte costs more than the step itself.
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
