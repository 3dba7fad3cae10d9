/* SPDX-License-Identifier: BSD-3-Clause */
#include "splice/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "splice/message.h"
#include "splice/process.h"
#include "splice/trial.h"

enum {
    START_MS = 10000,
    PATIENCE_MS = 2000, /* after which the process counts as dead */
    NO_ANSWER = ETIMEDOUT,
};

struct undo {
    bool is_dead;      /* atomic */
    uint64_t reported; /* the last step and error that were logged; atomic */
    struct entry_access entries;
    unsigned int nchannels;
    struct channel {
        int fd;
        int spare;     /* a descriptor that makes room for one that comes with a reply; -1: none */
        bool is_taken; /* by a thread; atomic */
    } channels[];
};

static void give_room(struct channel *channel)
{
    if (channel->spare >= 0)
        close(channel->spare);
    channel->spare = -1;
}

static bool reserve_room(struct channel *channel)
{
    if (channel->spare < 0)
        channel->spare = fcntl(channel->fd, F_DUPFD_CLOEXEC, 0);
    return channel->spare >= 0;
}

/*
 * 0, -ETIMEDOUT or -errno. Where the server has all the descriptors that it may have, Linux would
 * close one that comes with the reply, and with it the connection.
 */
static int receive(struct channel *channel, int patience_ms, struct message_reply *reply, int *fd)
{
    struct pollfd poll_on = {channel->fd, POLLIN, 0};
    int n;

    do
        n = poll(&poll_on, 1, patience_ms);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n ? -errno : -NO_ANSWER;
    give_room(channel);
    return message_receive(channel->fd, reply, sizeof(*reply), fd);
}

/* --- start and end ---------------------------------------------------------------------------- */

/* theirs[]: the process's ends. 0 or -errno. */
static int open_channels(struct undo *undo, unsigned int n, int *theirs)
{
    int ends[2];

    while (undo->nchannels < n) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
            return -errno;
        theirs[undo->nchannels] = ends[1];
        undo->channels[undo->nchannels++] = (struct channel){.fd = ends[0], .spare = -1};
    }
    return 0;
}

static void close_all(const int *fds, unsigned int n)
{
    while (n > 0)
        close(fds[--n]);
}

/* The process, or -errno. */
static pid_t fork_process(const struct undo *undo, const struct undo_kernel *kernel,
                          const struct credentials_user *user, const int *theirs)
{
    pid_t child = fork();

    if (child == 0)
        process_run(&(struct process){kernel, user, theirs, undo->nchannels});
    return child < 0 ? -errno : child;
}

/* What the process says of its trial. 0, or -1 with `error`. */
static int hear_trial(struct undo *undo, char *error, size_t nerror)
{
    struct message_reply reply;
    int fd, rc = receive(&undo->channels[0], START_MS, &reply, &fd);

    if (rc)
        snprintf(error, nerror, "the undo process does not start (%s)", strerror(-rc));
    else if (reply.result != UNDO_DONE)
        trial_explain(&(struct swapped){.step = (enum swap_step)reply.step, .error = reply.error},
                      error, nerror);
    return rc || reply.result != UNDO_DONE ? -1 : 0;
}

int undo_start(struct undo **out, const struct undo_kernel *kernel,
               const struct credentials_user *user, unsigned int nthreads, char *error,
               size_t nerror)
{
    struct undo *undo = calloc(1, sizeof(*undo) + nthreads * sizeof(undo->channels[0]));
    int *theirs = calloc(nthreads, sizeof(*theirs));
    int rc = undo && theirs ? open_channels(undo, nthreads, theirs) : -ENOMEM;
    pid_t child = -1;

    if (!rc)
        undo->entries = kernel->entries;
    if (!rc)
        child = fork_process(undo, kernel, user, theirs);
    if (!rc && child < 0)
        rc = child;
    if (undo && theirs)
        close_all(theirs, undo->nchannels);
    free(theirs);
    if (rc)
        snprintf(error, nerror, "cannot start the undo process: %s", strerror(-rc));
    if (rc || hear_trial(undo, error, nerror)) {
        undo_stop(undo);
        if (child > 0 && !kill(child, SIGKILL))
            waitpid(child, NULL, 0);
        return -1;
    }
    for (unsigned int i = 0; i < undo->nchannels; i++)
        reserve_room(&undo->channels[i]);
    *out = undo;
    return 0;
}

void undo_stop(struct undo *undo)
{
    struct message_reply reply;
    int patience = PATIENCE_MS, fd;
    unsigned int i;

    if (!undo)
        return;
    for (i = 0; i < undo->nchannels; i++)
        shutdown(undo->channels[i].fd, SHUT_WR);
    for (i = 0; i < undo->nchannels; i++) {
        if (receive(&undo->channels[i], patience, &reply, &fd) == -NO_ANSWER)
            patience = 0;
        give_room(&undo->channels[i]);
        close(undo->channels[i].fd);
    }
    free(undo);
}

