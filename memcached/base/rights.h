/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rights: the process's user and its capabilities. Called by the main thread before there are
 * others, because capabilities belong to a thread and are inherited by those it starts.
 *
 * Each of these ends the process with memcached's message and exit status when it fails.
 */
#ifndef BASE_RIGHTS_H
#define BASE_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Capabilities that may be kept, as bits. */
#define RIGHTS_NET_ADMIN (UINT64_C(1) << 12)
#define RIGHTS_BPF       (UINT64_C(1) << 39)

struct rights_user {
    bool given;
    uid_t uid;
    gid_t gid;
    const char *name;
};

/* Nobody, unless the process is root's. */
struct rights_user rights_find_user(const char *name);
/* Switches to the user, if one was given. */
void rights_become(const struct rights_user *user);
/*
 * Between these two, files are opened as the user, if one was given: root opens none that this user
 * could not, whatever a path leads to.
 */
void rights_lend(const struct rights_user *user);
void rights_return(const struct rights_user *user);
/*
 * Whether an open file belongs to whom the process acts for, or to root: another user could change
 * what is in it.
 */
bool rights_own(int fd);
/*
 * A file for writing that nobody had before: one with this name is removed, a link is not followed.
 * NULL with errno.
 */
FILE *rights_create(const char *path, mode_t mode);
/*
 * For a process that was given rights for the kernel path: switches to the user and keeps no
 * capability but those of `kept` that it has, now or by any program it runs.
 */
void rights_become_confined(const struct rights_user *user, uint64_t kept);

#endif
