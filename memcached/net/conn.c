/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/conn.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/countdown.h"
#include "base/log.h"
#include "command/command.h"
#include "net/boundary.h"
#include "net/input.h"
#include "net/leaving.h"
#include "net/socket.h"
#include "net/stream_source.h"
#include "net/traffic.h"
#include "net/watch_emit.h"
#include "net/wire.h"

enum {
    REPLY_BATCH = 128 * 1024, /* a reply of this many bytes is sent before more is executed */
    REPLY_IOVS = 128,
    REPLY_FLAT = 4096,     /* up to here one copy costs less than a gathering write */
    RECEIVES = 16,         /* reads of one connection in a row */
    RECEIVED = 128 * 1024, /* bytes that they bring */
    STREAM_SENDS = 16,     /* writes of one stream in a row */
};

struct conn {
    struct endpoint endpoint;
    struct command_client client;
    struct worker *worker;
    struct tls_session *tls;   /* NULL: a plain connection */
    struct conn *next, **link; /* in the worker's list */
    struct boundary boundary;
    struct socket_keepalive keepalive; /* while its boundary waits */
    struct event event;
    enum protocol protocol;
    struct conn_input input;
    struct stream_source *source; /* not NULL: conn sends its bytes and executes nothing */
    struct reply *unsent;         /* not NULL: waits until the socket is writable */
    size_t nsent;
    rel_time last_sent; /* when the client has last made room for more of it */
    struct command_pending pending;
    short listening; /* what the event waits for */
    bool filling;    /* pending is a value that is being received */
    enum verb line;  /* verb of a partly executed line; VERB_UNKNOWN: none */
    bool asks;       /* all that the replies of this batch answer are gets, or end gets */
    bool drained;    /* yielded with an empty socket: its next turn starts without a read */
    uint32_t nleft;  /* requests that a turn has left that took long; 0: it starts anew */
    bool closing;    /* closes after its reply is sent */
    uint8_t reason;  /* enum close_reason; an error unless it is known to be another */

    bool reading; /* `unsent` waits for values from flash */
    bool read;    /* the values have been read; under the worker's lock */
    struct countdown wait;
    struct conn *next_ready; /* in worker.ready */
};

/* What a connection may do before the worker serves others. */
struct turn {
    rel_time now;
    unsigned int nrequests, nreceives; /* left */
    size_t nbytes;                     /* left to receive */
    struct turn_time time;
    bool drained; /* the socket is empty */
    bool late;    /* it lasts too long */
};

/* The result of executing the input. */
enum progress {
    PROGRESS_NEED_INPUT, /* the rest of the input is an incomplete request */
    PROGRESS_BATCH,      /* the reply should be sent before more is done */
    PROGRESS_YIELD,      /* the other connections' turn has come */
    PROGRESS_STREAM,     /* send the reply, then a stream */
    PROGRESS_CLOSE,      /* after the reply */
};

/* The result of sending. */
enum sending { SENDING_DONE, SENDING_BLOCKED, SENDING_BROKEN };

static void on_event(evutil_socket_t fd, short what, void *arg);
static void on_stream(void *arg);
static void send_stream(struct conn *conn);

static const char *const protocol_names[] = {"auto-negotiating", "ascii", "binary"};

static int fd_of(const struct conn *conn)
{
    return conn->endpoint.fd;
}

/* --- life -------------------------------------------------------------- */

static int listen_for(struct conn *conn, short what)
{
    event_assign(&conn->event, conn->worker->base, fd_of(conn), what | EV_PERSIST, on_event, conn);
    conn->listening = what;
    return what == 0 ? 0 : event_add(&conn->event, NULL);
}

/* NULL: no memory. */
static struct conn *conn_new(struct worker *worker, struct stream_socket socket)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    if (conn && socket.tls) {
        conn->tls = tls_open(worker->tls, socket.fd);
        if (!conn->tls) {
            free(conn);
            return NULL;
        }
    }
    return conn;
}

