/* SPDX-License-Identifier: BSD-3-Clause */
/* draw: what a load asks for next: which key, and whether it reads or writes it. */
#ifndef BENCH_DRAW_H
#define BENCH_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/items.h"
#include "bench/pick.h"
#include "bench/versions.h"

/* Of the command line. */
struct draw_options {
    uint64_t keys, key_size, value_size, seed;
    const char *dist, *workload;
    double theta, sets; /* sets: their share; below 0: the workload's, or what the help says */
};

/* The rows of these options in a table of options whose struct has `member`. */
#define DRAW_ROWS(member)                                                                          \
    ROW("keys", OPTION_NUMBER, member.keys, "N", "how many keys there are (1000)"),                \
        ROW("key-size", OPTION_NUMBER, member.key_size, "BYTES", "8 to 250 (16)"),                 \
        ROW("value-size", OPTION_NUMBER, member.value_size, "BYTES", "up to 1048576 (32)"),        \
        ROW("dist", OPTION_WORD, member.dist, "NAME",                                              \
            "which key: one, uniform, zipf, turn (uniform)"),                                      \
        ROW("theta", OPTION_REAL, member.theta, "X", "skew of zipf (0.99)"),                       \
        ROW("sets", OPTION_REAL, member.sets, "SHARE", "of sets among the requests, 0 to 1 (0)"),  \
        ROW("workload", OPTION_WORD, member.workload, "NAME",                                      \
            "sizes and skew of a study: paper, etc, usr, twitter-N"),                              \
        ROW("seed", OPTION_NUMBER, member.seed, "N", "of all that is drawn (0)")

#define DRAW_DEFAULTS                                                                              \
    {                                                                                              \
        .keys = 1000, .key_size = 16, .value_size = 32, .theta = -1, .sets = -1                    \
    }

struct draw {
    struct pick pick;
    uint64_t random;
    double sets;
    struct versions *versions; /* NULL: all values have version 0 */
};

/* version: of a set its own, of a get the one that it must at least see */
struct drawn {
    uint32_t index, version;
    bool set;
};

/* Checks the options, in which a workload replaces what it decides, and begins the items. */
void draw_prepare(struct draw_options *options, struct items *items);
/* `number` is a thread's: each draws something else. */
void draw_init(struct draw *draw, const struct draw_options *options, struct versions *versions,
               unsigned int number);
/* A key that is being written is read instead, if there are versions. */
struct drawn draw_next(struct draw *draw);
/* A write to this key that was not drawn. False: it is being written. */
bool draw_write(const struct draw *draw, uint32_t index, uint32_t *version);
/* A write has ended. !known: whether it was executed, or will be, is not known. */
void draw_end(const struct draw *draw, uint32_t index, bool known);
/* Whether a get may have seen this version, modulo ITEMS_VERSIONS; -1: it is not to be seen. */
bool draw_may_see(const struct draw *draw, const struct drawn *get, int version);

#endif
