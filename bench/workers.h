/* SPDX-License-Identifier: BSD-3-Clause */
/* workers: the threads of a load over sockets, what they count, and how it is told. */
#ifndef BENCH_WORKERS_H
#define BENCH_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/hist.h"

struct result {
    uint64_t sent, hits, misses, stored, errors, wrong;
    uint64_t lost, late; /* datagrams */
    uint64_t elapsed_ns;
    struct hist latency;
};

/* What a load's own struct for a thread begins with. */
struct worker_base {
    pthread_t thread;
    struct result result;
};

/*
 * Runs `work` on each of n structs of `size` bytes, a thread each, and prints what they counted in
 * all. Whether something was answered, and nothing by an error or wrongly.
 */
bool workers_run(void *workers, size_t size, uint64_t n, void *(*work)(void *), bool json);

#endif