/*
 * Where the kernel has answered, the end of the connection is watched until its client knows of it
 * (net/leaving.h); else the kernel sends it. At the end of the process a socket that needs no
 * translation sends it.
 */
static void close_socket(struct conn *conn)
{
    struct worker *worker = conn->worker;

    if (worker->ends && boundary_is_used(&conn->boundary))
        boundary_undo(&conn->boundary, worker->config->boundaries, fd_of(conn), 0, UNDO_END);
    if (boundary_is_used(&conn->boundary)) {
        endpoints_release(worker->endpoints, &conn->endpoint);
        leaving_begin(worker, fd_of(conn), conn->boundary.slot);
        return;
    }
    boundary_close(&conn->boundary, worker->config->boundaries, fd_of(conn));
    endpoints_close(worker->endpoints, &conn->endpoint);
}

void conn_open(struct worker *worker, struct stream_socket socket)
{
    struct conn *conn = conn_new(worker, socket);
    int fd = socket.fd;

    if (!conn) {
        close(fd);
        endpoints_uncount(worker->endpoints);
        return;
    }
    conn->worker = worker;
    command_client_open(worker->local, COMMAND_STREAM, fd, &conn->client);
    conn->protocol = socket.protocol;
    conn->endpoint = (struct endpoint){.fd = fd,
                                       .kind = ENDPOINT_STREAM,
                                       .state = STATE_READ,
                                       .last_command = clock_now(&worker->config->clock)};
    input_init(&conn->input, &worker->kept);
    conn->boundary.shown = socket.shown;
    endpoints_list(worker->endpoints, &conn->endpoint);
    conn->next = worker->conns;
    conn->link = &worker->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    worker->conns = conn;
    watch_emit_opened(worker, fd);
    log_at(2, "<%d new %s client connection", fd, protocol_names[conn->protocol]);
    if (listen_for(conn, EV_READ) != 0) {
        log_write("cannot watch connection %d", fd);
        event_assign(&conn->event, worker->base, -1, 0, on_event, conn);
        conn_close(conn);
    }
}

static void free_unsent(struct conn *conn)
{
    if (conn->unsent) {
        command_release(conn->worker->local, conn->unsent);
        reply_fini(conn->unsent);
        free(conn->unsent);
        conn->unsent = NULL;
    }
}

/* Reads in flight write into this connection's memory: it must outlive them. */
static void await_reads(struct conn *conn)
{
    struct worker *worker = conn->worker;
    struct conn **at = &worker->ready;

    pthread_mutex_lock(&worker->lock);
    while (!conn->read)
        pthread_cond_wait(&worker->read, &worker->lock);
    while (*at != conn)
        at = &(*at)->next_ready;
    *at = conn->next_ready;
    pthread_mutex_unlock(&worker->lock);
}

void conn_close(struct conn *conn)
{
    struct worker *worker = conn->worker;

    boundary_withdraw(&conn->boundary);
    if (conn->reading)
        await_reads(conn);
    log_at(2, "<%d connection closed.", fd_of(conn));
    watch_emit_closing(worker, fd_of(conn), conn->reason);
    event_del(&conn->event);
    if (conn->filling)
        command_abandon(worker->local, &conn->pending);
    command_client_close(&conn->client);
    free_unsent(conn);
    stream_source_close(conn->source);
    command_release(worker->local, &worker->reply);
    input_free(&conn->input);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    if (wire_is_tls(conn->tls))
        tls_close(conn->tls);
    close_socket(conn);
    free(conn);
}

/*
 * Whether the client has sent no command for idle_timeout, nor a part of a value, nor taken a part
 * of a long reply. A part of a line is nothing: else it could be sent byte by byte for ever.
 */
static bool is_idle(const struct conn *conn, rel_time now)
{
    const uint32_t timeout = conn->worker->config->idle_timeout;
    rel_time last = conn->endpoint.last_command;

    if (last < conn->last_sent)
        last = conn->last_sent;
    return timeout > 0 && (!conn->source || conn->unsent) && !conn->reading && now > last &&
           now - last > timeout;
}

