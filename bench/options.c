/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 64 };

void usage_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(EXIT_USAGE);
}

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

static void print_help(const struct option_table *table)
{
    printf("%s\n\n", table->usage);
    for (size_t i = 0; i < table->nrows; i++) {
        const struct option_row *row = &table->rows[i];
        char left[64];

        snprintf(left, sizeof(left), "--%s %s", row->name, row->argument ? row->argument : "");
        printf("  %-24s %s\n", left, row->help);
    }
}

static uint64_t parse_number(const char *name, const char *text)
{
    static const char units[] = "kmg";
    char *end;
    uint64_t value;
    const char *unit;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-')
        usage_error("--%s: not a number: %s", name, text);
    if (!*end)
        return value;
    unit = strchr(units, *end);
    if (!unit || end[1])
        usage_error("--%s: not a number: %s", name, text);
    for (ptrdiff_t i = 0; i <= unit - units; i++)
        value *= 1000;
    return value;
}

static void store_value(const struct option_row *row, void *out, const char *text)
{
    char *at = (char *)out + row->offset;
    char *end;

    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)at = true;
        return;
    case OPTION_NUMBER:
        *(uint64_t *)at = parse_number(row->name, text);
        return;
    case OPTION_REAL:
        *(double *)at = strtod(text, &end);
        if (end == text || *end)
            usage_error("--%s: not a number: %s", row->name, text);
        return;
    case OPTION_WORD:
        *(const char **)at = text;
        return;
    }
}

static const struct option_row *find_row(const struct option_table *table, const char *name,
                                         size_t nname)
{
    for (size_t i = 0; i < table->nrows; i++) {
        const char *row = table->rows[i].name;

        if (strlen(row) == nname && memcmp(row, name, nname) == 0)
            return &table->rows[i];
    }
    return NULL;
}

int options_parse(const struct option_table *table, void *out, int argc, char **argv)
{
    int i;

    for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *name = argv[i] + 2;
        const char *value = strchr(name, '=');
        size_t nname = value ? (size_t)(value - name) : strlen(name);
        const struct option_row *row = find_row(table, name, nname);

        if (!row && strcmp(name, "help") == 0) {
            print_help(table);
            exit(0);
        }
        if (!row)
            usage_error("unknown option %s; --help lists them", argv[i]);
        if (value)
            value++;
        else if (row->kind != OPTION_FLAG && ++i < argc)
            value = argv[i];
        if (!value && row->kind != OPTION_FLAG)
            usage_error("--%s needs a value", row->name);
        store_value(row, out, value);
    }
    return i;
}
