/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap: address space for all items, filled with the provider's extents as the server grows, so
 * that a reference becomes an address by a shift and an addition. Reference 0 is none: page 0 is
 * never used.
 */
#ifndef STORE_HEAP_H
#define STORE_HEAP_H

#include <stdint.h>

#include "base/provider.h"
#include "bpf/shared/layout.h"
#include "store/lock.h"

struct heap {
    char *base;
    unsigned int ref_shift; /* log2 of the unit of references */
    uint32_t max_extents;   /* that references can name */
    uint32_t nextents;      /* mapped; written under `lock`, read by all (acquire, release) */
    struct lock lock;
    struct provider *provider;
    void *reservation;
    size_t nreservation;
};

/*
 * log2 of the smallest unit with which references name twice `memory_limit`, or of the largest one
 * if that names it at least. 0: none does.
 */
unsigned int heap_ref_shift(uint64_t memory_limit);
/*
 * Address space to reserve for items: all that references can name, as it costs nothing. Where it
 * is limited (ulimit -v), a quarter of that, and up to a half if `memory_limit` needs more: the
 * hash table takes half as much, and there are threads.
 */
uint64_t heap_reach(unsigned int ref_shift, uint64_t memory_limit);
/* 0 or -errno. Commits no memory. */
int heap_init(struct heap *heap, struct provider *provider, unsigned int ref_shift, uint64_t reach);
void heap_fini(struct heap *heap);
/* Maps the extents below `nextents` that are not yet. 0 or -errno. */
int heap_grow(struct heap *heap, uint32_t nextents);
/* The provider may take back the memory of an unused slab page. */
void heap_release(struct heap *heap, uint32_t page);

static inline void *heap_at(const struct heap *heap, uint32_t ref)
{
    return heap->base + ((uint64_t)ref << heap->ref_shift);
}

static inline uint32_t heap_ref(const struct heap *heap, const void *at)
{
    return (uint32_t)((uint64_t)((const char *)at - heap->base) >> heap->ref_shift);
}

#endif
