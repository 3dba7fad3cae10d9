/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs: requests for the items of bench/items.h by other verbs than get: gets, mg with the flags v
 * f t s, GetK of the binary protocol; and gets of VERBS_KEYS keys.
 */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/items.h"

enum verb { VERB_GET, VERB_GETS, VERB_META, VERB_BINARY, VERB_MANY };
enum { VERBS_KEYS = 10 }; /* `index` and those that follow it */

/* "get", "gets", "mg", "getk", "get10"; exits when it is none of them. */
enum verb verb_of(const char *name);
/* Writes the request for item `index` and returns its length. */
size_t verb_request(enum verb verb, const struct items *items, uint32_t index, char *out);
/*
 * The reply, or that to a miss, without a frame header. An item's id is known to the server alone:
 * it is taken from what was `got`, which NUL ends.
 */
size_t verb_reply(enum verb verb, const struct items *items, uint32_t index, const char *got,
                  size_t ngot, char *out);

#endif
