/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/accept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "command/command.h"

enum {
    ACCEPTS = 64,         /* in a row from one socket */
    RETRY_US = 10 * 1000, /* between looks at whether there is room again */
};

struct listener {
    struct endpoint endpoint;
    struct acceptor *acceptor;
    struct event *event;
    struct stream_socket kind; /* of the accepted sockets, but for its fd */
};

struct acceptor {
    const struct net_config *config;
    struct endpoints *endpoints;
    struct worker **workers;
    unsigned int next_worker;
    struct event *retry; /* while not accepting */
    uint64_t stopped_at; /* us */
    /* Written by the main thread, read by any. */
    uint64_t rejected, stops, stopped_us;
    bool stopped;
    size_t nlisteners;
    struct listener listeners[];
};

static uint64_t now_us(void)
{
    return clock_exact_ns() / 1000;
}

unsigned int net_reserved_fds(const struct net_config *config)
{
    return NET_FDS_PER_WORKER * config->nthreads;
}

static bool is_full(const struct acceptor *acceptor)
{
    return endpoints_open(acceptor->endpoints) + net_reserved_fds(acceptor->config) >=
           acceptor->config->max_connections;
}

/* --- the limit --------------------------------------------------------- */

static void ignore_listeners(struct acceptor *acceptor)
{
    for (size_t i = 0; i < acceptor->nlisteners; i++)
        event_del(acceptor->listeners[i].event);
}

/* False: no memory; then none is watched. */
static bool watch_listeners(struct acceptor *acceptor)
{
    for (size_t i = 0; i < acceptor->nlisteners; i++) {
        if (event_add(acceptor->listeners[i].event, NULL) != 0) {
            ignore_listeners(acceptor);
            return false;
        }
    }
    return true;
}

static void stop_accepting(struct acceptor *acceptor)
{
    const struct timeval retry = {0, RETRY_US};

    if (acceptor->stopped || event_add(acceptor->retry, &retry) != 0)
        return;
    ignore_listeners(acceptor);
    acceptor->stopped_at = now_us();
    __atomic_store_n(&acceptor->stopped, true, __ATOMIC_RELAXED);
    count_add(&acceptor->stops, 1);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct acceptor *acceptor = arg;

    (void)fd;
    (void)what;
    if (is_full(acceptor) || !watch_listeners(acceptor))
        return;
    event_del(acceptor->retry);
    count_add(&acceptor->stopped_us, now_us() - acceptor->stopped_at);
    __atomic_store_n(&acceptor->stopped, false, __ATOMIC_RELAXED);
}

