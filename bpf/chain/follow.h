/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * follow: what a client says to a memcached on one connection, or in one datagram, byte by byte.
 *
 * For whoever watches the packets (doc/chain.md): it tells which keys are written, at the latest
 * when the server can have executed the command, and which commands will be answered. Pure: the
 * same code runs in the kernel and in the tests. Text, meta and binary; the first byte decides, as
 * it does in memcached.
 *
 *     follow_init(&f);
 *     for (each byte)
 *         if (f.skip)               bytes of a value, none of which needs to be looked at
 *             f.skip--;             (any number of them may be taken off at once)
 *         else
 *             events = follow_step(&f, byte, seeds);
 *
 * While f.skip_line is not 0, nothing up to the next '\n' needs to be looked at either (the keys of
 * a long get): the newline itself is to be stepped.
 *
 * What servers do differently, or what no server should be sent, is FOLLOW_LOST; after it nothing
 * is known until a command is known to begin: follow_again.
 */
#ifndef MC_FOLLOW_H
#define MC_FOLLOW_H

#include <linux/types.h>

#include "bpf/shared/layout.h"

/*
 * Events of one byte, any number of them at once.
 *
 * A command is over with exactly one of ANSWERED, SILENT, UNCERTAIN, or, of two answers at most and
 * one at least, ANSWERED | UNCERTAIN. Who counts ANSWERED and UNCERTAIN alike as one, and two if
 * both are there, has counted at least as many as REPLY (bpf/chain/answers.h) ever will: the n-th
 * reply then is that of the n-th command or of a later one. BARRIER sets this right again: the n-th
 * MN among the replies is that to the n-th BARRIER.
 *
 * WRITE and WRITE_ALL come within the command that they belong to, one byte's events being in the
 * order below; a command may have several.
 */
