/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/ghost.h"

#include <errno.h>
#include <sys/mman.h>

#include "bpf/shared/layout.h"

static size_t bytes_of(const struct ghost *ghost)
{
    return (ghost->mask + 1) * sizeof(*ghost->cells);
}

/* Never 0, which an empty cell has. */
static uint32_t name_of(uint64_t hash)
{
    uint32_t name = (uint32_t)(hash >> 32);

    return name ? name : 1;
}

int ghost_init(struct ghost *ghost, uint64_t cache_bytes)
{
    uint64_t ncells = 1024;
    void *cells;

    while (ncells * 2 <= cache_bytes / GHOST_SHARE)
        ncells *= 2;
    ghost->mask = ncells - 1;
    cells = mmap(NULL, bytes_of(ghost), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cells == MAP_FAILED)
        return -errno;
    ghost->cells = cells;
    return 0;
}

void ghost_fini(struct ghost *ghost)
{
    if (ghost->cells)
        munmap(ghost->cells, bytes_of(ghost));
    ghost->cells = NULL;
}

static uint32_t *cell_of(const struct ghost *ghost, uint64_t hash, uint32_t nbuckets)
{
    uint64_t mask = ((uint64_t)mc_table_mask(nbuckets) + 1) * GHOST_BUCKET_CELLS - 1;

    return &ghost->cells[hash & (mask < ghost->mask ? mask : ghost->mask)];
}

void ghost_note(struct ghost *ghost, uint64_t hash, uint32_t nbuckets)
{
    if (ghost->cells)
        __atomic_store_n(cell_of(ghost, hash, nbuckets), name_of(hash), __ATOMIC_RELAXED);
}

bool ghost_take(struct ghost *ghost, uint64_t hash, uint32_t nbuckets)
{
    uint32_t *cell;

    if (!ghost->cells)
        return false;
    cell = cell_of(ghost, hash, nbuckets);
    if (__atomic_load_n(cell, __ATOMIC_RELAXED) != name_of(hash))
        return false;
    __atomic_store_n(cell, 0, __ATOMIC_RELAXED);
    return true;
}
