/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint: what `stats conns` lists: each socket that is served.
 *
 * The list is changed and walked under its lock, so that a listed socket is open. state and
 * last_command are the owner's; the walk reads them without order.
 */
#ifndef NET_ENDPOINT_H
#define NET_ENDPOINT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/log.h"

struct stat_sink;

/* memcached's names: endpoint_states in endpoint.c. */
enum endpoint_state {
    STATE_LISTENING,
    STATE_READ,
    STATE_PARSE_CMD,
    STATE_NREAD,
    STATE_SWALLOW,
    STATE_MWRITE,
    STATE_WATCH,
};

enum endpoint_kind { ENDPOINT_LISTENER, ENDPOINT_STREAM, ENDPOINT_DATAGRAM };

struct endpoint {
    int fd;
    uint8_t kind, state;
    rel_time last_command;
    struct endpoint *next, *prev;
};

/* What -vvv shows. */
void endpoint_log_state(const struct endpoint *endpoint, enum endpoint_state next);
static inline void endpoint_set_state(struct endpoint *endpoint, enum endpoint_state state)
{
    if (log_get_level() >= 3)
        endpoint_log_state(endpoint, state);
    __atomic_store_n(&endpoint->state, (uint8_t)state, __ATOMIC_RELAXED);
}

static inline void endpoint_used(struct endpoint *endpoint, rel_time now)
{
    __atomic_store_n(&endpoint->last_command, now, __ATOMIC_RELAXED);
}

struct endpoints {
    pthread_mutex_t lock;
    struct endpoint head; /* of the ring */
    uint64_t current, total, most, leaving;
};

void endpoints_init(struct endpoints *endpoints);
void endpoints_fini(struct endpoints *endpoints);
/* An endpoint counts from when it was accepted, and is listed once it is served. */
void endpoints_count(struct endpoints *endpoints);
void endpoints_uncount(struct endpoints *endpoints);
void endpoints_list(struct endpoints *endpoints, struct endpoint *endpoint);
/* Unlists and uncounts the endpoint, and closes its socket under the lock. */
void endpoints_close(struct endpoints *endpoints, struct endpoint *endpoint);
/* Unlists and uncounts it, but its socket stays open, and counts as one that leaves. */
void endpoints_release(struct endpoints *endpoints, struct endpoint *endpoint);
/* Closes and uncounts a socket that leaves. */
void endpoints_left(struct endpoints *endpoints, int fd);
/* All sockets: current connections, listening sockets, and those that leave. */
uint64_t endpoints_open(const struct endpoints *endpoints);
void endpoints_stats(struct endpoints *endpoints, rel_time now, struct stat_sink *sink);

#endif
