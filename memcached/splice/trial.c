/* SPDX-License-Identifier: BSD-3-Clause */
#include "splice/trial.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 1000 };

struct trial {
    int listener, client, server;
};

static int open_trial(struct trial *trial)
{
    const struct timeval limit = {.tv_sec = PATIENCE_MS / 1000};
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr *any = (struct sockaddr *)&name;
    socklen_t n = sizeof(name);

    trial->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    trial->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (trial->listener < 0 || trial->client < 0 || bind(trial->listener, any, n) ||
        listen(trial->listener, 1) || getsockname(trial->listener, any, &n) ||
        setsockopt(trial->client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
        setsockopt(trial->listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
        connect(trial->client, any, n))
        return -errno;
    trial->server = accept4(trial->listener, NULL, NULL, SOCK_CLOEXEC);
    if (trial->server < 0)
        return -errno;
    swap_deafen(trial->listener); /* to what finds no socket during the swap */
    return 0;
}

static void close_trial(struct trial *trial)
{
    const int fds[] = {trial->client, trial->server, trial->listener};
    size_t i;

    for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* A byte, which the other end gets. */
static int pass(int from, int to)
{
    struct pollfd poll_on = {to, POLLIN, 0};
    char byte = 1;

    if (send(from, &byte, 1, MSG_NOSIGNAL) != 1)
        return -errno;
    if (poll(&poll_on, 1, PATIENCE_MS) <= 0)
        return -ETIMEDOUT;
    return recv(to, &byte, 1, MSG_DONTWAIT) == 1 ? 0 : -ECONNRESET;
}

static int pass_both(const struct trial *trial)
{
    int rc = pass(trial->client, trial->server);

    return rc ? rc : pass(trial->server, trial->client);
}

/* The way back, once the old socket was aside; then a whole swap. */
static enum swap_result swap_twice(struct trial *trial, struct swapped *out)
{
    struct swap_plan plan = {.filter = -1, .fails = SWAP_READ};
    enum swap_result result = swap_socket(trial->server, &plan, out);

    if (result != SWAP_FAILED || out->step != plan.fails)
        return result;
    plan.fails = SWAP_NONE;
    result = swap_socket(trial->server, &plan, out);
    if (result == SWAP_DONE) {
        close(trial->server);
        trial->server = out->fd;
    }
    return result;
}

enum swap_result trial_run(struct swapped *out)
{
    struct trial trial = {-1, -1, -1};
    enum swap_result result = SWAP_FAILED;
    int rc = open_trial(&trial);

    *out = (struct swapped){.fd = -1, .step = SWAP_NONE, .error = -rc};
    if (!rc)
        result = swap_twice(&trial, out);
    if (result == SWAP_DONE) {
        out->error = -pass_both(&trial);
        result = out->error ? SWAP_LOST : SWAP_DONE;
    }
    close_trial(&trial);
    out->fd = -1;
    return result;
}

static const char *remedy(const struct swapped *out)
{
    bool is_refused = out->error == EPERM || out->error == EACCES;

    if (out->error == ENOPROTOOPT)
        return "this kernel is too old";
    if ((out->step == SWAP_NONE || out->step == SWAP_CONNECT) && is_refused)
        return "a program on the cgroup's connect hook or a security module forbids it";
    if (out->step == SWAP_NONE)
        return "the interface lo must be up";
    if (out->step == SWAP_REPAIR && is_refused)
        return "this needs CAP_NET_ADMIN: in a systemd unit add CapabilityBoundingSet="
               "CAP_NET_ADMIN, to a container --cap-add=NET_ADMIN";
    if (out->step == SWAP_READ)
        return "this needs CAP_NET_RAW: in a systemd unit add CapabilityBoundingSet=CAP_NET_RAW, "
               "to a container --cap-add=NET_RAW";
    return "a firewall or a security module may forbid it";
}

void trial_explain(const struct swapped *out, char *text, size_t ntext)
{
    snprintf(text, ntext, "a TCP connection over loopback: cannot %s (%s): %s",
             swap_step_text(out->step), strerror(out->error), remedy(out));
}
