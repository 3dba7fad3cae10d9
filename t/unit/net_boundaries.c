/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a worker publishes of its connections: real sockets, slots in this process's memory. The
 * worker has no thread: turn() runs its events, so that each step of a dialogue is seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/boundaries.h"
#include "command/command.h"
#include "net/boundary.h"
#include "net/conn.h"
#include "net/worker.h"
#include "t/lib/tap.h"
#include "t/unit/net_host.h"

enum { SMALL = 8192, LARGE = 512 * 1024, ROUNDS = 2000 };

/* The provider of slots, of which there is one. */
struct one_slot {
    struct boundaries boundaries;
    struct mc_tcp_slot slot;
    int socket;
    bool open, refuses, releases, lost, forgotten, tracks;
    unsigned int nlost, nasked, nopened, nreleased, nrefreshed, nannounced;
    enum undo_result result; /* of undo, */
    enum undo_reason reason; /* why it was last called, */
    unsigned int nundo;      /* how often, */
    unsigned int nundone;    /* of the connection that got the slot last, */
    int other;               /* and the client of the socket that it made */
    /* When the slot was taken back the socket was open, and had this boundary. */
    bool withdrawn;
    uint64_t last;
};

struct host {
    struct net_host net;
    struct one_slot one;
    int client, socket; /* the client's, the worker's */
    uint32_t consumed, sent;
    uint32_t before[2]; /* the same, when the connection got its slot */
};

static struct mc_tcp_slot *open_slot(struct boundaries *boundaries, int socket,
                                     unsigned int nundone)
{
    struct one_slot *one = (struct one_slot *)boundaries;

    one->nundone = nundone;
    if (one->refuses)
        return NULL;
    one->socket = socket;
    one->open = true;
    one->nopened++;
    one->slot = (struct mc_tcp_slot){.boundary = MC_TCP_NONE, .generation = 1};
    return &one->slot;
}

static void close_slot(struct boundaries *boundaries, struct mc_tcp_slot *slot)
{
    struct one_slot *one = (struct one_slot *)boundaries;

    one->open = false;
    one->withdrawn = slot == &one->slot && fcntl(one->socket, F_GETFD) >= 0;
    one->last = slot->boundary;
    slot->boundary = MC_TCP_NONE;
}

static bool release_slot(struct boundaries *boundaries, int socket, struct mc_tcp_slot *slot)
{
    struct one_slot *one = (struct one_slot *)boundaries;

    if (slot != &one->slot || socket != one->socket || slot->boundary != MC_TCP_NONE)
        die("a slot is released that the kernel may answer on");
    if (!one->releases)
        return false;
    one->open = false;
    one->nreleased++;
    return true;
}

static bool is_lost(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket)
{
    struct one_slot *one = (struct one_slot *)boundaries;

    one->nasked++;
    return slot == &one->slot && socket == one->socket && one->lost;
}

static void connect_pair(int out[2]);

static enum undo_result undo(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket,
                             enum undo_reason reason, struct undone *out)
{
    struct one_slot *one = (struct one_slot *)boundaries;
    int ends[2];

    if (slot != &one->slot || slot->boundary != MC_TCP_NONE || fcntl(socket, F_GETFD) < 0)
        die("what is undone must have no boundary");
    one->reason = reason;
    one->nundo++;
    if (one->result == UNDO_DONE) {
        connect_pair(ends);
        one->other = ends[0];
        *out = (struct undone){.fd = ends[1], .nsent = 77};
    }
    return one->result;
}

static void reset(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket)
{
    struct one_slot *one = (struct one_slot *)boundaries;

    one->forgotten = one->open && slot == &one->slot && fcntl(socket, F_GETFD) >= 0;
}

static bool announce(struct boundaries *boundaries, struct mc_tcp_slot *slot, int socket)
{
    ((struct one_slot *)boundaries)->nannounced += slot && socket >= 0;
    return ((struct one_slot *)boundaries)->tracks;
}

static void count_lost(struct boundaries *boundaries)
{
    ((struct one_slot *)boundaries)->nlost++;
}

static void count_refresh(struct boundaries *boundaries)
{
    ((struct one_slot *)boundaries)->nrefreshed++;
}

static void no_net_stats(void *context, struct command_net_stats *out)
{
    (void)context;
    *out = (struct command_net_stats){.accepting_conns = true};
}

