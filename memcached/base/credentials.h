/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rights: the process's user and its capabilities. Called by the main thread before there are
 * others, because capabilities belong to a thread and are inherited by those it starts.
 *
 * Each of these ends the process with memcached's message and exit status when it fails.
 */
#ifndef BASE_CREDENTIALS_H
#define BASE_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Capabilities that may be kept, as bits. */
#define CREDENTIALS_NET_ADMIN (UINT64_C(1) << 12)
#define CREDENTIALS_BPF       (UINT64_C(1) << 39)

struct credentials_user {
    bool given;
    uid_t uid;
    gid_t gid;
    const char *name;
};

/* Nobody, unless the process is root's. */
struct credentials_user credentials_find_user(const char *name);
/* Switches to the user, if one was given. */
void credentials_become(const struct credentials_user *user);
/*
 * Between these two, files are opened as the user, if one was given: root opens none that this user
 * could not, whatever a path leads to.
 */
void credentials_lend(const struct credentials_user *user);
void credentials_return(const struct credentials_user *user);
/*
 * Whether an open file belongs to whom the process acts for, or to root: another user could change
 * what is in it.
 */
bool credentials_own(int fd);
/*
 * A file for writing that nobody had before: one with this name is removed, a link is not followed.
 * NULL with errno.
 */
FILE *credentials_create(const char *path, mode_t mode);
/*
 * For a process that was given rights for the kernel path: switches to the user and keeps no
 * capability but those of `kept` that it has, now or by any program it runs.
 */
void credentials_become_keeping(const struct credentials_user *user, uint64_t kept);

#endif
