/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: a provider of the store's memory, in maps of the kernel programs.
 *
 * Memory grows one map at a time and is freed only when the process ends. A map needs no
 * descriptor: the mapping and the map of maps hold it. When the kernel has no memory for another
 * map, because the machine has none or the cgroup's limit is near, the store keeps the memory it
 * has and tries again later.
 *
 * The rules of base/provider.h apply; memory_stats from any thread.
 */
#ifndef KMEM_MEMORY_H
#define KMEM_MEMORY_H

#include <stdint.h>

#include "base/provider.h"

struct loader;
struct cgroup;

struct memory {
    struct provider provider;
    struct loader *loader;
    struct cgroup *cgroup;
    uint64_t nextents, ntables; /* mapped */
    uint64_t nrefused;          /* refused calls */
    unsigned int refused;       /* enum cgroup_kind; atomic */
};

void memory_init(struct memory *memory, struct loader *loader);
void memory_fini(struct memory *memory);
/* The extents and tables that there are, and the maps that were refused for lack of memory. */
void memory_stats(const struct memory *memory, uint64_t *extents, uint64_t *tables,
                  uint64_t *refused);

#endif