/* --- undoing ----------------------------------------------------------- */

enum { UNDO_NS = 4000000 /* that a worker undoes connections at a time, while others wait */ };

/*
 * Behind an event_del: that has also taken away the turn of a connection that has yielded, whose
 * socket may stay silent. One whose values are being read from flash waits for no event.
 */
static void wait_again(struct conn *conn)
{
    if (conn->reading)
        return;
    if (conn->listening)
        event_add(&conn->event, NULL);
    worker_reactivate(conn->worker, &conn->event, conn->listening ? conn->listening : EV_WRITE,
                      false);
}

/*
 * Has a socket that needs no translation serve the connection. Where that cannot be, the programs
 * go on to translate; if they do not see the segments, the connection is reset.
 */
static void undo(struct conn *conn, rel_time now, enum undo_reason reason)
{
    struct boundaries *boundaries = conn->worker->config->boundaries;
    enum undo_result result;

    boundary_withdraw(&conn->boundary);
    event_del(&conn->event);
    result = boundary_undo(&conn->boundary, boundaries, fd_of(conn), now, reason);
    if (result == UNDO_FAILED && reason == UNDO_LOST) {
        boundary_abandon(&conn->boundary, boundaries, fd_of(conn));
        conn_close(conn);
        return;
    }
    wait_again(conn);
    if (result != UNDO_DONE)
        boundary_put_off(&conn->boundary, conn->worker->nlooks);
}

/* Closes the connection if it has been idle for too long. */
static void look(struct conn *conn, rel_time now)
{
    struct boundaries *boundaries = conn->worker->config->boundaries;

    if (boundary_answered(&conn->boundary)) {
        endpoint_used(&conn->endpoint, now);
    } else {
        boundary_announce(&conn->boundary, boundaries, fd_of(conn));
        if (boundary_waits(&conn->boundary))
            socket_probe(fd_of(conn), &conn->keepalive);
    }
    boundary_refresh(&conn->boundary, boundaries, now);
    if (!conn->boundary.nwaits)
        socket_calm(fd_of(conn), &conn->keepalive);
    if (is_idle(conn, now)) {
        count_add(&conn->worker->counts.idle_kicks, 1);
        conn->reason = CLOSE_IDLE;
        conn_close(conn);
    }
}

/*
 * Undoes connections for UNDO_NS; then the others have their turns before the worker goes on.
 * False: some are left.
 */
static bool undo_some(struct worker *worker, rel_time now, bool all)
{
    struct conn *next;
    enum undo_reason reason;
    uint64_t end_ns = 0;

    for (struct conn *conn = worker->conns; conn; conn = next) {
        next = conn->next;
        reason = boundary_undo_reason(&conn->boundary, worker->config->boundaries, fd_of(conn),
                                      worker->nlooks, all);
        if (reason == UNDO_REASONS)
            continue;
        if (!end_ns)
            end_ns = clock_exact_ns() + UNDO_NS;
        undo(conn, now, reason);
        if (clock_exact_ns() > end_ns)
            return false;
    }
    return true;
}

void conn_check(struct worker *worker, rel_time now)
{
    struct boundaries *boundaries = worker->config->boundaries;
    uint32_t epoch = boundaries ? __atomic_load_n(&boundaries->epoch, __ATOMIC_ACQUIRE) : 0;
    struct conn *next;

    if (boundaries && !undo_some(worker, now, epoch != worker->epoch)) {
        worker_reactivate(worker, worker->look, EV_TIMEOUT, true);
        return;
    }
    worker->epoch = epoch;
    worker->nlooks++;
    for (struct conn *conn = worker->conns; conn; conn = next) {
        next = conn->next;
        look(conn, now);
    }
}

/* --- input ------------------------------------------------------------- */

static void count_read(struct conn *conn, size_t n)
{
    count_add(&conn->worker->counts.bytes_read, n);
    conn->boundary.nread += (uint32_t)n;
}

/*
 * Reads from the socket, a value's bytes straight into its item. Returns as recv: 0 end, -1 errno.
 */
