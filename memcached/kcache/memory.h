/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: the store's memory as maps of the kernel programs.
 *
 * It grows one map at a time and shrinks only with the process. A map costs no descriptor: the
 * mapping and the map of maps keep it. When the kernel has no memory for another, because the
 * machine has none, or the cgroup's limit is near, the store goes on with what it has, and asks
 * again later.
 *
 * The provider's rules hold (base/provider.h); memory_stats from any thread.
 */
#ifndef KCACHE_MEMORY_H
#define KCACHE_MEMORY_H

#include <stdint.h>

#include "base/provider.h"

struct loader;
struct kcache_stats;
struct cgroup;

struct memory {
    struct provider provider;
    struct loader *loader;
    struct cgroup *cgroup;
    uint64_t nextents, ntables; /* mapped */
    uint64_t nrefused;          /* calls that were refused */
    unsigned int refused;       /* enum cgroup_kind; atomic */
};

void memory_init(struct memory *memory, struct loader *loader);
void memory_fini(struct memory *memory);
void memory_stats(const struct memory *memory, struct kcache_stats *out);

#endif
