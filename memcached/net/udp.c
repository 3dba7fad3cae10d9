/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/udp_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xsk.h"
#include "bpf/shared/layout.h"
#include "net/traffic.h"
#include "net/watch_emit.h"

enum {
    ROUNDS = 4,           /* batches before the worker serves connections */
    SHARE = 128 * 1024,   /* bytes of reply to one datagram before others are served */
    EVENT = 4 * SHARE,    /* bytes of reply in one event */
    PATIENT_TURNS = 8,    /* turns that a datagram gets before the datagrams behind it */
    DEFERRED_MAX = 32,    /* deferred datagrams of one socket */
    DATAGRAM_MAX = 65536, /* the longest request */
    REPLY_PART = MC_REPLY_MOST,
    COPIED_MAX = 8, /* datagrams of a reply by a ring: a longer train costs less by the socket */
};

/* A datagram that takes longer: it waits for its next turn, and those behind it are served. */
struct deferred {
    struct task task;
    struct reply reply; /* of task.next */
    struct deferred *after;
    struct sockaddr_storage peer;
    struct datagrams_control control;
    char bytes[];
};

size_t udp_ndatagrams(size_t nbytes)
{
    size_t n = (nbytes + REPLY_PART - 1) / REPLY_PART;

    return n <= UINT16_MAX ? n : 0;
}

/* --- replies ----------------------------------------------------------- */

void udp_send_batch(struct udp *udp, struct turn *turn)
{
    unsigned int nleft = datagrams_send(&udp->out);

    while (nleft > 0 && !turn->impatient && !udp->hopeless) {
        struct pollfd wait = {udp->endpoint.fd, POLLOUT, 0};

        turn->impatient = poll(&wait, 1, UDP_SEND_PATIENCE_MS) <= 0;
        udp->hopeless = turn->impatient && event_add(udp->writable, NULL) == 0;
        nleft = datagrams_send(&udp->out);
    }
    datagrams_drop(&udp->out);
}

/* Makes the worker's reply the task's next message. */
static void begin_reply(struct udp *udp, struct task *task)
{
    struct reply *reply = &udp->worker->reply;

    task->next = 0;
    task->ndatagrams = reply->failed ? 0 : udp_ndatagrams(reply->nbytes);
    if (task->ndatagrams > 0 && log_get_level() >= 2)
        traffic_reply(udp->endpoint.fd, task->protocol == PROTOCOL_BINARY, reply, 0);
}

/*
 * Where in its ring the frame of the task's next datagram goes; NULL: this one leaves by the
 * socket, and so do all that follow, behind those that wait in the ring.
 */
static char *ring_room(struct task *task)
{
    struct xsk *xsk = task->ring ? task->ring->xsk : NULL;
    char *room = NULL;

    if (xsk && (xsk->zero_copy || task->ndatagrams <= COPIED_MAX))
        room = xsk_room(xsk);
    if (xsk && !room) {
        xsk_flush(xsk);
        task->ring = NULL;
    }
    return room;
}

/* Puts the next datagram of the reply into the batch; returns its bytes. */
static size_t add_datagram(struct udp *udp, struct task *task, const struct reply *reply)
{
    struct udp_frame frame = {
        .id = task->id,
        .sequence = (uint16_t)task->next,
        .count = (uint16_t)task->ndatagrams,
    };
    size_t skip = task->next++ * REPLY_PART;
    size_t len = reply->nbytes - skip < REPLY_PART ? reply->nbytes - skip : REPLY_PART;
    char *by_ring = ring_room(task);
    char *out = by_ring ? by_ring + frame_headers(&task->ring->frame)
                        : datagrams_add(&udp->out, &task->way, MC_UDP_HEADER + len);

    proto_render_frame(out, &frame);
    /* Copied, because the reply does not outlive its command. */
    reply_read(reply, skip, len, out + MC_UDP_HEADER);
    if (by_ring) {
        frame_reply(by_ring, &task->ring->frame, MC_UDP_HEADER + len);
        xsk_send(task->ring->xsk, frame_headers(&task->ring->frame) + MC_UDP_HEADER + len);
    }
    count_add(&udp->worker->counts.bytes_written, MC_UDP_HEADER + len);
    return MC_UDP_HEADER + len;
}

