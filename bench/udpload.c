/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udpload: asks a memcached for keys over UDP, from several sockets and threads; and stores some,
 * if it is told to, over TCP or over UDP.
 *
 * Open loop (--rate): requests leave by the clock, whatever comes back, and a latency is counted
 * from the moment the request was due, so that a stalled server cannot hide its stall. Without a
 * rate, --depth requests are outstanding at any time; --depth 1 is one request at a time. A reply
 * is matched to its request by the id in the frame header; a request without a complete reply after
 * --timeout is lost.
 *
 * --aside stores a key after a miss, as an application does that keeps its data elsewhere. With
 * --verify no get may return what was there before a set that was acknowledged when the get left
 * (bench/versions.h).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/draw.h"
#include "bench/items.h"
#include "bench/keys.h"
#include "bench/options.h"
#include "bench/stores.h"
#include "bench/workers.h"

enum {
    BATCH = 32,
    SLOTS = 1 << 14, /* requests that a socket can have outstanding */
    MAX_THREADS = 64,
    MAX_SOCKETS = 256,
    MAX_CONNECTIONS = 256,
    FRAME = 8,
    PAYLOAD = 1400, /* of one reply datagram, frame header included */
    DATAGRAM_MAX = 2048,
    STORE_MAX = 1400, /* of one datagram; servers take no request of several */
    SOCKET_BUFFER = 4 << 20,
    DRAIN_NS = 1000000000,
};

struct options {
    struct draw_options draw;
    bool miss, touch, large, verify, json, populate, aside, udp_sets;
    uint64_t rate, depth, sockets, connections, threads, count, timeout_ms, cpu;
    double seconds;
};

static const struct option_row rows[] = {
    DRAW_ROWS(draw),
    ROW("miss", OPTION_FLAG, miss, NULL, "ask for keys that were never stored"),
    ROW("touch", OPTION_FLAG, touch, NULL, "ask by gat, which the kernel path passes"),
    ROW("large", OPTION_FLAG, large, NULL, "keys of their own, for the large values of a mix"),
    ROW("populate", OPTION_FLAG, populate, NULL, "store all keys first, over TCP"),
    ROW("udp-sets", OPTION_FLAG, udp_sets, NULL, "store over UDP what fits a datagram"),
    ROW("aside", OPTION_FLAG, aside, NULL, "store a key after a miss"),
    ROW("connections", OPTION_NUMBER, connections, "N", "for sets over TCP, per thread (4)"),
    ROW("seconds", OPTION_REAL, seconds, "S", "how long, 0: only populate (5)"),
    ROW("count", OPTION_NUMBER, count, "N", "at most so many requests"),
    ROW("rate", OPTION_NUMBER, rate, "N", "open loop: requests a second; 0: by --depth (0)"),
    ROW("depth", OPTION_NUMBER, depth, "N", "requests outstanding without a rate (256)"),
    ROW("sockets", OPTION_NUMBER, sockets, "N", "source ports, per thread (8)"),
    ROW("threads", OPTION_NUMBER, threads, "N", "(1)"),
    ROW("cpu", OPTION_NUMBER, cpu, "N", "pin thread i to CPU N + i"),
    ROW("timeout", OPTION_NUMBER, timeout_ms, "MS", "a later reply is a loss (200)"),
    ROW("verify", OPTION_FLAG, verify, NULL, "compare every byte of the replies"),
    ROW("json", OPTION_FLAG, json, NULL, "results as one JSON object"),
};

static const struct option_table table = {
    "usage: udpload [options] ADDRESS:PORT\n"
    "Sends UDP gets to a memcached and reports replies a second, loss and latency.",
    rows, sizeof(rows) / sizeof(rows[0])};

struct slot {
    struct drawn drawn;
    uint64_t due_ns;
    uint16_t got; /* datagrams of the reply so far */
    bool busy;
    bool filling; /* after a miss: it was not drawn */
    int version;  /* that the reply has, as far as it has come; -1: none */
};

struct lane {
    int fd;
    uint32_t next, oldest; /* request numbers; the id is the low 16 bits */
    struct slot slots[SLOTS];
};

struct buffers {
    char bytes[BATCH][DATAGRAM_MAX];
    struct iovec iov[BATCH];
    struct mmsghdr msgs[BATCH];
};

struct worker {
    struct worker_base base;
    const struct options *options;
    const struct items *items;
    struct draw draw;
    struct stores stores;
    struct lane *lanes;
    size_t nlanes;
    uint64_t outstanding, limit, interval_ns, start_ns, end_ns;
    struct buffers in, out;
    char *expected; /* room for one whole reply */
};

