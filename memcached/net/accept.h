/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accept: the main thread accepts connections from the listening sockets, enforces the limit of -c,
 * and hands the connections to the workers round robin.
 */
#ifndef NET_ACCEPT_H
#define NET_ACCEPT_H

#include <event2/event.h>

#include "net/listen.h"
#include "net/worker.h"

struct acceptor;

/* Owns the sockets from the call on, also when it fails. NULL with errno. */
struct acceptor *acceptor_new(const struct net_config *config, struct event_base *base,
                              struct endpoints *endpoints, struct worker **workers,
                              const struct stream_socket *sockets, size_t nsockets);
/* NULL is legal. */
void acceptor_free(struct acceptor *acceptor);
/* Descriptors that are not available to connections. */
unsigned int net_reserved_fds(const struct net_config *config);
/* Fills in the listening sockets whose connections the kernel may answer, n at most. Returns how
 * many. */
size_t acceptor_shown(const struct acceptor *acceptor, int *sockets, size_t n);
/* Adds the acceptor's counts to `out`. From any thread. */
void acceptor_stats(struct acceptor *acceptor, struct command_net_stats *out);

#endif