/* Sends the reply, or part of it until the turn's bytes reach the limit. */
static void send_reply(struct udp *udp, struct task *task, struct turn *turn, size_t limit)
{
    while (task->next < task->ndatagrams && turn->nbytes < limit) {
        if (datagrams_full(&udp->out))
            udp_send_batch(udp, turn);
        turn->nbytes += add_datagram(udp, task, &udp->worker->reply);
    }
}

/* --- requests ---------------------------------------------------------- */

/*
 * Copies the value of a storage command from the rest of its datagram. False: the value is
 * truncated, and the datagram ends with it.
 */
static bool take_value(struct udp *udp, struct command_pending *pending, struct slice *rest)
{
    struct command_local *local = udp->worker->local;
    size_t n;

    if (pending->nleft > rest->len) {
        command_cut(local, pending, &udp->worker->reply);
        return false;
    }
    n = command_fill(local, pending, *rest);
    rest->ptr += n;
    rest->len -= n;
    return true;
}

/* A reply with more datagrams than can be numbered: the client gets an error, the log one line. */
static void refuse_reply(struct udp *udp, const struct request *request)
{
    struct worker *worker = udp->worker;

    if (!udp->long_logged)
        log_write("a reply of %zu bytes is too long for UDP: such requests get an error",
                  worker->reply.nbytes);
    udp->long_logged = true;
    command_too_long(worker->local, request, &worker->reply);
}

/* Executes one command of the datagram. False: the rest of the datagram is unusable. */
static bool execute_one(struct udp *udp, enum protocol protocol, struct slice *rest,
                        struct turn *turn)
{
    rel_time now = turn->now;
    struct worker *worker = udp->worker;
    struct request request;
    struct command_pending pending;
    enum command_next next;
    ssize_t consumed = rest->len > 0 ? proto_parse(protocol, *rest, &request) : 0;

    if (consumed <= 0)
        return false;
    if (log_get_level() >= 2) {
        traffic_request(udp->endpoint.fd, protocol == PROTOCOL_BINARY,
                        (struct slice){rest->ptr, (size_t)consumed});
    }
    watch_emit_request(worker, &udp->client, (struct slice){rest->ptr, (size_t)consumed});
    rest->ptr += consumed;
    rest->len -= (size_t)consumed;
    turn_requests(&turn->time, request.verb, (size_t)consumed);
    next = command_run(worker->local, &request, &udp->client, now, &worker->reply, &pending);
    if (next == COMMAND_VALUE) {
        if (!take_value(udp, &pending, rest))
            return false;
        next = command_finish(worker->local, &udp->client, &pending, now, &worker->reply);
    }
    if (worker->reply.nbytes > 0 && udp_ndatagrams(worker->reply.nbytes) == 0)
        refuse_reply(udp, &request);
    return next == COMMAND_DONE;
}

/* Logged once, because it may be a client after all: behind NAT that changes ports. */
static void log_unanswerable(struct udp *udp, const struct sockaddr_storage *source)
{
    char text[64];

    if (!udp->unanswerable_logged) {
        socket_source_text(text, sizeof(text), source);
        log_write("UDP requests from %s are not answered: that may be another server", text);
        udp->unanswerable_logged = true;
    }
}

bool udp_begin_task(struct udp *udp, struct slice rest, const struct datagrams_way *way,
                    struct task *task)
{
    struct udp_frame frame;

    count_add(&udp->worker->counts.bytes_read, rest.len);
    if (!proto_parse_frame(rest, &frame))
        return false;
    if (socket_is_unanswerable(way->peer, socket_port(&udp->name))) {
        log_unanswerable(udp, way->peer);
        return false;
    }
    rest.ptr += MC_UDP_HEADER;
    rest.len -= MC_UDP_HEADER;
    if (proto_is_reply(rest))
        return false;
    *task = (struct task){
        .way = *way,
        .protocol = proto_protocol(rest.ptr[0]),
        .id = frame.id,
        .rest = rest,
    };
    return true;
}

