/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: resource limits, daemonizing, the pid file. Called by the main thread before it starts
 * others.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Opens /dev/null for each standard stream that is closed, before another file takes its number:
 * the log would be written there. On failure exits.
 */
void process_open_streams(void);

/* On failure each of these functions exits with memcached's message and status. */
void process_raise_core_limit(void);
/* Raises the limit to `needed` descriptors, and to `extra` more if it can be raised so far. */
void process_raise_files_limit(uint64_t needed, uint64_t extra);

/* For -L: exits unless the kernel has huge pages enabled. */
void process_require_large_pages(void);

/* For -k, before the change of user: an ordinary user may lock no more than the limit. */
void process_raise_lock_limit(void);
/*
 * After the change of user, so that a limit that is too low fails here, with a warning, not later.
 */
void process_lock_memory(void);
/*
 * Locks mapped files, mainly the program's code: at a cgroup's limit the kernel would reclaim these
 * pages first, and read them again for each request.
 */
void process_lock_program(void);
/* Makes the process dumpable again after a change of user. */
void process_allow_core_dumps(void);

/*
 * Forks; returns in the child, in / unless keep_directory, with /dev/null as standard input. The
 * parent waits for process_ready, or exits with the child's status if that ends earlier, so that
 * the caller of the daemon sees a failed start. Returns the descriptor for process_ready.
 */
int process_daemonize(bool keep_directory);
/* keep_stderr: standard output and error stay as they are. */
void process_ready(int fd, bool keep_stderr);

/* Both log a failure. */
void process_write_pid(const char *path);
void process_remove_pid(const char *path);

#endif
