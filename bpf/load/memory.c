/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/load/object.h"
#include "bpf/shared/layout.h"

static int make(uint32_t size)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);

    return bpf_map_create(BPF_MAP_TYPE_ARRAY, "mc_memory", sizeof(uint32_t), size, 1, &opts);
}

int inner_init(struct inner *inner, struct bpf_map *heap)
{
    inner->first = make(MC_EXTENT_BYTES);
    return inner->first < 0 ? inner->first : bpf_map__set_inner_map_fd(heap, inner->first);
}

static void *put(void *context)
{
    struct inner_job *job = context;

    job->rc = bpf_map_update_elem(job->outer, &job->index, &job->fd, BPF_ANY);
    close(job->fd);
    return NULL;
}

static void join(struct inner *inner)
{
    for (size_t i = 0; i < inner->njobs; i++) {
        pthread_join(inner->jobs[i].thread, NULL);
        inner->rc = inner->rc ? inner->rc : inner->jobs[i].rc;
    }
    inner->njobs = 0;
}

/* By a thread, if it may be late; `job` is copied. */
static int start(struct inner *inner, struct inner_job job)
{
    struct inner_job *at;

    if (!inner->waits) {
        if (inner->njobs == INNER_MAX)
            join(inner);
        at = &inner->jobs[inner->njobs];
        *at = job;
        if (pthread_create(&at->thread, NULL, put, at) == 0) {
            inner->njobs++;
            return 0;
        }
    }
    put(&job);
    return job.rc;
}

/* At `addr`; a process that this one forks does not have it. 0 or -errno. */
static int map(int fd, void *addr, uint32_t size)
{
    const int protection = PROT_READ | PROT_WRITE;

    if (mmap(addr, size, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
        madvise(addr, size, MADV_DONTFORK))
        return -errno;
    return 0;
}

/* Makes a map of `size` bytes, maps it at `addr` and puts it into `outer`. 0 or -errno. */
static int add(struct loader *loader, const char *outer, uint32_t index, void *addr, uint32_t size)
{
    struct inner *inner = &loader->inner;
    int fd =
        size == MC_EXTENT_BYTES ? __atomic_exchange_n(&inner->first, -1, __ATOMIC_RELAXED) : -1;
    int rc;

    if (fd < 0)
        fd = make(size);
    if (fd < 0)
        return fd;
    rc = map(fd, addr, size);
    if (rc) {
        close(fd);
        return rc;
    }
    return start(inner, (struct inner_job){.index = index,
                                           .outer = bpf_map__fd(object_map(&loader->object, outer)),
                                           .fd = fd});
}

int loader_map_extent(struct loader *loader, uint32_t index, void *addr)
{
    return add(loader, "mc_heap", index, addr, MC_EXTENT_BYTES);
}

int loader_map_table(struct loader *loader, uint32_t index, void *addr)
{
    return add(loader, "mc_table", index, addr, MC_TABLE_BYTES);
}

int inner_finish(struct inner *inner)
{
    join(inner);
    inner->waits = true;
    return inner->rc;
}

void inner_free(struct inner *inner)
{
    join(inner);
    if (inner->first >= 0)
        close(inner->first);
    inner->first = -1;
}

/* --- releasing ------------------------------------------------------------------- */

enum { HELPERS = 47 };

struct clearing {
    int map;
    uint32_t next, end;
};

/* Stops at the first empty entry: entries are filled without gaps. */
static void *empty(void *arg)
{
    struct clearing *clearing = arg;
    uint32_t index;

    for (;;) {
        index = __atomic_fetch_add(&clearing->next, 1, __ATOMIC_RELAXED);
        if (index >= clearing->end || bpf_map_delete_elem(clearing->map, &index))
            return NULL;
    }
}

/*
 * Clears an array of maps from `first` up to the first empty entry or `end`. For each removal the
 * kernel waits for an RCU grace period, 10 to 20 ms; concurrent removals share one. So several
 * threads remove at once: the 1,024 extents of 16 GiB take a second instead of a quarter of a
 * minute.
 */
static void clear(int map, uint32_t first, uint32_t end)
{
    struct clearing clearing = {map, first, end};
    pthread_t helpers[HELPERS];
    unsigned int n = 0;

    while (n < HELPERS && !pthread_create(&helpers[n], NULL, empty, &clearing))
        n++;
    empty(&clearing);
    while (n > 0)
        pthread_join(helpers[--n], NULL);
}

void loader_release_memory(struct loader *loader)
{
    const struct bpf_map *heap = object_map(&loader->object, "mc_heap");
    const struct bpf_map *table = object_map(&loader->object, "mc_table");

    if (loader->object.kind == OBJECT_CHAIN)
        return; /* no filter holds its programs, so their memory is freed with them */
    clear(bpf_map__fd(heap), 0, MC_MAX_EXTENTS);
    clear(bpf_map__fd(table), 0, MC_OVERFLOW_TABLE);
    clear(bpf_map__fd(table), MC_OVERFLOW_TABLE, MC_MAX_TABLE_EXTENTS);
}