/* Makes a task of received datagram `r`. */
static bool begin_received(struct udp *udp, unsigned int r)
{
    const struct slice bytes = {udp->in_iov[r].iov_base, udp->in[r].msg_len};
    const struct datagrams_way way = {&udp->peers[r], udp->in[r].msg_hdr.msg_namelen,
                                      udp->any ? &udp->in_control[r] : NULL,
                                      udp->any ? udp->in[r].msg_hdr.msg_controllen : 0};

    return udp_begin_task(udp, bytes, &way, &udp->task);
}

/* Executes the next command; the caller sends its reply. */
static void step(struct udp *udp, struct task *task, struct turn *turn)
{
    turn->nrequests--;
    if (!execute_one(udp, task->protocol, &task->rest, turn))
        task->rest.len = 0;
    turn->late = turn_is_long(&turn->time, udp->worker->reply.nbytes, clock_exact_ns);
    begin_reply(udp, task);
}

bool udp_turn_is_over(const struct turn *turn)
{
    return turn->nbytes >= EVENT || turn->nrequests == 0 || turn->late;
}

/*
 * Executes commands of a datagram and sends their replies, until the datagram or its share of the
 * turn ends. True: the datagram is done; otherwise the worker's reply holds the rest of the last
 * command's reply.
 */
static bool execute(struct udp *udp, struct task *task, struct turn *turn)
{
    unsigned int nrequests = udp->worker->config->reqs_per_event;
    size_t limit = turn->nbytes + SHARE;

    while (task->rest.len > 0) {
        if (nrequests-- == 0 || turn->nbytes >= limit || udp_turn_is_over(turn))
            return false;
        step(udp, task, turn);
        send_reply(udp, task, turn, limit);
        if (task->next < task->ndatagrams)
            return false;
        command_release(udp->worker->local, &udp->worker->reply);
    }
    return true;
}

/* --- datagrams that take longer ------------------------------------------ */

static void swap_replies(struct reply *a, struct reply *b)
{
    struct reply kept = *a;

    *a = *b;
    *b = kept;
}

static void put_last(struct udp *udp, struct deferred *deferred)
{
    deferred->after = NULL;
    *udp->last = deferred;
    udp->last = &deferred->after;
    udp->ndeferred++;
}

static struct deferred *take_first(struct udp *udp)
{
    struct deferred *deferred = udp->first;

    udp->first = deferred->after;
    if (!udp->first)
        udp->last = &udp->first;
    udp->ndeferred--;
    return deferred;
}

static void free_deferred(struct udp *udp, struct deferred *deferred)
{
    command_release(udp->worker->local, &deferred->reply);
    reply_fini(&deferred->reply);
    free(deferred);
}

/* Queues the rest of the task and of the worker's reply; drops it if that fails, as UDP may. */
static void defer(struct udp *udp, const struct task *task)
{
    struct worker *worker = udp->worker;
    struct deferred *deferred =
        udp->ndeferred < DEFERRED_MAX ? malloc(sizeof(*deferred) + task->rest.len) : NULL;

    if (!deferred) {
        command_release(worker->local, &worker->reply);
        return;
    }
    deferred->task = *task;
    deferred->task.ring = NULL;
    reply_init(&deferred->reply);
    swap_replies(&deferred->reply, &worker->reply);
    memcpy(deferred->bytes, task->rest.ptr, task->rest.len);
    deferred->task.rest.ptr = deferred->bytes;
    deferred->peer = *task->way.peer;
    deferred->task.way.peer = &deferred->peer;
    if (task->way.control) {
        deferred->control = *task->way.control;
        deferred->task.way.control = &deferred->control;
    }
    put_last(udp, deferred);
}

