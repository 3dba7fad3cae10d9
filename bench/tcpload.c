/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcpload: gets and sets over many TCP connections, pipelined or one at a time.
 *
 * Each connection keeps --depth requests in flight. With --rate requests leave by the clock, over
 * the connections in turn, and a latency is counted from the moment the request was due; a
 * connection with a full window makes its requests late, which the latency shows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/items.h"
#include "bench/keys.h"
#include "bench/options.h"
#include "bench/pick.h"
#include "bench/workers.h"

enum { MAX_DEPTH = 1024, MAX_THREADS = 64, EVENTS = 256, READ_BYTES = 1 << 16 };
enum { SPIN_NS = 50000, MAX_WAIT_NS = 10000000 };

struct options {
    uint64_t keys, key_size, value_size, value_min, connections, threads, depth, rate, cpu, ttl;
    const char *dist;
    double theta, seconds, sets;
    bool miss, verify, json, populate;
};

static const struct option_row rows[] = {
    ROW("connections", OPTION_NUMBER, connections, "N", "in all (50)"),
    ROW("threads", OPTION_NUMBER, threads, "N", "(1)"),
    ROW("depth", OPTION_NUMBER, depth, "N", "requests in flight on a connection (1)"),
    ROW("rate", OPTION_NUMBER, rate, "N", "requests a second in all, 0: by --depth (0)"),
    ROW("sets", OPTION_REAL, sets, "SHARE", "of sets among the requests, 0 to 1 (0)"),
    ROW("keys", OPTION_NUMBER, keys, "N", "how many keys there are (1000)"),
    ROW("key-size", OPTION_NUMBER, key_size, "BYTES", "8 to 250 (16)"),
    ROW("value-size", OPTION_NUMBER, value_size, "BYTES", "up to 1048576 (32)"),
    ROW("value-min", OPTION_NUMBER, value_min, "BYTES", "sizes from here to --value-size"),
    ROW("ttl", OPTION_NUMBER, ttl, "S", "after which every second key expires (never)"),
    ROW("dist", OPTION_WORD, dist, "NAME", "which key: one, uniform, zipf, turn (uniform)"),
    ROW("theta", OPTION_REAL, theta, "X", "skew of zipf (0.99)"),
    ROW("miss", OPTION_FLAG, miss, NULL, "ask for keys that were never stored"),
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
    uint64_t due_ns;
    uint32_t index;
    bool set;
};

struct bytes {
    char *at;
    size_t start, end, room;
};

struct connection {
    int fd;
    bool writing; /* epoll tells when there is room again */
    struct request window[MAX_DEPTH];
    uint32_t next, oldest;
    struct bytes in, out;
};

struct worker {
    struct worker_base base;
    const struct options *options;
    const struct items *items;
    struct pick pick;
    uint64_t random; /* get or set */
    struct connection *connections;
    size_t nconnections, turn;
    uint64_t depth, interval_ns, start_ns, end_ns;
    int epoll;
    char *expected;
};

/* Room for n more bytes behind the end. */
static char *bytes_reserve(struct bytes *bytes, size_t n)
{
    if (bytes->start == bytes->end)
        bytes->start = bytes->end = 0;
    if (bytes->room - bytes->end < n && bytes->start) {
        memmove(bytes->at, bytes->at + bytes->start, bytes->end - bytes->start);
        bytes->end -= bytes->start;
        bytes->start = 0;
    }
    if (bytes->room - bytes->end < n) {
        bytes->room = 2 * bytes->room + n;
        bytes->at = realloc(bytes->at, bytes->room);
        if (!bytes->at)
            fail("out of memory");
    }
    return bytes->at + bytes->end;
}

static void watch(struct worker *worker, struct connection *connection, int operation, bool write)
{
    struct epoll_event event = {.events = EPOLLIN | (write ? (uint32_t)EPOLLOUT : 0),
                                .data.ptr = connection};

    connection->writing = write;
    if (epoll_ctl(worker->epoll, operation, connection->fd, &event))
        fail("epoll: %s", strerror(errno));
}

static void flush(struct worker *worker, struct connection *connection)
{
    struct bytes *out = &connection->out;
    bool blocked = false;

    while (out->start < out->end && !blocked) {
        ssize_t n = send(connection->fd, out->at + out->start, out->end - out->start, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            fail("sending: %s", strerror(errno));
        if (n > 0)
            out->start += (size_t)n;
        blocked = n < 0;
    }
    if (blocked != connection->writing)
        watch(worker, connection, EPOLL_CTL_MOD, blocked);
}

static void add_request(struct worker *worker, struct connection *connection, uint64_t due_ns)
{
    struct request *request = &connection->window[connection->next++ % MAX_DEPTH];
    struct bytes *out = &connection->out;
    char *room = bytes_reserve(out, worker->items->value_size + ITEMS_KEY_MAX + 64);

    worker->random = bench_random(worker->random);
    request->due_ns = due_ns;
    request->index = pick_next(&worker->pick) | (worker->options->miss ? BENCH_MISS : 0);
    request->set = (double)(worker->random >> 11) * 0x1p-53 < worker->options->sets;
    out->end += request->set ? items_set(worker->items, request->index, "", room)
                             : items_get(worker->items, request->index, room);
    worker->base.result.sent++;
}

/* Bytes of the reply at the start of the buffer, 0 when it is not complete. */
static size_t reply_length(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);
    size_t line, value;

    if (!end)
        return 0;
    line = (size_t)(end - text) + 1;
    if (line < 8 || memcmp(text, "VALUE ", 6) != 0)
        return line;
    for (end--; end > text && end[-1] != ' '; end--)
        ;
    value = strtoul(end, NULL, 10);
    return line + value + 7 <= n ? line + value + 7 : 0;
}

