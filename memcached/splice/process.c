/* SPDX-License-Identifier: BSD-3-Clause */
#include "splice/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/credentials.h"
#include "base/thread.h"
#include "splice/conntrack.h"
#include "splice/message.h"
#include "splice/reset.h"
#include "splice/swap.h"
#include "splice/trial.h"
#include "splice/undo.h"

enum { LARGE_BYTES = 1 << 17 /* from which on memory goes back to Linux when it is freed */ };

/* Of all threads. */
struct guard {
    pthread_mutex_t lock;
    int link; /* -1: it was not attached */
};

/* A thread of the server. */
struct served {
    pthread_t thread;
    struct guard *guard;
    const struct undo_kernel *kernel;
    struct conntrack conntrack;
    int channel;
};

/* --- one connection --------------------------------------------------------------------------- */

struct connection {
    struct swap_entry calls;
    const struct undo_kernel *kernel;
    struct conntrack *conntrack;
    struct mc_tcp_flow flow;
    struct mc_tcp_tag tag;
    uint64_t cookie;
    char kept[MC_TCP_RTX_BYTES];
};

static int order(const struct connection *connection, uint32_t what)
{
    return entry_order(connection->kernel->entries.order, &connection->flow, &connection->tag,
                       what);
}

static void thaw(struct swap_entry *calls)
{
    order((const struct connection *)calls, MC_TCP_THAW);
}

static int remove_entry(struct swap_entry *calls)
{
    return order((const struct connection *)calls, MC_TCP_REMOVE);
}

/* -EPERM: the entry is another socket's. */
static int freeze_entry(struct connection *connection, struct mc_tcp_conn *conn)
{
    int rc = order(connection, MC_TCP_FREEZE);

    if (rc)
        return rc;
    rc = entry_read(&connection->kernel->entries, &connection->flow, conn);
    if (!rc && conn->cookie != connection->cookie)
        rc = -EPERM;
    if (rc)
        thaw(&connection->calls);
    else
        conntrack_be_liberal(connection->conntrack, &connection->flow);
    return rc;
}

static int freeze(struct swap_entry *calls, struct mc_tcp_conn *conn, const char **kept)
{
    struct connection *connection = (struct connection *)calls;
    int rc = freeze_entry(connection, conn);

    if (rc)
        return rc;
    if (conn->delta.nreply)
        rc = entry_read_kept(&connection->kernel->entries, conn, connection->kept);
    if (rc)
        thaw(calls);
    *kept = connection->kept;
    return rc;
}

/* 0, or -EPERM: it is not the socket of a TCP connection to the server's port. */
static int check(struct connection *connection, int socket)
{
    int domain = 0, protocol = 0;
    socklen_t n = sizeof(domain), m = sizeof(protocol), k = sizeof(connection->cookie);

    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &n) ||
        getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &m) ||
        getsockopt(socket, SOL_SOCKET, SO_COOKIE, &connection->cookie, &k) ||
        (domain != AF_INET && domain != AF_INET6) || protocol != IPPROTO_TCP ||
        entry_flow(socket, &connection->flow) ||
        connection->flow.server_port != htons(connection->kernel->port))
        return -EPERM;
    return 0;
}

static struct message_reply reply_of(enum swap_result result, const struct swapped *swapped)
{
    static const enum undo_result results[] = {
        [SWAP_DONE] = UNDO_DONE,
        [SWAP_NOT_NOW] = UNDO_NOT_NOW,
        [SWAP_FAILED] = UNDO_FAILED,
        [SWAP_LOST] = UNDO_FAILED,
    };

    return (struct message_reply){results[result], swapped->step, swapped->nsent, swapped->error};
}