/*
 * Sends as much of the reply as its share and the socket allow. It waits for a full socket and
 * drops nothing. True: all is sent.
 */
static bool send_patiently(struct udp *udp, struct deferred *deferred, struct turn *turn)
{
    struct task *task = &deferred->task;

    while (task->next < task->ndatagrams && turn->nbytes < SHARE && !udp->blocked) {
        unsigned int nleft;

        while (!datagrams_full(&udp->out) && task->next < task->ndatagrams)
            turn->nbytes += add_datagram(udp, task, &deferred->reply);
        nleft = datagrams_send(&udp->out);
        datagrams_drop(&udp->out);
        task->next -= nleft;
        udp->blocked = nleft > 0 && event_add(udp->writable, NULL) == 0;
    }
    return task->next == task->ndatagrams;
}

/* Serves one deferred datagram for a turn. */
static void serve_deferred(struct udp *udp)
{
    struct worker *worker = udp->worker;
    struct deferred *deferred = take_first(udp);
    struct turn turn = {
        .now = clock_now(&worker->config->clock),
        .nrequests = worker->config->reqs_per_event,
    };

    while (send_patiently(udp, deferred, &turn)) {
        command_release(worker->local, &deferred->reply);
        if (deferred->task.rest.len == 0) {
            free_deferred(udp, deferred);
            return;
        }
        if (udp_turn_is_over(&turn))
            break;
        step(udp, &deferred->task, &turn);
        swap_replies(&deferred->reply, &worker->reply);
    }
    count_add(&worker->counts.conn_yields, !turn.late);
    put_last(udp, deferred);
}

static int receive_batch(struct udp *udp)
{
    for (unsigned int i = 0; i < UDP_BATCH; i++) {
        udp->in[i].msg_hdr.msg_namelen = sizeof(udp->peers[i]);
        udp->in[i].msg_hdr.msg_controllen = udp->any ? sizeof(udp->in_control[i]) : 0;
    }
    return recvmmsg(udp->endpoint.fd, udp->in, UDP_BATCH, MSG_DONTWAIT, NULL);
}

/* Receives the next datagrams. False: there are none. */
static bool receive(struct udp *udp, struct turn *turn)
{
    int n = receive_batch(udp);

    /*
     * Taken after the receive: an item that others saw expire must not come back for these
     * requests.
     */
    turn->now = clock_now(&udp->worker->config->clock);
    endpoint_used(&udp->endpoint, turn->now);
    udp->at = 0;
    udp->n = n > 0 ? (unsigned int)n : 0;
    for (unsigned int i = 0; udp->any && i < udp->n; i++)
        datagrams_turn_control(&udp->in[i].msg_hdr);
    return n > 0;
}

bool udp_serve_task(struct udp *udp, struct task *task, struct turn *turn)
{
    if (execute(udp, task, turn))
        return true;
    count_add(&udp->worker->counts.conn_yields, !turn->late);
    task->nturns++;
    if (task->next == task->ndatagrams &&
        (task->nturns < PATIENT_TURNS || udp->ndeferred == DEFERRED_MAX))
        return false;
    defer(udp, task);
    return true;
}

/* Answers the received datagrams. False: others are served before the rest. */
static bool serve_batch(struct udp *udp, struct turn *turn)
{
    for (; udp->at < udp->n; udp->at++, udp->begun = false) {
        if (udp_turn_is_over(turn))
            return false;
        if (!udp->begun && !begin_received(udp, udp->at))
            continue;
        udp->begun = true;
        if (!udp_serve_task(udp, &udp->task, turn))
            return false;
    }
    return true;
}

void udp_go_on_later(struct udp *udp)
{
    event_active(udp->event, EV_READ, 0);
    event_base_loopcontinue(udp->worker->base);
}

struct turn udp_begin_turn(const struct worker *worker, unsigned int rounds)
{
    const unsigned int nrequests = worker->config->reqs_per_event;

    return (struct turn){
        .now = clock_now(&worker->config->clock),
        .nrequests = nrequests > rounds * UDP_BATCH ? nrequests : rounds * UDP_BATCH,
    };
}

