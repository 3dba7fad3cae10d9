/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcpcheck: many TCP connections to a memcached, and a check of every byte that it replies.
 *
 * The connections ask in all the ways in which clients do: one request and its reply, requests in
 * one segment, requests in pieces, replies that are left unread for a while, half-closes, resets.
 * What each asks depends on --seed, --prefix and the connection's number alone (t/tool/tcpmodel.h),
 * with --operations also how much; when it does so depends on the server. It works against any
 * memcached that has memory for the values: an item that was evicted is a wrong miss.
 *
 * Prints one line of "name number" pairs. Ends at the first reply that is wrong, or is missing for
 * --timeout seconds, and says on standard error which; then the exit status is 1. With --go-on only
 * that connection ends, and one that the server resets or ends counts as broken and not as wrong.
 * SIGTERM ends a run as its --seconds do: each connection gets what it has asked for.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/options.h"
#include "t/tool/tcpmodel.h"
#include "t/tool/verdict.h"

enum {
    CUTS_MAX = 128,
    BURST_MAX = 32, /* requests that are sent without waiting for a reply */
    EVENTS = 64,
    READ_BYTES = 1 << 16,
    SMALL_BUFFER = 8192,
    TICK_MS = 100, /* how often at least it is looked for hangs */
    US = 1000,     /* ns */
    MS = 1000000,
};

#define SECOND 1000000000ull

struct options {
    uint64_t connections, operations, seed, shared;
    double seconds, get_share, timeout, odd, big, single, from_shared, reuse;
    const char *protocol, *prefix;
    bool go_on;
};

static const struct option_row rows[] = {
    ROW("connections", OPTION_NUMBER, connections, "N", "in all (50)"),
    ROW("seconds", OPTION_REAL, seconds, "S", "without --operations; 0: until SIGTERM (5)"),
    ROW("operations", OPTION_NUMBER, operations, "N", "how many in all"),
    ROW("seed", OPTION_NUMBER, seed, "N", "of the random numbers (1)"),
    ROW("prefix", OPTION_WORD, prefix, "WORD", "of all keys, which must be new (of the time)"),
    ROW("get-share", OPTION_REAL, get_share, "SHARE", "of what only reads, 0 to 1 (0.8)"),
    ROW("protocol", OPTION_WORD, protocol, "NAME", "text, binary, mixed: each fourth binary"),
    ROW("odd", OPTION_REAL, odd, "SHARE", "of bursts with something unusual (0.3)"),
    ROW("big", OPTION_REAL, big, "SHARE", "of 3 KB to 1 MB, of two keys' values (0.1)"),
    ROW("single", OPTION_REAL, single, "SHARE", "of bursts that are one get of one key (0.3)"),
    ROW("shared", OPTION_NUMBER, shared, "N", "keys that one writes and all read (16)"),
    ROW("from-shared", OPTION_REAL, from_shared, "SHARE", "of what is read from those (0.125)"),
    ROW("reuse", OPTION_REAL, reuse, "SHARE",
        "of reset connections whose port is used again (0.5)"),
    ROW("timeout", OPTION_REAL, timeout, "S", "without any progress is a hang (30)"),
    ROW("go-on", OPTION_FLAG, go_on, NULL, "with the other connections when one has failed"),
};

static const struct option_table table = {
    "usage: tcpcheck [options] ADDRESS PORT\n"
    "Asks a memcached over TCP and checks every byte of its replies.",
    rows, sizeof(rows) / sizeof(rows[0])};

enum state {
    STATE_CONNECTING,
    STATE_SENDING, /* the burst is not sent */
    STATE_WAITING, /* for the rest of the replies, or until the pause ends */
    STATE_CLOSING, /* half closed: replies, and the end of the stream */
    STATE_DONE,
};

/* What comes after a burst. */
enum after {
    AFTER_REPLIES, /* the next */
    AFTER_FEW,     /* the next before the last replies have come */
    AFTER_CLOSE,   /* a new connection */
    AFTER_HALF,    /* shutdown at once, then a new connection */
    AFTER_RESET,   /* an RST, with or without the replies, then a new connection */
    AFTER_END,     /* shutdown, and no further */
};