static void buffers_init(struct buffers *buffers)
{
    for (size_t i = 0; i < BATCH; i++) {
        buffers->iov[i] = (struct iovec){buffers->bytes[i], DATAGRAM_MAX};
        buffers->msgs[i].msg_hdr = (struct msghdr){.msg_iov = &buffers->iov[i], .msg_iovlen = 1};
    }
}

static int udp_connect(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int bytes = SOCKET_BUFFER;

    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)))
        fail("cannot open a UDP socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    return fd;
}

/* Frees the slots of requests that were due before `limit`. */
static void drop_lost(struct worker *worker, struct lane *lane, uint64_t limit)
{
    while (lane->oldest != lane->next) {
        struct slot *slot = &lane->slots[lane->oldest % SLOTS];

        if (slot->busy) {
            if (slot->due_ns >= limit)
                return;
            slot->busy = false;
            worker->outstanding -= !slot->filling;
            worker->base.result.lost++;
            if (slot->drawn.set)
                draw_end(&worker->draw, slot->drawn.index, false);
        }
        lane->oldest++;
    }
}

static bool reply_is_right(struct worker *worker, struct slot *slot, const char *text, size_t n,
                           unsigned int sequence, unsigned int total)
{
    size_t at = (size_t)sequence * (PAYLOAD - FRAME);

    if (slot->drawn.set)
        return n == 8 && memcmp(text, "STORED\r\n", n) == 0;
    if (worker->options->miss || (worker->options->aside && !at && *text == 'E'))
        return n == 5 && memcmp(text, "END\r\n", n) == 0;
    return items_is_part(worker->items, slot->drawn.index, at, text, n, worker->expected,
                         &slot->version) &&
           draw_may_see(&worker->draw, &slot->drawn, slot->version) &&
           (sequence + 1 < total || at + n == items_reply_length(worker->items, slot->drawn.index));
}

static void request_end(struct worker *worker, const struct drawn *drawn, uint64_t due_ns,
                        bool filling)
{
    struct result *result = &worker->base.result;
    uint64_t taken = now_ns() - due_ns;

    hist_add(drawn->set ? &result->sets : &result->gets, taken);
    if (filling)
        return;
    hist_add(&result->latency, taken);
    worker->outstanding--;
}

/* A set has its reply. */
static void store_end(void *at, const struct store *store, bool stored)
{
    struct worker *worker = at;
    struct drawn drawn = {.index = store->index, .set = true};

    worker->base.result.stored += stored;
    worker->base.result.errors += !stored;
    worker->base.result.filled += stored && store->filling;
    draw_end(&worker->draw, store->index, stored);
    request_end(worker, &drawn, store->due_ns, store->filling);
}

/* Stores what is missing, unless somebody does already. */
static void fill(struct worker *worker, uint32_t index)
{
    struct store store = {.index = index, .due_ns = now_ns(), .filling = true};
    uint32_t version;

    if (worker->options->aside && draw_write(&worker->draw, index, &version))
        stores_add(&worker->stores, &store, version);
}

/* The first datagram of a reply to a get. */
static void take_first(struct worker *worker, const struct slot *slot, const char *text)
{
    struct result *result = &worker->base.result;

    if (memcmp(text, "VALU", 4) == 0) {
        result->hits++;
    } else if (memcmp(text, "END\r", 4) == 0) {
        result->misses++;
        fill(worker, slot->drawn.index);
    }
}

static void take_reply(struct worker *worker, struct lane *lane, const char *bytes, size_t n)
{
    struct result *result = &worker->base.result;
    uint16_t frame[4];
    struct slot *slot;

    if (n == FRAME)
        return; /* Debian's memcached sends one for a missing key, before END */
    memcpy(frame, bytes, FRAME);
    if (n < FRAME || (n < FRAME + 4 && !frame[1])) {
        result->errors++;
        return;
    }
    slot = &lane->slots[ntohs(frame[0]) % SLOTS];
    if (!slot->busy || (uint16_t)(lane->next - 1 - ntohs(frame[0])) >= SLOTS) {
        result->late++;
        return;
    }
    if (worker->options->verify &&
        !reply_is_right(worker, slot, bytes + FRAME, n - FRAME, ntohs(frame[1]), ntohs(frame[2])))
        result->wrong++;
    if (slot->drawn.set) {
        struct store store = {slot->due_ns, slot->drawn.index, slot->filling};

        slot->busy = false;
        store_end(worker, &store, memcmp(bytes + FRAME, "STOR", 4) == 0);
        return;
    }
    if (ntohs(frame[1]) == 0)
        take_first(worker, slot, bytes + FRAME);
    if (++slot->got < ntohs(frame[2]))
        return;
    slot->busy = false;
    request_end(worker, &slot->drawn, slot->due_ns, false);
}