enum follow_event {
    FOLLOW_WRITE = 1 << 0,     /* a key is written, f->hash: mc_hash_end of it */
    FOLLOW_WRITE_ALL = 1 << 1, /* keys that are not known, and f->seconds from the reply on */
    FOLLOW_UNKNOWN = 1 << 2,   /* with WRITE_ALL: no command that we know */
    FOLLOW_DATA = 1 << 3,      /* the command's value has ended; f->hash still is its key's */
    FOLLOW_ANSWERED = 1 << 4,  /* a command is over, and will have one answer */
    FOLLOW_UNCERTAIN = 1 << 5, /* one answer or none (meta with q) */
    FOLLOW_SILENT = 1 << 6,    /* none, but in text an ERROR may come (noreply); quiet binary */
    FOLLOW_BARRIER = 1 << 7,   /* with ANSWERED: mn */
    FOLLOW_LOST = 1 << 8,      /* cannot be followed from here on; comes once */
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
 * 64  plan      what the tokens to come are: enum follow_token, four bits each
 * 68  state     enum follow_state
 * 69  command   enum follow_command; of a binary command the opcode
 * 70  ntoken    bytes of the token so far, at most 255
 * 71  nth       tokens that are complete
 * 72  found     enum follow_line
 * 73  protocol  enum follow_protocol
 * 74  skip_line
 * 75  nextras   of a binary command,
 * 76  nkey      and its key
 */
struct follow {
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
_Static_assert(sizeof(struct follow) == 80, "");
#endif

enum follow_protocol { FOLLOW_ANY, FOLLOW_TEXT, FOLLOW_BINARY };

enum follow_state {
    FOLLOW_BLANK, /* between tokens, and where a command begins */
    FOLLOW_TOKEN,
    FOLLOW_REST, /* of a line that can say nothing more */
    FOLLOW_CR,   /* its '\n' follows */
    FOLLOW_DATA_CR,
    FOLLOW_DATA_LF,
    FOLLOW_HEADER,
    FOLLOW_EXTRAS, /* of flush; others are skipped */
    FOLLOW_KEY,
    FOLLOW_BODY, /* its last byte follows */
    FOLLOW_NOWHERE,
};

#define FOLLOW_INLINE static inline __attribute__((always_inline))

/* Nothing is known any more. */
FOLLOW_INLINE __u32 follow_lose(struct follow *f)
{
    f->state = FOLLOW_NOWHERE;
    f->skip = 0;
    f->skip_line = 0;
    return FOLLOW_LOST;
}

/* The next byte begins a token or a key. */
FOLLOW_INLINE void follow_token(struct follow *f)
{
    f->sum = 0;
    f->word = 0;
    f->number = 0;
    f->ntoken = 0;
}

/* A command is over. What it wrote is still there. */
FOLLOW_INLINE void follow_next(struct follow *f, __u8 state)
{
    follow_token(f);
    f->line = 0;
    f->given = 0;
    f->state = state;
    f->command = 0;
    f->nth = 0;
    f->found = 0;
    f->skip_line = 0;
}

/* Takes a byte into the token, and into its hash. */
FOLLOW_INLINE void follow_fold(struct follow *f, __u8 byte, const __u64 *seeds)
{
    __u8 n = f->ntoken;
    __u64 word = f->word | (__u64)byte << (n & 7) * 8;

    if (n == 255)
        return;
    f->ntoken = n + 1;
    if ((n & 7) == 7) {
        f->sum += mc_hash_word(word, seeds[n >> 3]);
        if (n == 7)
            f->head = word;
        word = 0;
    }
    f->word = word;
}

/* The token was a key. */
FOLLOW_INLINE void follow_key(struct follow *f, const __u64 *seeds)
{
    __u64 sum = f->sum;

    if (f->ntoken & 7)
        sum += mc_hash_word(f->word, seeds[f->ntoken >> 3]);
    f->hash = mc_hash_end(sum, f->ntoken);
}

#include "bpf/chain/follow_binary.h"
#include "bpf/chain/follow_text.h"

/* A connection or a datagram begins. */
static inline void follow_init(struct follow *f)
{
    *f = (struct follow){.protocol = FOLLOW_ANY};
}

/* A command begins at the next byte, of the same protocol as before. */
static inline void follow_again(struct follow *f)
{
    __u8 protocol = f->protocol;

    *f = (struct follow){
        .protocol = protocol,
        .state = protocol == FOLLOW_BINARY ? FOLLOW_HEADER : FOLLOW_BLANK,
    };
}

/* Whether nothing of a command was seen since the last one was over. */
static inline int follow_between(const struct follow *f)
{
    return f->line == 0 && f->state != FOLLOW_NOWHERE;
}

/* One byte, while f->skip is 0; seeds are those of mc_hash_word, MC_HASH_WORDS of them. */
FOLLOW_INLINE __u32 follow_step(struct follow *f, __u8 byte, const __u64 *seeds)
{
    if (f->protocol == FOLLOW_TEXT)
        return follow_text(f, byte, seeds);
    if (f->protocol == FOLLOW_BINARY)
        return follow_binary(f, byte, seeds);
    if (byte != FOLLOW_MAGIC) {
        f->protocol = FOLLOW_TEXT;
        return follow_text(f, byte, seeds);
    }
    f->protocol = FOLLOW_BINARY;
    f->state = FOLLOW_HEADER;
    return follow_binary(f, byte, seeds);
}

/*
 * The same for one more byte of a key in text; any other is not taken: 0. Small enough to stand in
 * a loop where a call for each byte costs more than the step itself.
 */
FOLLOW_INLINE int follow_more(struct follow *f, __u8 byte, const __u64 *seeds)
{
    if (f->state != FOLLOW_TOKEN || byte <= ' ' || f->nth == 0 || (f->plan & 15) != TOKEN_KEY)
        return 0;
    f->line++;
    follow_fold(f, byte, seeds);
    return 1;
}

#endif
