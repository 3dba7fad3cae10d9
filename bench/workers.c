/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/workers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/options.h"

static void merge(struct result *into, const struct result *from)
{
    into->sent += from->sent;
    into->hits += from->hits;
    into->misses += from->misses;
    into->stored += from->stored;
    into->errors += from->errors;
    into->wrong += from->wrong;
    into->lost += from->lost;
    into->late += from->late;
    if (from->elapsed_ns > into->elapsed_ns)
        into->elapsed_ns = from->elapsed_ns;
    hist_merge(&into->latency, &from->latency);
}

static void print(const struct result *result, bool json)
{
    const struct hist *hist = &result->latency;
    double seconds = (double)result->elapsed_ns * 1e-9;
    double rate = seconds > 0 ? (double)hist->count / seconds : 0;
    double mean = hist->count ? (double)hist->sum / (double)hist->count * 1e-3 : 0;
    const char *format =
        json ? "{\"seconds\": %.3f, \"sent\": %" PRIu64 ", \"answered\": %" PRIu64
               ", \"answered_per_second\": %.0f, \"hits\": %" PRIu64 ", \"misses\": %" PRIu64
               ", \"stored\": %" PRIu64 ", \"errors\": %" PRIu64 ", \"wrong\": %" PRIu64
               ", \"lost\": %" PRIu64 ", \"late\": %" PRIu64 ", \"mean_us\": %.2f"
               ", \"p50_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, \"max_us\": %.2f}\n"
             : "%.3f s: sent %" PRIu64 ", answered %" PRIu64 " (%.0f a second), hits %" PRIu64
               ", misses %" PRIu64 ", stored %" PRIu64 ", errors %" PRIu64 ", wrong %" PRIu64
               ", lost %" PRIu64 ", late %" PRIu64
               "\nlatency in us: mean %.2f, p50 %.2f, p99 %.2f, p99.9 %.2f, max %.2f\n";

    printf(format, seconds, result->sent, hist->count, rate, result->hits, result->misses,
           result->stored, result->errors, result->wrong, result->lost, result->late, mean,
           (double)hist_quantile(hist, 0.5) * 1e-3, (double)hist_quantile(hist, 0.99) * 1e-3,
           (double)hist_quantile(hist, 0.999) * 1e-3, (double)hist->max * 1e-3);
}

static struct worker_base *worker_at(void *workers, size_t size, uint64_t i)
{
    return (struct worker_base *)(void *)((char *)workers + i * size);
}

bool workers_run(void *workers, size_t size, uint64_t n, void *(*work)(void *), bool json)
{
    struct result *total = calloc(1, sizeof(*total));
    struct worker_base *worker;
    bool good;

    if (!total)
        fail("out of memory");
    for (uint64_t i = 0; i < n; i++) {
        worker = worker_at(workers, size, i);
        if (pthread_create(&worker->thread, NULL, work, worker))
            fail("cannot start a thread");
    }
    for (uint64_t i = 0; i < n; i++) {
        worker = worker_at(workers, size, i);
        pthread_join(worker->thread, NULL);
        merge(total, &worker->result);
    }
    print(total, json);
    good = !total->wrong && !total->errors && total->latency.count;
    free(total);
    return good;
}
