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
    uint64_t filled;     /* of the stored: after a miss */
    uint64_t lost, late; /* datagrams */
    uint64_t elapsed_ns;
    struct hist latency;    /* of all that was drawn, */
    struct hist gets, sets; /* of each kind; filled ones are among the sets */
};

struct workers;

/* What a load's own struct for a thread begins with. */
struct worker_base {
    const struct workers *workers;
    unsigned int number;
    pthread_t thread;
    struct result result;
};

/* How a load works: its own struct for a thread is zeroed, initialized, and worked on. */
struct workers {
    size_t size;     /* of that struct */
    uint64_t n, cpu; /* threads; the CPU of the first, then one by one; UINT64_MAX: any */
    void (*init)(void *worker, const void *shared, unsigned int number);
    void (*work)(void *worker);
    void (*fini)(void *worker);
};

/*
 * Runs the threads and prints what they counted in all. `shared` is what init is handed. Whether
 * something was answered, and nothing by an error or wrongly.
 */
bool workers_run(const struct workers *workers, const void *shared, bool json);

#endif