/* Where a write ends, and how long to wait then. */
struct cut {
    size_t at;
    uint64_t pause_ns;
};

struct connection {
    int fd;
    enum state state;
    enum after after;
    struct model model;
    size_t sent; /* of model.out */
    struct cut cuts[CUTS_MAX];
    unsigned int ncuts, cut, few;
    uint64_t send_ns, read_ns, next_ns; /* pauses: of writing, of reading, before the next burst */
    uint64_t progress_ns;
    uint32_t events; /* that epoll waits for */
    uint16_t port;   /* to be used again; 0: any */
    bool reuses;     /* a port of a connection that was reset */
    bool blocked;    /* no room to send */
};

struct counts {
    uint64_t connects, half_closes, resets, pauses, splits, reused, wrong, broken, hangs;
};

struct check {
    struct options options;
    struct sockaddr_storage server;
    socklen_t nserver;
    struct connection *connections;
    struct shared_key *shared;
    unsigned int nrunning;
    uint64_t start_ns, end_ns, each; /* each: operations of a connection, 0: until the end */
    int epoll;
    struct counts counts;
    char buffer[READ_BYTES];
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* --- reports -------------------------------------------------------------------------- */

static unsigned int local_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof(address);

    getsockname(fd, (struct sockaddr *)&address, &n);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

static void report_connection(const struct connection *connection, const char *what)
{
    static const char *const states[] = {"connecting", "sending", "waiting for replies",
                                         "half closed, waiting for the end", "done"};
    const struct model *model = &connection->model;
    const struct op *op = model->replies.first;

    fprintf(stderr, "%s: connection %u from port %u%s, %s, %s, of %zu bytes %zu sent\n", what,
            model->index, local_port(connection->fd), connection->reuses ? " again" : "",
            model->binary ? "binary" : "text", states[connection->state], model->out.n,
            connection->sent);
    while (op && op_is_silent(op) && op->next)
        op = op->next;
    if (op)
        fprintf(stderr, "operation %" PRIu64 " of %" PRIu64 ", %u have no whole reply: \"%s\"\n",
                op->number, model->number, model->replies.nwaiting,
                printable(op->asked, op->nasked));
}

static void wrong(struct check *check, const struct connection *connection, const char *text)
{
    if (check->counts.wrong++)
        return;
    report_connection(connection, "wrong");
    fprintf(stderr, "%s\n", text);
}

/* The server has reset the connection, or ended it; or it did so before it sent anything. */
static void broken(struct check *check, const struct connection *connection, const char *text)
{
    if (!check->options.go_on) {
        wrong(check, connection, text);
        return;
    }
    check->counts.broken++;
    report_connection(connection, connection->model.replies.nreceived ? "broken" : "unanswered");
    fprintf(stderr, "%s\n", text);
}

static void hang(struct check *check, const struct connection *connection)
{
    const struct replies *replies = &connection->model.replies;

    check->counts.hangs++;
    report_connection(connection, "hang");
    fprintf(stderr,
            "%zu bytes of its reply came, and %" PRIu64 " of the stream; %" PRIu64
            " operations were answered\n",
            replies->at, replies->nreceived, replies->nanswered);
}

/* --- opening and closing ------------------------------------------------------------------ */

static void watch(struct check *check, struct connection *connection, int operation,
                  uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};

    connection->events = events;
    if (epoll_ctl(check->epoll, operation, connection->fd, &event))
        fatal("epoll: %s", strerror(errno));
}

