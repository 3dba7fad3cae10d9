/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * authfile: who may log in: files of `user:password` lines, and the comparison with what a client
 * says, whose time depends on neither the user nor the password that would have been right.
 *
 * A struct authfile is what -Y names: read at start and again on SIGHUP, by whichever thread, while
 * others ask it. Its lock is a leaf, held for a copy or a comparison; no request of a client that
 * is already in takes it.
 */
#ifndef COMMAND_AUTHFILE_H
#define COMMAND_AUTHFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum {
    AUTH_ENTRIES = 8,     /* of an authfile; more are not looked at */
    AUTH_ENTRY_MAX = 255, /* bytes of a line, without its end */
};

/* `user:password`, zeros behind it. */
struct auth_entry {
    unsigned char text[AUTH_ENTRY_MAX + 1];
    uint16_t len, nuser;
};

/* False: too long. Neither part may be empty for an entry that is to match. */
bool auth_entry_make(struct auth_entry *entry, struct slice user, struct slice password);
/* A line of a file. False: too long, or no colon in it. */
bool auth_entry_parse(struct auth_entry *entry, struct slice line);
/* Looks at every byte, whatever the first ones are. */
bool auth_entry_equal(const struct auth_entry *a, const struct auth_entry *b);

/* Takes the next line off `text`, without its end, which the last one may lack. False: no more. */
bool auth_next_line(struct slice *text, struct slice *line);
/*
 * The `len` bytes of a regular file of at most `max`; the caller frees them, with auth_forget. NULL
 * with errno: EISDIR stands for whatever is no regular file, EFBIG for more than `max`, EBUSY for
 * one that grows while it is read.
 */
char *auth_read(const char *path, size_t max, size_t *len);
/* Frees bytes that may be secret. */
void auth_forget(void *bytes, size_t len);

/* The lines of an authfile. */
struct auth_table {
    struct auth_entry entries[AUTH_ENTRIES]; /* those behind n are zero and match nobody */
    unsigned int n;
    bool more; /* there were more lines */
};
/* NULL, or what is wrong, to be read behind the file's name. */
const char *auth_table_parse(struct auth_table *table, struct slice text);
bool auth_table_has(const struct auth_table *table, struct slice user, struct slice password);

struct authfile;
/* NULL: `error` says what is wrong. */
struct authfile *authfile_new(const char *path, char *error, size_t nerror);
void authfile_free(struct authfile *file);
/* False: `error` says why, and all is as before. */
bool authfile_reload(struct authfile *file, char *error, size_t nerror);
bool authfile_accepts(struct authfile *file, struct slice user, struct slice password);

#endif
