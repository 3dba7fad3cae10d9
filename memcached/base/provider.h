/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider: where the store's memory comes from.
 *
 * The store reserves address space and has memory mapped into it, one extent at a time, and unmaps
 * none before all of it is freed. kcache provides memory that the kernel programs see,
 * base/anonymous.h ordinary memory. Sizes are those of bpf/shared/layout.h.
 *
 * Calls come from any thread, one at a time for each kind.
 */
#ifndef BASE_PROVIDER_H
#define BASE_PROVIDER_H

#include <stddef.h>
#include <stdint.h>

struct mc_control;

struct provider {
    /*
     * Maps heap extent `index` (MC_EXTENT_BYTES, zeroed) at `addr`, in a reservation of the caller.
     * 0 or -errno.
     */
    int (*extent)(struct provider *, uint32_t index, void *addr);
    /* Maps extent `index` of the table (MC_TABLE_BYTES, zeroed) at `addr`. 0 or -errno. */
    int (*table)(struct provider *, uint32_t index, void *addr);
    /* The control block, zeroed, lives as long as the provider. Not NULL. */
    struct mc_control *(*control)(struct provider *);
    /*
     * Releases these bytes of a heap extent for now: they stay mapped, and their contents may be
     * lost. May be NULL. From any thread.
     */
    void (*release)(struct provider *, void *addr, size_t length);
};

#endif
