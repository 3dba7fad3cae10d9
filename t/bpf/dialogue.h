/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dialogue: a test as a row: what it shows, and its steps, which "; " separates. Each step goes on
 * where the one before it ended, that of the row before, too. Which steps there are is said where
 * they are taken: segments.h, chain_fill.c.
 */
#ifndef T_BPF_DIALOGUE_H
#define T_BPF_DIALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "t/lib/tap.h"

struct dialogue {
    const char *what, *steps;
};

/* Takes the steps of each row, whose word and rest `take` gets. Each row is a test. */
static inline void dialogue_run(const struct dialogue *rows, size_t n,
                                bool (*take)(void *stage, const char *word, char *rest),
                                void *stage)
{
    for (const struct dialogue *row = rows; row < rows + n; row++) {
        const char *at = row->steps, *end;
        bool right = true, last;
        char step[1024], *rest;

        do {
            end = strstr(at, "; ");
            last = end == NULL;
            end = last ? at + strlen(at) : end;
            snprintf(step, sizeof(step), "%.*s", (int)(end - at), at);
            rest = step + strcspn(step, " ");
            if (*rest)
                *rest++ = '\0';
            if (!take(stage, step, rest)) {
                right = false;
                diag("it fails at \"%.*s\"", (int)strcspn(at, "\r;"), at);
            }
            at = end + 2;
        } while (!last);
        ok(right, "%s", row->what);
    }
}

/* The number of a word among others. Ends the test if it is none of them. */
static inline size_t dialogue_word(const char *word, const char *const words[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    printf("Bail out! no step is called %s\n", word);
    exit(1);
}

#endif
