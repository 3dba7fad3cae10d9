/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/net.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xsk.h"
#include "command/command.h"
#include "net/accept.h"
#include "net/endpoint.h"
#include "net/listen.h"
#include "net/socket.h"
#include "net/tls.h"
#include "net/udp.h"
#include "net/worker.h"

enum { NSIGNALS = 5 };

struct net {
    struct net_config config;
    struct endpoints endpoints;
    struct event_base *base;
    struct worker **workers;
    struct listening listening;
    struct acceptor *acceptor;
    int stop_fd;
    struct net_duties duties;
    pthread_mutex_t lock;            /* of `before` */
    struct command_net_stats before; /* the counts when the statistics were reset */
};

/* --- start ------------------------------------------------------------- */

static bool make_workers(struct net *net)
{
    net->workers = calloc(net->config.nthreads, sizeof(struct worker *));
    if (!net->workers)
        return false;
    for (unsigned int i = 0; i < net->config.nthreads; i++) {
        net->workers[i] = worker_new(&net->config, &net->endpoints, i);
        if (!net->workers[i])
            return false;
    }
    return true;
}

/* Hands the sockets that listening has opened to the acceptor and the workers. */
static bool place_sockets(struct net *net)
{
    struct listening *listening = &net->listening;

    while (listening->nudp > 0) {
        struct udp_socket *socket = &listening->udp[--listening->nudp];

        if (worker_add_udp(net->workers[socket->worker], socket->fd) != 0)
            return false;
    }
    net->acceptor = acceptor_new(&net->config, net->base, &net->endpoints, net->workers,
                                 listening->streams, listening->nstreams);
    listening->nstreams = 0;
    return net->acceptor != NULL;
}

struct net *net_open(const struct net_config *config, char *error, size_t nerror)
{
    struct net *net = calloc(1, sizeof(*net));

    if (!net) {
        snprintf(error, nerror, "out of memory");
        return NULL;
    }
    net->config = *config;
    net->stop_fd = -1;
    pthread_mutex_init(&net->lock, NULL);
    endpoints_init(&net->endpoints);
    if (!listening_open(&net->listening, &net->config, error, nerror)) {
        net_free(net);
        return NULL;
    }
    net->base = event_base_new();
    net->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!net->base || net->stop_fd < 0 || !make_workers(net) || !place_sockets(net)) {
        snprintf(error, nerror, "cannot set up the event loops: %s", strerror(errno));
        net_free(net);
        return NULL;
    }
    return net;
}

static size_t copy_served(const struct served *served, struct in6_addr *addresses, size_t n,
                          uint16_t *port)
{
    *port = served->port;
    if (n > served->n)
        n = served->n;
    memcpy(addresses, served->addresses, n * sizeof(*addresses));
    return n;
}

size_t net_udp_addresses(const struct net *net, struct in6_addr *addresses, size_t n,
                         uint16_t *port)
{
    return copy_served(&net->listening.served_udp, addresses, n, port);
}

size_t net_tcp_addresses(const struct net *net, struct in6_addr *addresses, size_t n,
                         uint16_t *port)
{
    return copy_served(&net->listening.served_tcp, addresses, n, port);
}

size_t net_tcp_listeners(const struct net *net, int *sockets, size_t n)
{
    return acceptor_shown(net->acceptor, sockets, n);
}

int net_each_udp(const struct net *net, net_tell *tell, void *context)
{
    int rc = 0;

    for (unsigned int i = 0; rc == 0 && i < net->config.nthreads; i++)
        rc = udp_each(net->workers[i], tell, context);
    return rc;
}

static void add_others(const struct served *served, const char *name, char *text, size_t size)
{
    size_t i, n;

    for (i = 0; i < served->nothers && i < OTHER_PORTS; i++) {
        n = strlen(text);
        snprintf(text + n, size - n, "%s%s %u", n ? ", " : "", name, served->others[i]);
    }
    n = strlen(text);
    if (served->nothers > OTHER_PORTS)
        snprintf(text + n, size - n, " and more");
}

void net_other_ports(const struct net *net, bool udp, bool tcp, char *text, size_t size)
{
    text[0] = '\0';
    if (udp)
        add_others(&net->listening.served_udp, "UDP", text, size);
    if (tcp)
        add_others(&net->listening.served_tcp, "TCP", text, size);
}

int net_add_rings(struct net *net, struct xsk *rings, size_t n)
{
    int error = 0;

    for (size_t i = 0; error == 0 && i < n; i++)
        error = udp_add_ring(net->workers[i % net->config.nthreads], &rings[i]);
    return error;
}

int net_start(struct net *net, struct commands *commands)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    bool pin = net->config.udp_port != 0 && net->config.reuseport && !net->config.socket_path &&
               online > 0 && net->config.nthreads <= (unsigned long)online;

    for (unsigned int i = 0; i < net->config.nthreads; i++) {
        struct command_local *local = command_local_new(commands);
        int error;

        if (!local)
            return -ENOMEM;
        error = worker_start(net->workers[i], local, pin);
        if (error)
            return error;
    }
    return 0;
}

/* --- the main thread --------------------------------------------------- */

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    event_base_loopbreak(((struct net *)arg)->base);
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
    struct net *net = arg;
    bool serving = true;

    (void)fd;
    (void)what;
    for (unsigned int i = 0; net->config.ping_workers && i < net->config.nthreads; i++)
        serving &= worker_ping(net->workers[i]);
    net->duties.tick(net->duties.context, clock_now(&net->config.clock), serving);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    struct net *net = arg;

    (void)what;
    net->duties.signal(net->duties.context, (int)number);
}

