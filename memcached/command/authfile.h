/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * authfile: files of `user:password` lines, and their comparison with a client's credentials, whose
 * time depends on neither the user nor the password that would match.
 *
 * A struct authfile is the file of -Y: read at start and again on SIGHUP, by any thread, while
 * others check credentials. Its lock is a leaf, held for a copy or a comparison; no request of an
 * authenticated client takes it.
 */
#ifndef COMMAND_AUTHFILE_H
#define COMMAND_AUTHFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum {
    AUTH_ENTRIES = 8,     /* of an authfile; further ones are ignored */
    AUTH_ENTRY_MAX = 255, /* bytes of a line, without its end */
};

/* `user:password`, padded with zeros. */
struct auth_entry {
    unsigned char text[AUTH_ENTRY_MAX + 1];
    uint16_t len, nuser;
};

/* False: too long. An entry with an empty user or password matches no login. */
bool auth_entry_make(struct auth_entry *entry, struct slice user, struct slice password);
/* A line of a file. False: too long, or no colon in it. */
bool auth_entry_parse(struct auth_entry *entry, struct slice line);
/* Compares every byte, in constant time. */
bool auth_entry_equal(const struct auth_entry *a, const struct auth_entry *b);

/* Cuts the next line off `text`, without its line end. False: no more. */
bool auth_next_line(struct slice *text, struct slice *line);
/*
 * Reads a regular file of at most `max` bytes; the caller frees it with auth_forget. NULL with
 * errno: EISDIR for anything but a regular file, EFBIG for more than `max`, EBUSY for a file that
 * grows while it is read.
 */
char *auth_read(const char *path, size_t max, size_t *len);
/* Wipes and frees bytes that may be secret. */
void auth_forget(void *bytes, size_t len);

/* The lines of an authfile. */
struct auth_table {
    struct auth_entry entries[AUTH_ENTRIES]; /* those behind n are zero and match no login */
    unsigned int n;
    bool more; /* there were more lines */
};
/* NULL, or an error text that continues a sentence with the file's name. */
const char *auth_table_parse(struct auth_table *table, struct slice text);
bool auth_table_has(const struct auth_table *table, struct slice user, struct slice password);

struct authfile;
/* NULL: `error` says what is wrong. */
struct authfile *authfile_new(const char *path, char *error, size_t nerror);
void authfile_free(struct authfile *file);
/* False: `error` says why, and the old entries stay in use. */
bool authfile_reload(struct authfile *file, char *error, size_t nerror);
bool authfile_accepts(struct authfile *file, struct slice user, struct slice password);

#endif
