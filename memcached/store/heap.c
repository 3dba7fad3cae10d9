/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "store/heap.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { MIN_REF_SHIFT = 3, MAX_REF_SHIFT = 6 };

unsigned int heap_ref_shift(uint64_t memory_limit)
{
    for (unsigned int shift = MIN_REF_SHIFT; shift <= MAX_REF_SHIFT; shift++)
        if (memory_limit <= (1ull << (32 + shift)) / 2)
            return shift;
    /* Beyond that the limit cannot be raised, but each class can still have its first page. */
    if (memory_limit + (MC_CLASSES + 1ull) * MC_PAGE_BYTES <= 1ull << (32 + MAX_REF_SHIFT))
        return MAX_REF_SHIFT;
    return 0;
}

uint64_t heap_reach(unsigned int ref_shift, uint64_t memory_limit)
{
    uint64_t most = 1ull << (32 + ref_shift), reach;
    /* Each class may have a page more, page 0 is not used, and what is mapped is whole extents. */
    uint64_t least = memory_limit + (MC_CLASSES + 1ull) * MC_PAGE_BYTES + MC_EXTENT_BYTES;
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return most;
    reach = limit.rlim_cur / 4 > least ? limit.rlim_cur / 4 : least;
    if (reach > limit.rlim_cur / 2)
        reach = limit.rlim_cur / 2;
    return reach < most ? reach - reach % MC_EXTENT_BYTES : most;
}

int heap_init(struct heap *heap, struct provider *provider, unsigned int ref_shift, uint64_t reach)
{
    size_t length = reach + MC_EXTENT_BYTES;
    void *at = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return -errno;
    *heap = (struct heap){
        /* Aligned, so that anonymous extents can be huge pages. */
        .base = (char *)(((uintptr_t)at + MC_EXTENT_BYTES - 1) & -(uintptr_t)MC_EXTENT_BYTES),
        .ref_shift = ref_shift,
        .max_extents = (uint32_t)(reach / MC_EXTENT_BYTES),
        .provider = provider,
        .reservation = at,
        .nreservation = length,
    };
    return 0;
}

void heap_fini(struct heap *heap)
{
    if (heap->reservation)
        munmap(heap->reservation, heap->nreservation);
}

int heap_grow(struct heap *heap, uint32_t nextents)
{
    int error = 0;

    if (nextents > heap->max_extents)
        return -ENOSPC;
    if (nextents <= __atomic_load_n(&heap->nextents, __ATOMIC_ACQUIRE))
        return 0;
    lock_take(&heap->lock, LOCK_MAPPING);
    for (uint32_t i = heap->nextents; i < nextents && !error; i++) {
        error = heap->provider->extent(heap->provider, i, heap->base + (size_t)i * MC_EXTENT_BYTES);
        if (!error)
            __atomic_store_n(&heap->nextents, i + 1, __ATOMIC_RELEASE);
    }
    lock_release(&heap->lock, LOCK_MAPPING);
    return error;
}

void heap_release(struct heap *heap, uint32_t page)
{
    if (heap->provider->release)
        heap->provider->release(heap->provider, heap->base + (size_t)page * MC_PAGE_BYTES,
                                MC_PAGE_BYTES);
}
