/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credentials: the process's user and its capabilities. Called by the main thread before it starts
 * others, because capabilities belong to a thread and are inherited by those it starts; but for
 * credentials_override and _revert, beside which the kernel path's threads load programs as root.
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
#define CREDENTIALS_NET_BIND_SERVICE (UINT64_C(1) << 10)
#define CREDENTIALS_NET_ADMIN        (UINT64_C(1) << 12)
#define CREDENTIALS_NET_RAW          (UINT64_C(1) << 13)
#define CREDENTIALS_BPF              (UINT64_C(1) << 39)

struct credentials_user {
    bool given;
    uid_t uid;
    gid_t gid;
    const char *name;
};

/* Looks the user up by name if the process is root's; otherwise returns no user. */
struct credentials_user credentials_find_user(const char *name);
/* The user's group; if none was given, the process's. */
gid_t credentials_group(const struct credentials_user *user);
/* Switches to the user, if one was given. */
void credentials_become(const struct credentials_user *user);
/*
 * Switch this thread to the user, if one was given, and back. Between the two calls it opens files
 * with the user's permissions, whatever a path leads to.
 */
void credentials_override(const struct credentials_user *user);
void credentials_revert(const struct credentials_user *user);
/*
 * Whether an open file belongs to the process's user or to root. Any other owner could change its
 * contents.
 */
bool credentials_trusts(int fd);
/*
 * Creates a file for writing: removes an existing one of this name and does not follow a link. NULL
 * with errno.
 */
FILE *credentials_create(const char *path, mode_t mode);
/*
 * For a process that has capabilities for the kernel path: switches to the user and keeps, of the
 * capabilities that it has, those in `kept`. No program that it runs can gain others.
 */
void credentials_become_keeping(const struct credentials_user *user, uint64_t kept);

#endif
