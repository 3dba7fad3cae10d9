/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcpload: gets and sets over many TCP connections, pipelined or one at a time.
 *
 * --aside stores a key after a miss, as an application does that keeps its data elsewhere.
 *
 * Each connection keeps --depth requests in flight. With --rate requests leave by the clock, over
 * the connections in turn, and a latency is counted from the moment the request was due; a
 * connection with a full window makes its requests late, which the latency shows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/draw.h"
#include "bench/items.h"
#include "bench/keys.h"
#include "bench/options.h"
#include "bench/stream.h"
#include "bench/workers.h"

enum { MAX_DEPTH = 1024, MAX_THREADS = 64, EVENTS = 256 };
enum { MAX_WAIT_NS = 10000000 };

struct options {
    struct draw_options draw;
    uint64_t value_min, connections, threads, depth, rate, spin_us, cpu, ttl;
    double seconds;
    bool miss, aside, verify, json, populate;
};

static const struct option_row rows[] = {
    ROW("connections", OPTION_NUMBER, connections, "N", "in all (50)"),
    ROW("threads", OPTION_NUMBER, threads, "N", "(1)"),
    ROW("depth", OPTION_NUMBER, depth, "N", "requests in flight on a connection (1)"),
    ROW("rate", OPTION_NUMBER, rate, "N", "requests a second in all, 0: by --depth (0)"),
    ROW("spin", OPTION_NUMBER, spin_us, "US", "before a request is due, not to oversleep (50)"),
    DRAW_ROWS(draw),
    ROW("value-min", OPTION_NUMBER, value_min, "BYTES", "sizes from here to --value-size"),
    ROW("ttl", OPTION_NUMBER, ttl, "S", "after which every second key expires (never)"),
    ROW("miss", OPTION_FLAG, miss, NULL, "ask for keys that were never stored"),
    ROW("aside", OPTION_FLAG, aside, NULL, "store a key after a miss"),
    ROW("populate", OPTION_FLAG, populate, NULL, "store all keys first"),
    ROW("seconds", OPTION_REAL, seconds, "S", "how long (5)"),
    ROW("cpu", OPTION_NUMBER, cpu, "N", "pin thread i to CPU N + i"),
    ROW("verify", OPTION_FLAG, verify, NULL, "compare every byte of the replies"),
    ROW("json", OPTION_FLAG, json, NULL, "results as one JSON object"),
};

static const struct option_table table = {
    "usage: tcpload [options] ADDRESS:PORT\n"
    "Sends gets and sets over TCP and reports replies a second and latency.",
    rows, sizeof(rows) / sizeof(rows[0])};

struct request {
    struct drawn drawn;
    uint64_t due_ns;
    bool filling; /* after a miss: it was not drawn */
};

struct connection {
    struct stream stream;
    bool writing; /* epoll tells when there is room again */
    struct request window[MAX_DEPTH];
    uint32_t next, oldest;
};

struct worker {
    struct worker_base base;
    const struct options *options;
    const struct items *items;
    struct draw draw;
    struct connection *connections;
    size_t nconnections, turn;
    uint64_t depth, interval_ns, start_ns, end_ns;
    int epoll;
    char *expected;
};

static void watch(struct worker *worker, struct connection *connection, int operation, bool write)
{
    struct epoll_event event = {.events = EPOLLIN | (write ? (uint32_t)EPOLLOUT : 0),
                                .data.ptr = connection};

    connection->writing = write;
    if (epoll_ctl(worker->epoll, operation, connection->stream.fd, &event))
        fail("epoll: %s", strerror(errno));
}

static void flush(struct worker *worker, struct connection *connection)
{
    bool blocked = !stream_flush(&connection->stream);

    if (blocked != connection->writing)
        watch(worker, connection, EPOLL_CTL_MOD, blocked);
}

static void add_request(struct worker *worker, struct connection *connection,
                        const struct request *request)
{
    uint32_t index = request->drawn.index | (worker->options->miss ? BENCH_MISS : 0);
    size_t most = ITEMS_KEY_MAX + 64;
    char *room;

    if (request->drawn.set)
        most += items_length(worker->items, index);
    room = stream_reserve(&connection->stream, most);
    connection->window[connection->next++ % MAX_DEPTH] = *request;
    stream_put(&connection->stream, request->drawn.set ? items_set(worker->items, index,
                                                                   request->drawn.version, "", room)
                                                       : items_get(worker->items, index, room));
}

