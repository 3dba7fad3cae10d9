/* SPDX-License-Identifier: BSD-3-Clause */
/* trace: `bmc trace`, which prints what the kernel programs do with each packet. */
#ifndef BMC_TRACE_H
#define BMC_TRACE_H

#include <stdbool.h>

#include "bpf/trace/event.h"

/* ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT. Whether it is one. */
bool trace_parse(const char *text, struct trace_end *out);
/* Prints a line a packet until a signal, or until no server is left. Returns the exit status. */
int trace_show(const struct trace_end *filter);

#endif
