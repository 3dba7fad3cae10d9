/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pick: which key comes next.
 *
 * Zipf by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates
 * from monotone discrete distributions", 1996): constant time and memory for any number of keys.
 */
#ifndef BENCH_PICK_H
#define BENCH_PICK_H

#include <stdint.h>

enum pick_kind { PICK_ONE, PICK_UNIFORM, PICK_ZIPF, PICK_TURN };

struct pick {
    enum pick_kind kind;
    uint32_t nkeys;
    uint32_t turn;
    uint64_t random;
    double theta, h_first, h_last, cut;
};

/* The kind's name as the options have it, or -1. */
int pick_kind(const char *name);
void pick_init(struct pick *pick, enum pick_kind kind, uint32_t nkeys, double theta, uint64_t seed);
/* An index below nkeys. */
uint32_t pick_next(struct pick *pick);

#endif