static const int signals[NSIGNALS] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

static void mask_signals(int how)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < NSIGNALS; i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(how, &set, NULL);
}

int net_run(struct net *net, const struct net_duties *duties)
{
    const struct timeval second = {1, 0};
    struct event *events[NSIGNALS + 2];
    size_t nevents = sizeof(events) / sizeof(events[0]);
    int result = 0;

    net->duties = *duties;
    for (size_t i = 0; i < NSIGNALS; i++)
        events[i] = evsignal_new(net->base, signals[i], on_signal, net);
    events[NSIGNALS] = event_new(net->base, -1, EV_PERSIST, on_second, net);
    events[NSIGNALS + 1] = event_new(net->base, net->stop_fd, EV_READ, on_stop, net);
    for (size_t i = 0; i < nevents; i++)
        if (!events[i] || event_add(events[i], i == NSIGNALS ? &second : NULL) != 0)
            result = -ENOMEM;
    if (result == 0) {
        mask_signals(SIG_UNBLOCK);
        event_base_loop(net->base, EVLOOP_NO_EXIT_ON_EMPTY);
    }
    mask_signals(SIG_BLOCK);
    for (size_t i = 0; i < nevents; i++)
        if (events[i])
            event_free(events[i]);
    return result;
}

void net_stop(struct net *net)
{
    const uint64_t one = 1;

    if (write(net->stop_fd, &one, sizeof(one)) < 0)
        log_write("cannot stop the main thread");
}

bool net_is_local(int fd)
{
    return socket_is_local(fd);
}

void net_free(struct net *net)
{
    if (!net)
        return;
    /* All, before anything is freed: `stats` in one thread reads what the others count. */
    for (unsigned int i = 0; net->workers && i < net->config.nthreads; i++)
        worker_stop(net->workers[i]);
    acceptor_free(net->acceptor);
    for (unsigned int i = 0; net->workers && i < net->config.nthreads; i++)
        worker_free(net->workers[i]);
    free(net->workers);
    listening_close(&net->listening);
    if (net->base)
        event_base_free(net->base);
    if (net->stop_fd >= 0)
        close(net->stop_fd);
    endpoints_fini(&net->endpoints);
    pthread_mutex_destroy(&net->lock);
    free(net);
}

/* --- statistics -------------------------------------------------------- */

static uint64_t read_count(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static void collect_tls(struct net *net, struct command_tls_stats *out)
{
    rel_time loaded;

    if (!net->config.tls)
        return;
    for (unsigned int i = 0; i < net->config.nthreads; i++) {
        const struct tls_counts *counts = tls_local_counts(net->workers[i]->tls);

        out->handshakes += read_count(&counts->handshakes);
        out->resumed += read_count(&counts->resumed);
        out->handshake_errors += read_count(&counts->handshake_errors);
        out->protocol_errors += read_count(&counts->protocol_errors);
    }
    tls_stats(net->config.tls, &loaded, &out->refreshes, &out->refresh_errors);
    out->since_refresh = clock_now(&net->config.clock) - loaded;
}

/* Sums the counts since the start. */
static void collect(struct net *net, struct command_net_stats *out)
{
    *out = (struct command_net_stats){.libevent = event_get_version()};
    out->reserved_fds = net_reserved_fds(&net->config);
    for (unsigned int i = 0; i < net->config.nthreads; i++) {
        const struct worker_counts *counts = &net->workers[i]->counts;

        out->bytes_read += read_count(&counts->bytes_read);
        out->bytes_written += read_count(&counts->bytes_written);
        out->conn_yields += read_count(&counts->conn_yields);
        out->idle_kicks += read_count(&counts->idle_kicks);
    }
    acceptor_stats(net->acceptor, out);
    collect_tls(net, &out->tls);
    pthread_mutex_lock(&net->endpoints.lock);
    /* memcached counts all sockets but one; without any there is no client to ask. */
    out->curr_connections = net->endpoints.current > 0 ? net->endpoints.current - 1 : 0;
    out->total_connections = net->endpoints.total;
    out->connection_structures = net->endpoints.most;
    pthread_mutex_unlock(&net->endpoints.lock);
}

void net_stats(struct net *net, struct command_net_stats *out)
{
    pthread_mutex_lock(&net->lock); /* so that nothing is reset that was not counted yet */
    collect(net, out);
    out->bytes_read -= net->before.bytes_read;
    out->bytes_written -= net->before.bytes_written;
    out->conn_yields -= net->before.conn_yields;
    out->idle_kicks -= net->before.idle_kicks;
    out->total_connections -= net->before.total_connections;
    out->rejected_connections -= net->before.rejected_connections;
    out->listen_disabled_num -= net->before.listen_disabled_num;
    out->time_in_listen_disabled_us -= net->before.time_in_listen_disabled_us;
    out->tls.handshakes -= net->before.tls.handshakes;
    out->tls.resumed -= net->before.tls.resumed;
    out->tls.handshake_errors -= net->before.tls.handshake_errors;
    out->tls.protocol_errors -= net->before.tls.protocol_errors;
    out->tls.refreshes -= net->before.tls.refreshes;
    out->tls.refresh_errors -= net->before.tls.refresh_errors;
    pthread_mutex_unlock(&net->lock);
}

void net_reset_stats(struct net *net)
{
    pthread_mutex_lock(&net->lock);
    collect(net, &net->before);
    pthread_mutex_unlock(&net->lock);
}

void net_stats_conns(struct net *net, struct stat_sink *sink)
{
    endpoints_stats(&net->endpoints, clock_now(&net->config.clock), sink);
}
