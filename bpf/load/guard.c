/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/guard.h"

#include <errno.h>
#include <stddef.h>
#include <sys/random.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/load/object.h"

size_t loader_list_bytes(const struct loader_guard *guard)
{
    return MC_ALLOW_NODES_AT + (size_t)guard->nnodes * MC_ALLOW_FAN * sizeof(uint32_t) +
           (size_t)guard->nprefixes * sizeof(struct mc_allow_prefix);
}

/* What a request costs, in units of struct mc_guard. */
static uint64_t cost_of(const struct loader_guard *guard)
{
    return guard->rate ? 1000000000ull * MC_RATE_TICKS / guard->rate : 0;
}

/* Sizes the maps of rate=, and sets its secret factors. */
static int prepare_rates(struct object *object)
{
    uint64_t seeds[2];

    if (getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds))
        return -EIO;
    object->guard.seeds[0] = seeds[0] | 1;
    object->guard.seeds[1] = seeds[1] | 1;
    return bpf_map__set_max_entries(object_map(object, "mc_rates"), 1u << MC_RATE_BITS);
}

int guard_prepare(struct object *object, const struct loader_guard *guard)
{
    const struct object_guard *out = &object->guard;
    struct bpf_map *lists = object_map(object, "mc_allowed");
    int rc = 0;

    *out->allow = guard->allow;
    *out->local = guard->local;
    *out->amplification = guard->amplification;
    *out->reloads = guard->reloads;
    *out->cost = cost_of(guard);
    *out->depth = *out->cost * guard->burst;
    if (guard->allow == MC_ALLOW_LIST) {
        *out->nodes_mask = guard->nnodes - 1;
        *out->prefixes_mask = guard->nprefixes - 1;
        rc = bpf_map__set_value_size(lists, (uint32_t)loader_list_bytes(guard));
    }
    if (!rc && guard->reloads)
        rc = bpf_map__set_max_entries(lists, 2);
    if (!rc && (guard->rate || guard->reloads))
        rc = prepare_rates(object);
    return rc;
}

/*
 * A packet that reads the list which is filled here began before the last change of guard_now.list:
 * it is passed.
 */
int guard_fill(struct object *object, const struct loader_guard *guard)
{
    struct mc_guard *now = object->guard_now;
    uint32_t number = (now->list & ~MC_GUARD_LOCAL) + MC_GUARD_NUMBER, key;

    if (guard->allow != MC_ALLOW_LIST)
        return 0;
    if (guard->reloads)
        number ^= MC_GUARD_SECOND;
    key = number & MC_GUARD_SECOND;
    if (bpf_map_update_elem(bpf_map__fd(object_map(object, "mc_allowed")), &key, guard->list,
                            BPF_ANY))
        return -errno;
    __atomic_store_n(&now->cost, cost_of(guard), __ATOMIC_RELAXED);
    __atomic_store_n(&now->depth, cost_of(guard) * guard->burst, __ATOMIC_RELAXED);
    __atomic_store_n(&now->amplification, guard->amplification, __ATOMIC_RELAXED);
    __atomic_store_n(&now->list, number | (guard->local ? MC_GUARD_LOCAL : 0), __ATOMIC_SEQ_CST);
    return 0;
}

int loader_set_guard(struct loader *loader, const struct loader_guard *guard)
{
    return guard_fill(&loader->object, guard);
}