static ssize_t receive(struct conn *conn, struct turn *turn)
{
    struct iovec iov[2];
    size_t value = 0, most = 0;
    size_t niov = 0;
    ssize_t n;

    if (!input_make_room(&conn->input)) {
        errno = ENOMEM;
        return -1;
    }
    if (conn->filling && conn->pending.item) {
        char *ptr;

        value = command_value_room(conn->worker->local, &conn->pending, &ptr);
        if (value > turn->nbytes)
            value = turn->nbytes;
        iov[niov++] = (struct iovec){ptr, value};
    }
    if (value < turn->nbytes)
        iov[niov++] = (struct iovec){conn->input.now->ptr + conn->input.now->end,
                                     conn->input.now->size - conn->input.now->end};
    for (size_t i = 0; i < niov; i++)
        most += iov[i].iov_len;
    n = wire_receive(fd_of(conn), conn->tls, iov, niov, most, &turn->drained);
    if (n <= 0)
        return n;
    count_read(conn, (size_t)n);
    turn->nbytes -= (size_t)n < turn->nbytes ? (size_t)n : turn->nbytes;
    if (value > 0) {
        size_t filled = (size_t)n < value ? (size_t)n : value;

        command_value_filled(&conn->pending, filled);
        n -= (ssize_t)filled;
    }
    conn->input.now->end += (size_t)n;
    return 1;
}

/* --- output ------------------------------------------------------------ */

static ssize_t send_once(const struct conn *conn, const struct reply *reply, size_t skip)
{
    const size_t nleft = reply->nbytes - skip;
    struct iovec iov[REPLY_IOVS];
    char flat[REPLY_FLAT];

    if (reply->npieces > 1 && nleft <= REPLY_FLAT && !wire_is_tls(conn->tls)) {
        reply_read(reply, skip, nleft, flat);
        return send(fd_of(conn), flat, nleft, MSG_NOSIGNAL);
    }
    return wire_send(fd_of(conn), conn->tls, iov,
                     reply_iov(reply, skip, SIZE_MAX, iov, REPLY_IOVS));
}

/* Counts the bytes of a send; *n becomes the bytes sent, 0 if the caller repeats the send. */
static enum sending settle_send(struct conn *conn, ssize_t *n)
{
    if (*n >= 0) {
        count_add(&conn->worker->counts.bytes_written, (uint64_t)*n);
        conn->boundary.nsent += (uint32_t)*n;
        return SENDING_DONE;
    }
    *n = 0;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return SENDING_BLOCKED;
    return errno == EINTR ? SENDING_DONE : SENDING_BROKEN;
}

static enum sending send_some(struct conn *conn, const struct reply *reply, size_t *nsent)
{
    enum sending sending = SENDING_DONE;

    while (sending == SENDING_DONE && *nsent < reply->nbytes) {
        ssize_t n = send_once(conn, reply, *nsent);

        sending = settle_send(conn, &n);
        *nsent += (size_t)n;
    }
    return sending;
}

/* The connection takes the worker's reply over and reads nothing until that is sent. */
static bool keep_reply(struct conn *conn, size_t nsent)
{
    struct worker *worker = conn->worker;

    conn->unsent = malloc(sizeof(*conn->unsent));
    if (!conn->unsent)
        return false;
    *conn->unsent = worker->reply;
    reply_init(&worker->reply);
    conn->nsent = nsent;
    endpoint_set_state(&conn->endpoint, STATE_MWRITE);
    event_del(&conn->event);
    return true;
}

/* The last value was read from flash. Called in any thread. */
static void on_read(void *context)
{
    struct conn *conn = context;
    struct worker *worker = conn->worker;

    pthread_mutex_lock(&worker->lock);
    conn->read = true;
    conn->next_ready = worker->ready;
    worker->ready = conn;
    pthread_cond_signal(&worker->read);
    if (!conn->next_ready)
        worker_wake(worker);
    pthread_mutex_unlock(&worker->lock);
}