static void draw_request(struct worker *worker, struct connection *connection, uint64_t due_ns)
{
    struct request request = {.drawn = draw_next(&worker->draw), .due_ns = due_ns};

    add_request(worker, connection, &request);
    worker->base.result.sent++;
}

/* Stores what is missing, unless somebody does already; at once, so that no miss waits for it. */
static void fill(struct worker *worker, struct connection *connection, uint32_t index, uint64_t now)
{
    struct request request = {
        .drawn = {.index = index, .set = true}, .due_ns = now, .filling = true};

    if (!worker->options->aside || connection->next - connection->oldest >= MAX_DEPTH ||
        !draw_write(&worker->draw, index, &request.drawn.version))
        return;
    add_request(worker, connection, &request);
}

static bool reply_is_right(struct worker *worker, const struct drawn *drawn, const char *text,
                           size_t n)
{
    const struct options *options = worker->options;
    int version = -1;

    if (drawn->set)
        return n == 8 && memcmp(text, "STORED\r\n", n) == 0;
    if (options->miss || (options->aside && *text == 'E'))
        return n == 5 && memcmp(text, "END\r\n", n) == 0;
    return n == items_reply_length(worker->items, drawn->index) &&
           items_is_part(worker->items, drawn->index, 0, text, n, worker->expected, &version) &&
           draw_may_see(&worker->draw, drawn, version);
}

static void take_reply(struct worker *worker, struct connection *connection, const char *text,
                       size_t n, uint64_t now)
{
    struct request request = connection->window[connection->oldest++ % MAX_DEPTH];
    struct result *result = &worker->base.result;

    if (worker->options->verify && !reply_is_right(worker, &request.drawn, text, n))
        result->wrong++;
    hist_add(request.drawn.set ? &result->sets : &result->gets, now - request.due_ns);
    if (!request.filling)
        hist_add(&result->latency, now - request.due_ns);
    if (request.drawn.set)
        draw_end(&worker->draw, request.drawn.index, memcmp(text, "STOR", 4) == 0);
    if (memcmp(text, "VALU", 4) == 0) {
        result->hits++;
    } else if (memcmp(text, "END\r", 4) == 0) {
        result->misses++;
        fill(worker, connection, request.drawn.index, now);
    } else if (memcmp(text, "STOR", 4) == 0) {
        result->stored++;
        result->filled += request.filling;
    } else {
        result->errors++;
    }
}

static void receive(struct worker *worker, struct connection *connection)
{
    uint64_t now;
    const char *text;
    size_t n;

    stream_receive(&connection->stream);
    now = now_ns();
    while ((n = stream_reply(&connection->stream, &text))) {
        if (connection->oldest == connection->next)
            fail("a reply that nobody asked for");
        take_reply(worker, connection, text, n, now);
        stream_take(&connection->stream, n);
    }
}

/* Fills the connection's window, or sends what is due. */
static void refill(struct worker *worker, struct connection *connection, uint64_t now)
{
    if (now < worker->end_ns && !worker->interval_ns)
        while (connection->next - connection->oldest < worker->depth)
            draw_request(worker, connection, now);
    flush(worker, connection);
}

static void send_due(struct worker *worker, uint64_t now)
{
    uint64_t due = (now - worker->start_ns) / worker->interval_ns + 1;
    size_t full = 0;

    while (worker->base.result.sent < due && full < worker->nconnections) {
        struct connection *connection = &worker->connections[worker->turn];

        worker->turn = (worker->turn + 1) % worker->nconnections;
        if (connection->next - connection->oldest >= worker->depth) {
            full++;
            continue;
        }
        full = 0;
        draw_request(worker, connection,
                     worker->start_ns + worker->base.result.sent * worker->interval_ns);
        flush(worker, connection);
    }
}

static bool outstanding(const struct worker *worker)
{
    for (size_t i = 0; i < worker->nconnections; i++)
        if (worker->connections[i].next != worker->connections[i].oldest)
            return true;
    return false;
}