/* A TLS client gets no text: before the handshake it could not read it. */
static void reject(struct acceptor *acceptor, int fd, bool tls)
{
    const struct slice text = SLICE("ERROR Too many open connections\r\n");

    count_add(&acceptor->rejected, 1); /* first: a reader of the text may look */
    if (!tls && send(fd, text.ptr, text.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_at(1, "cannot send the refusal to connection %d", fd);
    close(fd);
}

/* --- accepting --------------------------------------------------------- */

static void dispatch(struct acceptor *acceptor, struct stream_socket socket)
{
    struct worker *worker = acceptor->workers[acceptor->next_worker];

    acceptor->next_worker = (acceptor->next_worker + 1) % acceptor->config->nthreads;
    endpoints_count(acceptor->endpoints);
    if (!worker_enqueue(worker, socket)) {
        log_write("no memory for connection %d", socket.fd);
        endpoints_uncount(acceptor->endpoints);
        close(socket.fd);
    }
}

/* False: nothing more can be accepted now. */
static bool accept_one(struct listener *listener)
{
    struct acceptor *acceptor = listener->acceptor;
    struct stream_socket accepted = listener->kind;
    bool fast = acceptor->config->maxconns_fast;

    if (!fast && is_full(acceptor)) {
        stop_accepting(acceptor);
        return false;
    }
    accepted.fd = accept4(listener->endpoint.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted.fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            log_at(1, "cannot accept: %s", strerror(errno));
            stop_accepting(acceptor);
        }
        return errno == ECONNABORTED || errno == EINTR;
    }
    if (fast && is_full(acceptor))
        reject(acceptor, accepted.fd, accepted.tls);
    else
        dispatch(acceptor, accepted);
    return true;
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    for (int i = 0; i < ACCEPTS && accept_one(arg); i++)
        continue;
}

size_t acceptor_shown(const struct acceptor *acceptor, int *sockets, size_t n)
{
    size_t i, nshown = 0;

    for (i = 0; i < acceptor->nlisteners && nshown < n; i++)
        if (acceptor->listeners[i].kind.shown)
            sockets[nshown++] = acceptor->listeners[i].endpoint.fd;
    return nshown;
}

/* --- life -------------------------------------------------------------- */

static bool add_listener(struct acceptor *acceptor, struct event_base *base,
                         struct stream_socket socket)
{
    static const char *const protocols[] = {"auto-negotiate", "ascii", "binary"};
    struct listener *listener = &acceptor->listeners[acceptor->nlisteners++];

    listener->acceptor = acceptor;
    listener->kind = socket;
    listener->endpoint = (struct endpoint){.fd = socket.fd,
                                           .kind = ENDPOINT_LISTENER,
                                           .state = STATE_LISTENING,
                                           .last_command = clock_now(&acceptor->config->clock)};
    endpoints_count(acceptor->endpoints);
    endpoints_list(acceptor->endpoints, &listener->endpoint);
    log_at(2, "<%d server listening (%s)", socket.fd, protocols[socket.protocol]);
    listener->event = event_new(base, socket.fd, EV_READ | EV_PERSIST, on_connection, listener);
    return listener->event && event_add(listener->event, NULL) == 0;
}

struct acceptor *acceptor_new(const struct net_config *config, struct event_base *base,
                              struct endpoints *endpoints, struct worker **workers,
                              const struct stream_socket *sockets, size_t nsockets)
{
    struct acceptor *acceptor =
        calloc(1, sizeof(*acceptor) + nsockets * sizeof(acceptor->listeners[0]));
    bool whole;

    if (!acceptor) {
        for (size_t i = 0; i < nsockets; i++)
            close(sockets[i].fd);
        return NULL;
    }
    acceptor->config = config;
    acceptor->endpoints = endpoints;
    acceptor->workers = workers;
    acceptor->retry = event_new(base, -1, EV_PERSIST, on_retry, acceptor);
    whole = acceptor->retry != NULL;
    for (size_t i = 0; i < nsockets; i++)
        whole &= add_listener(acceptor, base, sockets[i]);
    if (!whole) {
        acceptor_free(acceptor);
        errno = ENOMEM;
        return NULL;
    }
    return acceptor;
}

void acceptor_free(struct acceptor *acceptor)
{
    if (!acceptor)
        return;
    for (size_t i = 0; i < acceptor->nlisteners; i++) {
        if (acceptor->listeners[i].event)
            event_free(acceptor->listeners[i].event);
        endpoints_close(acceptor->endpoints, &acceptor->listeners[i].endpoint);
    }
    if (acceptor->retry)
        event_free(acceptor->retry);
    free(acceptor);
}

void acceptor_stats(struct acceptor *acceptor, struct command_net_stats *out)
{
    out->rejected_connections = __atomic_load_n(&acceptor->rejected, __ATOMIC_RELAXED);
    out->listen_disabled_num = __atomic_load_n(&acceptor->stops, __ATOMIC_RELAXED);
    out->time_in_listen_disabled_us = __atomic_load_n(&acceptor->stopped_us, __ATOMIC_RELAXED);
    out->accepting_conns = !__atomic_load_n(&acceptor->stopped, __ATOMIC_RELAXED);
}
