/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * monitor: keeps the kernel path up to date while the host's network changes. Its thread receives
 * events of addresses and interfaces (rtnetlink) and checks the attachments every second, those of
 * the chain fifty times a second. It passes the local addresses to the programs, detaches from
 * removed interfaces, and attaches again to interfaces that are back or were detached by another
 * process. It logs each of these once.
 */
#ifndef IFACE_MONITOR_H
#define IFACE_MONITOR_H

#include <netinet/in.h>
#include <sys/types.h>

#include "iface/attach.h"

struct monitor;

/*
 * Receives events from now on. The listening addresses are in the form of kcache_attach, and
 * copied. NULL: `error` says why.
 */
struct monitor *monitor_open(struct loader *loader, enum iface_mode mode,
                             const struct in6_addr *listen, size_t nlisten, char *error,
                             size_t nerror);
/*
 * bmc=auto: finds the names of the interfaces that carry a listening address, at most `max`, as
 * hostnet_carriers does. Before the thread runs.
 */
size_t monitor_carriers(const struct monitor *monitor, bool with_lo, char (*names)[IF_NAMESIZE],
                        size_t max);
/*
 * Puts those beneath others before these: Linux attaches no XDP program beneath one that has one.
 * Before the thread runs, and before monitor_watch.
 */
void monitor_sort(const struct monitor *monitor, struct attachment *attachments, size_t n);
/* Whether no other machine can reach a listening address. */
bool monitor_is_loopback(const struct monitor *monitor);
/*
 * From now on other servers can share the interfaces, and wait for the thread's answers: those of
 * root and of this group, that of the user which the server becomes. Without it none are shared; if
 * it fails, it logs why. Once, before XDP is attached.
 */
void monitor_listen(struct monitor *monitor, gid_t group);
/*
 * Sets the attachments to monitor, and passes the local addresses to the programs. They must
 * outlive the monitor, and belong to it once the thread runs. May be called several times before
 * the start.
 */
void monitor_watch(struct monitor *monitor, struct attachment *attachments, size_t n);
/*
 * How the guard on what leaves over TCP is attached again when another process has detached it: 0
 * or -errno. By the thread, before it runs.
 */
void monitor_guard(struct monitor *monitor, int (*attach)(void *), void *context);
/*
 * Handles all events so far, then starts the thread, which keeps the caller's capabilities. 0 or
 * -errno.
 */
int monitor_start(struct monitor *monitor);
/* Ends the thread; attachments stay. NULL is legal for both functions. */
void monitor_stop(struct monitor *monitor);
void monitor_close(struct monitor *monitor);

/* The state of interfaces and addresses since monitor_start, and what has happened. Any thread. */
void monitor_view(struct monitor *monitor, struct iface_view *out);
void monitor_events(struct monitor *monitor, struct iface_events *out);

#endif
