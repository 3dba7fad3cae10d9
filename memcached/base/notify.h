/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify: tells the service manager that started this process what it does, by the protocol of
 * sd_notify(3): datagrams of lines to the unix socket that NOTIFY_SOCKET names.
 *
 * The socket is connected at the start: later there may be another user, and a filter of system
 * calls. Called by the main thread, of memcached and of bmc. NULL is legal for all functions: no
 * service manager asked.
 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdbool.h>

struct notify;

/*
 * To be called before the process becomes a daemon. NULL without NOTIFY_SOCKET, and, with a line in
 * the log, if it names no socket.
 */
struct notify *notify_open(void);
/* Whether the manager restarts a process that does not call notify_alive in time. */
bool notify_has_watchdog(const struct notify *notify);
/* The server serves. Also tells the process id, which another process than this one had with -d. */
void notify_ready(struct notify *notify, const char *status);
/* What it does, one line. Sends nothing if that has not changed. */
void notify_status(struct notify *notify, const char *status);
/* To be called every second while all of the server runs. */
void notify_alive(struct notify *notify);
void notify_stopping(struct notify *notify);
/*
 * Whether the manager keeps descriptors for the next process (systemd says so since version 254,
 * with FDSTORE in the environment; a unit says it for an older one).
 */
bool notify_has_store(const struct notify *notify);
/* It keeps the descriptor under this name, of at most NOTIFY_NAME characters. 0 or -errno. */
enum { NOTIFY_NAME = 127 };
int notify_keep(struct notify *notify, const char *name, int fd);
/* It closes what it has under this name. */
void notify_forget(struct notify *notify, const char *name);
/* Waits until it has done all that it was told, at most 5 seconds. Whether it has. */
bool notify_settle(struct notify *notify);
void notify_close(struct notify *notify);

#endif
