/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * monitor: keeps the kernel path true while the machine changes. A thread of its own hears of
 * addresses and interfaces (rtnetlink) and looks at the attachments every second, or of the chain
 * fifty times a second. It shows the
 * programs who "we" are, detaches from what is gone, and attaches again to what is back or was
 * detached by somebody. What it does it says on stderr, once.
 */
#ifndef KCACHE_MONITOR_H
#define KCACHE_MONITOR_H

#include "kcache/attach.h"

struct monitor;

/*
 * Hears from now on. The listening addresses are as kcache_attach has them, and copied. NULL:
 * `error` says why.
 */
struct monitor *monitor_open(struct loader *loader, enum kcache_mode mode,
                             const struct in6_addr *listen, size_t nlisten, char *error,
                             size_t nerror);
/*
 * What it looks after, and its own when the thread runs; outlives it. Shows the programs who we are
 * there. Before the start, as often as you like.
 */
void monitor_watch(struct monitor *monitor, struct attachment *attachments, size_t n);
/* The thread. It keeps the rights that the caller has. 0 or -errno. */
int monitor_start(struct monitor *monitor);
/* Ends the thread; what is attached stays so. NULL is legal, of both. */
void monitor_stop(struct monitor *monitor);
void monitor_close(struct monitor *monitor);

/* What is known of interfaces and addresses since monitor_start. Any thread. */
void monitor_view(struct monitor *monitor, struct kcache_view *out);
/* The events of that are counted from zero on. Any thread. */
void monitor_reset(struct monitor *monitor);

#endif
