/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRAFFIC_MAX = 512, LINE_MAX_BYTES = 1024 };

static unsigned int current_level;

void log_set_level(unsigned int level)
{
    __atomic_store_n(&current_level, level, __ATOMIC_RELAXED);
}

unsigned int log_level(void)
{
    return __atomic_load_n(&current_level, __ATOMIC_RELAXED);
}

/* One write for a line, so that the lines of several threads do not mix. */
static void say(const char *format, va_list args)
{
    char line[LINE_MAX_BYTES];

    vsnprintf(line, sizeof(line), format, args);
    fprintf(stderr, "%s\n", line);
}

void log_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
}

void log_at(unsigned int level, const char *format, ...)
{
    va_list args;

    if (log_level() < level)
        return;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void log_traffic(char direction, int fd, struct slice text)
{
    char line[4 * TRAFFIC_MAX + 1];
    size_t used = 0;

    for (size_t i = 0; i < text.len && i < TRAFFIC_MAX && text.ptr[i] != '\n'; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];

        if (byte == '\r' && (i + 1 == text.len || text.ptr[i + 1] == '\n'))
            break;
        if (byte >= ' ' && byte < 0x7f)
            line[used++] = (char)byte;
        else
            used += (size_t)snprintf(line + used, sizeof(line) - used, "\\x%02x", byte);
    }
    line[used] = '\0';
    fprintf(stderr, "%c%d %s\n", direction, fd, line);
}

void fatal(int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(status);
}