/* From the port of a connection that was reset, if that may be. */
static void reuse_port(struct check *check, struct connection *connection)
{
    struct sockaddr_storage local = {.ss_family = check->server.ss_family};
    int one = 1;

    if (local.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&local)->sin6_port = htons(connection->port);
    else
        ((struct sockaddr_in *)&local)->sin_port = htons(connection->port);
    connection->port = 0;
    setsockopt(connection->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    connection->reuses = bind(connection->fd, (const struct sockaddr *)&local, check->nserver) == 0;
    check->counts.reused += connection->reuses;
}

static void open_connection(struct check *check, struct connection *connection)
{
    int one = 1, room = SMALL_BUFFER;

    connection->fd = socket(check->server.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->fd < 0)
        fatal("socket: %s", strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connection->model.index % 8 == 3)
        setsockopt(connection->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    connection->reuses = false;
    if (connection->port)
        reuse_port(check, connection);
    if (connect(connection->fd, (const struct sockaddr *)&check->server, check->nserver) &&
        errno != EINPROGRESS)
        fatal("connect: %s", strerror(errno));
    connection->state = STATE_CONNECTING;
    connection->progress_ns = now_ns();
    connection->blocked = false;
    check->counts.connects++;
    watch(check, connection, EPOLL_CTL_ADD, EPOLLOUT);
}

/* With an RST, or with a FIN if all was read. */
static void close_connection(struct connection *connection, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (reset)
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(connection->fd);
    replies_drop(&connection->model.replies);
}

static void reconnect(struct check *check, struct connection *connection, bool reset)
{
    bool again = reset && model_chance(&connection->model, check->options.reuse);

    if (again)
        connection->port = (uint16_t)local_port(connection->fd);
    if (reset) {
        check->counts.resets++;
        model_forget_cas(&connection->model);
    }
    close_connection(connection, reset);
    open_connection(check, connection);
}

/* --- bursts --------------------------------------------------------------------------------- */

static uint64_t draw_burst(struct model *model)
{
    switch (model_draw(model, 20)) {
    case 0:
        return 1 + model_draw(model, BURST_MAX);
    case 1:
    case 2:
    case 3:
        return 5 + model_draw(model, 6);
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        return 2 + model_draw(model, 3);
    default:
        return 1;
    }
}

static void add_cut(struct connection *connection, size_t at, uint64_t pause_ns)
{
    if (connection->ncuts < CUTS_MAX - 1 &&
        (!connection->ncuts || at > connection->cuts[connection->ncuts - 1].at))
        connection->cuts[connection->ncuts++] = (struct cut){at, pause_ns};
}

/* A request from `begin` in two or three writes. */
static void split_request(struct connection *connection, size_t begin)
{
    struct model *model = &connection->model;
    size_t n = model->out.n - begin, first = begin + 1 + model_draw(model, n);
    uint64_t pause = model_draw(model, 2) ? model_draw(model, 2 * MS) : 0;

    add_cut(connection, first, pause);
    if (first < model->out.n && model_draw(model, 2))
        add_cut(connection, first + 1 + model_draw(model, model->out.n - first), pause);
    add_cut(connection, model->out.n, 0);
}

static enum after draw_after(const struct connection *connection, struct model *model)
{
    bool settled = connection->after != AFTER_FEW && !model->quiet;

    switch (model_draw(model, 12)) {
    case 0:
        return AFTER_CLOSE;
    case 1:
        return AFTER_HALF;
    case 2:
        return settled ? AFTER_RESET : AFTER_REPLIES;
    case 3:
    case 4:
    case 5:
        return AFTER_FEW;
    default:
        return AFTER_REPLIES;
    }
}

/* Pauses of a burst: of reading, and before the next. */
static void draw_pauses(struct check *check, struct connection *connection, uint64_t now)
{
    struct model *model = &connection->model;

    switch (model_draw(model, 6)) {
    case 0:
        connection->read_ns = now + model_draw(model, 30 * MS);
        check->counts.pauses++;
        break;
    case 1:
        connection->next_ns = now + model_draw(model, model_draw(model, 20) ? 20 * MS : 600 * MS);
        check->counts.pauses++;
        break;
    }
}

/*
 * One get of one key. Sometimes a set without a reply stands before it, in the same segment or in
 * one of its own; or behind it: when the get's reply is lost, nothing that the server has to say of
 * the set tells the client.
 */
static void ask_single(struct connection *connection, double get_share)
{
    struct model *model = &connection->model;
    bool alone = connection->after == AFTER_RESET || model_chance(model, get_share);
    bool before = !alone && model_draw(model, 2);

    if (before)
        model_set_silently(model);
    if (before && model_draw(model, 2))
        add_cut(connection, model->out.n, 0);
    model_get(model);
    if (!alone && !before) {
        add_cut(connection, model->out.n, 0);
        model_set_silently(model);
    }
}

/* Makes the requests of the next burst, and decides in which pieces they leave and what then. */
static void begin_burst(struct check *check, struct connection *connection, uint64_t now)
{
    struct model *model = &connection->model;
    bool odd = model_chance(model, check->options.odd);
    bool single = model_chance(model, check->options.single);
    bool last = (check->each && model->number >= check->each) || now >= check->end_ns;
    uint64_t n = single ? 1 : draw_burst(model), style = odd ? model_draw(model, 4) : 0, i;
    enum after before = connection->after, after = odd ? draw_after(connection, model) : 0;
    size_t begin;

    if (before != AFTER_FEW)
        model->settled = model->round;
    model->round++;
    model->now_ns = now;
    model->out.n = connection->sent = 0;
    connection->ncuts = connection->cut = 0;
    connection->few = 1 + (unsigned int)model_draw(model, 8);
    connection->after = last ? AFTER_END : after;
    connection->send_ns = connection->read_ns = connection->next_ns = 0;
    if (odd)
        draw_pauses(check, connection, now);
    for (i = 0; i < n && !last; i++) {
        begin = model->out.n;
        if (single)
            ask_single(connection, check->options.get_share);
        else if (connection->after == AFTER_RESET || model_chance(model, check->options.get_share))
            model_read(model);
        else
            model_write(model);
        if (style == 1)
            add_cut(connection, model->out.n, 0);
        else if (style == 2)
            split_request(connection, begin);
    }
    /* What a new connection reads must have been executed; what has no reply is seen by this. */
    if (last || (model->quiet && connection->after == AFTER_CLOSE))
        model_mark(model);
    if (style == 3)
        split_request(connection, 0);
    check->counts.splits += style > 0;
    connection->cuts[connection->ncuts++] = (struct cut){model->out.n, 0};
    connection->state = STATE_SENDING;
    connection->progress_ns = now;
}

/* --- the course of a connection --------------------------------------------------------------- */

/* Sends up to the next pause, or as long as there is room. False: the connection is broken. */
static bool send_burst(struct check *check, struct connection *connection, uint64_t now)
{
    struct bytes *out = &connection->model.out;
    const struct cut *cut;
    ssize_t n;

    connection->blocked = false;
    while (connection->sent < out->n && now >= connection->send_ns) {
        cut = &connection->cuts[connection->cut];
        n = send(connection->fd, out->at + connection->sent, cut->at - connection->sent,
                 MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            connection->blocked = true;
            return true;
        }
        if (n < 0) {
            broken(check, connection, strerror(errno));
            return false;
        }
        connection->progress_ns = now;
        connection->sent += (size_t)n;
        if (connection->sent == cut->at) {
            connection->send_ns = cut->pause_ns ? now + cut->pause_ns : 0;
            connection->cut++;
        }
    }
    return true;
}

/* The burst is sent. */
static void burst_sent(struct check *check, struct connection *connection)
{
    connection->state = STATE_WAITING;
    if (connection->after == AFTER_HALF || connection->after == AFTER_END) {
        shutdown(connection->fd, SHUT_WR);
        connection->state = STATE_CLOSING;
        check->counts.half_closes++;
    } else if (connection->after == AFTER_RESET && model_draw(&connection->model, 2)) {
        reconnect(check, connection, true);
    }
}

/* After the last reply. */
static void replies_came(struct check *check, struct connection *connection, uint64_t now)
{
    switch (connection->after) {
    case AFTER_REPLIES:
    case AFTER_FEW:
        begin_burst(check, connection, now);
        break;
    case AFTER_CLOSE:
    case AFTER_RESET:
        reconnect(check, connection, connection->after == AFTER_RESET);
        break;
    case AFTER_HALF:
    case AFTER_END:
        break;
    }
}

static bool may_go_on(const struct connection *connection, uint64_t now)
{
    unsigned int nwaiting = connection->model.replies.nwaiting;

    if (now < connection->next_ns)
        return false;
    return nwaiting == 0 || (connection->after == AFTER_FEW && nwaiting <= connection->few);
}

/* Does what is due now. False: the connection is broken. */
static bool advance(struct check *check, struct connection *connection, uint64_t now)
{
    bool progress = true;

    while (progress) {
        progress = false;
        if (connection->state == STATE_SENDING) {
            if (!send_burst(check, connection, now))
                return false;
            if (connection->sent == connection->model.out.n) {
                burst_sent(check, connection);
                progress = true;
            }
        } else if (connection->state == STATE_WAITING && may_go_on(connection, now)) {
            replies_came(check, connection, now);
            progress = true;
        }
    }
    return true;
}

/* The server has closed. False: it should not have. */
static bool stream_ended(struct check *check, struct connection *connection)
{
    if (connection->state != STATE_CLOSING || connection->model.replies.nwaiting) {
        broken(check, connection, "the server closes the connection");
        return false;
    }
    if (connection->after == AFTER_END) {
        close_connection(connection, false);
        connection->state = STATE_DONE;
        check->nrunning--;
    } else {
        reconnect(check, connection, false);
    }
    return true;
}

/* Takes what came, a turn's worth. */
static bool receive(struct check *check, struct connection *connection, uint64_t now)
{
    const char *what;
    ssize_t n = recv(connection->fd, check->buffer, sizeof(check->buffer), 0);

    if (n < 0 && errno == EAGAIN)
        return true;
    if (n < 0) {
        broken(check, connection, strerror(errno));
        return false;
    }
    if (n == 0)
        return stream_ended(check, connection);
    connection->progress_ns = now;
    what = replies_take(&connection->model.replies, check->buffer, (size_t)n, now);
    if (what)
        wrong(check, connection, what);
    return !what;
}

static bool connected(struct check *check, struct connection *connection, uint64_t now)
{
    int error = 0;
    socklen_t n = sizeof(error);

    getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    if (error) {
        broken(check, connection, strerror(error));
        return false;
    }
    begin_burst(check, connection, now);
    return true;
}

/* What epoll is to tell of; a pause of reading leaves errors. */
static void update_events(struct check *check, struct connection *connection, uint64_t now)
{
    uint32_t events = connection->blocked ? EPOLLOUT : 0;

    if (connection->state == STATE_DONE || connection->state == STATE_CONNECTING)
        return;
    if (now >= connection->read_ns)
        events |= EPOLLIN;
    if (events != connection->events)
        watch(check, connection, EPOLL_CTL_MOD, events);
}

/* Whether the run goes on without a connection that has failed. */
static bool give_up(struct check *check, struct connection *connection)
{
    if (!check->options.go_on)
        return false;
    close_connection(connection, true);
    connection->state = STATE_DONE;
    check->nrunning--;
    return true;
}

/* False: the run is over. */
static bool handle(struct check *check, struct connection *connection, uint32_t events,
                   uint64_t now)
{
    bool good = true;

    if (connection->state == STATE_CONNECTING)
        good = !events || connected(check, connection, now);
    else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        good = receive(check, connection, now);
    good = good && advance(check, connection, now);
    if (good)
        update_events(check, connection, now);
    return good || give_up(check, connection);
}

/* --- the run -------------------------------------------------------------------------------- */

/* When a connection has to be looked at without an event; UINT64_MAX: never. */
static uint64_t wake_time(const struct connection *connection, uint64_t now)
{
    uint64_t wake = UINT64_MAX;

    if (connection->state == STATE_SENDING && !connection->blocked)
        wake = connection->send_ns;
    if (connection->state == STATE_WAITING && connection->next_ns > now)
        wake = connection->next_ns;
    if (connection->read_ns > now && connection->read_ns < wake)
        wake = connection->read_ns;
    return wake;
}

static bool is_hanging(const struct connection *connection, double timeout, uint64_t now)
{
    uint64_t since = connection->progress_ns;

    if (connection->state == STATE_DONE)
        return false;
    since = since > connection->read_ns ? since : connection->read_ns;
    since = since > connection->next_ns ? since : connection->next_ns;
    since = since > connection->send_ns ? since : connection->send_ns;
    return now > since && (double)(now - since) > timeout * (double)SECOND;
}

/* Lets those go on whose pause has ended; *wait_ns: until the next ends. */
static bool look_around(struct check *check, uint64_t now, uint64_t *wait_ns)
{
    struct connection *connection;
    bool good = true, due;
    uint64_t i, wake;

    *wait_ns = (uint64_t)TICK_MS * MS;
    for (i = 0; i < check->options.connections && good; i++) {
        connection = &check->connections[i];
        due = connection->state != STATE_DONE && connection->state != STATE_CONNECTING &&
              (wake_time(connection, now) <= now ||
               (!(connection->events & EPOLLIN) && now >= connection->read_ns) ||
               (connection->state == STATE_WAITING && may_go_on(connection, now)));
        if (due)
            good = handle(check, connection, 0, now);
        if (is_hanging(connection, check->options.timeout, now)) {
            hang(check, connection);
            good = give_up(check, connection);
        }
        wake = wake_time(connection, now);
        if (wake > now && wake - now < *wait_ns)
            *wait_ns = wake - now;
    }
    return good;
}

static void run(struct check *check)
{
    struct epoll_event events[EVENTS];
    uint64_t now, wait_ns;
    bool good = true;
    int n, i;

    while (good && check->nrunning) {
        good = look_around(check, now_ns(), &wait_ns);
        n = good ? epoll_wait(check->epoll, events, EVENTS, (int)((wait_ns + MS - 1) / MS)) : 0;
        now = now_ns();
        for (i = 0; i < n && good; i++)
            if (!events[i].data.ptr)
                check->end_ns = now;
            else
                good = handle(check, events[i].data.ptr, events[i].events, now);
    }
}

/* Sets the first version of each shared key: then none is ever absent. False: it is not stored. */
static bool store_shared(struct check *check)
{
    int fd = socket(check->server.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = (time_t)check->options.timeout + 1};
    char value[SHARED_MAX], reply[8];
    struct bytes out = {0};
    bool good = true;
    uint64_t i;

    if (fd < 0 || connect(fd, (const struct sockaddr *)&check->server, check->nserver))
        fatal("connect: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    for (i = 0; i < check->options.shared && good; i++) {
        struct shared_key *key = &check->shared[i];
        size_t n;

        key->index = (unsigned int)i;
        key->begun = key->floor = 1;
        snprintf(key->name, sizeof(key->name), "%.40s-s%u", check->options.prefix, key->index);
        n = shared_value(key, 1, value);
        out.n = 0;
        bytes_print(&out, "set %s 0 0 %zu\r\n", key->name, n);
        bytes_put(&out, value, n);
        bytes_print(&out, "\r\n");
        good = send(fd, out.at, out.n, MSG_NOSIGNAL) == (ssize_t)out.n &&
               recv(fd, reply, sizeof(reply), MSG_WAITALL) == sizeof(reply) &&
               memcmp(reply, "STORED\r\n", sizeof(reply)) == 0;
    }
    if (!good)
        fprintf(stderr, "wrong: the server does not store a value, or does not say so\n");
    check->counts.wrong += !good;
    close(fd);
    bytes_free(&out);
    return good;
}

/* SIGTERM is an event without a connection. */
static void watch_signal(struct check *check)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (epoll_ctl(check->epoll, EPOLL_CTL_ADD, signalfd(-1, &set, SFD_CLOEXEC), &event))
        fatal("signalfd: %s", strerror(errno));
}

static void start(struct check *check)
{
    const struct options *options = &check->options;
    bool mixed = strcmp(options->protocol, "mixed") == 0;
    uint64_t i;

    check->nrunning = (unsigned int)options->connections;
    check->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch_signal(check);
    check->start_ns = now_ns();
    check->end_ns = UINT64_MAX;
    if (!options->operations && options->seconds > 0)
        check->end_ns = check->start_ns + (uint64_t)(options->seconds * (double)SECOND);
    check->each = (options->operations + options->connections - 1) / options->connections;
    for (i = 0; i < options->connections; i++) {
        struct model *model = &check->connections[i].model;

        model_init(model, options->seed, (unsigned int)i, options->prefix);
        model->binary = mixed ? i % 4 == 1 : strcmp(options->protocol, "binary") == 0;
        model->shared = check->shared;
        model->nshared = (unsigned int)options->shared;
        model->nwriters = (unsigned int)options->connections;
        model->big = options->big;
        model->from_shared = options->from_shared;
        open_connection(check, &check->connections[i]);
    }
}

static void finish(struct check *check)
{
    struct model_counts sum = {0};
    uint64_t i, answered = 0;
    double seconds = (double)(now_ns() - check->start_ns) / (double)SECOND;

    for (i = 0; i < check->options.connections; i++) {
        struct connection *connection = &check->connections[i];

        sum.reads += connection->model.counts.reads;
        sum.writes += connection->model.counts.writes;
        sum.hits += connection->model.counts.hits;
        sum.misses += connection->model.counts.misses;
        sum.shared += connection->model.counts.shared;
        answered += connection->model.replies.nanswered;
        if (connection->state != STATE_DONE)
            close_connection(connection, false);
        model_fini(&connection->model);
    }
    printf("operations %" PRIu64 " reads %" PRIu64 " writes %" PRIu64 " hits %" PRIu64
           " misses %" PRIu64 " shared %" PRIu64 " connects %" PRIu64 " half_closes %" PRIu64
           " resets %" PRIu64 " reused %" PRIu64 " splits %" PRIu64 " pauses %" PRIu64
           " per_second %.0f broken %" PRIu64 " wrong %" PRIu64 " hangs %" PRIu64 "\n",
           answered, sum.reads, sum.writes, sum.hits, sum.misses, sum.shared,
           check->counts.connects, check->counts.half_closes, check->counts.resets,
           check->counts.reused, check->counts.splits, check->counts.pauses,
           (double)answered / seconds, check->counts.broken, check->counts.wrong,
           check->counts.hangs);
    free(check->connections);
    free(check->shared);
    close(check->epoll);
}

static bool parse_address(struct check *check, const char *address, const char *port)
{
    struct sockaddr_in *four = (struct sockaddr_in *)&check->server;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&check->server;
    uint16_t number = htons((uint16_t)atoi(port));

    if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = number;
        check->nserver = sizeof(*four);
        return true;
    }
    six->sin6_family = AF_INET6;
    six->sin6_port = number;
    check->nserver = sizeof(*six);
    return inet_pton(AF_INET6, address, &six->sin6_addr) == 1;
}