/* --- in use ----------------------------------------------------------------------------------- */

static struct channel *take_channel(struct undo *undo)
{
    unsigned int i;

    for (i = 0; i < undo->nchannels; i++)
        if (!__atomic_exchange_n(&undo->channels[i].is_taken, true, __ATOMIC_ACQUIRE))
            return &undo->channels[i];
    return NULL;
}

static void leave_channel(struct channel *channel)
{
    __atomic_store_n(&channel->is_taken, false, __ATOMIC_RELEASE);
}

/* From now on no connection is undone. What the process still answers is not heard. */
static void give_up(struct undo *undo, const struct channel *channel, int error)
{
    shutdown(channel->fd, SHUT_RDWR);
    if (!__atomic_exchange_n(&undo->is_dead, true, __ATOMIC_RELAXED))
        log_write("bmc: the undo process %s: TCP connections on which the kernel has answered end "
                  "where its programs no longer do, and it begins to answer on no others; start "
                  "the server again",
                  error == NO_ANSWER ? "does not answer" : "has ended");
}

static void report(struct undo *undo, const struct message_reply *reply)
{
    uint64_t reason = (uint64_t)reply->step << 32 | (uint32_t)reply->error;

    if (__atomic_exchange_n(&undo->reported, reason, __ATOMIC_RELAXED) != reason)
        log_write("bmc: a TCP connection stays with the kernel programs: cannot %s (%s)",
                  swap_step_text((enum swap_step)reply->step), strerror(reply->error));
}

static int exchange(struct channel *channel, int socket, const struct message_request *request,
                    struct message_reply *reply, int *fd)
{
    int rc = message_send(channel->fd, request, sizeof(*request), socket);

    rc = rc ? rc : receive(channel, PATIENCE_MS, reply, fd);
    reserve_room(channel); /* or, if there is none now, before the next request */
    return rc;
}

/*
 * The process may have died, or may have been stopped, in the middle of a swap: no program then
 * lets a segment of the connection pass, and its socket sends none. Without its entry, and with no
 * socket, the client's next segment is answered with a reset.
 */
static void end_frozen(const struct undo *undo, int socket, const struct mc_tcp_tag *tag)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct mc_tcp_flow flow;
    struct mc_tcp_conn conn;

    if (entry_flow(socket, &flow) ||
        (!entry_read(&undo->entries, &flow, &conn) && conn.lock != MC_TCP_FROZEN))
        return;
    connect(socket, &none, sizeof(none));
    entry_order(undo->entries.order, &flow, tag, MC_TCP_REMOVE);
}

bool undo_lives(const struct undo *undo)
{
    return undo && !__atomic_load_n(&undo->is_dead, __ATOMIC_RELAXED);
}

/* The result, which is reply->result if there is a reply. */
static enum undo_result ask(struct undo *undo, int socket, enum message_what what,
                            struct mc_tcp_tag tag, struct message_reply *reply, int *fd)
{
    const struct message_request request = {what, tag};
    struct channel *channel;
    int rc;

    *reply = (struct message_reply){.result = UNDO_FAILED};
    if (!undo_lives(undo))
        return UNDO_FAILED;
    channel = take_channel(undo);
    if (!channel)
        return UNDO_NOT_NOW;
    if (!reserve_room(channel)) {
        leave_channel(channel);
        return UNDO_NOT_NOW;
    }
    rc = exchange(channel, socket, &request, reply, fd);
    if (rc) {
        give_up(undo, channel, -rc);
        end_frozen(undo, socket, &tag);
        return UNDO_FAILED;
    }
    leave_channel(channel);
    return (enum undo_result)reply->result;
}

enum undo_result undo_socket(struct undo *undo, int socket, struct mc_tcp_tag tag,
                             struct undone *out)
{
    struct message_reply reply;
    int fd;
    enum undo_result result = ask(undo, socket, MESSAGE_UNDO, tag, &reply, &fd);

    if (result == UNDO_DONE)
        *out = (struct undone){fd, reply.nsent};
    else if (result == UNDO_FAILED && reply.error)
        report(undo, &reply);
    return result;
}

bool undo_reset(struct undo *undo, int socket, struct mc_tcp_tag tag)
{
    struct message_reply reply;
    int fd;

    return ask(undo, socket, MESSAGE_RESET, tag, &reply, &fd) == UNDO_DONE;
}

bool undo_announce(struct undo *undo, int socket, struct mc_tcp_tag tag)
{
    struct message_reply reply;
    int fd;

    return ask(undo, socket, MESSAGE_ANNOUNCE, tag, &reply, &fd) == UNDO_DONE;
}

int undo_guard(struct undo *undo)
{
    struct message_reply reply;
    int fd;

    if (ask(undo, -1, MESSAGE_GUARD, (struct mc_tcp_tag){0}, &reply, &fd) == UNDO_DONE)
        return fd;
    return reply.error ? -reply.error : -ESRCH;
}
