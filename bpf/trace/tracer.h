/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tracer: attaches trace.bpf.c to the packet programs of this machine, and reads its events.
 *
 * Needs CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON, and a kernel with BTF and BPF trampolines (on arm64
 * from Linux 6.0 on). Everything that it attaches ends with the process. A program that is traced
 * keeps its server's maps: tracer_follow releases those of a server that has ended. One thread.
 */
#ifndef BPF_TRACE_TRACER_H
#define BPF_TRACE_TRACER_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/trace/event.h"

struct tracer;
/* Is given an event, and the name of the program. */
typedef void tracer_report(void *context, const struct trace_event *event, const char *program);

/* filter: the end that a packet must have, address zeros: any. NULL with errno. */
struct tracer *tracer_open(const struct trace_end *filter, tracer_report *report, void *context);
void tracer_close(struct tracer *tracer);

/*
 * Attaches to programs that have come, and detaches from those of servers that have ended. Returns
 * how many programs are traced; or -errno, and `error` says what to do.
 */
int tracer_follow(struct tracer *tracer, char *error, size_t nerror);
/* The descriptor that is readable when there are events; -1 before a program is traced. */
int tracer_descriptor(const struct tracer *tracer);
/* Reports the events that there are. */
void tracer_read(struct tracer *tracer);
/* Packets without a report: the ring had no room, or the kernel did not run the trace programs. */
uint64_t tracer_lost(const struct tracer *tracer);

#endif