static void serve(struct udp *udp)
{
    struct turn turn = udp_begin_turn(udp->worker, ROUNDS);

    for (int round = 0; round < ROUNDS; round++) {
        if (udp->at == udp->n && !receive(udp, &turn))
            break;
        if (!serve_batch(udp, &turn))
            break;
        udp_send_batch(udp, &turn);
        if (udp->n < UDP_BATCH)
            break;
    }
    udp_send_batch(udp, &turn);
    if (udp->first && !udp->blocked)
        serve_deferred(udp);
    if (udp->at < udp->n || (udp->first && !udp->blocked))
        udp_go_on_later(udp);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    serve(arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct udp *udp = arg;

    (void)fd;
    (void)what;
    udp->blocked = udp->hopeless = false;
    serve(udp);
}

/* --- life -------------------------------------------------------------- */

static void point_messages(struct udp *udp)
{
    for (size_t i = 0; i < UDP_BATCH; i++) {
        udp->in_iov[i] = (struct iovec){udp->requests + i * DATAGRAM_MAX, DATAGRAM_MAX};
        udp->in[i].msg_hdr = (struct msghdr){
            .msg_name = &udp->peers[i],
            .msg_iov = &udp->in_iov[i],
            .msg_iovlen = 1,
            .msg_control = udp->any ? &udp->in_control[i] : NULL,
        };
    }
}

static bool make_events(struct udp *udp)
{
    struct event_base *base = udp->worker->base;
    int fd = udp->endpoint.fd;

    udp->event = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, udp);
    udp->writable = event_new(base, fd, EV_WRITE, on_writable, udp);
    return udp->event && udp->writable && event_add(udp->event, NULL) == 0;
}

static void free_events(struct udp *udp)
{
    if (udp->event)
        event_free(udp->event);
    if (udp->writable)
        event_free(udp->writable);
}

struct udp *udp_open(struct worker *worker, int fd)
{
    struct udp *udp = calloc(1, sizeof(*udp));

    if (!udp) {
        close(fd);
        return NULL;
    }
    udp->endpoint = (struct endpoint){.fd = fd, .kind = ENDPOINT_DATAGRAM, .state = STATE_READ};
    udp->worker = worker;
    datagrams_init(&udp->out, fd, !worker->config->single_datagrams);
    if (socket_local(fd, &udp->name) == 0)
        udp->any = socket_is_any(&udp->name);
    udp->last = &udp->first;
    udp->requests = malloc((size_t)UDP_BATCH * DATAGRAM_MAX);
    if (!udp->requests || !make_events(udp)) {
        free_events(udp);
        free(udp->requests);
        free(udp);
        close(fd);
        return NULL;
    }
    point_messages(udp);
    udp->next = worker->udp;
    udp->link = &worker->udp;
    if (udp->next)
        udp->next->link = &udp->next;
    worker->udp = udp;
    endpoints_count(worker->endpoints);
    endpoints_list(worker->endpoints, &udp->endpoint);
    log_at(2, "<%d server listening (udp)", fd);
    return udp;
}

void udp_begin(struct worker *worker)
{
    for (struct udp *udp = worker->udp; udp; udp = udp->next)
        command_client_open(worker->local, COMMAND_DATAGRAM, udp->endpoint.fd, &udp->client);
}

int udp_each(const struct worker *worker, int (*tell)(void *context, int socket), void *context)
{
    int rc = 0;

    for (const struct udp *udp = worker->udp; rc == 0 && udp; udp = udp->next)
        rc = tell(context, udp->endpoint.fd);
    return rc;
}

void udp_close(struct udp *udp)
{
    command_client_close(&udp->client);
    while (udp->first)
        free_deferred(udp, take_first(udp));
    free_events(udp);
    *udp->link = udp->next;
    if (udp->next)
        udp->next->link = udp->link;
    endpoints_close(udp->worker->endpoints, &udp->endpoint);
    free(udp->requests);
    free(udp);
}
