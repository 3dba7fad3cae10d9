/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/leaving.h"

#include <event2/event_struct.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/boundaries.h"
#include "bpf/shared/tcp.h"
#include "net/boundary.h"
#include "net/socket.h"
#include "net/worker.h"

enum {
    FIRST_MS = 10,     /* by then most clients have acknowledged the end */
    PATIENCE_MS = 600, /* that segments may go without translation */
    CHECK_MS = BOUNDARY_LOOK_MS,
    SILENT_MAX = 40, /* checks in a row without a word of the client's: it is undone */
};

struct leaving {
    struct worker *worker;
    struct leaving *next, **link; /* in the worker's list */
    struct mc_tcp_slot *slot;
    int fd;
    struct event timer;
    uint32_t nsent; /* segments that the socket had sent, and */
    uint32_t lost;  /* the slot's, when watch was called */
    unsigned int nchecks, nsilent;
};

static bool get_info(int fd, struct tcp_info *info)
{
    socklen_t n = sizeof(*info);

    *info = (struct tcp_info){0};
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &n) == 0;
}

/* Whether the client may not have received all that was sent, and the end. */
static bool is_open(const struct tcp_info *info)
{
    switch (info->tcpi_state) {
    case BPF_TCP_FIN_WAIT1:
    case BPF_TCP_CLOSING:
    case BPF_TCP_LAST_ACK:
        return true;
    default:
        return false;
    }
}

static uint32_t owed_by(const struct leaving *leaving)
{
    return __atomic_load_n(&leaving->slot->ack_due, __ATOMIC_RELAXED);
}

static uint32_t lost_by(const struct leaving *leaving)
{
    return __atomic_load_n(&leaving->slot->lost, __ATOMIC_RELAXED);
}

/* Whether the client has reset the connection: then there is no end that it has to be told of. */
static bool is_reset(int fd)
{
    struct tcp_info info;

    return get_info(fd, &info) && info.tcpi_state == BPF_TCP_CLOSE;
}

/*
 * From now on `owed` tells whether the programs on egress see a segment of the socket's. It is
 * stored before segments are counted, so that they see all that are counted later.
 */
static void watch(struct leaving *leaving)
{
    struct tcp_info info;

    __atomic_store_n(&leaving->slot->ack_due, MC_TCP_ACK_DUE_WATCHED, __ATOMIC_SEQ_CST);
    get_info(leaving->fd, &info);
    leaving->nsent = info.tcpi_segs_out;
    leaving->lost = lost_by(leaving);
}

/*
 * Whether, since watch was called, the socket has sent segments of which the programs saw none; or
 * has got none of the client's that they saw, but others. The socket's lock is held while a segment
 * leaves: so the programs have seen those that are counted in `info`.
 */
static bool is_astray(const struct leaving *leaving, const struct tcp_info *info)
{
    if (leaving->lost && leaving->lost == lost_by(leaving))
        return true;
    return owed_by(leaving) == MC_TCP_ACK_DUE_WATCHED && info->tcpi_segs_out != leaving->nsent;
}

static void finish(struct leaving *leaving)
{
    struct worker *worker = leaving->worker;
    struct boundaries *boundaries = worker->config->boundaries;

    if (leaving->slot)
        boundaries->close(boundaries, leaving->slot);
    event_del(&leaving->timer);
    *leaving->link = leaving->next;
    if (leaving->next)
        leaving->next->link = leaving->link;
    endpoints_left(worker->endpoints, leaving->fd);
    free(leaving);
}

/* The kernel does what is left to do. */
static void release(struct leaving *leaving)
{
    socket_set_reset(leaving->fd, false);
    finish(leaving);
}

static void reset(struct leaving *leaving)
{
    struct boundaries *boundaries = leaving->worker->config->boundaries;

    boundaries->reset(boundaries, leaving->slot, leaving->fd);
    finish(leaving);
}

/* Has a socket that needs no translation tell the client of the end. */
static enum undo_result undo(struct leaving *leaving, enum undo_reason reason)
{
    struct boundaries *boundaries = leaving->worker->config->boundaries;
    uint32_t nsent;
    enum undo_result result =
        boundary_undo_slot(boundaries, leaving->slot, leaving->fd, reason, &nsent);

    if (result == UNDO_DONE) {
        leaving->slot = NULL;
        finish(leaving);
    }
    return result;
}

/*
 * Why to undo the connection; UNDO_REASONS: it waits. Without a slot the connection's entry would
 * stay for a minute or two, and the socket of a silent client may try again later than that: with
 * numbers that no program translates.
 */
static enum undo_reason undo_reason(struct leaving *leaving, const struct tcp_info *info)
{
    if (is_astray(leaving, info))
        return UNDO_LOST;
    leaving->nsilent = info->tcpi_last_ack_recv < CHECK_MS ? 0 : leaving->nsilent + 1;
    if (leaving->nsilent < SILENT_MAX)
        return UNDO_REASONS;
    leaving->nsilent = 0;
    return UNDO_UNUSED;
}

static void wait_for(struct leaving *leaving, long ms)
{
    const struct timeval time = {ms / 1000, ms % 1000 * 1000};

    event_add(&leaving->timer, &time);
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    struct leaving *leaving = arg;
    struct boundaries *boundaries = leaving->worker->config->boundaries;
    struct tcp_info info;
    enum undo_reason reason;
    enum undo_result result;

    (void)fd;
    (void)what;
    if (!get_info(leaving->fd, &info) || !is_open(&info)) {
        release(leaving);
        return;
    }
    if (leaving->nchecks++ == 0) {
        wait_for(leaving, PATIENCE_MS);
        return;
    }
    reason = undo_reason(leaving, &info);
    if (reason != UNDO_REASONS) {
        result = undo(leaving, reason);
        if (result == UNDO_FAILED) {
            boundaries->count_lost(boundaries);
            reset(leaving);
        }
        if (result != UNDO_NOT_NOW)
            return;
    }
    watch(leaving);
    wait_for(leaving, CHECK_MS);
}

void leaving_begin(struct worker *worker, int fd, struct mc_tcp_slot *slot)
{
    struct boundaries *boundaries = worker->config->boundaries;
    struct leaving *leaving = is_reset(fd) ? NULL : calloc(1, sizeof(*leaving));

    if (!leaving) {
        socket_set_reset(fd, false);
        boundaries->close(boundaries, slot);
        endpoints_left(worker->endpoints, fd);
        return;
    }
    *leaving = (struct leaving){.worker = worker,
                                .next = worker->leaving,
                                .link = &worker->leaving,
                                .slot = slot,
                                .fd = fd};
    if (leaving->next)
        leaving->next->link = &leaving->next;
    worker->leaving = leaving;
    event_assign(&leaving->timer, worker->base, -1, 0, on_time, leaving);
    watch(leaving);
    shutdown(fd, SHUT_WR);
    wait_for(leaving, FIRST_MS);
}

void leaving_end_all(struct worker *worker)
{
    struct leaving *leaving;

    while ((leaving = worker->leaving)) {
        struct tcp_info info;

        if (!get_info(leaving->fd, &info) || !is_open(&info))
            finish(leaving);
        else if (undo(leaving, UNDO_END) != UNDO_DONE)
            reset(leaving);
    }
}