static void no_rows(void *context, struct stat_sink *sink)
{
    (void)context;
    (void)sink;
}

static void do_nothing(void *context)
{
    (void)context;
}

static void ignore_level(void *context, unsigned int level)
{
    (void)context;
    (void)level;
}

static void ignore_end(void *context, bool graceful)
{
    (void)context;
    (void)graceful;
}

static const struct command_server calls = {
    .net_stats = no_net_stats,
    .stats_settings = no_rows,
    .stats_conns = no_rows,
    .reset_stats = do_nothing,
    .set_verbosity = ignore_level,
    .shutdown = ignore_end,
};

static void start_commands(struct host *host, const char *auth_file)
{
    const struct command_config config = {
        .flush_enabled = true,
        .dump_enabled = true,
        .watch_enabled = true,
        .worker_logbuf = 64 * 1024,
        .watcher_logbuf = 256 * 1024,
        .prefix_delimiter = ':',
        .nthreads = 1,
        .max_connections = 64,
        .item_max = 1 << 20,
        .clock = host->net.config.clock,
    };
    const struct command_auth auth = {.file = auth_file};
    char why[256];

    host->net.commands = commands_new(host->net.store, &config, &calls);
    if (!host->net.commands ||
        !commands_authenticate(host->net.commands, &auth, why, sizeof(why)) ||
        commands_start(host->net.commands) != 0)
        die("no commands");
}

static void start(struct host *host, const char *auth_file)
{
    memset(host, 0, sizeof(*host));
    host->one.boundaries = (struct boundaries){.open = open_slot,
                                               .close = close_slot,
                                               .release = release_slot,
                                               .is_lost = is_lost,
                                               .announce = announce,
                                               .undo = undo,
                                               .reset = reset,
                                               .count_lost = count_lost,
                                               .count_refresh = count_refresh};
    host->one.result = UNDO_FAILED;
    host->net.config.boundaries = &host->one.boundaries;
    host->net.config.nthreads = 1;
    host->net.config.reqs_per_event = 20;
    host->net.config.protocol = PROTOCOL_ANY;
    net_host_begin(&host->net);
    start_commands(host, auth_file);
    net_host_run(&host->net);
    host->client = -1;
}

static void stop(struct host *host)
{
    net_host_end(&host->net);
    if (host->client >= 0)
        close(host->client);
}

/* Two ends of a TCP connection. */
static void connect_pair(int out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), small = SMALL;

    out[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, len) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &len) ||
        setsockopt(out[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) ||
        connect(out[0], (struct sockaddr *)&address, len))
        die("no connection");
    out[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    close(listener);
    setsockopt(out[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
}

/*
 * The worker takes a new client; `shown`: one that the kernel may answer. The end of the one before
 * may come late: it has had the slot.
 */
static void accept_client(struct host *host, bool shown)
{
    int ends[2];

    if (host->client >= 0)
        close(host->client);
    while (host->one.open)
        event_base_loop(host->net.worker->base, EVLOOP_ONCE);
    connect_pair(ends);
    host->client = ends[0];
    host->socket = ends[1];
    host->consumed = host->sent = 0;
    memset(host->before, 0, sizeof(host->before));
    endpoints_count(&host->net.endpoints);
    conn_open(host->net.worker, (struct stream_socket){.fd = ends[1], .shown = shown});
}

/* Runs what is ready. */
static void turn(struct host *host)
{
    event_base_loop(host->net.worker->base, EVLOOP_NONBLOCK);
}

/* Whether what was said is at the worker's socket, where loopback may bring it late. */
static bool has_come(const struct host *host)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    return getsockopt(host->socket, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 ||
           info.tcpi_bytes_received >= host->before[0] + host->consumed;
}

/* Sends bytes and has the worker take them. */
static void say(struct host *host, const char *bytes, size_t len)
{
    if (send(host->client, bytes, len, 0) != (ssize_t)len)
        die("cannot send");
    host->consumed += (uint32_t)len;
    while (!has_come(host))
        turn(host);
    turn(host);
}

/* Receives exactly `len` bytes, running the worker meanwhile. The last are in `out`. */
static void hear(struct host *host, char *out, size_t size, size_t len)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = recv(host->client, out, size < len - have ? size : len - have, MSG_DONTWAIT);

        if (n > 0)
            have += (size_t)n;
        turn(host);
    }
    host->sent += (uint32_t)len;
}

