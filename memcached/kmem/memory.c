/* SPDX-License-Identifier: BSD-3-Clause */
#include "kmem/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/log.h"
#include "bpf/load/load.h"

static uint64_t read_count(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static unsigned int read_refused(const struct memory *memory)
{
    return __atomic_load_n(&memory->refused, __ATOMIC_RELAXED);
}

static uint64_t megabytes(const struct memory *memory)
{
    return (read_count(&memory->nextents) * MC_EXTENT_BYTES +
            read_count(&memory->ntables) * MC_TABLE_BYTES) >>
           20;
}

static void log_shortage(const struct memory *memory, int error)
{
    if (error == -EPERM)
        log_write("bmc: without CAP_BPF the kernel makes no further map (%s): the cache stays at "
                  "%" PRIu64 " MB; with -L the server makes all maps at its start",
                  strerror(-error), megabytes(memory));
    else
        log_write("bmc: the kernel has no memory for another map (%s): the cache stays at %" PRIu64
                  " MB until there is memory",
                  error == -EDQUOT ? "the limit of its cgroup is near" : strerror(-error),
                  megabytes(memory));
}

/* Counts the result of a call, and logs once that memory ran short or is available again. */
static int report_shortage(struct memory *memory, enum cgroup_kind kind, int error)
{
    uint64_t *count = kind == CGROUP_EXTENT ? &memory->nextents : &memory->ntables;

    __atomic_fetch_add(error ? &memory->nrefused : count, 1, __ATOMIC_RELAXED);
    if (error && cgroup_shortage_begins(&memory->refused, kind))
        log_shortage(memory, error);
    else if (!error && cgroup_shortage_ends(&memory->refused, kind))
        log_write("bmc: there is memory for maps again");
    return error;
}

static int provide_extent(struct provider *provider, uint32_t index, void *addr)
{
    struct memory *memory = (struct memory *)provider;

    return report_shortage(
        memory, CGROUP_EXTENT,
        cgroup_has_room_for_extent(memory->cgroup, index, 0, read_refused(memory))
            ? loader_map_extent(memory->loader, index, addr)
            : -EDQUOT);
}

static int provide_table(struct provider *provider, uint32_t index, void *addr)
{
    struct memory *memory = (struct memory *)provider;

    return report_shortage(memory, CGROUP_TABLE,
                           cgroup_has_room_for_table(memory->cgroup, index)
                               ? loader_map_table(memory->loader, index, addr)
                               : -EDQUOT);
}

static struct mc_control *provide_control(struct provider *provider)
{
    return loader_control(((struct memory *)provider)->loader);
}

void memory_init(struct memory *memory, struct loader *loader)
{
    *memory = (struct memory){
        .provider = {.extent = provide_extent, .table = provide_table, .control = provide_control},
        .loader = loader,
        .cgroup = cgroup_new("/proc/self"),
    };
}

void memory_fini(struct memory *memory)
{
    cgroup_free(memory->cgroup);
}

void memory_stats(const struct memory *memory, uint64_t *extents, uint64_t *tables,
                  uint64_t *refused)
{
    *extents = read_count(&memory->nextents);
    *tables = read_count(&memory->ntables);
    *refused = read_count(&memory->nrefused);
}