/* True when something arrived. */
static bool receive(struct worker *worker, struct lane *lane)
{
    struct buffers *in = &worker->in;
    int n = recvmmsg(lane->fd, in->msgs, BATCH, 0, NULL);

    for (int i = 0; i < n; i++)
        take_reply(worker, lane, in->bytes[i], in->msgs[i].msg_len);
    return n > 0;
}

static void fill_request(struct worker *worker, struct lane *lane, size_t i,
                         const struct drawn *drawn, uint64_t due_ns)
{
    uint32_t number = lane->next + (uint32_t)i;
    uint32_t index = drawn->index | (worker->options->miss ? BENCH_MISS : 0);
    uint16_t frame[4] = {htons((uint16_t)number), 0, htons(1), 0};
    char *bytes = worker->out.bytes[i];

    lane->slots[number % SLOTS] = (struct slot){.drawn = *drawn, .due_ns = due_ns, .version = -1};
    memcpy(bytes, frame, FRAME);
    worker->out.iov[i].iov_len =
        FRAME + (drawn->set ? items_set(worker->items, index, drawn->version, "", bytes + FRAME)
                            : items_get(worker->items, index, bytes + FRAME));
}

/* Whether a set goes over TCP. */
static bool is_for_stream(const struct worker *worker, const struct drawn *drawn)
{
    return drawn->set &&
           (!worker->options->udp_sets ||
            items_length(worker->items, drawn->index) + ITEMS_KEY_MAX + 64 > STORE_MAX);
}

/* Draws up to n requests: those for TCP leave at once. Returns how many datagrams there are. */
static size_t draw_requests(struct worker *worker, struct lane *lane, size_t n, uint64_t now)
{
    uint64_t due_ns = worker->start_ns + worker->base.result.sent * worker->interval_ns;
    size_t ndatagrams = 0;

    for (size_t i = 0; i < n; i++, due_ns += worker->interval_ns) {
        struct drawn drawn = draw_next(&worker->draw);
        struct store store = {.due_ns = worker->interval_ns ? due_ns : now};

        drawn.index |= worker->options->large ? BENCH_LARGE : 0;
        if (!is_for_stream(worker, &drawn)) {
            fill_request(worker, lane, ndatagrams++, &drawn, store.due_ns);
            continue;
        }
        store.index = drawn.index;
        stores_add(&worker->stores, &store, drawn.version);
        worker->base.result.sent++;
        worker->outstanding++;
    }
    return ndatagrams;
}

/* Sends up to `n` requests from one socket; what the socket does not take is drawn again. */
static void send_requests(struct worker *worker, struct lane *lane, size_t n, uint64_t now)
{
    uint32_t room = SLOTS - (lane->next - lane->oldest);
    size_t sent = 0;
    int rc;

    if (n > room) {
        drop_lost(worker, lane, lane->slots[lane->oldest % SLOTS].due_ns + 1);
        n = room;
    }
    n = draw_requests(worker, lane, n, now);
    rc = n ? sendmmsg(lane->fd, worker->out.msgs, (unsigned int)n, 0) : 0;
    if (rc > 0)
        sent = (size_t)rc;
    for (size_t i = 0; i < n; i++) {
        struct slot *slot = &lane->slots[(lane->next + i) % SLOTS];

        slot->busy = i < sent;
        if (i >= sent && slot->drawn.set)
            draw_end(&worker->draw, slot->drawn.index, false);
    }
    lane->next += (uint32_t)sent;
    worker->base.result.sent += sent;
    worker->outstanding += sent;
}

/* How many requests should leave now. */
static size_t due_requests(const struct worker *worker, uint64_t now)
{
    uint64_t sent = worker->base.result.sent, n;

    if (now >= worker->end_ns || sent >= worker->limit)
        return 0;
    if (worker->interval_ns) {
        uint64_t due = (now - worker->start_ns) / worker->interval_ns + 1;

        n = due > sent ? due - sent : 0;
    } else {
        uint64_t depth = worker->options->depth;

        n = worker->outstanding < depth ? depth - worker->outstanding : 0;
    }
    if (n > worker->limit - sent)
        n = worker->limit - sent;
    return n < BATCH ? (size_t)n : BATCH;
}

