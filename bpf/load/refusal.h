/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refusal: why the kernel did not load the programs, in a line with the cause and the remedy. It
 * reads what the kernel says of this process: capabilities, the filter of system calls, namespaces.
 */
#ifndef BPF_REFUSAL_H
#define BPF_REFUSAL_H

#include <stddef.h>

/*
 * Bytes of a buffer for the verifier's log: enough for its last line, or with BPF_LOG for all of
 * it.
 */
size_t refusal_log_bytes(void);
/*
 * With BPF_LOG=FILE in the environment: writes the log there, if it is not empty. 0, or -errno and
 * it is not written.
 */
int refusal_keep(const char *log);

/* rc: -errno of the load; log: the verifier's, which is kept and then changed, or empty. */
void refusal_explain(int rc, char *log, char *text, size_t ntext);

/* The verifier's error, in its log, which is changed: the last line before what it counted. */
const char *refusal_last_line(char *log);

#endif
