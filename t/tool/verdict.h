/* SPDX-License-Identifier: BSD-3-Clause */
/* verdict: what the loads that judge a server's answers share. */
#ifndef T_TOOL_VERDICT_H
#define T_TOOL_VERDICT_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    FRAME = 8,  /* of a datagram */
    BATCH = 16, /* requests of a reader in flight */
};

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

/* A reader's requests in flight. */
struct flight {
    uint16_t id;      /* of the first; those of the others follow */
    uint32_t waiting; /* a bit for each that is not answered */
};

#define FLIGHT_ALL ((1u << BATCH) - 1)

/*
 * The next answer: which request's it is, and its text, NUL-terminated. -1: all are answered, or
 * nothing came for as long as the socket waits. A reply of several datagrams is the server's; it is
 * skipped.
 */
static inline int flight_receive(struct flight *flight, int fd, char *text, size_t size,
                                 size_t *ntext)
{
    unsigned char frame[FRAME];
    struct iovec parts[] = {{frame, FRAME}, {text, size - 1}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    unsigned int index;
    ssize_t n;

    while (flight->waiting) {
        n = recvmsg(fd, &message, 0);
        if (n < 0)
            return -1;
        index = (uint16_t)((frame[0] << 8 | frame[1]) - flight->id);
        if (n < FRAME || index >= BATCH || !(flight->waiting >> index & 1))
            continue;
        flight->waiting &= ~(1u << index);
        if (frame[4] != 0 || frame[5] != 1)
            continue;
        *ntext = (size_t)n - FRAME;
        text[*ntext] = '\0';
        return (int)index;
    }
    return -1;
}

#endif
