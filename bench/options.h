/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options: long options from a table that is also the help text.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stddef.h>

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_NUMBER, /* uint64_t, with an optional k, m or g (decimal) */
    OPTION_REAL,   /* double */
    OPTION_WORD,   /* const char * */
};

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t offset; /* of the value in the caller's struct */
    const char *argument;
    const char *help;
};

/* A row of the options of a program, whose values are in its own `struct options`. */
#define ROW(name, kind, field, argument, help)                                                     \
    {                                                                                              \
        name, kind, offsetof(struct options, field), argument, help                                \
    }

struct option_table {
    const char *usage; /* the first lines of the help */
    const struct option_row *rows;
    size_t nrows;
};

/*
 * Stores the options of argv in *out and returns the index of the first operand. --help prints the
 * table and exits with 0; an unknown or malformed option exits with 64.
 */
int options_parse(const struct option_table *table, void *out, int argc, char **argv);

/* Says what is wrong and exits with 64 (usage) or 1 (the rest). */
void usage_error(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
