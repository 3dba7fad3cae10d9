/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "base/anonymous.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bpf/shared/layout.h"

struct anonymous {
    struct provider provider;
    struct mc_control *control;
    bool huge;
};

static void *map_memory(void *at, size_t length, int flags)
{
    return mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static int map_extent(struct provider *provider, uint32_t index, void *addr)
{
    (void)index;
    if (map_memory(addr, MC_EXTENT_BYTES, MAP_FIXED) == MAP_FAILED)
        return -errno;
    /* A kernel without huge pages gives ordinary pages, which is no error. */
    if (((struct anonymous *)provider)->huge)
        madvise(addr, MC_EXTENT_BYTES, MADV_HUGEPAGE);
    return 0;
}

static int map_table(struct provider *provider, uint32_t index, void *addr)
{
    (void)provider;
    (void)index;
    return map_memory(addr, MC_TABLE_BYTES, MAP_FIXED) == MAP_FAILED ? -errno : 0;
}

static void release(struct provider *provider, void *addr, size_t length)
{
    (void)provider;
    madvise(addr, length, MADV_DONTNEED);
}

static struct mc_control *get_control(struct provider *provider)
{
    return ((struct anonymous *)provider)->control;
}

struct provider *anonymous_new(bool huge)
{
    struct anonymous *anonymous = malloc(sizeof(*anonymous));
    void *control;

    if (!anonymous)
        return NULL;
    control = map_memory(NULL, sizeof(struct mc_control), 0);
    if (control == MAP_FAILED) {
        free(anonymous);
        return NULL;
    }
    *anonymous = (struct anonymous){
        .provider = {.extent = map_extent,
                     .table = map_table,
                     .release = release,
                     .control = get_control},
        .control = control,
        .huge = huge,
    };
    return &anonymous->provider;
}

void anonymous_free(struct provider *provider)
{
    struct anonymous *anonymous = (struct anonymous *)provider;

    if (!anonymous)
        return;
    munmap(anonymous->control, sizeof(struct mc_control));
    free(anonymous);
}
