/* SPDX-License-Identifier: BSD-3-Clause */
/* counters: what the programs have counted, summed over all CPUs. */
#include <stdlib.h>
#include <string.h>

#include "bpf/load/load.h"
#include "bpf/load/object.h"
#include "bpf/load/tcp.h"

/* Sums the rows of a per-CPU map, each of which begins with `n` counts. */
static void sum_rows(const struct loader *loader, const struct bpf_map *map, __u64 *out, size_t n)
{
    size_t size, i;
    char *rows = map ? object_rows(map, loader->ncpus, &size) : NULL;
    int cpu;

    memset(out, 0, n * sizeof(*out));
    for (cpu = 0; rows && cpu < loader->ncpus; cpu++)
        for (i = 0; i < n; i++)
            out[i] += ((const __u64 *)(rows + size * (size_t)cpu))[i];
    free(rows);
}

/* The programs count each packet once, at its exit; the other counts are derived from that. */
static void counts_derive(struct mc_counts *sum)
{
    size_t i;

    sum->count[MC_COUNT_HITS] = 0;
    for (i = 0; i < MC_CLASSES; i++)
        sum->count[MC_COUNT_HITS] += sum->class_hits[i];
    sum->count[MC_COUNT_KEYS] = sum->count[MC_COUNT_HITS] + sum->count[MC_COUNT_MISSES];
    sum->count[MC_COUNT_SEEN] =
        sum->count[MC_COUNT_ANSWERED_XDP] + sum->count[MC_COUNT_ANSWERED_TC];
    for (i = MC_COUNT_PASS_COMMAND; i < MC_COUNTS; i++)
        sum->count[MC_COUNT_SEEN] += sum->count[i];
}

void loader_counts(struct loader *loader, struct mc_counts *out)
{
    sum_rows(loader, object_map(&loader->object, "mc_scratch"), (__u64 *)out,
             sizeof(*out) / sizeof(__u64));
    counts_derive(out);
}

void loader_chain_counts(struct loader *loader, struct chain_counts *out)
{
    sum_rows(loader, object_map(&loader->object, "mc_chain"), (__u64 *)out,
             sizeof(*out) / sizeof(__u64));
}

void loader_tcp_counts(struct loader *loader, struct mc_tcp_counts *out)
{
    sum_rows(loader, tcp_counts_map(loader->tcp), (__u64 *)out, sizeof(*out) / sizeof(__u64));
}
