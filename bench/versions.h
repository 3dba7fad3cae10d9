/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions: which values of a key a reader may see while it is written.
 *
 * The writes of a key are numbered, and one follows the other: the next begins when the server has
 * acknowledged the one before. The value says its number (items_value). So a reply to a get has the
 * number of the last write that was acknowledged when the get left, or a later one, up to the last
 * that has begun. A write whose reply is lost may be executed at any time: from then on any value
 * of its key is right. Any number of threads may use it.
 */
#ifndef BENCH_VERSIONS_H
#define BENCH_VERSIONS_H

#include <stdbool.h>
#include <stdint.h>

struct versions {
    uint32_t nkeys;
    uint32_t *states; /* atomic: the version of the last write that has begun, and flags */
};

/* Exits without memory. The keys have their values of version 0; !stored: any, until written. */
void versions_init(struct versions *versions, uint32_t nkeys, bool stored);
void versions_fini(struct versions *versions);
/* A write begins, and has this version. False: one is not acknowledged. */
bool versions_begin(struct versions *versions, uint32_t index, uint32_t *version);
void versions_end(struct versions *versions, uint32_t index);
void versions_lose(struct versions *versions, uint32_t index);
/* What a get that leaves now must at least see, for versions_may_be. */
uint32_t versions_look(const struct versions *versions, uint32_t index);
/* Whether a value may be the reply: its version is known modulo `modulus`. */
bool versions_may_be(const struct versions *versions, uint32_t index, uint32_t looked,
                     uint32_t version, uint32_t modulus);

#endif
