/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats: what a running bmc tells of itself.
 *
 * It listens on an abstract unix socket, one for each port and network namespace, which is gone
 * with the process; whoever connects is sent all rows. So there is no second one for the same
 * port, either: two that do not see each other's packets would both be wrong.
 */
#ifndef BMC_STATS_H
#define BMC_STATS_H

#include <stdint.h>

#include "kcache/kcache.h"

/* The listening socket or -errno; EADDRINUSE: there is another bmc. */
int stats_listen(uint16_t port);
/* Answers some of those who are there; does not wait. */
void stats_serve(int listener, struct kcache *kcache);

/* `bmc stats`: prints the rows of the one that runs. Returns the status to exit with. */
int stats_show(uint16_t port);

#endif
