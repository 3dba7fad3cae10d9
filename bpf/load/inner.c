/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/inner.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>

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

int inner_map(struct inner *inner, int outer, uint32_t index, void *addr, uint32_t size)
{
    int fd =
        size == MC_EXTENT_BYTES ? __atomic_exchange_n(&inner->first, -1, __ATOMIC_RELAXED) : -1;
    int rc;

    if (fd < 0)
        fd = make(size);
    if (fd < 0)
        return fd;
    if (mmap(addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return start(inner, (struct inner_job){.index = index, .outer = outer, .fd = fd});
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
