/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats: the statistics socket of a running bmc.
 *
 * bmc listens on a unix socket, one for each port and network namespace, and sends all rows to each
 * client that connects. The socket also keeps a second bmc for the same port from starting: two
 * that do not see each other's packets would both answer stale values. Only the folder's owner may
 * create files in it; otherwise any user could create the socket first and keep bmc from starting.
 * bmc drops its privileges, so its socket stays there until the next bmc replaces it.
 */
#ifndef BMC_STATS_H
#define BMC_STATS_H

#include <stdint.h>

#include "kcache/kcache.h"

#define STATS_FOLDER "/run/memcachedsr-bmc"

/* Returns the listening socket or -errno; EADDRINUSE: another bmc runs. */
int stats_listen(uint16_t port);
/* Answers clients that are waiting, a bounded number; does not block. */
void stats_serve(int listener, struct kcache *kcache);

/* `bmc stats`: prints the rows of the running bmc. Returns the exit status. */
int stats_show(uint16_t port);

#endif