/* *new: the socket, or -1. */
static struct message_reply undo(struct served *served, int socket, const struct mc_tcp_tag *tag,
                                 int *new)
{
    struct connection connection = {{freeze, remove_entry, thaw},
                                    .kernel = served->kernel,
                                    .conntrack = &served->conntrack,
                                    .tag = *tag};
    const struct swap_plan plan = {.entry = &connection.calls, .filter = served->kernel->filter};
    struct swapped swapped = {.fd = -1, .step = SWAP_NONE, .error = -check(&connection, socket)};
    enum swap_result result = SWAP_FAILED;

    if (!swapped.error)
        result = swap_socket(socket, &plan, &swapped);
    *new = swapped.fd;
    return reply_of(result, &swapped);
}

/* Takes the numbers from the entry, and removes that. 0 or -errno: it is as it was. */
static int take_numbers(struct connection *connection, struct entry_numbers *out)
{
    struct mc_tcp_conn conn;
    int rc = freeze_entry(connection, &conn);

    if (rc)
        return rc;
    rc = entry_read_numbers(&connection->kernel->entries, &conn, out);
    rc = rc ? rc : order(connection, MC_TCP_REMOVE);
    if (rc)
        thaw(&connection->calls);
    return rc;
}

static struct message_reply reset(struct served *served, int socket, const struct mc_tcp_tag *tag)
{
    struct connection connection = {
        .kernel = served->kernel, .conntrack = &served->conntrack, .tag = *tag};
    struct entry_numbers numbers;
    int rc = check(&connection, socket);

    rc = rc ? rc : take_numbers(&connection, &numbers);
    if (!rc) {
        entry_unguard(&served->kernel->entries, socket);
        rc = reset_as(socket, &numbers);
    }
    return (struct message_reply){.result = rc ? UNDO_FAILED : UNDO_DONE, .error = -rc};
}

static struct message_reply announce(struct served *served, int socket)
{
    struct connection connection = {.kernel = served->kernel};
    int rc = check(&connection, socket);

    if (rc)
        return (struct message_reply){.result = UNDO_FAILED, .error = -rc};
    return (struct message_reply){
        .result =
            conntrack_be_liberal(&served->conntrack, &connection.flow) ? UNDO_DONE : UNDO_NOT_NOW};
}

/* 0 or -errno. */
static int attach(struct guard *guard, const struct undo_kernel *kernel)
{
    if (entry_guard_is_attached(guard->link))
        return 0;
    if (guard->link >= 0)
        close(guard->link);
    guard->link =
        kernel->cgroup < 0 ? kernel->cgroup : entry_attach_guard(&kernel->entries, kernel->cgroup);
    return guard->link < 0 ? guard->link : 0;
}

/* There is never more than one. *new: its link, or -1. */
static struct message_reply guard(struct guard *guard, const struct undo_kernel *kernel, int *new)
{
    int rc;

    pthread_mutex_lock(&guard->lock);
    rc = attach(guard, kernel);
    if (!rc)
        *new = fcntl(guard->link, F_DUPFD_CLOEXEC, 0);
    if (!rc && *new < 0)
        rc = -errno;
    pthread_mutex_unlock(&guard->lock);
    return (struct message_reply){.result = rc ? UNDO_FAILED : UNDO_DONE, .error = -rc};
}

/* What a thread of the server asks for. *new: what goes with the reply, or -1. */
static struct message_reply execute(struct served *served, int socket,
                                    const struct message_request *request, int *new)
{
    switch (request->what) {
    case MESSAGE_UNDO:
        return undo(served, socket, &request->tag, new);
    case MESSAGE_RESET:
        return reset(served, socket, &request->tag);
    case MESSAGE_ANNOUNCE:
        return announce(served, socket);
    case MESSAGE_GUARD:
        return guard(served->guard, served->kernel, new);
    default:
        return (struct message_reply){.result = UNDO_FAILED, .error = EBADMSG};
    }
}

/* --- one thread of the server ----------------------------------------------------------------- */

/*
 * The old socket is closed before the reply, so that the server's descriptor is its last: else its
 * events would go on. A new one that the server does not take is reset, and not left open.
 */
