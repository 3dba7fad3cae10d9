/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/draw.h"

#include "bench/keys.h"
#include "bench/options.h"
#include "bench/workload.h"

void draw_prepare(struct draw_options *options, struct items *items)
{
    const struct workload *workload = NULL;

    if (options->workload) {
        workload = workload_of(options->workload);
        if (!workload)
            usage_error("--workload: paper, etc, usr or twitter-N, N one of 2, 12, 18, 25, 44, 52");
        if (!options->dist)
            options->dist = "zipf";
        if (options->theta < 0)
            options->theta = workload->theta;
        if (options->sets < 0)
            options->sets = workload->sets;
    }
    if (!options->dist)
        options->dist = "uniform";
    if (options->theta < 0)
        options->theta = 0.99;
    if (pick_kind(options->dist) < 0)
        usage_error("--dist: one, uniform, zipf or turn");
    if (!options->keys || options->keys >= BENCH_LARGE)
        usage_error("--keys: 1 to %u", BENCH_LARGE - 1);
    if (workload)
        items_init_workload(items, workload, options->seed);
    else
        items_init(items, options->key_size, options->value_size);
}

void draw_init(struct draw *draw, const struct draw_options *options, struct versions *versions,
               unsigned int number)
{
    uint64_t seed = number + 1 + (options->seed << 8);

    *draw = (struct draw){.random = seed, .sets = options->sets, .versions = versions};
    pick_init(&draw->pick, (enum pick_kind)pick_kind(options->dist), (uint32_t)options->keys,
              options->theta, seed);
}

struct drawn draw_next(struct draw *draw)
{
    struct drawn drawn = {.index = pick_next(&draw->pick)};

    if (draw->sets > 0) {
        draw->random = bench_random(draw->random);
        drawn.set = (double)(draw->random >> 11) * 0x1p-53 < draw->sets;
    }
    if (drawn.set)
        drawn.set = draw_write(draw, drawn.index, &drawn.version);
    if (!drawn.set && draw->versions)
        drawn.version = versions_look(draw->versions, drawn.index);
    return drawn;
}

bool draw_write(const struct draw *draw, uint32_t index, uint32_t *version)
{
    *version = 0;
    return !draw->versions || versions_begin(draw->versions, index, version);
}

void draw_end(const struct draw *draw, uint32_t index, bool known)
{
    if (!draw->versions)
        return;
    if (known)
        versions_end(draw->versions, index);
    else
        versions_lose(draw->versions, index);
}

bool draw_may_see(const struct draw *draw, const struct drawn *get, int version)
{
    if (version < 0)
        return true;
    if (!draw->versions)
        return version == 0;
    return versions_may_be(draw->versions, get->index, get->version, (uint32_t)version,
                           ITEMS_VERSIONS);
}