/* Reads the reply's values from flash. SENDING_BLOCKED: the reads are in flight. */
static enum sending fetch(struct conn *conn)
{
    struct worker *worker = conn->worker;
    rel_time now = clock_now(&worker->config->clock);

    countdown_begin(&conn->wait, on_read, conn);
    conn->read = false;
    conn->reading = !command_read(worker->local, &worker->reply, now, &conn->wait);
    return conn->reading ? SENDING_BLOCKED : SENDING_DONE;
}

/* Before replies. The kernel could have answered gets that came together, if these are short. */
static void weigh(struct conn *conn, const struct reply *reply)
{
    const struct net_config *config = conn->worker->config;
    bool gains =
        conn->asks && reply->nbytes > 0 && reply->nbytes <= MC_REPLY_MOST && !command_reads(reply);

    if (conn->boundary.shown && boundary_is_weighed(&conn->boundary, gains) && !conn->closing &&
        !conn->client.unauthenticated)
        boundary_weigh(&conn->boundary, config->boundaries, fd_of(conn), clock_now(&config->clock),
                       gains);
    conn->asks = false;
}

/*
 * Before the last `unsent` bytes of the replies are sent: the kernel may answer the next request if
 * nothing else is pending here. All of them may follow in one system call or in several: it answers
 * only a client that has acknowledged the last of them. While something is pending the slot holds
 * an earlier boundary, which no longer matches, because the kernel has handed over more input
 * since.
 */
static void publish(struct conn *conn, size_t unsent)
{
    if (!conn->boundary.slot)
        return;
    if (input_unread(conn->input.now).len == 0 && !conn->filling && !conn->line && !conn->source &&
        !conn->closing && !conn->client.unauthenticated)
        boundary_publish(&conn->boundary, unsent, conn->protocol == PROTOCOL_BINARY);
}

/* Sends the worker's reply. */
static enum sending flush(struct conn *conn)
{
    struct reply *reply = &conn->worker->reply;
    enum sending sending;
    size_t nsent = 0;

    weigh(conn, reply);
    if (reply->nbytes == 0) {
        publish(conn, 0);
        return SENDING_DONE;
    }
    if (reply->failed)
        return SENDING_BROKEN;
    sending = command_reads(reply) ? fetch(conn) : SENDING_DONE;
    if (sending == SENDING_DONE) {
        publish(conn, reply->nbytes);
        sending = send_some(conn, reply, &nsent);
    }
    if (sending == SENDING_BLOCKED) {
        if (!keep_reply(conn, nsent))
            return SENDING_BROKEN;
        return conn->reading || listen_for(conn, EV_WRITE) == 0 ? SENDING_BLOCKED : SENDING_BROKEN;
    }
    command_release(conn->worker->local, reply);
    return sending;
}

/* Closes the connection when everything is sent or the send failed. */
static void close_after(struct conn *conn, enum sending sending)
{
    if (sending != SENDING_DONE)
        conn->reason = CLOSE_ERROR;
    conn_close(conn);
}

/* Continues a retained reply. False: it is still not sent, or the connection is closed. */
static bool resume(struct conn *conn)
{
    size_t before = conn->nsent;
    enum sending sending;

    publish(conn, conn->unsent->nbytes - conn->nsent);
    sending = send_some(conn, conn->unsent, &conn->nsent);
    if (conn->nsent > before)
        conn->last_sent = clock_now(&conn->worker->config->clock);
    if (sending == SENDING_BLOCKED &&
        (event_pending(&conn->event, EV_WRITE, NULL) || listen_for(conn, EV_WRITE) == 0))
        return false;
    if (sending != SENDING_DONE || conn->closing) {
        close_after(conn, sending);
        return false;
    }
    free_unsent(conn);
    event_del(&conn->event);
    if (listen_for(conn, EV_READ) != 0) {
        conn_close(conn);
        return false;
    }
    return true;
}

/* --- execution --------------------------------------------------------- */