static void wait_for_reply(struct worker *worker, uint64_t now)
{
    struct pollfd fds[MAX_SOCKETS + MAX_CONNECTIONS];
    uint64_t next = now + 1000000;
    struct timespec timeout;

    if (worker->interval_ns)
        next = worker->start_ns + worker->base.result.sent * worker->interval_ns;
    if (next <= now)
        return;
    if (next > now + 1000000)
        next = now + 1000000;
    timeout = (struct timespec){0, (long)(next - now)};
    for (size_t i = 0; i < worker->nlanes; i++)
        fds[i] = (struct pollfd){.fd = worker->lanes[i].fd, .events = POLLIN};
    ppoll(fds, worker->nlanes + stores_poll(&worker->stores, fds + worker->nlanes), &timeout, NULL);
}

/* One round over the sockets; true when there was something to do. */
static bool turn(struct worker *worker, size_t *lane, uint64_t now)
{
    size_t n = due_requests(worker, now);
    bool busy = n > 0;

    if (n) {
        send_requests(worker, &worker->lanes[*lane], n, now);
        *lane = (*lane + 1) % worker->nlanes;
    }
    for (size_t i = 0; i < worker->nlanes; i++)
        busy |= receive(worker, &worker->lanes[i]);
    return stores_turn(&worker->stores, store_end, worker) || busy;
}

static void work(void *at)
{
    struct worker *worker = at;
    uint64_t timeout = worker->options->timeout_ms * 1000000, checked, now;
    size_t lane = 0;

    checked = now = worker->start_ns = now_ns();
    worker->end_ns = now + (uint64_t)(worker->options->seconds * 1e9);
    while ((now < worker->end_ns && worker->base.result.sent < worker->limit) ||
           ((worker->outstanding || worker->stores.open) && now < worker->end_ns + DRAIN_NS)) {
        if (!turn(worker, &lane, now))
            wait_for_reply(worker, now);
        now = now_ns();
        if (now - checked < timeout / 8)
            continue;
        checked = now;
        for (size_t i = 0; i < worker->nlanes; i++)
            drop_lost(worker, &worker->lanes[i], now - timeout);
    }
    worker->base.result.elapsed_ns =
        (now < worker->end_ns ? now : worker->end_ns) - worker->start_ns;
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
    worker->limit = options->count ? options->count / options->threads : UINT64_MAX;
    if (options->rate)
        worker->interval_ns = 1000000000u * options->threads / options->rate;
    if (options->rate && !worker->interval_ns)
        usage_error("--rate: at most 1000m a thread");
    draw_init(&worker->draw, &options->draw, load->versions, number);
    stores_init(&worker->stores, worker->items, load->address,
                options->draw.sets > 0 || options->aside ? options->connections : 0);
    worker->nlanes = options->sockets;
    worker->lanes = calloc(worker->nlanes, sizeof(*worker->lanes));
    worker->expected = options->verify ? malloc(ITEMS_TEXT_MAX) : NULL;
    if (!worker->lanes || (options->verify && !worker->expected))
        fail("out of memory");
    for (size_t i = 0; i < worker->nlanes; i++)
        worker->lanes[i].fd = udp_connect(load->address);
    buffers_init(&worker->in);
    buffers_init(&worker->out);
}

static void worker_fini(void *at)
{
    struct worker *worker = at;

    for (size_t i = 0; i < worker->nlanes; i++)
        close(worker->lanes[i].fd);
    stores_fini(&worker->stores);
    free(worker->lanes);
    free(worker->expected);
}

static void check_options(const struct options *options)
{
    if (!options->threads || options->threads > MAX_THREADS)
        usage_error("--threads: 1 to %d", MAX_THREADS);
    if (!options->sockets || options->sockets > MAX_SOCKETS)
        usage_error("--sockets: 1 to %d", MAX_SOCKETS);
    if (!options->connections || options->connections > MAX_CONNECTIONS)
        usage_error("--connections: 1 to %d", MAX_CONNECTIONS);
    if (!options->depth || options->depth > SLOTS)
        usage_error("--depth: 1 to %d", SLOTS);
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

    if (options->verify && written && !options->miss && !options->large) {
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
                              .depth = 256,
                              .sockets = 8,
                              .connections = 4,
                              .threads = 1,
                              .timeout_ms = 200,
                              .cpu = UINT64_MAX};
    int operand = options_parse(&table, &options, argc, argv);
    struct sockaddr_in address;
    struct items items;
    int rc = 0;

    if (operand != argc - 1)
        usage_error("%s", table.usage);
    address = address_of(argv[operand]);
    check_options(&options);
    draw_prepare(&options.draw, &items);
    items.touch = options.touch;
    if (options.populate)
        items_populate(&items, options.large ? BENCH_LARGE : 0, (uint32_t)options.draw.keys,
                       &address);
    if (options.seconds > 0)
        rc = run(&options, &items, &address);
    items_fini(&items);
    return rc;
}
