/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats: what a running bmc tells of itself.
 *
 * It listens on a unix socket, one for each port and network namespace; whoever connects is sent
 * all rows. So there is no second one for the same port, either: two that do not see each other's
 * packets would both be wrong. The socket is in a folder in which nobody but its owner may make
 * files, or any user of the machine could take its place and keep bmc from starting; the process
 * gives its own rights up, and its socket stays there, to be replaced by the next one.
 */
#ifndef BMC_STATS_H
#define BMC_STATS_H

#include <stdint.h>

#include "kcache/kcache.h"

#define STATS_FOLDER "/run/memcachedsr-bmc"

/* The listening socket or -errno; EADDRINUSE: there is another bmc. */
int stats_listen(uint16_t port);
/* Answers some of those who are there; does not wait. */
void stats_serve(int listener, struct kcache *kcache);

/* `bmc stats`: prints the rows of the one that runs. Returns the status to exit with. */
int stats_show(uint16_t port);

#endif
