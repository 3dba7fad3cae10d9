/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * follow: what a client says to a memcached on one connection, or in one datagram, byte by byte.
 *
 * For whoever watches the packets (doc/chain.md): it tells which keys are written, at the latest
 * when the server can have executed the command, and which commands will be answered. Pure: the
 * same code runs in the kernel and in the tests. Text, meta and binary; the first byte decides,
 * as it does in memcached.
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

#include "bpf/layout.h"

/*
 * Events of one byte, any number of them at once.
 *
 * A command is over with exactly one of ANSWERED, SILENT, UNCERTAIN, or, of two answers at most
 * and one at least, ANSWERED | UNCERTAIN. Who counts ANSWERED and UNCERTAIN alike as one, and
 * two if both are there, has counted at least as many as REPLY (bpf/answers.h) ever will: the
 * n-th reply then is that of the n-th command or of a later one. BARRIER sets this right
 * again: the n-th MN among the replies is that to the n-th BARRIER.
 *
 * WRITE and WRITE_ALL come within the command that they belong to, one byte's events being in
 * the order below; a command may have several.
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
 *  0  sum      of the key's words that are complete
 *  8  word     the last eight bytes at most of a token, the first one lowest
 * 16  hash     of the last key that is complete
 * 24  number   of a token of digits; of a binary header what is needed of it
 * 32  skip     bytes of data that need not be looked at
 * 36  line     bytes of this command so far
 * 40  nvalue   bytes of its value
 * 44  seconds  of flush_all; above 30 days it is a time since 1970, as memcached takes it
 * 48  state    enum follow_state
 * 49  command  enum follow_command
 * 50  ntoken   bytes of the token so far, at most 255
 * 51  nth      which token of the line: 0 is the verb
 * 52  flags    what was found in the line so far
 * 53  protocol 0: the next byte decides
 * 54  skip_line
 */
struct follow {
    __u64 sum;
    __u64 word;
    __u64 hash;
    __u64 number;
    __u32 skip;
    __u32 line;
    __u32 nvalue;
    __u32 seconds;
    __u8 state;
    __u8 command;
    __u8 ntoken;
    __u8 nth;
    __u8 flags;
    __u8 protocol;
    __u8 skip_line;
    __u8 unused;
    __u64 given; /* meta flags, a bit each */
};

enum follow_protocol { FOLLOW_ANY, FOLLOW_TEXT, FOLLOW_BINARY };

/* A connection or a datagram begins. */
static inline void follow_init(struct follow *f)
{
    *f = (struct follow){.protocol = FOLLOW_ANY};
}

/* A command begins at the next byte, of the same protocol as before. */
static inline void follow_again(struct follow *f)
{
    *f = (struct follow){.protocol = f->protocol};
}

/* Whether nothing of a command was seen since the last one was over. */
static inline int follow_between(const struct follow *f)
{
    return f->line == 0 && f->skip == 0;
}

/* One byte, while f->skip is 0; seeds are those of mc_hash_word, MC_HASH_WORDS of them. */
static inline __u32 follow_step(struct follow *f, __u8 byte, const __u64 *seeds)
{
    (void)byte;
    (void)seeds;
    f->line++;
    return FOLLOW_LOST;
}

#endif