static bool reply_is_right(struct worker *worker, const struct request *request, const char *text,
                           size_t n)
{
    size_t whole;

    if (request->set)
        return n == 8 && memcmp(text, "STORED\r\n", n) == 0;
    if (worker->options->miss)
        return n == 5 && memcmp(text, "END\r\n", n) == 0;
    whole = items_reply(worker->items, request->index, worker->expected);
    return n == whole && memcmp(text, worker->expected, n) == 0;
}

static void take_reply(struct worker *worker, struct connection *connection, const char *text,
                       size_t n, uint64_t now)
{
    struct request *request = &connection->window[connection->oldest++ % MAX_DEPTH];
    struct result *result = &worker->base.result;

    if (memcmp(text, "VALU", 4) == 0)
        result->hits++;
    else if (memcmp(text, "END\r", 4) == 0)
        result->misses++;
    else if (memcmp(text, "STOR", 4) == 0)
        result->stored++;
    else
        result->errors++;
    if (worker->options->verify && !reply_is_right(worker, request, text, n))
        result->wrong++;
    hist_add(&result->latency, now - request->due_ns);
}

static void receive(struct worker *worker, struct connection *connection)
{
    struct bytes *in = &connection->in;
    char *room = bytes_reserve(in, READ_BYTES);
    ssize_t got = recv(connection->fd, room, READ_BYTES, 0);
    uint64_t now = now_ns();

    if (got == 0 || (got < 0 && errno != EAGAIN))
        fail("the server closed a connection");
    if (got < 0)
        return;
    in->end += (size_t)got;
    while (in->end > in->start) {
        size_t n = reply_length(in->at + in->start, in->end - in->start);

        if (!n)
            break;
        if (n < 4 || connection->oldest == connection->next)
            fail("a reply that nobody asked for");
        take_reply(worker, connection, in->at + in->start, n, now);
        in->start += n;
    }
}

/* Fills the connection's window, or sends what is due. */
static void refill(struct worker *worker, struct connection *connection, uint64_t now)
{
    if (now < worker->end_ns && !worker->interval_ns)
        while (connection->next - connection->oldest < worker->depth)
            add_request(worker, connection, now);
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
        add_request(worker, connection,
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
    struct timespec timeout = {0};

    if (!worker->interval_ns)
        return epoll_wait(worker->epoll, events, EVENTS, 10);
    if (due > now + SPIN_NS)
        timeout.tv_nsec = (long)(due - now - SPIN_NS);
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
    const struct sockaddr_in *address;
};

static void worker_init(void *at, const void *shared, unsigned int number)
{
    struct worker *worker = at;
    const struct load *load = shared;
    const struct options *options = load->options;

    worker->options = options;
    worker->items = load->items;
    worker->random = number + 1;
    worker->depth = options->rate ? MAX_DEPTH : options->depth;
    worker->interval_ns = options->rate ? 1000000000u * options->threads / options->rate : 0;
    worker->nconnections = options->connections / options->threads;
    worker->connections = calloc(worker->nconnections, sizeof(*worker->connections));
    worker->expected = malloc(ITEMS_TEXT_MAX);
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!worker->connections || !worker->expected || worker->epoll < 0)
        fail("out of memory");
    pick_init(&worker->pick, (enum pick_kind)pick_kind(options->dist), (uint32_t)options->keys,
              options->theta, number + 1);
    for (size_t i = 0; i < worker->nconnections; i++) {
        struct connection *connection = &worker->connections[i];

        connection->fd = tcp_connect(load->address);
        fcntl(connection->fd, F_SETFL, fcntl(connection->fd, F_GETFL) | O_NONBLOCK);
        watch(worker, connection, EPOLL_CTL_ADD, false);
    }
}

static void worker_fini(void *at)
{
    struct worker *worker = at;

    for (size_t i = 0; i < worker->nconnections; i++) {
        close(worker->connections[i].fd);
        free(worker->connections[i].in.at);
        free(worker->connections[i].out.at);
    }
    close(worker->epoll);
    free(worker->connections);
    free(worker->expected);
}

static void check_options(const struct options *options)
{
    if (pick_kind(options->dist) < 0)
        usage_error("--dist: one, uniform, zipf or turn");
    if (!options->keys || options->keys >= BENCH_MISS)
        usage_error("--keys: 1 to %u", BENCH_MISS - 1);
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
    struct load load = {options, items, address};
    const struct workers workers = {.size = sizeof(struct worker),
                                    .n = options->threads,
                                    .cpu = options->cpu,
                                    .init = worker_init,
                                    .work = work,
                                    .fini = worker_fini};

    return !workers_run(&workers, &load, options->json);
}

int main(int argc, char **argv)
{
    struct options options = {.keys = 1000,
                              .key_size = 16,
                              .value_size = 32,
                              .dist = "uniform",
                              .theta = 0.99,
                              .seconds = 5,
                              .depth = 1,
                              .connections = 50,
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
    items_init(&items, options.key_size, options.value_size);
    items.value_min = options.value_min < options.value_size ? options.value_min : 0;
    items.ttl = options.ttl;
    signal(SIGINT, interrupt);
    if (options.populate)
        items_populate(&items, 0, (uint32_t)options.keys, &address);
    rc = run(&options, &items, &address);
    items_fini(&items);
    return rc;
}
