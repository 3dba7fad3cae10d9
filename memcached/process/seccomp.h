/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seccomp: `-o drop_privileges`. The process can call nothing of the kernel but what serving needs.
 * A further call ends it (SIGSYS). The only user of libseccomp; process/seccomp_none.c stands in
 * for a build without it.
 *
 * What a server needs beyond the usual is named when the filter is loaded, so that a server without
 * a restart file cannot write files, and one without the kernel path has no bpf(2).
 */
#ifndef PROCESS_SECCOMP_H
#define PROCESS_SECCOMP_H

#include <stdbool.h>

struct seccomp_needs {
    bool kernel_path;  /* maps grow, links end */
    bool writes_files; /* the restart file */
    bool removes_file; /* the pid file */
    bool asks_daemon;  /* SASL: saslauthd, the system log */
    bool relaxed;      /* what is not allowed fails with EPERM, and the process goes on */
};

/*
 * For the calling thread and those that it starts from now on; there is no way back. 0 or -errno.
 */
int seccomp_install(const struct seccomp_needs *needs);

#endif
