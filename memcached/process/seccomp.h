/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seccomp: `-o drop_privileges`, a filter that allows only the system calls that serving needs. Any
 * other call kills the process (SIGSYS). The only user of libseccomp; process/seccomp_none.c
 * replaces it in a build without libseccomp.
 *
 * The caller names what this server needs beyond the usual, so that a server without a restart file
 * cannot write files, and one without the kernel path cannot call bpf(2).
 */
#ifndef PROCESS_SECCOMP_H
#define PROCESS_SECCOMP_H

#include <stdbool.h>

struct seccomp_needs {
    bool kernel_path;  /* creates maps, ends links */
    bool writes_files; /* the restart file */
    bool removes_file; /* the pid file */
    bool asks_daemon;  /* SASL: saslauthd, the system log */
    bool relaxed;      /* a forbidden call fails with EPERM instead of killing the process */
};

/*
 * Applies to the calling thread and those that it starts from now on; cannot be undone. 0 or
 * -errno.
 */
int seccomp_install(const struct seccomp_needs *needs);

#endif
