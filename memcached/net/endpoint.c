/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/endpoint.h"

#include <stdio.h>
#include <unistd.h>

#include "command/command.h"
#include "net/socket.h"

static const char *const endpoint_states[] = {
    [STATE_LISTENING] = "conn_listening", [STATE_READ] = "conn_read",
    [STATE_PARSE_CMD] = "conn_parse_cmd", [STATE_NREAD] = "conn_nread",
    [STATE_SWALLOW] = "conn_swallow",     [STATE_MWRITE] = "conn_mwrite",
    [STATE_WATCH] = "conn_watch",
};

void endpoint_log_state(const struct endpoint *endpoint, enum endpoint_state next)
{
    if (endpoint->state != next) {
        log_at(3, "%d: going from %s to %s", endpoint->fd, endpoint_states[endpoint->state],
               endpoint_states[next]);
    }
}

void endpoints_init(struct endpoints *endpoints)
{
    *endpoints = (struct endpoints){0};
    pthread_mutex_init(&endpoints->lock, NULL);
    endpoints->head.next = endpoints->head.prev = &endpoints->head;
}

void endpoints_fini(struct endpoints *endpoints)
{
    pthread_mutex_destroy(&endpoints->lock);
}

void endpoints_count(struct endpoints *endpoints)
{
    pthread_mutex_lock(&endpoints->lock);
    __atomic_store_n(&endpoints->current, endpoints->current + 1, __ATOMIC_RELAXED);
    endpoints->total++;
    if (endpoints->most < endpoints->current)
        endpoints->most = endpoints->current;
    pthread_mutex_unlock(&endpoints->lock);
}

void endpoints_uncount(struct endpoints *endpoints)
{
    pthread_mutex_lock(&endpoints->lock);
    __atomic_store_n(&endpoints->current, endpoints->current - 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&endpoints->lock);
}

void endpoints_list(struct endpoints *endpoints, struct endpoint *endpoint)
{
    pthread_mutex_lock(&endpoints->lock);
    endpoint->prev = endpoints->head.prev;
    endpoint->next = &endpoints->head;
    endpoint->prev->next = endpoint;
    endpoint->next->prev = endpoint;
    pthread_mutex_unlock(&endpoints->lock);
}

/* Under the lock. */
static void unlist(struct endpoints *endpoints, const struct endpoint *endpoint)
{
    endpoint->prev->next = endpoint->next;
    endpoint->next->prev = endpoint->prev;
    __atomic_store_n(&endpoints->current, endpoints->current - 1, __ATOMIC_RELAXED);
}

void endpoints_close(struct endpoints *endpoints, struct endpoint *endpoint)
{
    pthread_mutex_lock(&endpoints->lock);
    unlist(endpoints, endpoint);
    close(endpoint->fd);
    pthread_mutex_unlock(&endpoints->lock);
}

void endpoints_release(struct endpoints *endpoints, struct endpoint *endpoint)
{
    pthread_mutex_lock(&endpoints->lock);
    unlist(endpoints, endpoint);
    __atomic_store_n(&endpoints->leaving, endpoints->leaving + 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&endpoints->lock);
}

void endpoints_left(struct endpoints *endpoints, int fd)
{
    close(fd);
    pthread_mutex_lock(&endpoints->lock);
    __atomic_store_n(&endpoints->leaving, endpoints->leaving - 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&endpoints->lock);
}

uint64_t endpoints_open(const struct endpoints *endpoints)
{
    return __atomic_load_n(&endpoints->current, __ATOMIC_RELAXED) +
           __atomic_load_n(&endpoints->leaving, __ATOMIC_RELAXED);
}

static void add_text(struct stat_sink *sink, const struct endpoint *endpoint, const char *name,
                     const char *text)
{
    char key[32];

    snprintf(key, sizeof(key), "%d:%s", endpoint->fd, name);
    stat_add(sink, key, "%s", text);
}

static void add_endpoint(const struct endpoint *endpoint, rel_time now, struct stat_sink *sink)
{
    uint8_t state = __atomic_load_n(&endpoint->state, __ATOMIC_RELAXED);
    rel_time last = __atomic_load_n(&endpoint->last_command, __ATOMIC_RELAXED);
    char text[256];

    if (endpoint->kind == ENDPOINT_DATAGRAM)
        add_text(sink, endpoint, "UDP", "UDP");
    socket_text(text, sizeof(text), endpoint->fd, endpoint->kind == ENDPOINT_STREAM);
    add_text(sink, endpoint, "addr", text);
    if (endpoint->kind == ENDPOINT_STREAM) {
        socket_text(text, sizeof(text), endpoint->fd, false);
        add_text(sink, endpoint, "listen_addr", text);
    }
    add_text(sink, endpoint, "state", endpoint_states[state]);
    snprintf(text, sizeof(text), "%u", now > last ? now - last : 0);
    add_text(sink, endpoint, "secs_since_last_cmd", text);
}

void endpoints_stats(struct endpoints *endpoints, rel_time now, struct stat_sink *sink)
{
    pthread_mutex_lock(&endpoints->lock);
    for (const struct endpoint *e = endpoints->head.next; e != &endpoints->head; e = e->next)
        add_endpoint(e, now, sink);
    pthread_mutex_unlock(&endpoints->lock);
}
