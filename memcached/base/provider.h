/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider: where the store's memory comes from.
 *
 * The store reserves address space and asks for memory to be placed in it, one segment at a time,
 * and never unmaps one before it is freed as a whole. kcache provides memory that the kernel
 * programs see, base/anonymous.h ordinary memory. Sizes are those of bpf/shared/layout.h.
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
     * Maps heap segment `index` (MC_SEGMENT_BYTES, zeroed) at `addr`, which lies in a reservation
     * of the caller. 0 or -errno.
     */
    int (*segment)(struct provider *, uint32_t index, void *addr);
    /* The same for segment `index` of the table: MC_TABLE_BYTES. */
    int (*table)(struct provider *, uint32_t index, void *addr);
    /* The control block, zeroed, lives as long as the provider. Not NULL. */
    struct mc_control *(*control)(struct provider *);
    /*
     * The store does without these bytes of a segment for now: they stay mapped, and what is in
     * them may be lost. May be NULL. From any thread.
     */
    void (*release)(struct provider *, void *addr, size_t length);
};

#endif
