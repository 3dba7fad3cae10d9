/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refusal: why the kernel did not load the programs, in a line with the cause and the remedy. It
 * reads what the kernel says of this process: capabilities, the filter of system calls, namespaces.
 */
#ifndef BPF_REFUSAL_H
#define BPF_REFUSAL_H

#include <stddef.h>

/* rc: -errno of the load; log: the verifier's, which may be changed, or empty. */
void refusal_explain(int rc, char *log, char *text, size_t ntext);

#endif
