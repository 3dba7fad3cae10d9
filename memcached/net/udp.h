/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp: a worker's UDP socket: datagrams are received and sent in batches (net/datagrams.h).
 *
 * Each datagram is parsed alone: no request spans two. Each command's reply is a message of its
 * own, in datagrams of at most MC_UDP_PAYLOAD bytes that carry the request's id.
 *
 * An event executes a bounded number of requests and sends a bounded number of bytes, in total and
 * for each datagram; then the worker serves its other sockets. A datagram that needs many turns, or
 * whose reply is long, is deferred, and those behind it are served.
 */
#ifndef NET_UDP_H
#define NET_UDP_H

#include "net/worker.h"

struct xsk;

/* Owns fd from the call on. NULL: no memory, and fd is closed. */
struct udp *udp_open(struct worker *worker, int fd);
/* To be called once the worker has its commands, before the first datagram. */
void udp_begin(struct worker *worker);
void udp_close(struct udp *udp);
/* net_each_udp for one worker. */
int udp_each(const struct worker *worker, int (*tell)(void *context, int socket), void *context);
/*
 * Serves what comes by the ring as if it had come by the worker's sockets, and sends the replies by
 * the ring, as far as it has room. The ring is the caller's, and outlives the worker. 0 or -errno.
 */
int udp_add_ring(struct worker *worker, struct xsk *xsk);
void udp_close_rings(struct worker *worker);
/* How many datagrams a reply of nbytes takes; 0: more than the frame header can count. */
size_t udp_ndatagrams(size_t nbytes);

#endif
