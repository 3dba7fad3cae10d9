/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "bench/workers.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/options.h"

static void merge(struct result *into, const struct result *from)
{
    into->sent += from->sent;
    into->hits += from->hits;
    into->misses += from->misses;
    into->stored += from->stored;
    into->filled += from->filled;
    into->errors += from->errors;
    into->wrong += from->wrong;
    into->lost += from->lost;
    into->late += from->late;
    if (from->elapsed_ns > into->elapsed_ns)
        into->elapsed_ns = from->elapsed_ns;
    hist_merge(&into->latency, &from->latency);
    hist_merge(&into->gets, &from->gets);
    hist_merge(&into->sets, &from->sets);
}

/* Of the gets or the sets of a mix. */
static void print_kind(const char *name, const struct hist *hist, bool json)
{
    const char *format = json ? ", \"%s\": {\"count\": %" PRIu64
                                ", \"p50_us\": %.2f, \"p99_us\": %.2f"
                                ", \"p999_us\": %.2f}"
                              : "%s: %" PRIu64 ", latency in us: p50 %.2f, p99 %.2f, p99.9 %.2f\n";

    printf(format, name, hist->count, (double)hist_quantile(hist, 0.5) * 1e-3,
           (double)hist_quantile(hist, 0.99) * 1e-3, (double)hist_quantile(hist, 0.999) * 1e-3);
}

/* The distribution, as pairs of a share and the microseconds that it does not exceed. */
static void print_quantiles(const struct hist *hist)
{
    static const double shares[] = {0.01, 0.05, 0.1,  0.25,  0.5,   0.75,   0.9,
                                    0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1};

    printf(", \"quantiles_us\": [");
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        printf("%s[%g, %.2f]", i ? ", " : "", shares[i],
               (double)hist_quantile(hist, shares[i]) * 1e-3);
    printf("]}\n");
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
               ", \"stored\": %" PRIu64 ", \"filled\": %" PRIu64 ", \"errors\": %" PRIu64
               ", \"wrong\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"late\": %" PRIu64
               ", \"mean_us\": %.2f"
               ", \"p50_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, \"max_us\": %.2f"
             : "%.3f s: sent %" PRIu64 ", answered %" PRIu64 " (%.0f a second), hits %" PRIu64
               ", misses %" PRIu64 ", stored %" PRIu64 " (%" PRIu64
               " after a miss), errors %" PRIu64 ", wrong %" PRIu64 ", lost %" PRIu64
               ", late %" PRIu64
               "\nlatency in us: mean %.2f, p50 %.2f, p99 %.2f, p99.9 %.2f, max %.2f\n";

    printf(format, seconds, result->sent, hist->count, rate, result->hits, result->misses,
           result->stored, result->filled, result->errors, result->wrong, result->lost,
           result->late, mean, (double)hist_quantile(hist, 0.5) * 1e-3,
           (double)hist_quantile(hist, 0.99) * 1e-3, (double)hist_quantile(hist, 0.999) * 1e-3,
           (double)hist->max * 1e-3);
    if (json || (result->gets.count && result->sets.count)) {
        print_kind("gets", &result->gets, json);
        print_kind("sets", &result->sets, json);
    }
    if (json)
        print_quantiles(hist);
}

static void *run(void *worker)
{
    const struct worker_base *base = worker;
    cpu_set_t set;

    if (base->workers->cpu != UINT64_MAX) {
        CPU_ZERO(&set);
        CPU_SET(base->workers->cpu + base->number, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    base->workers->work(worker);
    return NULL;
}

static struct worker_base *worker_at(void *all, const struct workers *workers, unsigned int i)
{
    return (struct worker_base *)(void *)((char *)all + i * workers->size);
}

/* All of them stand before the first begins. */
static void start(void *all, const struct workers *workers, const void *shared)
{
    for (unsigned int i = 0; i < workers->n; i++) {
        struct worker_base *worker = worker_at(all, workers, i);

        worker->workers = workers;
        worker->number = i;
        workers->init(worker, shared, i);
    }
    for (unsigned int i = 0; i < workers->n; i++) {
        struct worker_base *worker = worker_at(all, workers, i);

        if (pthread_create(&worker->thread, NULL, run, worker))
            fail("cannot start a thread");
    }
}

bool workers_run(const struct workers *workers, const void *shared, bool json)
{
    struct result *total = calloc(1, sizeof(*total));
    void *all = calloc(workers->n, workers->size);
    bool good;

    if (!total || !all)
        fail("out of memory");
    start(all, workers, shared);
    for (unsigned int i = 0; i < workers->n; i++) {
        struct worker_base *worker = worker_at(all, workers, i);

        pthread_join(worker->thread, NULL);
        merge(total, &worker->result);
        workers->fini(worker);
    }
    print(total, json);
    good = !total->wrong && !total->errors && total->latency.count;
    free(all);
    free(total);
    return good;
}
