/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * undo: how long a thread of the server waits for the undo process to swap a connection's socket
 * (splice/undo.h), over loopback in a network namespace of its own, with nothing queued and with
 * bytes that the client has not read. Needs root.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/credentials.h"
#include "bench/hist.h"
#include "bench/options.h"
#include "bpf/load/load.h"
#include "splice/undo.h"
#include "t/lib/tap.h"
#include "t/unit/splice_pair.h"

enum { SLOTS = 64, BUSY_MAX = 64, US = 1000 };

struct options {
    uint64_t swaps, queued, busy;
};

static const struct option_row rows[] = {
    ROW("swaps", OPTION_NUMBER, swaps, "N", "of each kind (20000)"),
    ROW("queued", OPTION_NUMBER, queued, "BYTES", "that wait in the second kind (100000)"),
    ROW("busy", OPTION_NUMBER, busy, "N", "threads that compute meanwhile (0)"),
};

static const struct option_table table = {
    "usage: undo [options]\nMeasures how long the server waits for a connection to be undone.",
    rows, sizeof(rows) / sizeof(rows[0])};

struct bench {
    struct loader *loader;
    struct undo_kernel kernel;
    struct undo *undo;
    struct pair pair;
};

static const struct mc_tcp_tag tag = {7, 3};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The entry of a connection whose numbers are the wire's. */
static void put_entry(const struct bench *bench)
{
    struct mc_tcp_conn conn = {.slot = tag.slot, .generation = tag.generation};
    int server = bench->pair.server;
    socklen_t n = sizeof(conn.cookie);
    uint64_t key;

    if (entry_flow(server, &conn.flow) ||
        getsockopt(server, SOL_SOCKET, SO_COOKIE, &conn.cookie, &n))
        fail("the connection has ended");
    conn.snd_una = pair_una(server);
    key = mc_tcp_key(&conn.flow, bench->kernel.entries.seeds);
    bpf_map_update_elem(bench->kernel.entries.conns, &key, &conn, BPF_ANY);
}

/* As a worker does it, until it has closed the old socket. */
static uint64_t swap(struct bench *bench)
{
    const uint64_t begin = now_ns();
    struct undone undone;

    if (undo_socket(bench->undo, bench->pair.server, tag, &undone) != UNDO_DONE)
        fail("a connection is not undone");
    dup2(undone.fd, bench->pair.server);
    close(undone.fd);
    return now_ns() - begin;
}

static void measure(struct bench *bench, uint64_t swaps, size_t queued)
{
    struct hist *hist = calloc(1, sizeof(*hist));
    uint64_t i;

    for (i = 0; hist && i < swaps; i++) {
        if (queued)
            pair_say(&bench->pair, SERVER, queued);
        put_entry(bench);
        hist_add(hist, swap(bench));
        if (queued && !pair_hears(&bench->pair, CLIENT))
            fail("bytes are lost");
    }
    if (hist)
        printf("%zu bytes queued: median %" PRIu64 " us, p99 %" PRIu64 " us, p99.9 %" PRIu64
               " us, most %" PRIu64 " us\n",
               queued, hist_quantile(hist, .5) / US, hist_quantile(hist, .99) / US,
               hist_quantile(hist, .999) / US, hist->max / US);
    free(hist);
}

static void *compute(void *context)
{
    for (;;)
        __atomic_fetch_add((uint64_t *)context, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void open_all(struct bench *bench)
{
    const struct credentials_user user = credentials_find_user("nobody");
    char error[512] = "cannot load the kernel programs";

    if (!pair_enter_namespace())
        fail("needs root");
    bench->pair = pair_open(V4, 0);
    pair_deafen(bench->pair.listener);
    bench->loader =
        loader_open_guarded(&(struct loader_guard){0}, LOADER_TCP, error, sizeof(error));
    if (!bench->loader || loader_open_tcp(bench->loader, SLOTS, error, sizeof(error)) ||
        loader_wait(bench->loader, error, sizeof(error)))
        fail("%s", error);
    loader_tcp_entries(bench->loader, &bench->kernel.entries);
    bench->kernel.filter = loader_tcp_filter(bench->loader);
    bench->kernel.port = pair_port(&bench->pair);
    if (undo_start(&bench->undo, &bench->kernel, &user, 1, error, sizeof(error)))
        fail("%s", error);
}

int main(int argc, char **argv)
{
    struct options options = {.swaps = 20000, .queued = 100000};
    struct bench bench = {0};
    pthread_t threads[BUSY_MAX];
    uint64_t counter = 0, i;

    if (options_parse(&table, &options, argc, argv) != argc)
        usage_error("%s", table.usage);
    open_all(&bench);
    for (i = 0; i < options.busy && i < BUSY_MAX; i++)
        if (pthread_create(&threads[i], NULL, compute, &counter))
            fail("cannot start a thread");
    measure(&bench, options.swaps, 0);
    measure(&bench, options.swaps, (size_t)options.queued);
    undo_stop(bench.undo);
    return 0;
}
