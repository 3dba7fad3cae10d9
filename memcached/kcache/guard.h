/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard: converts allow=, rate= and amplification= to the settings with which the programs are
 * loaded.
 *
 * Created before the load, which copies its data; then it may be freed. With allow=@FILE another
 * one may replace it while the programs run.
 */
#ifndef KCACHE_GUARD_H
#define KCACHE_GUARD_H

#include <stddef.h>

#include "bpf/load/load.h"
#include "kcache/kcache.h"

struct guard {
    struct loader_guard loader;
    void *list;          /* loader.list points to it */
    size_t nallowed;     /* prefixes in it, 0: not a list */
    enum mc_allow shown; /* by the statistics: loader.allow says how the programs look it up */
};

/* Reads the files of allow=@FILE. 0, or -1 with `error`. */
int guard_init(struct guard *guard, const struct kcache_options *options, char *error,
               size_t nerror);
/*
 * Reads the files again, into a list of the size of the one before. Initializes `guard` in any
 * case.
 */
int guard_init_again(struct guard *guard, const struct guard *before,
                     const struct kcache_options *options, char *error, size_t nerror);
/* Logs what was read again, in a line. */
void guard_log(const struct guard *guard);
/* Frees the list; the rest remains for guard_stats. */
void guard_fini(struct guard *guard);
void guard_stats(const struct guard *guard, struct kcache_stats *out);
/* Makes the list of `n` prefixes: allow_list. */
struct prefix;
int guard_list(struct guard *guard, struct prefix *prefixes, size_t n);

#endif
