/* SPDX-License-Identifier: BSD-3-Clause */
/* verdict: what the loads that judge a server's answers share. */
#ifndef T_TOOL_VERDICT_H
#define T_TOOL_VERDICT_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* xorshift64 (Marsaglia, Journal of Statistical Software 8, 2003); its state is not 0. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* The load cannot go on: exit status 2. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(2);
}

/* Counts an answer that is wrong, and says of the first ten what they are. Any thread. */
__attribute__((format(printf, 2, 3))) static inline void report(_Atomic uint64_t *wrong,
                                                                const char *format, ...)
{
    va_list args;

    if (atomic_fetch_add(wrong, 1) >= 10)
        return;
    va_start(args, format);
    fprintf(stderr, "wrong: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

#endif
