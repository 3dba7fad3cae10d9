/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a worker waits for a full UDP socket. A Unix datagram socket stands in for it, whose replies
 * count as its own until the client takes them; the worker has no thread.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "command/command.h"
#include "net/udp.h"
#include "net/worker.h"
#include "t/lib/tap.h"
#include "t/unit/net_host.h"

enum { REQUESTS = 20 /* more than the socket has room for replies */ };

struct host {
    struct net_host net;
    int client;
    char *directory; /* of the sockets' names */
};

static unsigned int nwaits;

/* In the place of libc's: in no wait the socket becomes writable. */
int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
    (void)fds;
    (void)nfds;
    nwaits += timeout > 0;
    return 0;
}

/* Where a UDP socket has port and address, these names have bytes that no check refuses. */
static const char server_name[] = "server-of-the-test", client_name[] = "client-of-the-test";

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    strcpy(address.sun_path, name);
    return address;
}

static int open_socket(const char *name)
{
    const struct sockaddr_un address = address_of(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        die("no socket");
    return fd;
}

static void open_sockets(struct host *host)
{
    const struct sockaddr_un address = address_of(server_name);
    char directory[] = "/tmp/net_udp.XXXXXX";
    const int least = 1;
    int fd;

    if (!mkdtemp(directory) || chdir(directory) != 0)
        die("no directory");
    fd = open_socket(server_name);
    host->client = open_socket(client_name);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)) != 0 ||
        connect(host->client, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        worker_add_udp(host->net.worker, fd) != 0)
        die("no UDP socket");
    host->directory = strdup(directory);
}

static void start(struct host *host)
{
    const struct command_config config = {
        .worker_logbuf = 64 * 1024,
        .watcher_logbuf = 256 * 1024,
        .prefix_delimiter = ':',
        .nthreads = 1,
    };
    const struct command_server none = {0};

    *host = (struct host){.net.config = {.nthreads = 1, .reqs_per_event = 20}};
    host->net.config.single_datagrams = true;
    net_host_begin(&host->net);
    host->net.commands = commands_new(host->net.store, &config, &none);
    net_host_run(&host->net);
    open_sockets(host);
    udp_begin(host->net.worker);
}

static void stop(struct host *host)
{
    close(host->client);
    net_host_end(&host->net);
    unlink(server_name);
    unlink(client_name);
    rmdir(host->directory);
    free(host->directory);
}

/* Runs what is ready. */
static void turn(struct host *host)
{
    event_base_loop(host->net.worker->base, EVLOOP_NONBLOCK);
}

/* Requests in turns of their own; returns how often the worker has waited for the socket. */
static unsigned int ask(struct host *host, unsigned int nrequests)
{
    static const char request[] = {0, 1, 0, 0, 0, 1, 0, 0, 'm', 'n', '\r', '\n'};

    nwaits = 0;
    for (unsigned int i = 0; i < nrequests; i++) {
        if (send(host->client, request, sizeof(request), 0) != sizeof(request))
            die("cannot send");
        turn(host);
    }
    return nwaits;
}

/* Takes the replies, so that the socket is empty again; returns how many there were. */
static unsigned int take(struct host *host)
{
    unsigned int n = 0;
    char reply[64];

    while (recv(host->client, reply, sizeof(reply), 0) > 0)
        n++;
    turn(host);
    return n;
}

int main(void)
{
    struct host host;
    unsigned int room;

    start(&host);
    ok(ask(&host, 1) == 0 && take(&host) == 1, "a socket with room is not waited for");
    ok(ask(&host, REQUESTS) == 1, "a full socket is waited for once, not by each turn");
    room = take(&host);
    ok(room > 0 && room < REQUESTS, "what it does not take is dropped");
    ok(ask(&host, 1) == 0 && take(&host) == 1, "requests are answered when it has room again");
    ok(ask(&host, REQUESTS) == 1 && take(&host) == room, "then it is waited for again");
    stop(&host);
    return done();
}
