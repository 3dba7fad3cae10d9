/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client gets of its worker while another client's requests take long: how many of those are
 * executed between the moment its own request arrives and its answer. Real sockets; the worker has
 * no thread.
 *
 * The long request is `stats settings`, whose function here takes LONG_NS, and with one of them
 * lets the other client ask.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn.h"
#include "net/udp.h"
#include "t/lib/tap.h"
#include "t/unit/net_host.h"

enum {
    LONG_NS = TURN_NS / 2,
    MANY = 400,      /* long requests that wait from the start, */
    DATAGRAMS = 200, /* or so many over UDP, for which a socket has room */
    OF_A_DATAGRAM = 50,
    ASKS_AT = 5,
    /* In a turn, which is over TURN_NS after its first. */
    OF_A_TURN = 1 + TURN_NS / LONG_NS,
    /* Before the worker polls: the turn that passes POLL_NS, and the one under way. */
    BEHIND = POLL_NS / LONG_NS + 2 * OF_A_TURN,
};

struct host {
    struct net_host net;
    int other;           /* the client's end of the other connection */
    unsigned int nlong;  /* so far */
    unsigned int behind; /* of them after the other client had asked, before its answer */
    bool asked;
};

static bool is_answered(const struct host *host)
{
    char byte;

    return recv(host->other, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static void take_long(void *context, struct stat_sink *sink)
{
    struct host *host = context;
    uint64_t end = clock_exact_ns() + LONG_NS;

    (void)sink;
    while (clock_exact_ns() < end)
        continue;
    host->nlong++;
    host->behind += host->asked && !is_answered(host);
    if (host->nlong == ASKS_AT)
        host->asked = send(host->other, "mn\r\n", 4, 0) == 4;
}

/* The server's end of a connection is served. */
static int connect_client(struct host *host)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
        die("no connection");
    endpoints_count(&host->net.endpoints);
    conn_open(host->net.worker, (struct stream_socket){.fd = ends[1]});
    return ends[0];
}

static void start(struct host *host, uint32_t reqs_per_event)
{
    const struct command_server calls = {.context = host, .stats_settings = take_long};
    struct command_config config = {.worker_logbuf = 64 * 1024,
                                    .watcher_logbuf = 256 * 1024,
                                    .prefix_delimiter = ':',
                                    .nthreads = 1,
                                    .max_connections = 64,
                                    .item_max = 1 << 20};

    *host = (struct host){.net.config = {.nthreads = 1, .reqs_per_event = reqs_per_event}};
    host->net.config.protocol = PROTOCOL_ANY;
    net_host_begin(&host->net);
    config.clock = host->net.config.clock;
    host->net.commands = commands_new(host->net.store, &config, &calls);
    net_host_run(&host->net);
    host->other = connect_client(host);
}

static void stop(struct host *host)
{
    close(host->other);
    net_host_end(&host->net);
}

/* Runs what waits. */
static void serve(struct host *host)
{
    for (unsigned int i = 0; i < 2 * MANY; i++)
        event_base_loop(host->net.worker->base, EVLOOP_NONBLOCK);
}

/* -R 20, and so many that time alone ends the turns. */
static void test_stream(uint32_t reqs_per_event)
{
    static const char request[] = "stats settings\r\n";
    struct host host;
    char all[MANY * (sizeof(request) - 1) + 1];
    int client;

    start(&host, reqs_per_event);
    client = connect_client(&host);
    for (unsigned int i = 0; i < MANY; i++)
        strcpy(all + i * strlen(request), request);
    if (send(client, all, strlen(all), 0) != (ssize_t)strlen(all))
        die("no room for the requests");
    serve(&host);
    ok(host.nlong == MANY && is_answered(&host) && host.behind <= BEHIND,
       "at -R %u a client is answered after a few turns of another that asks for much (%u "
       "requests)",
       reqs_per_event, host.behind);
    ok(host.net.worker->counts.conn_yields == (MANY - 1) / reqs_per_event,
       "the yields of -R are counted, and those for time are not (%lu)",
       (unsigned long)host.net.worker->counts.conn_yields);
    close(client);
    stop(&host);
}

/* DATAGRAMS requests, of which each datagram has so many. */
static void test_datagrams(unsigned int nrequests)
{
    static const char head[8] = {0, 1, 0, 0, 0, 1}, request[] = "stats settings\r\n";
    char datagram[sizeof(head) + OF_A_DATAGRAM * (sizeof(request) - 1)];
    size_t size = sizeof(head) + nrequests * strlen(request);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    int client = socket(AF_INET, SOCK_DGRAM, 0);
    struct host host;

    memcpy(datagram, head, sizeof(head));
    for (unsigned int i = 0; i < nrequests; i++)
        memcpy(datagram + sizeof(head) + i * strlen(request), request, strlen(request));
    start(&host, MANY);
    if (bind(server, (struct sockaddr *)&address, len) ||
        getsockname(server, (struct sockaddr *)&address, &len) ||
        connect(client, (struct sockaddr *)&address, len) ||
        worker_add_udp(host.net.worker, server))
        die("no socket");
    udp_begin(host.net.worker);
    for (unsigned int i = 0; i < DATAGRAMS / nrequests; i++)
        send(client, datagram, size, 0);
    serve(&host);
    ok(host.nlong == DATAGRAMS && is_answered(&host) && host.behind <= BEHIND,
       "datagrams with %u requests for much each let a connection be served soon (after %u)",
       nrequests, host.behind);
    close(client);
    stop(&host);
}

int main(void)
{
    test_stream(20);
    test_stream(MANY);
    test_datagrams(1);
    test_datagrams(OF_A_DATAGRAM);
    return done();
}
