/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRAFFIC_MAX = 512 };

static unsigned int log_level;

void log_set_level(unsigned int level)
{
    __atomic_store_n(&log_level, level, __ATOMIC_RELAXED);
}

unsigned int log_get_level(void)
{
    return __atomic_load_n(&log_level, __ATOMIC_RELAXED);
}

/* The lock of stderr keeps the lines of several threads apart. */
static void write_line(const char *format, va_list args)
{
    flockfile(stderr);
    vfprintf(stderr, format, args);
    putc_unlocked('\n', stderr);
    funlockfile(stderr);
}

void log_write(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void log_at(unsigned int level, const char *format, ...)
{
    va_list args;

    if (log_get_level() < level)
        return;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void log_binary(char direction, int fd, struct slice bytes)
{
    char line[4 * TRAFFIC_MAX + 1];
    size_t used = 0;

    for (size_t i = 0; i < bytes.len && i < TRAFFIC_MAX; i++) {
        unsigned char byte = (unsigned char)bytes.ptr[i];

        if (byte >= ' ' && byte < 0x7f)
            line[used++] = (char)byte;
        else
            used += (size_t)snprintf(line + used, sizeof(line) - used, "\\x%02x", byte);
    }
    line[used] = '\0';
    fprintf(stderr, "%c%d %s\n", direction, fd, line);
}

void log_traffic(char direction, int fd, struct slice text)
{
    const char *newline = text.len ? memchr(text.ptr, '\n', text.len) : NULL;

    if (newline)
        text.len = (size_t)(newline - text.ptr);
    if (text.len > 0 && text.ptr[text.len - 1] == '\r')
        text.len--;
    log_binary(direction, fd, text);
}

void fatal(int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(format, args);
    va_end(args);
    exit(status);
}
