/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/workload.h"

#include <math.h>
#include <string.h>

#include "bench/items.h"
#include "bench/keys.h"

enum { KEYS = 1, VALUES }; /* what is drawn */

static const struct workload workloads[] = {
    {"paper", SIZES_FIXED, 16, 32, 0.99, 1 / 31.0},
    {"etc", SIZES_ETC, 0, 0, 0.99, 1 / 31.0},
    {"usr", SIZES_USR, 0, 2, 0.99, 0.002},
    {"twitter-2", SIZES_FIXED, 21, 68, 1.4908, 0},
    {"twitter-12", SIZES_FIXED, 44, 1030, 0.3048, 0.8},
    {"twitter-18", SIZES_FIXED, 18, 37, 2.0994, 0.02},
    {"twitter-25", SIZES_FIXED, 49, 28, 0.9929, 0.04},
    {"twitter-44", SIZES_FIXED, 25, 22, 1.4084, 0.01},
    {"twitter-52", SIZES_FIXED, 20, 273, 1.2117, 0.06},
};

/* How often a value of ETC has 0, 1, 2 ... bytes. All others are longer. */
static const double etc_short[] = {0.00536, 0.00047, 0.17820, 0.09239, 0.00018,
                                   0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
                                   0.00837, 0.08989, 0.00092, 0.00326, 0.01980};

const struct workload *workload_of(const char *name)
{
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
        if (strcmp(workloads[i].name, name) == 0)
            return &workloads[i];
    return NULL;
}

/* A number between 0 and 1 that a key has for what is drawn (SplitMix64's finalizer). */
static double unit_of(uint64_t seed, uint32_t index, uint64_t what)
{
    uint64_t x = (seed << 32 | index) * 4 + what;

    x *= 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

/* Inverses of the distributions: generalised extreme values, generalised Pareto. */
static double extreme(double unit, double place, double scale, double shape)
{
    return place + scale / shape * (pow(-log(unit), -shape) - 1);
}

static double pareto(double unit, double place, double scale, double shape)
{
    return place + scale / shape * (pow(1 - unit, -shape) - 1);
}

static size_t bounded(double size, size_t least, size_t most)
{
    return size <= (double)least ? least : size >= (double)most ? most : (size_t)size;
}

static size_t etc_value(double unit)
{
    size_t n = sizeof(etc_short) / sizeof(etc_short[0]);
    double left = 1;

    for (size_t i = 0; i < n; i++) {
        if (unit < etc_short[i])
            return i;
        unit -= etc_short[i];
        left -= etc_short[i];
    }
    return bounded(pareto(unit / left, 15, 214.476, 0.348238), n, WORKLOAD_VALUE_MAX);
}

size_t workload_key(const struct workload *workload, uint64_t seed, uint32_t index)
{
    switch (workload->sizes) {
    case SIZES_ETC:
        return bounded(extreme(unit_of(seed, index, KEYS), 30.7984, 8.20449, 0.078688),
                       BENCH_KEY_TAIL, ITEMS_KEY_MAX);
    case SIZES_USR:
        return unit_of(seed, index, KEYS) < 0.5 ? 16 : 21;
    case SIZES_FIXED:
        break;
    }
    return workload->key;
}

size_t workload_value(const struct workload *workload, uint64_t seed, uint32_t index)
{
    if (workload->sizes == SIZES_ETC)
        return etc_value(unit_of(seed, index, VALUES));
    return workload->value;
}
