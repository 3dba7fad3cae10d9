/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp: a worker's UDP socket: datagrams are received and sent in batches.
 *
 * Each datagram stands alone: nothing of one is left for the next. Each command's reply is a
 * message of its own, in datagrams of at most MC_UDP_PAYLOAD bytes that carry the request's id.
 *
 * An event does a bounded number of requests and sends a bounded number of bytes, in all and of one
 * datagram; then the worker's other sockets have their turn. A datagram that needs many turns, or
 * whose reply is long, is deferred, and those behind it go on.
 */
#ifndef NET_UDP_H
#define NET_UDP_H

#include "net/worker.h"

/* Takes over fd. NULL: no memory, fd is closed. */
struct udp *udp_open(struct worker *worker, int fd);
/* Before the first datagram: the worker's commands are there. */
void udp_begin(struct worker *worker);
void udp_close(struct udp *udp);
/* How many datagrams a reply of nbytes takes; 0: more than the frame header can count. */
size_t udp_ndatagrams(size_t nbytes);

#endif
