/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * automove: decides which class gives a page to which, by their free chunks, evictions and ages.
 *
 * A class with more than two and a half pages' worth of free chunks gives one to the pool. Where
 * one class evicts items that are much younger than the oldest ones of another class (their ages,
 * averaged over the window, are further apart than the ratio), the other one gives it a page.
 */
#ifndef STORE_AUTOMOVE_H
#define STORE_AUTOMOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "bpf/shared/layout.h"

/* What a class showed in one second. */
struct automove_sample {
    uint64_t evicted;     /* since the start */
    uint64_t free_chunks; /* without those that the flash writer keeps */
    uint32_t chunks_per_page;
    uint64_t npages;
    rel_time age; /* of the oldest item; 0: it has none */
};

struct automove {
    struct {
        uint64_t evicted;     /* of the last sample */
        rel_time evicted_at;  /* when it last evicted; 0: not yet */
        unsigned int nexcess; /* samples in a row with pages to spare */
        double age;           /* average over the window */
    } classes[MC_CLASSES];
    rel_time began, last; /* first and last sample */
};

enum { AUTOMOVE_NONE = -1 };
struct automove_choice {
    int from, to; /* AUTOMOVE_NONE: no page; to 0: the pool */
};

/* What these samples, of the classes 1 to nclasses, call for. Any number of times a second. */
struct automove_choice automove_choose(struct automove *automove,
                                       const struct automove_sample *samples, unsigned int nclasses,
                                       unsigned int window, double ratio, rel_time now);

#endif
