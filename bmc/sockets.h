/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sockets: who uses the memcached's port in this network namespace, as /proc/net says it.
 */
#ifndef BMC_SOCKETS_H
#define BMC_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

/* TCP connections to the port that are open. */
size_t sockets_connections(uint16_t port);
/* Sockets that are bound to it for UDP. */
size_t sockets_udp(uint16_t port);

#endif
