/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard: from allow=, rate= and amplification= to what the kernel programs are loaded with.
 *
 * Made once, before the load; what it holds is copied then and may be freed.
 */
#ifndef KCACHE_GUARD_H
#define KCACHE_GUARD_H

#include <stddef.h>

#include "bpf/loader/loader.h"
#include "kcache/kcache.h"

struct guard {
    struct loader_guard loader;
    void *list;      /* that loader.list points to */
    size_t nallowed; /* prefixes in it, 0: not a list */
};

/* Reads the files of allow=@FILE. 0, or -1 with `error`. */
int guard_init(struct guard *guard, const struct kcache_options *options, char *error,
               size_t nerror);
/* Frees the list; the rest stays for guard_stats. */
void guard_fini(struct guard *guard);
void guard_stats(const struct guard *guard, struct kcache_stats *out);
/* The trie of `n` prefixes, which it sorts. False: no memory. */
struct prefix;
bool guard_list(struct guard *guard, struct prefix *prefixes, size_t n);

#endif
