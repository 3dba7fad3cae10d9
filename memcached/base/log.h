/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: what the server says on stderr, and how it gives up at start.
 *
 * The level is the one setting that every thread may change (the command `verbosity`): 0 only what
 * must be said, 1 errors and warnings of the event loop, 2 also client commands and replies, 3 also
 * the server's own steps.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/slice.h"

/* Exit codes (sysexits.h, as memcached uses them). */
enum { EXIT_USAGE_ERROR = 64, EXIT_NO_USER = 67, EXIT_OS_ERROR = 71 };

void log_set_level(unsigned int level);
unsigned int log_get_level(void);

/* Said at any level. A newline is added. */
void log_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Said from `level` on. */
void log_at(unsigned int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * One line of a client's traffic, "<FD text" or ">FD text": at most `text` up to its first newline,
 * cut at 512 bytes, unprintable bytes escaped.
 */
void log_traffic(char direction, int fd, struct slice text);
/* The same of bytes that are no text: newlines are like the others. */
void log_binary(char direction, int fd, struct slice bytes);
/* At start only: says why and exits. */
void fatal(int status, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

#endif