static uint64_t published(struct host *host)
{
    return __atomic_load_n(&host->one.slot.boundary, __ATOMIC_ACQUIRE);
}

static bool is_at(struct host *host, uint32_t consumed, uint32_t sent)
{
    uint64_t boundary = published(host);

    if (boundary == mc_tcp_boundary(host->before[0] + consumed, host->before[1] + sent))
        return true;
    diag("published %#llx; consumed %#x, sent %#x", (unsigned long long)boundary, consumed, sent);
    return false;
}

/* Whether the boundary is that of the whole dialogue so far. */
static bool is_here(struct host *host)
{
    return is_at(host, host->consumed, host->sent);
}

/* A request, and whether exactly this answer came, and the boundary with it. */
static bool asks(struct host *host, const char *request, size_t len, const char *answer)
{
    char got[4096];

    say(host, request, len);
    hear(host, got, sizeof(got), strlen(answer));
    return memcmp(got, answer, strlen(answer)) == 0 && is_here(host);
}

static bool asks_text(struct host *host, const char *request, const char *answer)
{
    return asks(host, request, strlen(request), answer);
}

/* The client asks what the kernel could have answered, so often that the connection has a slot. */
static void gain(struct host *host, const char *request, size_t len, size_t nanswer)
{
    char got[64];

    for (int i = 0; i < BOUNDARY_GETS; i++) {
        say(host, request, len);
        hear(host, got, sizeof(got), nanswer);
    }
    host->before[0] += host->consumed;
    host->before[1] += host->sent;
    host->consumed = host->sent = 0;
}

/* A new client of a connection that has a slot. */
static void accept_followed(struct host *host)
{
    accept_client(host, true);
    turn(host);
    gain(host, "get b\r\n", 7, 5);
}

/* What the worker's socket has of an option of TCP's. */
static int option(const struct host *host, int name)
{
    int value = -1;
    socklen_t n = sizeof(value);

    getsockopt(host->one.socket, IPPROTO_TCP, name, &value, &n);
    return value;
}

/* As a worker does, four times a second. */
static void look(struct host *host, unsigned int times)
{
    while (times-- > 0)
        conn_check(host->net.worker, 0);
}

