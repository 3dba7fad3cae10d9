/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/limited.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/log.h"
#include "bpf/shared/layout.h"

enum {
    PREFAULTED_MAX = 16, /* extents: the store prefaults no more of them ahead */
    PAGE_BYTES_MIN = 4096,
};

struct limited {
    struct provider provider;
    struct provider *inner;
    const struct cgroup *cgroup;
    uint32_t nkept;
    uint64_t nbytes;      /* atomic */
    unsigned int refused; /* enum cgroup_kind; atomic */
};

/* Bytes of a heap extent that take no memory before they are written. */
static uint64_t unused_bytes(char *extent)
{
    unsigned char pages[MC_EXTENT_BYTES / PAGE_BYTES_MIN];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = MC_EXTENT_BYTES / page;
    uint64_t unused = 0;

    if (mincore(extent, MC_EXTENT_BYTES, pages) != 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        unused += pages[i] & 1 ? 0 : page;
    return unused;
}

static bool has_room(const struct limited *limited, uint32_t index, char *addr)
{
    uint64_t unused = 0;

    if (index < limited->nkept || !cgroup_is_limited(limited->cgroup))
        return true;
    for (uint32_t i = 1; i <= index && i <= PREFAULTED_MAX; i++)
        unused += unused_bytes(addr - (size_t)i * MC_EXTENT_BYTES);
    return cgroup_has_room_for_extent(limited->cgroup, index, unused,
                                      __atomic_load_n(&limited->refused, __ATOMIC_RELAXED));
}

static int report_shortage(struct limited *limited, enum cgroup_kind kind, int error)
{
    uint64_t nbytes = kind == CGROUP_EXTENT ? MC_EXTENT_BYTES : MC_TABLE_BYTES;

    __atomic_fetch_add(&limited->nbytes, error ? 0 : nbytes, __ATOMIC_RELAXED);
    if (error == -EDQUOT && cgroup_shortage_begins(&limited->refused, kind))
        log_write("memory: the limit of the cgroup is near: the cache stays at %llu MB until there "
                  "is room",
                  (unsigned long long)(__atomic_load_n(&limited->nbytes, __ATOMIC_RELAXED) >> 20));
    else if (!error && cgroup_shortage_ends(&limited->refused, kind))
        log_write("memory: there is room in the cgroup again");
    return error;
}

static int map_extent(struct provider *provider, uint32_t index, void *addr)
{
    struct limited *limited = (struct limited *)provider;

    return report_shortage(limited, CGROUP_EXTENT,
                           has_room(limited, index, addr)
                               ? limited->inner->extent(limited->inner, index, addr)
                               : -EDQUOT);
}

static int map_table(struct provider *provider, uint32_t index, void *addr)
{
    struct limited *limited = (struct limited *)provider;

    return report_shortage(limited, CGROUP_TABLE,
                           cgroup_has_room_for_table(limited->cgroup, index)
                               ? limited->inner->table(limited->inner, index, addr)
                               : -EDQUOT);
}

static void release(struct provider *provider, void *addr, size_t length)
{
    struct limited *limited = (struct limited *)provider;

    limited->inner->release(limited->inner, addr, length);
}

static struct mc_control *get_control(struct provider *provider)
{
    struct limited *limited = (struct limited *)provider;

    return limited->inner->control(limited->inner);
}

struct provider *limited_new(struct provider *inner, const struct cgroup *cgroup, uint32_t nkept)
{
    struct limited *limited = malloc(sizeof(*limited));

    if (!limited)
        return NULL;
    *limited = (struct limited){
        .provider = {.extent = map_extent,
                     .table = map_table,
                     .release = inner->release ? release : NULL,
                     .control = get_control},
        .inner = inner,
        .cgroup = cgroup,
        .nkept = nkept,
    };
    return &limited->provider;
}

void limited_free(struct provider *provider)
{
    free(provider);
}