/* Without a rate: for a reply. With one: until the next request is due, unless that is soon. */
static int wait_for_events(struct worker *worker, struct epoll_event *events, uint64_t now)
{
    uint64_t due = worker->start_ns + worker->base.result.sent * worker->interval_ns;
    uint64_t spin_ns = worker->options->spin_us * 1000;
    struct timespec timeout = {0};

    if (!worker->interval_ns)
        return epoll_wait(worker->epoll, events, EVENTS, 10);
    if (due > now + spin_ns)
        timeout.tv_nsec = (long)(due - now - spin_ns);
    if (timeout.tv_nsec > MAX_WAIT_NS)
        timeout.tv_nsec = MAX_WAIT_NS;
    return epoll_pwait2(worker->epoll, events, EVENTS, &timeout, NULL);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void work(void *at)
{
    struct worker *worker = at;
    struct epoll_event events[EVENTS];
    uint64_t now;

    now = worker->start_ns = now_ns();
    worker->end_ns = now + (uint64_t)(worker->options->seconds * 1e9);
    for (size_t i = 0; i < worker->nconnections; i++)
        refill(worker, &worker->connections[i], now);
    while (now < worker->end_ns || (outstanding(worker) && now < worker->end_ns + 1000000000)) {
        int n = wait_for_events(worker, events, now);

        for (int i = 0; i < n; i++) {
            struct connection *connection = events[i].data.ptr;

            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                receive(worker, connection);
            refill(worker, connection, now);
        }
        now = now_ns();
        if (interrupted && now < worker->end_ns)
            worker->end_ns = now;
        if (worker->interval_ns && now < worker->end_ns)
            send_due(worker, now);
    }
    worker->base.result.elapsed_ns = worker->end_ns - worker->start_ns;
}

/* What the workers share. */
struct load {
    const struct options *options;
    const struct items *items;
    struct versions *versions;
    const struct sockaddr_in *address;
};

static void worker_init(void *at, const void *shared, unsigned int number)
{
    struct worker *worker = at;
    const struct load *load = shared;
    const struct options *options = load->options;

    worker->options = options;
    worker->items = load->items;
    worker->depth = options->rate ? MAX_DEPTH : options->depth;
    worker->interval_ns = options->rate ? 1000000000u * options->threads / options->rate : 0;
    worker->nconnections = options->connections / options->threads;
    worker->connections = calloc(worker->nconnections, sizeof(*worker->connections));
    worker->expected = malloc(ITEMS_TEXT_MAX);
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!worker->connections || !worker->expected || worker->epoll < 0)
        fail("out of memory");
    draw_init(&worker->draw, &options->draw, load->versions, number);
    for (size_t i = 0; i < worker->nconnections; i++) {
        struct connection *connection = &worker->connections[i];

        stream_open(&connection->stream, load->address);
        watch(worker, connection, EPOLL_CTL_ADD, false);
    }
}

static void worker_fini(void *at)
{
    struct worker *worker = at;

    for (size_t i = 0; i < worker->nconnections; i++)
        stream_close(&worker->connections[i].stream);
    close(worker->epoll);
    free(worker->connections);
    free(worker->expected);
}

static void check_options(const struct options *options)
{
    if (!options->threads || options->threads > MAX_THREADS)
        usage_error("--threads: 1 to %d", MAX_THREADS);
    if (options->connections < options->threads)
        usage_error("--connections: at least one for each thread");
    if (!options->depth || options->depth > MAX_DEPTH)
        usage_error("--depth: 1 to %d", MAX_DEPTH);
    if (options->seconds <= 0)
        usage_error("--seconds: more than 0");
}

static int run(const struct options *options, const struct items *items,
               const struct sockaddr_in *address)
{
    bool written = options->draw.sets > 0 || options->aside, good;
    struct versions versions = {0};
    struct load load = {options, items, NULL, address};
    const struct workers workers = {.size = sizeof(struct worker),
                                    .n = options->threads,
                                    .cpu = options->cpu,
                                    .init = worker_init,
                                    .work = work,
                                    .fini = worker_fini};

    if (options->verify && written && !options->miss) {
        versions_init(&versions, (uint32_t)options->draw.keys, options->populate);
        load.versions = &versions;
    }
    good = workers_run(&workers, &load, options->json);
    versions_fini(&versions);
    return !good;
}

int main(int argc, char **argv)
{
    struct options options = {.draw = DRAW_DEFAULTS,
                              .seconds = 5,
                              .depth = 1,
                              .connections = 50,
                              .spin_us = 50,
                              .threads = 1,
                              .cpu = UINT64_MAX};
    int operand = options_parse(&table, &options, argc, argv);
    struct sockaddr_in address;
    struct items items;
    int rc;

    if (operand != argc - 1)
        usage_error("%s", table.usage);
    address = address_of(argv[operand]);
    check_options(&options);
    draw_prepare(&options.draw, &items);
    items.value_min = options.value_min < options.draw.value_size ? options.value_min : 0;
    items.ttl = options.ttl;
    signal(SIGINT, interrupt);
    if (options.populate)
        items_populate(&items, 0, (uint32_t)options.draw.keys, &address);
    rc = run(&options, &items, &address);
    items_fini(&items);
    return rc;
}
