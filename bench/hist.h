/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hist: a log-linear histogram of latencies in nanoseconds. Each power of two is cut into
 * HIST_STEPS equal parts, so a value is known to better than one percent.
 */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum {
    HIST_STEP_BITS = 7,
    HIST_STEPS = 1 << HIST_STEP_BITS,
    HIST_BUCKETS = (64 - HIST_STEP_BITS + 1) * HIST_STEPS,
};

struct hist {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *hist, uint64_t value);
void hist_merge(struct hist *into, const struct hist *from);
/* The value that `share` (0 to 1) of all values do not exceed; 0 when it is empty. */
uint64_t hist_quantile(const struct hist *hist, double share);

#endif
