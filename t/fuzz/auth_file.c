/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is read as an auth file. What must hold: nothing outside is read (the bytes end where
 * the allocation ends), the table is what a plain reading of the lines gives, a last line needs no
 * end, and a user can log in exactly if one of the first eight lines is `user:password`.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "command/authfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* The line at `at`, byte by byte, without its end; returns where the next one begins. */
static size_t read_line(struct slice text, size_t at, struct slice *line)
{
    size_t end = at;

    while (end < text.len && text.ptr[end] != '\n')
        end++;
    *line = (struct slice){text.ptr + at, end - at};
    if (line->len > 0 && line->ptr[line->len - 1] == '\r')
        line->len--;
    return end < text.len ? end + 1 : end;
}

/* The number of colons before which a line could be cut does not matter: it is the first. */
static size_t first_colon(struct slice line)
{
    size_t i = 0;

    while (i < line.len && line.ptr[i] != ':')
        i++;
    return i;
}

static void check_line(const struct auth_table *table, struct slice line)
{
    size_t colon = first_colon(line);
    struct slice user = {line.ptr, colon};
    struct slice password = {line.ptr + colon + 1, line.len - colon - 1};

    must(auth_table_has(table, user, password) == (user.len > 0 && password.len > 0));
    if (password.len > 1) {
        struct slice less = {password.ptr, password.len - 1};
        struct slice line_of_less = {line.ptr, line.len - 1};
        bool also = false;

        for (unsigned int i = 0; i < table->n; i++) {
            also |= slice_equal(line_of_less, (struct slice){(const char *)table->entries[i].text,
                                                             table->entries[i].len});
        }
        must(auth_table_has(table, user, less) == (also && user.len > 0));
    }
}

static void check_table(const struct auth_table *table, struct slice text, const char *wrong)
{
    struct slice line;
    size_t at = 0;
    unsigned int n = 0;

    while (at < text.len && n < AUTH_ENTRIES) {
        at = read_line(text, at, &line);
        if (line.len > AUTH_ENTRY_MAX || first_colon(line) == line.len) {
            must(wrong != NULL && table->n == n);
            return;
        }
        must(n < table->n && table->entries[n].len == line.len &&
             memcmp(table->entries[n].text, line.ptr, line.len) == 0);
        n++;
    }
    must(!wrong && table->n == n && table->more == (at < text.len));
    for (at = 0, n = 0; n < table->n; n++) {
        at = read_line(text, at, &line);
        check_line(table, line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct auth_table table, ended;
    char *copy = malloc(size + 1);
    const char *wrong;

    must(copy != NULL);
    memcpy(copy, data, size);
    copy[size] = '\n';
    wrong = auth_table_parse(&table, (struct slice){copy, size});
    check_table(&table, (struct slice){copy, size}, wrong);
    if (size > 0 && copy[size - 1] != '\n') {
        must(auth_table_parse(&ended, (struct slice){copy, size + 1}) == wrong);
        must(memcmp(&table, &ended, sizeof(table)) == 0);
    }
    free(copy);
    copy = malloc(size ? size : 1);
    must(copy != NULL);
    memcpy(copy, data, size);
    must(auth_table_parse(&ended, (struct slice){copy, size}) == wrong);
    free(copy);
    return 0;
}
