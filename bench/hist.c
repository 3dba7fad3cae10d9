/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/hist.h"

#include <stddef.h>

/* Values below 2 * HIST_STEPS have a bucket each; above, the top bits name the bucket. */
static size_t bucket_of(uint64_t value)
{
    unsigned int shift;

    if (value < 2 * HIST_STEPS)
        return value;
    shift = 63 - (unsigned int)__builtin_clzll(value) - HIST_STEP_BITS;
    return (size_t)shift * HIST_STEPS + (size_t)(value >> shift);
}

/* The largest value that falls into the bucket. */
static uint64_t bucket_top(size_t bucket)
{
    size_t shift;

    if (bucket < 2 * HIST_STEPS)
        return bucket;
    shift = bucket / HIST_STEPS - 1;
    return (((uint64_t)(bucket - shift * HIST_STEPS) + 1) << shift) - 1;
}

void hist_add(struct hist *hist, uint64_t value)
{
    hist->count++;
    hist->sum += value;
    if (value > hist->max)
        hist->max = value;
    hist->buckets[bucket_of(value)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
    for (size_t i = 0; i < HIST_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t hist_quantile(const struct hist *hist, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)hist->count);
    uint64_t seen = 0;

    if (wanted >= hist->count)
        return hist->max;
    for (size_t i = 0; i < HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen > wanted)
            return bucket_top(i) < hist->max ? bucket_top(i) : hist->max;
    }
    return hist->max;
}