/* Parses the next request of the input. Returns as proto_parse. */
static ssize_t parse(struct conn *conn, struct request *request)
{
    struct input *in = conn->input.now;
    struct slice bytes = input_unread(in);
    ssize_t n;

    if (bytes.len == 0)
        return 0;
    if (conn->protocol == PROTOCOL_ANY) {
        conn->protocol = proto_protocol(bytes.ptr[0]);
        log_at(2, "%d: Client using the %s protocol", fd_of(conn), protocol_names[conn->protocol]);
    }
    if (conn->protocol == PROTOCOL_TEXT && input_is_endless(in, PROTO_LINE_MAX))
        return 0;
    n = conn->line ? proto_parse_rest(bytes, conn->line, request)
                   : proto_parse(conn->protocol, bytes, request);
    return n == 0 && conn->client.unauthenticated && bytes.len > COMMAND_UNAUTHENTICATED_MAX ? -1
                                                                                             : n;
}

/*
 * Whether the kernel could have answered this request of a batch, and all before it. before: those
 * before it; first: none of them has a reply.
 */
static bool asks(enum verb verb, bool before, bool first)
{
    if (verb == VERB_META_NOOP || verb == VERB_NOOP)
        return before;
    return (before || first) && (verb == VERB_GET || verb == VERB_GETS || verb == VERB_META_GET);
}

/* Executes one request, or the rest of a partly executed one. */
static enum command_next execute_one(struct conn *conn, struct turn *turn, bool *need_input)
{
    rel_time now = turn->now;
    struct worker *worker = conn->worker;
    struct input *in = conn->input.now;
    struct request request;
    ssize_t consumed;

    if (conn->filling) {
        in->start += command_fill(worker->local, &conn->pending, input_unread(in));
        *need_input = conn->pending.nleft > 0;
        if (*need_input)
            return COMMAND_VALUE;
        conn->filling = false;
        return command_finish(worker->local, &conn->client, &conn->pending, now, &worker->reply);
    }
    consumed = parse(conn, &request);
    if (consumed <= 0) {
        *need_input = consumed == 0;
        return consumed == 0 ? COMMAND_DONE : COMMAND_CLOSE;
    }
    if (log_get_level() >= 2) {
        traffic_request(fd_of(conn), conn->protocol == PROTOCOL_BINARY,
                        (struct slice){in->ptr + in->start, (size_t)consumed});
    }
    watch_emit_request(worker, &conn->client,
                       (struct slice){in->ptr + in->start, (size_t)consumed});
    in->searched = 0;
    in->start += (size_t)consumed;
    conn->line = request.more ? request.verb : VERB_UNKNOWN;
    conn->asks = asks(request.verb, conn->asks, worker->reply.nbytes == 0);
    turn_requests(&turn->time, request.verb, (size_t)consumed);
    return command_run(worker->local, &request, &conn->client, now, &worker->reply, &conn->pending);
}

/* Starts to send the stream that the client's command created. */
static bool open_stream_source(struct conn *conn)
{
    conn->source = stream_source_open(conn->worker->base, conn->client.stream, on_stream, conn);
    conn->client.stream = NULL;
    boundary_withdraw(&conn->boundary);
    return conn->source != NULL;
}

/* Executes what is in the input. */
static enum progress execute(struct conn *conn, struct turn *turn)
{
    const struct reply *reply = &conn->worker->reply;

    for (;;) {
        size_t before = reply->nbytes;
        bool need_input = false;
        enum command_next next;

        if (!conn->filling && (turn->nrequests == 0 || turn->late) &&
            conn->input.now->start < conn->input.now->end)
            return PROGRESS_YIELD;
        next = execute_one(conn, turn, &need_input);
        if (!need_input || conn->filling)
            endpoint_used(&conn->endpoint, turn->now);
        if (need_input)
            return PROGRESS_NEED_INPUT;
        if (log_get_level() >= 2)
            traffic_reply(fd_of(conn), conn->protocol == PROTOCOL_BINARY, reply, before);
        switch (next) {
        case COMMAND_VALUE:
            conn->filling = true;
            continue;
        case COMMAND_QUIT:
            conn->reason = CLOSE_NORMAL;
            return PROGRESS_CLOSE;
        case COMMAND_CLOSE:
            return PROGRESS_CLOSE;
        case COMMAND_TO_STREAM:
            return open_stream_source(conn) ? PROGRESS_STREAM : PROGRESS_CLOSE;
        case COMMAND_DONE:
            break;
        }
        turn->nrequests = conn->line ? 0 : turn->nrequests - 1;
        turn->late = turn_is_long(&turn->time, reply->nbytes - before, clock_exact_ns);
        if (reply->nbytes >= REPLY_BATCH || reply->failed)
            return PROGRESS_BATCH;
    }
}

