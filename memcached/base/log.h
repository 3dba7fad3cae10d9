/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: the server's messages on stderr, and the exit of a start that fails.
 *
 * The level is the one setting that every thread may change (the command `verbosity`): 0 only what
 * the operator must know, 1 errors and warnings of the event loop, 2 also client commands and
 * replies, 3 also internal state transitions.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/slice.h"

/* Exit codes (sysexits.h, as memcached uses them). */
enum { EXIT_USAGE_ERROR = 64, EXIT_NO_USER = 67, EXIT_OS_ERROR = 71 };

void log_set_level(unsigned int level);
unsigned int log_get_level(void);

/* Logs at any level. Adds a newline. */
void log_write(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Logs if the level is at least `level`. */
void log_at(unsigned int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * One line of a client's traffic, "<FD text" or ">FD text": at most `text` up to its first newline,
 * cut at 512 bytes, unprintable bytes escaped.
 */
void log_traffic(char direction, int fd, struct slice text);
/* One line of binary traffic, as log_traffic writes it: newlines are escaped as well. */
void log_binary(char direction, int fd, struct slice bytes);
/* At start only: logs the reason and exits. */
void fatal(int status, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

#endif
