/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accept: the main thread takes connections from the listening sockets, keeps to the limit of -c,
 * and hands them to the workers in turn.
 */
#ifndef NET_ACCEPT_H
#define NET_ACCEPT_H

#include <event2/event.h>

#include "net/listen.h"
#include "net/worker.h"

struct acceptor;

/* Takes over the sockets, also when it fails. NULL with errno. */
struct acceptor *acceptor_new(const struct net_config *config, struct event_base *base,
                              struct endpoints *endpoints, struct worker **workers,
                              const struct stream_socket *sockets, size_t nsockets);
/* NULL is legal. */
void acceptor_free(struct acceptor *acceptor);
/* Descriptors that connections must leave to others. */
unsigned int net_reserved_fds(const struct net_config *config);
/* Adds its part. From any thread. */
void acceptor_stats(struct acceptor *acceptor, struct command_net_stats *out);

#endif