/* Ends the turn: the connection waits for its next event. False: it is closed. */
static bool settle(struct conn *conn)
{
    if (!input_return(&conn->input)) {
        conn_close(conn);
        return false;
    }
    if (!conn->unsent) {
        endpoint_set_state(&conn->endpoint, conn->source         ? STATE_WATCH
                                            : !conn->filling     ? STATE_READ
                                            : conn->pending.item ? STATE_NREAD
                                                                 : STATE_SWALLOW);
    }
    return true;
}

/* Sends the reply. True: continue. False: the connection waits or is closed. */
static bool answer(struct conn *conn, bool closing)
{
    enum sending sending;

    conn->closing = closing;
    sending = flush(conn);
    if (sending == SENDING_BLOCKED) {
        settle(conn);
        return false;
    }
    if (sending == SENDING_BROKEN || closing) {
        close_after(conn, sending);
        return false;
    }
    return true;
}

/*
 * Before the connection waits for its socket: bytes that TLS has read and not delivered yet make it
 * ready again at once, and a handshake may have to write. False: the connection is closed.
 */
static bool await_tls(struct conn *conn, const struct turn *turn)
{
    short what = tls_waits_to_write(conn->tls) ? EV_WRITE : EV_READ;

    if (what != conn->listening) {
        event_del(&conn->event);
        if (listen_for(conn, what) != 0) {
            conn_close(conn);
            return false;
        }
    }
    if (!turn->drained)
        worker_reactivate(conn->worker, &conn->event, what, turn->late);
    return true;
}

/* Receives more input. True: there is some. */
static bool receive_more(struct conn *conn, struct turn *turn)
{
    ssize_t n;

    if (!turn->drained && turn->nreceives > 0 && turn->nbytes > 0) {
        turn->nreceives--;
        n = receive(conn, turn);
        if (n > 0) {
            /*
             * Taken after the receive: an item that others saw expire must not come back for these
             * requests.
             */
            turn->now = clock_now(&conn->worker->config->clock);
            return true;
        }
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            if (n == 0)
                conn->reason = CLOSE_NORMAL;
            answer(conn, true);
            return false;
        }
    }
    if (answer(conn, false) && (!wire_is_tls(conn->tls) || await_tls(conn, turn)))
        settle(conn);
    return false;
}

static void serve(struct conn *conn)
{
    struct worker *worker = conn->worker;
    struct turn turn = {
        .now = clock_now(&worker->config->clock),
        .nrequests = conn->nleft ? conn->nleft : worker->config->reqs_per_event,
        .nreceives = RECEIVES,
        .nbytes = RECEIVED,
        .drained = conn->drained,
    };

    conn->drained = false;
    conn->nleft = 0;
    endpoint_set_state(&conn->endpoint, STATE_PARSE_CMD);
    input_borrow(&conn->input, &worker->input);
    for (;;) {
        switch (execute(conn, &turn)) {
        case PROGRESS_NEED_INPUT:
            if (!receive_more(conn, &turn))
                return;
            break;
        case PROGRESS_BATCH:
            if (!answer(conn, false))
                return;
            break;
        case PROGRESS_YIELD:
            if (answer(conn, false)) {
                /* Counted is what -R does. */
                count_add(&worker->counts.conn_yields, turn.nrequests == 0);
                conn->nleft = turn.nrequests;
                conn->drained = turn.drained;
                worker_reactivate(worker, &conn->event, EV_READ, turn.late);
                settle(conn);
            }
            return;
        case PROGRESS_STREAM:
            if (answer(conn, false) && settle(conn))
                send_stream(conn);
            return;
        case PROGRESS_CLOSE:
            answer(conn, true);
            return;
        }
    }
}