/* The client does not acknowledge a reply for a second, and then does. */
static void test_probes(struct host *host)
{
    const int idle = 600, count = 5;
    bool right;

    accept_followed(host);
    setsockopt(host->one.socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(host->one.socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    host->one.slot.answered = host->one.slot.outstanding = 1;
    look(host, 2 * BOUNDARY_LOOKS + 1);
    right = option(host, TCP_KEEPIDLE) == 1;
    host->one.slot.outstanding = 0;
    look(host, 1);
    ok(right && option(host, TCP_KEEPIDLE) == idle && option(host, TCP_KEEPCNT) == count,
       "a socket that has asked what its client has is as it was, once the client has all");
    host->one.slot.answered++;
    host->one.slot.outstanding = 1;
    look(host, BOUNDARY_LOOKS + 1);
    right = option(host, TCP_KEEPIDLE) == 1;
    host->one.slot.answered++;
    look(host, 1);
    ok(right && option(host, TCP_KEEPIDLE) == idle && option(host, TCP_KEEPCNT) == count,
       "and once there is a later reply");
    close(host->client);
    host->client = -1;
    turn(host);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

/*
 * The worker is new. Connections are looked at before an event that is due in 0.4 seconds: those
 * that have been lost for half a second are reset before they are lost for one.
 */
static void test_looks(struct host *host)
{
    const struct timeval wait = {0, 400000};
    bool ended = false;

    accept_followed(host);
    host->one.slot.ack_due = 2;
    host->one.nasked = 0;
    event_base_once(host->net.worker->base, -1, EV_TIMEOUT, on_end, &ended, &wait);
    while (!ended)
        event_base_loop(host->net.worker->base, EVLOOP_ONCE);
    ok(host->one.nasked > 0, "a connection in doubt is looked at more often than every 0.4 s");
    close(host->client);
    host->client = -1;
    turn(host);
}

static void test_requests(struct host *host)
{
    static const char quiet[] = "\x80\x09\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0x";
    static const char get[] = "\x80\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0x";
    static const char noop[24] = "\x80\x0a";
    char answer[24];

    accept_followed(host);
    ok(asks_text(host, "set a 0 0 1\r\nx\r\n", "STORED\r\n"), "a set publishes one");
    ok(asks_text(host, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"), "a get does");
    ok(asks_text(host, "mg a v\r\n", "VA 1\r\nx\r\n"), "a meta command does");
    ok(asks_text(host, "bogus\r\n", "ERROR\r\n"), "an error does");
    ok(asks_text(host, "get b\r\nget b\r\nget b\r\n", "END\r\nEND\r\nEND\r\n"),
       "a pipeline publishes one boundary behind all");
    say(host, "delete a noreply\r\n", 18);
    ok(is_here(host), "a command without a reply does");
    ok(!host->one.slot.binary, "the connection is published as one that speaks text");
    accept_client(host, true);
    turn(host);
    gain(host, get, sizeof(get) - 1, 24 + strlen("Not found"));
    say(host, quiet, sizeof(quiet) - 1);
    ok(is_here(host), "the quiet miss of a binary get does");
    say(host, noop, sizeof(noop));
    hear(host, answer, sizeof(answer), sizeof(answer));
    ok(is_here(host), "a binary command does");
    ok(host->one.slot.binary, "the connection is published as one that speaks the binary protocol");
}

/* Says a request so often, and hears as much each time. */
static void repeat(struct host *host, unsigned int times, const char *request, size_t nanswer)
{
    char got[4096];

    while (times-- > 0) {
        say(host, request, strlen(request));
        hear(host, got, sizeof(got), nanswer);
    }
}

/* Only a client that asks what the kernel can answer costs what following it does. */
static void test_gains(struct host *host)
{
    static const char many[] = "get b\r\nget b\r\n";
    static const char mixed[] = "get b\r\ndelete b noreply\r\n";
    static const char quiet[] = "mg b q\r\nmg b v q\r\nmn\r\n";
    const int nreply = MC_REPLY_MOST + 1;
    const int nvalue = nreply - (int)strlen("VALUE b 0 1234\r\n\r\nEND\r\n");
    struct one_slot *one = &host->one;
    char text[2048];

    one->nopened = 0;
    accept_client(host, true);
    turn(host);
    repeat(host, BOUNDARY_GETS - 1, "get b\r\n", 5);
    ok(!one->nopened, "a connection has no slot before its second get");
    repeat(host, 100, "set a 0 0 1\r\nx\r\n", 8);
    repeat(host, 100, "delete b\r\n", 11);
    ok(!one->nopened, "whatever else it asks");
    repeat(host, 1, "mg b\r\n", 4);
    ok(one->nopened == 1 && is_here(host), "with the second it has one, and a boundary");
    snprintf(text, sizeof(text), "set b 0 0 %d\r\n%0*d\r\n", nvalue, nvalue, 0);
    accept_client(host, true);
    turn(host);
    repeat(host, 1, text, 8);
    repeat(host, 100, "get b\r\n", (size_t)nreply);
    repeat(host, 100, "mn\r\n", 4);
    repeat(host, 1, "delete b\r\n", 9);
    repeat(host, 100, mixed, 5);
    ok(one->nopened == 1,
       "gets whose reply is a byte too long, their end, and gets beside others, do not count");
    repeat(host, BOUNDARY_GETS - 1, many, 10);
    ok(one->nopened == 1, "nor does a single segment of several gets");
    repeat(host, 1, quiet, 4);
    ok(one->nopened == 2 && is_here(host), "with the second it has a slot, as with single gets");
}

/* How many requests that the kernel passes the client sends until its slot is taken back. */
static unsigned int passes(struct host *host)
{
    unsigned int n;

    for (n = 0; host->one.open && n < 2 * BOUNDARY_PASSES_ANSWERED; n++)
        repeat(host, 1, "delete b\r\n", 11);
    return n;
}

/* Seconds for which a connection on which the kernel answers nothing has no slot. */
static unsigned int seconds_without(struct host *host, struct boundary *boundary, rel_time *now)
{
    struct boundaries *boundaries = &host->one.boundaries;
    rel_time from;

    while (!boundary->slot)
        boundary_weigh(boundary, boundaries, host->socket, *now, true);
    while (boundary->slot)
        boundary_weigh(boundary, boundaries, host->socket, *now, true);
    boundary_weigh(boundary, boundaries, host->socket, *now, true);
    for (from = *now; !boundary->slot;)
        boundary_weigh(boundary, boundaries, host->socket, ++*now, true);
    return *now - from;
}

static void test_given_up(struct host *host)
{
    struct one_slot *one = &host->one;
    const unsigned int want[] = {2, 4, 8, 16, 32, 64, 64};
    struct boundary boundary;
    unsigned int wrong = 0;
    rel_time now = 100;

    one->releases = true;
    one->nopened = one->nreleased = 0;
    accept_followed(host);
    ok(passes(host) == BOUNDARY_PASSES && one->nreleased == 1,
       "a connection on which the kernel answers nothing is given up");
    repeat(host, 100, "get b\r\n", 5);
    ok(one->nopened == 1, "for some time");
    accept_followed(host);
    repeat(host, BOUNDARY_PASSES - 1, "delete b\r\n", 11);
    one->slot.answered++;
    ok(passes(host) == 2 * BOUNDARY_PASSES_ANSWERED,
       "one on which it has answered keeps its slot, because its numbers are translated");
    boundary = (struct boundary){.shown = true};
    for (int i = 0; i < 7; i++)
        wrong += seconds_without(host, &boundary, &now) != want[i];
    ok(!wrong, "and is followed again after 2, 4, 8, ... 64 seconds");
    one->releases = false;
}

static void test_undo_is_wanted(struct host *host)
{
    struct boundaries *boundaries = &host->one.boundaries;
    struct mc_tcp_slot slot = {.outstanding = 1};
    struct boundary boundary = {.shown = true};
    bool early = false;

    while (!boundary.slot)
        boundary_weigh(&boundary, boundaries, host->socket, 0, true);
    for (int i = 0; i < 2 * BOUNDARY_PASSES_ANSWERED; i++) {
        if (i % BOUNDARY_PASSES_ANSWERED == 0)
            boundary.slot->answered++;
        early |= boundary_wants_undo(&boundary);
        boundary_weigh(&boundary, boundaries, host->socket, 0, false);
    }
    ok(!early, "while the kernel answers now and then, nothing is to be undone");
    boundary_weigh(&boundary, boundaries, host->socket, 0, false);
    ok(boundary_wants_undo(&boundary), "what it has answered is to be undone when it does not");
    boundary_park(&boundary, 0);
    ok(!boundary.slot && !boundary_wants_undo(&boundary), "once");
    boundary = (struct boundary){.slot = &slot};
    for (int i = 0; i < BOUNDARY_WAITS; i++, boundary_waits(&boundary))
        early |= boundary_wants_undo(&boundary);
    ok(!early && boundary_wants_undo(&boundary),
       "and where the client has not acknowledged a reply for five seconds");
}

static void test_refresh(struct host *host)
{
    struct one_slot *one = &host->one;
    rel_time before, after;
    bool here;

    one->boundaries.refresh = 10;
    one->nrefreshed = 0;
    accept_followed(host);
    before = clock_now(&host->net.config.clock);
    asks_text(host, "get b\r\n", "END\r\n");
    after = clock_now(&host->net.config.clock);
    conn_check(host->net.worker, after + 1000);
    ok(is_here(host), "where the kernel has answered nothing, nothing is left to the server");
    one->slot.answered = 1;
    conn_check(host->net.worker, before + 9);
    here = is_here(host);
    conn_check(host->net.worker, after + 10);
    ok(here && published(host) == MC_TCP_NONE && one->nrefreshed == 1,
       "after ten seconds of the kernel's answers the next get is");
    conn_check(host->net.worker, after + 1000);
    ok(one->nrefreshed == 1 && asks_text(host, "get b\r\n", "END\r\n"), "and no other one");
    one->slot.answered = 2;
    one->boundaries.refresh = 0;
    conn_check(host->net.worker, after + 1000);
    ok(is_here(host), "without `refresh` none is");
}

static void test_announced(struct host *host)
{
    static const unsigned int told[] = {0, 0, 1, 2, 3, 3}; /* by each look */
    bool right = true;

    accept_followed(host);
    host->one.nannounced = 0;
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        host->one.slot.answered = i > 0;
        host->one.tracks = i > 3; /* no connection before */
        conn_check(host->net.worker, 1);
        right &= host->one.nannounced == told[i];
    }
    ok(right, "netfilter is told once of a connection on which the kernel has answered");
}

static void test_pending(struct host *host)
{
    accept_followed(host);
    asks_text(host, "get b\r\n", "END\r\n");
    say(host, "ge", 2);
    ok(is_at(host, 7, 5), "half a line leaves the boundary before it");
    ok(asks_text(host, "t b\r\n", "END\r\n"), "its rest publishes one");
    say(host, "set c 0 0 3\r\n", 13);
    ok(is_at(host, 14, 10), "so does a value that is still to come");
    say(host, "12", 2);
    ok(is_at(host, 14, 10), "and half a value");
    ok(asks_text(host, "3\r\n", "STORED\r\n"), "the end of the value publishes one");
    say(host, "set d 0 0 2000000\r\n", 19);
    ok(is_at(host, 32, 18), "a value that is discarded leaves it as well");
}

/* A reply larger than both sockets' buffers. */
static void test_blocked(struct host *host)
{
    const size_t nreply = strlen("VALUE l 0 524288\r\n") + LARGE + strlen("\r\nEND\r\n");
    char *value = malloc(LARGE);
    char got[4096];

    accept_followed(host);
    memset(value, 'v', LARGE);
    for (size_t at = 0; at < LARGE; at += 4096) {
        if (at == 0)
            say(host, "set l 0 0 524288\r\n", 18);
        say(host, value + at, 4096);
    }
    asks_text(host, "\r\n", "STORED\r\n");
    free(value);
    say(host, "get l\r\n", 7);
    ok(is_at(host, host->consumed, host->sent + (uint32_t)nreply),
       "a reply that does not fit the socket counts as a whole");
    say(host, "get b\r\n", 7);
    ok(is_at(host, host->consumed - 7, host->sent + (uint32_t)nreply),
       "the next request is not consumed before it is sent");
    hear(host, got, sizeof(got), nreply + 5);
    ok(is_here(host), "then it publishes its own boundary");
}

static void test_streams(struct host *host)
{
    char got[4096];

    accept_followed(host);
    asks_text(host, "get b\r\n", "END\r\n");
    say(host, "watch mutations\r\n", 17);
    hear(host, got, sizeof(got), 4);
    ok(memcmp(got, "OK\r\n", 4) == 0 && published(host) == MC_TCP_NONE,
       "a watcher has no boundary");
}

static void test_close(struct host *host)
{
    accept_followed(host);
    host->one.withdrawn = false;
    say(host, "quit\r\n", 6);
    ok(!host->one.open && host->one.withdrawn,
       "a connection gives its slot back before it closes its socket");
    ok(host->one.last == MC_TCP_NONE, "and has no boundary then");
    accept_client(host, false);
    turn(host);
    gain(host, "get b\r\n", 7, 5);
    ok(!host->one.open, "a connection of another listener has no slot");
    host->one.refuses = true;
    accept_followed(host);
    ok(!host->one.open, "one that gets no slot is served without");
    host->one.refuses = false;
}

/* Where segments take a path on which nothing translates them, and their socket cannot be replaced.
 */
static void test_lost(struct host *host)
{
    rel_time now;
    char said;

    accept_followed(host);
    asks_text(host, "get b\r\n", "END\r\n");
    now = clock_now(&host->net.config.clock);
    host->one.lost = true;
    conn_check(host->net.worker, now);
    ok(host->one.open, "a connection whose slot has no doubt is not asked about");
    host->one.slot.ack_due = 2;
    host->one.lost = false;
    conn_check(host->net.worker, now);
    ok(host->one.open, "one that only may hang stays");
    host->one.lost = true;
    conn_check(host->net.worker, now);
    ok(!host->one.open && host->one.forgotten && host->one.nlost == 1,
       "one that hangs is forgotten, and closed");
    ok(recv(host->client, &said, 1, 0) < 0 && errno == ECONNRESET, "with a reset");
    host->one.lost = false;
}

/* The host has a client on whose connection the kernel has answered. */
static void accept_answered(struct host *host)
{
    accept_followed(host);
    host->one.slot.answered = 1;
    host->one.forgotten = false;
    host->one.nlost = 0;
}

/* As accept_answered; the connection is lost. */
static void accept_lost(struct host *host, enum undo_result result)
{
    accept_answered(host);
    host->one.slot.ack_due = 2;
    host->one.lost = true;
    host->one.result = result;
    host->one.nundo = 0;
}

static void test_undone(struct host *host)
{
    char got[5];
    int i;

    accept_lost(host, UNDO_NOT_NOW);
    for (i = 0; i < 15; i++)
        conn_check(host->net.worker, 0);
    ok(host->one.nundo == 4 && host->one.open && host->one.reason == UNDO_LOST,
       "what cannot be undone yet is tried after 1, 2, 4, ... looks");
    host->one.lost = false;
    ok(asks_text(host, "get b\r\n", "END\r\n"), "the connection goes on meanwhile");
    accept_lost(host, UNDO_DONE);
    conn_check(host->net.worker, 0);
    ok(host->one.nundo == 1 && !host->one.open && !host->one.forgotten,
       "one that hangs is undone, and gives its slot back");
    close(host->client);
    host->client = host->one.other;
    send(host->client, "get b\r\n", 7, 0);
    while (recv(host->client, got, sizeof(got), MSG_DONTWAIT) < 0)
        turn(host);
    ok(memcmp(got, "END\r\n", 5) == 0, "its client is served by the other socket");
    accept_answered(host);
    host->one.lost = false;
    host->one.nundo = 0;
    conn_check(host->net.worker, 0);
    ok(host->one.nundo == 0, "one on which the kernel has answered stays");
    host->one.result = UNDO_FAILED;
    boundaries_undo_all(&host->one.boundaries, UNDO_OFF);
    conn_check(host->net.worker, 0);
    ok(host->one.nundo == 1 && host->one.open && !host->one.forgotten &&
           asks_text(host, "get b\r\n", "END\r\n"),
       "so does one that cannot be undone, whose segments the programs see");
    conn_check(host->net.worker, 0);
    conn_check(host->net.worker, 0);
    ok(host->one.nundo == 1, "which is not tried again");
    host->one.result = UNDO_NOT_NOW;
    boundaries_undo_all(&host->one.boundaries, UNDO_OFF);
    for (i = 0; i < 16; i++)
        conn_check(host->net.worker, 0);
    ok(host->one.nundo > 2 && host->one.open, "one that cannot be undone yet is tried again");
    host->one.result = UNDO_DONE;
    for (i = 0; i < 32; i++)
        conn_check(host->net.worker, 0);
    ok(host->one.reason == UNDO_OFF && !host->one.open, "until it is undone");
    host->one.nundo = 0;
    host->client = host->one.other;
    accept_followed(host);
    boundaries_undo_all(&host->one.boundaries, UNDO_OFF);
    conn_check(host->net.worker, 0);
    host->one.slot.answered = 1;
    conn_check(host->net.worker, 0);
    ok(host->one.open && host->one.nundo == 0, "one on which it has not then is left alone");
    host->one.result = UNDO_FAILED;
}

/* The client's socket drops whatever comes, as that of a client to which it is not translated. */
static void make_deaf(const struct host *host)
{
    struct sock_filter nothing = {BPF_RET | BPF_K, 0, 0, 0};
    const struct sock_fprog program = {1, &nothing};

    if (setsockopt(host->client, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
        die("no filter");
}

/* Runs the worker until `ack_due` is this, or the slot was given back. */
static void run_until(struct host *host, uint32_t owed)
{
    while (host->one.open && host->one.slot.ack_due != owed)
        event_base_loop(host->net.worker->base, EVLOOP_ONCE);
}

static int note_timer(const struct event_base *base, const struct event *event, void *timer)
{
    (void)base;
    if (event_get_fd(event) < 0)
        *(const struct event **)timer = event;
    return 0;
}

/* A timer ends again and again, until an undo is tried. The programs see what the socket sends. */
static void wait_in_vain(struct host *host)
{
    struct event *timer = NULL;

    event_base_foreach_event(host->net.worker->base, note_timer, &timer);
    for (host->one.nundo = 0; host->one.open && !host->one.nundo; turn(host)) {
        host->one.slot.ack_due = 0;
        event_active(timer, EV_TIMEOUT, 1);
    }
}

static void test_leaving(struct host *host)
{
    const uint32_t never = 7;
    char said;

    accept_answered(host);
    say(host, "quit\r\n", 6);
    ok(recv(host->client, &said, 1, 0) == 0,
       "where the kernel has answered the client gets an end");
    ok(host->one.open && published(host) == MC_TCP_NONE, "the connection keeps its slot");
    ok(host->net.endpoints.current == 0 && endpoints_open(&host->net.endpoints) == 1,
       "it counts as a socket and not as a connection");
    run_until(host, never);
    ok(!host->one.forgotten && host->one.withdrawn && endpoints_open(&host->net.endpoints) == 0,
       "until the client has acknowledged the end");
    accept_answered(host);
    make_deaf(host);
    say(host, "quit\r\n", 6);
    host->one.slot.ack_due = 0;
    run_until(host, MC_TCP_ACK_DUE_WATCHED);
    ok(host->one.open, "an end that the programs have seen may take its time");
    run_until(host, never);
    ok(host->one.forgotten && host->one.nlost == 1 && endpoints_open(&host->net.endpoints) == 0,
       "where they see no copy of it the connection is reset");
    accept_answered(host);
    make_deaf(host);
    say(host, "quit\r\n", 6);
    host->one.result = UNDO_NOT_NOW;
    wait_in_vain(host);
    ok(host->one.open && host->one.nundo == 1 && host->one.reason == UNDO_UNUSED,
       "one whose client is silent is undone");
    host->one.result = UNDO_FAILED;
    wait_in_vain(host);
    ok(host->one.nundo == 1 && host->one.nlost == 1 && host->one.forgotten,
       "or, if that cannot be, reset");
}

static void test_idle(struct host *host)
{
    rel_time now;
    char said;

    accept_followed(host);
    now = clock_now(&host->net.config.clock);
    host->net.config.idle_timeout = 60;
    host->one.slot.answered = 1;
    conn_check(host->net.worker, now + 50);
    conn_check(host->net.worker, now + 110);
    ok(host->one.open, "a get that the kernel answers is a command of the connection");
    conn_check(host->net.worker, now + 111);
    ok(recv(host->client, &said, 1, 0) == 0, "after idle_timeout without one it is closed");
    while (host->one.open)
        event_base_loop(host->net.worker->base, EVLOOP_ONCE);
    host->net.config.idle_timeout = 0;
    accept_followed(host);
    conn_check(host->net.worker, now + 1000000);
    ok(host->one.open, "without idle_timeout it stays");
}

struct reader {
    struct host *host;
    unsigned int nwrong;
    bool done;
};

/* Sends gets, and looks at the slot as soon as the answer is there. */
static void *ask_often(void *arg)
{
    struct reader *reader = arg;
    struct host *host = reader->host;
    char got[5];

    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (send(host->client, "get b\r\n", 7, 0) != 7 ||
            recv(host->client, got, sizeof(got), MSG_WAITALL) != sizeof(got))
            die("the dialogue ended");
        reader->nwrong += !is_at(host, 7 * i, 5 * i);
    }
    __atomic_store_n(&reader->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void test_order(struct host *host)
{
    struct reader reader = {.host = host};
    pthread_t thread;

    accept_followed(host);
    if (pthread_create(&thread, NULL, ask_often, &reader) != 0)
        die("no thread");
    while (!__atomic_load_n(&reader.done, __ATOMIC_ACQUIRE))
        event_base_loop(host->net.worker->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    pthread_join(thread, NULL);
    ok(reader.nwrong == 0, "a boundary is published before its reply can be received");
}

static void test_authentication(void)
{
    char path[] = "/tmp/boundariesXXXXXX";
    struct host host;
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, "u:p\n", 4) != 4)
        die("no file");
    close(fd);
    start(&host, path);
    unlink(path);
    accept_client(&host, true);
    turn(&host);
    gain(&host, "get a\r\n", 7, strlen("CLIENT_ERROR unauthenticated\r\n"));
    ok(!host.one.open, "before a client has authenticated it has no slot");
    say(&host, "set a 0 0 3\r\nu p\r\n", 18);
    hear(&host, (char[8]){0}, 8, strlen("STORED\r\n"));
    gain(&host, "get b\r\n", 7, 5);
    ok(is_here(&host), "then it has one, and a boundary");
    stop(&host);
}

int main(void)
{
    struct host host;

    start(&host, NULL);
    test_looks(&host);
    test_probes(&host);
    test_requests(&host);
    test_gains(&host);
    test_given_up(&host);
    test_undo_is_wanted(&host);
    test_refresh(&host);
    test_announced(&host);
    test_pending(&host);
    test_blocked(&host);
    test_close(&host);
    test_lost(&host);
    test_undone(&host);
    test_leaving(&host);
    test_idle(&host);
    test_order(&host);
    test_streams(&host);
    stop(&host);
    test_authentication();
    return done();
}
