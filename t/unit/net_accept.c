/* SPDX-License-Identifier: BSD-3-Clause */
/* How the acceptor goes on after it had to stop: real sockets, and a worker without a thread. */
#include "net/accept.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "command/command.h"
#include "net/socket.h"
#include "t/lib/tap.h"

struct door {
    struct net_config config;
    struct endpoints endpoints;
    struct event_base *base;
    struct worker *worker;
    struct socket_name name;
    int fd; /* listens */
    struct acceptor *acceptor;
};

static void open_door(struct door *door)
{
    const struct sockaddr_in any = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    *door =
        (struct door){.config = {.nthreads = 1, .max_connections = 1000, .maxconns_fast = true}};
    endpoints_init(&door->endpoints);
    door->base = event_base_new();
    door->worker = worker_new(&door->config, &door->endpoints, 0);
    door->fd = socket_open_tcp((const struct sockaddr *)&any, sizeof(any), AF_INET, 10);
    if (!door->base || !door->worker || door->fd < 0 || socket_local(door->fd, &door->name)) {
        printf("Bail out! no socket\n");
        exit(1);
    }
    door->acceptor = acceptor_new(&door->config, door->base, &door->endpoints, &door->worker,
                                  &(struct stream_socket){.fd = door->fd}, 1);
}

static void close_door(struct door *door)
{
    acceptor_free(door->acceptor);
    worker_free(door->worker);
    event_base_free(door->base);
    endpoints_fini(&door->endpoints);
}

/* The main thread's loop, until something has happened. */
static void turn(struct door *door)
{
    event_base_loop(door->base, EVLOOP_ONCE);
}

static bool accepts(struct door *door)
{
    struct command_net_stats stats = {0};

    acceptor_stats(door->acceptor, &stats);
    return stats.accepting_conns;
}

/* The socket connects once its connection is queued, before it is accepted. */
static bool knock(const struct door *door, int client)
{
    return connect(client, (const struct sockaddr *)&door->name.address, door->name.len) == 0;
}

/* No descriptor can be opened while it is on. */
static void shut_descriptors(struct rlimit *before)
{
    int next = dup(STDOUT_FILENO);
    struct rlimit none;

    close(next);
    getrlimit(RLIMIT_NOFILE, before);
    none = *before;
    none.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &none);
}

static void the_poll_fails_when_it_goes_on(void)
{
    struct door door;
    struct rlimit before;
    int client, copy;

    open_door(&door);
    client = socket(AF_INET, SOCK_STREAM, 0);
    copy = dup(door.fd);
    shut_descriptors(&before);
    ok(knock(&door, client), "a client connects when there is no descriptor for it");
    turn(&door);
    ok(!accepts(&door), "nothing more is accepted");
    setrlimit(RLIMIT_NOFILE, &before);
    /* Adding a closed socket to the poll fails, as any does that the kernel has no memory for. */
    close(door.fd);
    turn(&door);
    ok(!accepts(&door), "the acceptor cannot go on when the poll takes no socket");
    dup2(copy, door.fd);
    turn(&door);
    ok(accepts(&door), "it goes on when the poll takes it");
    turn(&door);
    ok(endpoints_open(&door.endpoints) == 2, "the client is accepted");
    close(client);
    close(copy);
    close_door(&door);
}

int main(void)
{
    the_poll_fails_when_it_goes_on();
    return done();
}