/* --- a stream ------------------------------------------------------------ */

/* Sends the stream's bytes, in a bounded number of writes. */
static enum sending send_some_of_stream(struct conn *conn, enum stream_state *state)
{
    struct stream *stream = stream_source_stream(conn->source);
    enum sending sending = SENDING_DONE;

    for (unsigned int i = 0; (*state = stream_poll(stream)) == STREAM_BYTES && i < STREAM_SENDS;
         i++) {
        struct iovec iov[2];
        ssize_t n = wire_send(fd_of(conn), conn->tls, iov, stream_iov(stream, iov));

        sending = settle_send(conn, &n);
        if (sending != SENDING_DONE)
            break;
        stream_consumed(stream, (size_t)n);
    }
    return sending;
}

/*
 * Waits for what the stream needs next: the socket's room, its input, or neither. False: the
 * connection is closed.
 */
static bool await_stream(struct conn *conn, bool blocked)
{
    short what = stream_discards_input(stream_source_stream(conn->source)) ? EV_READ : 0;

    if (blocked)
        what |= EV_WRITE;
    if (what != conn->listening) {
        event_del(&conn->event);
        if (listen_for(conn, what) != 0) {
            conn_close(conn);
            return false;
        }
    }
    return true;
}

static void end_stream_source(struct conn *conn)
{
    stream_source_close(conn->source);
    conn->source = NULL;
    endpoint_used(&conn->endpoint, clock_now(&conn->worker->config->clock));
    event_del(&conn->event);
    if (listen_for(conn, EV_READ) != 0) {
        conn_close(conn);
        return;
    }
    serve(conn);
}

static void send_stream(struct conn *conn)
{
    enum stream_state state;
    enum sending sending = send_some_of_stream(conn, &state);

    if (sending == SENDING_BROKEN || state == STREAM_CLOSED ||
        (sending == SENDING_BLOCKED && stream_is_cut(stream_source_stream(conn->source))))
        close_after(conn, sending);
    else if (state == STREAM_ENDED)
        end_stream_source(conn);
    else if (await_stream(conn, sending == SENDING_BLOCKED) && sending == SENDING_DONE &&
             state == STREAM_BYTES)
        worker_reactivate(conn->worker, &conn->event, EV_WRITE, true);
}

static void on_stream(void *arg)
{
    struct conn *conn = arg;

    if (!conn->unsent)
        send_stream(conn);
}

/* Discards the client's input during a stream. False: the client has closed, and so is conn. */
static bool discard_input(struct conn *conn)
{
    struct input *scratch = &conn->worker->input;
    const struct iovec room = {scratch->ptr, scratch->size};
    bool drained;
    ssize_t n = wire_receive(fd_of(conn), conn->tls, &room, 1, room.iov_len, &drained);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        if (n == 0)
            conn->reason = CLOSE_NORMAL;
        conn_close(conn);
        return false;
    }
    if (n > 0) {
        count_read(conn, (size_t)n);
        if (wire_is_tls(conn->tls) && !drained)
            worker_reactivate(conn->worker, &conn->event, EV_READ, true);
    }
    return true;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;

    (void)fd;
    worker_turn(conn->worker);
    if (conn->unsent && !resume(conn))
        return;
    if (!conn->source)
        serve(conn);
    else if (!(what & EV_READ) || discard_input(conn))
        send_stream(conn);
}

void conn_ready(struct conn *list)
{
    while (list) {
        struct conn *conn = list;
        struct worker *worker = conn->worker;

        list = conn->next_ready;
        conn->reading = false;
        command_complete(worker->local, conn->unsent, clock_now(&worker->config->clock));
        on_event(-1, 0, conn);
    }
}
