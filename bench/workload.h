/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * workload: mixes of which studies have published the sizes of keys and values, the skew and the
 * share of writes.
 *
 *     paper       Ghigoff et al., NSDI 2021, table 3
 *     etc, usr    Atikoglu et al., SIGMETRICS 2012, sections 4 and 5; of how popular keys are they
 *                 give no law, and of usr's two sizes of keys no shares: 0.99, and half each
 *     twitter-N   Yang, Yue, Rashmi, OSDI 2020: cluster N's means and its exponent, as published
 *                 with the traces; add, cas and set are all sets here
 *
 * A size is drawn once for each key: it depends on the key's index and the seed alone.
 */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

enum workload_sizes { SIZES_FIXED, SIZES_ETC, SIZES_USR };

struct workload {
    const char *name;
    enum workload_sizes sizes;
    size_t key, value; /* SIZES_FIXED: bytes */
    double theta;      /* exponent of Zipf's law */
    double sets;       /* their share of the requests */
};

enum { WORKLOAD_VALUE_MAX = 1 << 19 }; /* longer ones, one in 100 million, have this length */

/* NULL: there is none of that name. */
const struct workload *workload_of(const char *name);
size_t workload_key(const struct workload *workload, uint64_t seed, uint32_t index);
size_t workload_value(const struct workload *workload, uint64_t seed, uint32_t index);

#endif
