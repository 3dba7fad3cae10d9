/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stores: TCP connections on which a load stores values beside its gets. Each set goes to the next
 * connection; what a socket does not take waits here.
 */
#ifndef BENCH_STORES_H
#define BENCH_STORES_H

#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/items.h"

struct store {
    uint64_t due_ns;
    uint32_t index;
    bool filling; /* after a miss: no request of the mix */
};

struct stores_connection;

struct stores {
    const struct items *items;
    struct stores_connection *connections;
    size_t n, turn, open; /* open: stores without a reply */
};

void stores_init(struct stores *stores, const struct items *items,
                 const struct sockaddr_in *address, size_t n);
void stores_fini(struct stores *stores);
void stores_add(struct stores *stores, const struct store *store, uint32_t version);
/* Sends what waits, and reports each reply; whether there was one. */
bool stores_turn(struct stores *stores,
                 void (*done)(void *ctx, const struct store *store, bool stored), void *ctx);
/* Fills fds of those that wait for a reply; returns how many they are. */
size_t stores_poll(const struct stores *stores, struct pollfd *fds);

#endif