static void *serve(void *context)
{
    struct served *served = context;
    struct message_request request;
    struct message_reply reply;
    int old, new, rc;

    for (;;) {
        rc = message_receive(served->channel, &request, sizeof(request), &old);
        if (rc && rc != -EBADMSG)
            return NULL;
        new = -1;
        reply = (struct message_reply){.result = UNDO_FAILED, .step = SWAP_NONE, .error = -rc};
        if (!rc)
            reply = execute(served, old, &request, &new);
        if (old >= 0)
            close(old);
        rc = message_send(served->channel, &reply, sizeof(reply), new);
        if (new >= 0 && rc)
            swap_reset(new);
        else if (new >= 0)
            close(new);
    }
}

/* --- the process ------------------------------------------------------------------------------ */

/* Those with which one stops a server must not stop this process before. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
    size_t i;

    for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
}

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Closes all descriptors but these n, which it sorts. */
static void close_others(int *kept, size_t n)
{
    unsigned int from = 0;
    size_t i;

    qsort(kept, n, sizeof(*kept), compare_fds);
    for (i = 0; i < n; i++) {
        if (kept[i] < 0)
            continue;
        if ((unsigned int)kept[i] > from)
            close_range(from, (unsigned int)kept[i] - 1, 0);
        from = (unsigned int)kept[i] + 1;
    }
    close_range(from, UINT_MAX, 0);
}

/*
 * Keeps what it needs of the server's descriptors, and nothing in the place of the standard
 * streams, where what goes wrong would be written to. 0 or -errno.
 */
static int keep_descriptors(const struct process *process)
{
    const struct undo_kernel *kernel = process->kernel;
    const int own[] = {kernel->entries.order, kernel->entries.guard, kernel->entries.conns,
                       kernel->entries.kept,  kernel->entries.slots, kernel->entries.guarded,
                       kernel->cgroup,        kernel->filter};
    const size_t nown = sizeof(own) / sizeof(own[0]);
    int *kept = malloc((nown + process->nchannels) * sizeof(*kept));
    int fd;

    if (!kept)
        return -ENOMEM;
    memcpy(kept, own, sizeof(own));
    memcpy(kept + nown, process->channels, process->nchannels * sizeof(*kept));
    close_others(kept, nown + process->nchannels);
    free(kept);
    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (open("/dev/null", O_RDWR) != fd)
            return -ENOENT;
    return 0;
}

/* A thread for each channel. 0 or -errno. */
static int start_threads(const struct process *process, struct served *served, struct guard *guard)
{
    unsigned int i;
    int rc = served ? 0 : -ENOMEM;

    for (i = 0; !rc && i < process->nchannels; i++) {
        served[i] = (struct served){
            .guard = guard, .kernel = process->kernel, .channel = process->channels[i]};
        rc = thread_start(&served[i].thread, serve, &served[i]);
    }
    return rc;
}

void process_run(const struct process *process)
{
    struct served *served = calloc(process->nchannels, sizeof(*served));
    struct guard guard = {PTHREAD_MUTEX_INITIALIZER, -1};
    struct swapped swapped = {.fd = -1, .step = SWAP_NONE};
    enum swap_result result = SWAP_FAILED;
    struct message_reply reply;
    unsigned int i;

    ignore_signals();
    prctl(PR_SET_NAME, "memcached-undo");
    credentials_become_keeping(process->user, CREDENTIALS_NET_ADMIN | CREDENTIALS_NET_RAW |
                                                  CREDENTIALS_NET_BIND_SERVICE);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    swapped.error = -keep_descriptors(process);
    if (!swapped.error)
        result = trial_run(&swapped);
    if (result == SWAP_DONE) {
        swapped.error = -start_threads(process, served, &guard);
        result = swapped.error ? SWAP_FAILED : SWAP_DONE;
    }
    reply = reply_of(result, &swapped);
    message_send(process->channels[0], &reply, sizeof(reply), -1);
    for (i = 0; result == SWAP_DONE && i < process->nchannels; i++)
        pthread_join(served[i].thread, NULL);
    _exit(0);
}
