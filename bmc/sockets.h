/* SPDX-License-Identifier: BSD-3-Clause */
/* sockets: counts the sockets on memcached's port in this network namespace, from /proc/net. */
#ifndef BMC_SOCKETS_H
#define BMC_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

/* Established TCP connections to the port. */
size_t sockets_connections(uint16_t port);
/* UDP sockets that are bound to it. */
size_t sockets_udp(uint16_t port);

#endif
