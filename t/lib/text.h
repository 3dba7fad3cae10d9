/* SPDX-License-Identifier: BSD-3-Clause */
/* text: bytes that a test puts together, with a NUL behind them. What does not fit is left out. */
#ifndef T_LIB_TEXT_H
#define T_LIB_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct text {
    char bytes[8192];
    size_t n;
};

static inline void text_add(struct text *text, const void *bytes, size_t n)
{
    if (n >= sizeof(text->bytes) - text->n)
        return;
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    text->bytes[text->n] = 0;
}

__attribute__((format(printf, 2, 3))) static inline void text_say(struct text *text,
                                                                  const char *format, ...)
{
    size_t room = sizeof(text->bytes) - text->n;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->bytes + text->n, room, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < room)
        text->n += (size_t)n;
    text->bytes[text->n] = 0;
}

#endif
