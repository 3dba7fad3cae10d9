/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kept: descriptors that outlive the process in the service manager's store, each under a name
 * (sd_pid_notify_with_fds(3), sd_listen_fds_with_names(3)).
 *
 * The manager hands them to the next process, as descriptors 3, 4, ... that LISTEN_FDS counts and
 * LISTEN_FDNAMES names. Only names that begin with KEPT_PREFIX are read: the others belong to
 * somebody else, as to a socket unit. Called by the main thread at the start.
 */
#ifndef BASE_KEPT_H
#define BASE_KEPT_H

#include <stdbool.h>

struct notify;
struct kept;

#define KEPT_PREFIX "memcached-"

/*
 * To be called before the process becomes a daemon: LISTEN_PID names this one. NULL: the manager
 * keeps nothing, or there is none, or no memory; legal for all functions.
 */
struct kept *kept_open(struct notify *notify);
/* What was kept under this name, which is the caller's now; -1: nothing. */
int kept_take(struct kept *kept, const char *name);
/* From now on the manager keeps fd too. */
void kept_store(struct kept *kept, const char *name, int fd);
/* The manager closes what it has under the name, or all that was not taken, and it is closed. */
void kept_forget(struct kept *kept, const char *name);
void kept_forget_rest(struct kept *kept);
/* Waits for the manager to have done so. False: there was nothing to forget, or it did not. */
bool kept_settle(struct kept *kept);
/* What was not taken stays with the manager. */
void kept_close(struct kept *kept);

#endif
