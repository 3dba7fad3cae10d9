/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: this process towards the system: limits, daemon, pid file. Called by the main thread
 * before there are others.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Each of these ends the process with memcached's message and exit status when it fails.
 */
void process_raise_core_limit(void);
/* At least `needed` descriptors, and `extra` more if the limit can be raised so far. */
void process_raise_files_limit(uint64_t needed, uint64_t extra);

/* For -L: that the kernel has them. */
void process_require_large_pages(void);

/* For -k, before the change of user, who may lock no more than the limit says. */
void process_raise_lock_limit(void);
/* After it: then a limit that stays too low fails here, with a warning, and not later. */
void process_lock_memory(void);
/*
 * Locks what is mapped of files, the program's code above all: where memory is short it would be
 * the first to go, and be read again for each request.
 */
void process_lock_program(void);
/* Undoes what a change of user does to core dumps. */
void process_allow_core_dumps(void);

/*
 * Returns in a child, in / unless keep_directory, its standard input /dev/null. The parent stays
 * until process_ready, and exits with the child's status if that ends before: whoever starts the
 * daemon learns of it. Returns the descriptor for process_ready.
 */
int process_daemonize(bool keep_directory);
/* keep_stderr: standard output and error stay as they are. */
void process_ready(int fd, bool keep_stderr);

/* A failure is said. */
void process_write_pid(const char *path);
void process_remove_pid(const char *path);

#endif