int main(int argc, char **argv)
{
    struct check *check = calloc(1, sizeof(*check));
    struct options *options;
    char prefix[32];
    bool good;
    int at;

    if (!check)
        fatal("out of memory");
    options = &check->options;
    snprintf(prefix, sizeof(prefix), "t%" PRIx64, now_ns());
    *options = (struct options){.connections = 50,
                                .seconds = 5,
                                .seed = 1,
                                .shared = 16,
                                .get_share = 0.8,
                                .protocol = "mixed",
                                .odd = 0.3,
                                .big = 0.1,
                                .single = 0.3,
                                .from_shared = 0.125,
                                .reuse = 0.5,
                                .timeout = 30,
                                .prefix = prefix};
    at = options_parse(&table, options, argc, argv);
    if (at != argc - 2 || !parse_address(check, argv[at], argv[at + 1]) || !options->connections ||
        !options->shared)
        usage_error("%s", table.usage);
    check->connections = calloc(options->connections, sizeof(*check->connections));
    check->shared = calloc(options->shared, sizeof(*check->shared));
    if (!check->connections || !check->shared)
        fatal("out of memory");
    good = store_shared(check);
    start(check);
    if (good)
        run(check);
    good = !check->counts.wrong && !check->counts.broken && !check->counts.hangs;
    finish(check);
    free(check);
    return good ? 0 : 1;
}
