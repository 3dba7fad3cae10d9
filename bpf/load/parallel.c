/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/parallel.h"

#include <errno.h>
#include <string.h>

/* The part uses the object's maps. Both come from the same bytes, so they have the same order. */
static int share_maps(const struct bpf_object *object, const struct bpf_object *part)
{
    struct bpf_map *from = NULL, *to = NULL;
    int rc = 0;

    while (!rc && (from = bpf_object__next_map(object, from)) &&
           (to = bpf_object__next_map(part, to)))
        rc = bpf_map__autocreate(from) ? bpf_map__reuse_fd(to, bpf_map__fd(from))
                                       : bpf_map__set_autocreate(to, false);
    return rc;
}

/* Only the wanted program is loaded, as the caller has set it. */
static void choose(struct parallel_job *job)
{
    const char *name = bpf_program__name(*job->wanted);
    struct bpf_program *each;

    bpf_object__for_each_program(each, job->part)
    {
        bool wanted = strcmp(bpf_program__name(each), name) == 0;

        bpf_program__set_autoload(each, wanted);
        if (!wanted)
            continue;
        job->program = each;
        bpf_program__set_flags(each, bpf_program__flags(*job->wanted));
        bpf_program__set_expected_attach_type(each,
                                              bpf_program__expected_attach_type(*job->wanted));
    }
}

static void *run(void *context)
{
    struct parallel_job *job = context;
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = job->skeleton->name,
                .kernel_log_buf = job->log, .kernel_log_size = job->nlog);

    job->part = bpf_object__open_mem(job->skeleton->data, job->skeleton->data_sz, &opts);
    if (!job->part) {
        job->rc = -errno;
        return NULL;
    }
    choose(job);
    job->rc = share_maps(*job->skeleton->obj, job->part);
    if (!job->rc)
        job->rc = bpf_object__load(job->part);
    return NULL;
}

/* Once more, for what the verifier says. */
static void run_again(struct parallel_job *job, char *log, size_t nlog)
{
    bpf_object__close(job->part);
    job->log = log;
    job->nlog = nlog;
    run(job);
}

int parallel_start(struct parallel *parallel, struct bpf_object_skeleton *skeleton,
                   struct bpf_program **programs[], size_t nprograms)
{
    struct parallel_job *job;
    size_t i;
    int rc;

    for (i = 0; i < nprograms; i++)
        bpf_program__set_autoload(*programs[i], false);
    rc = bpf_object__load_skeleton(skeleton);
    if (rc)
        return rc;
    for (i = 0; i < nprograms; i++) {
        job = &parallel->jobs[i];
        *job = (struct parallel_job){.skeleton = skeleton, .wanted = programs[i]};
        job->started = pthread_create(&job->thread, NULL, run, job) == 0;
    }
    parallel->njobs = nprograms;
    return 0;
}

/* Waits for its end. */
static void join(struct parallel_job *job)
{
    if (job->started)
        pthread_join(job->thread, NULL);
    else if (!job->done)
        run(job);
    job->started = false;
    job->done = true;
}

int parallel_wait(struct parallel *parallel, struct bpf_program **wanted)
{
    for (size_t i = 0; i < parallel->njobs; i++) {
        struct parallel_job *job = &parallel->jobs[i];

        if (job->wanted != wanted)
            continue;
        join(job);
        if (!job->rc)
            *wanted = job->program;
        return job->rc;
    }
    return 0;
}

int parallel_finish(struct parallel *parallel, char *log, size_t nlog)
{
    size_t i;
    int rc = 0;

    for (i = 0; i < parallel->njobs; i++) {
        struct parallel_job *job = &parallel->jobs[i];

        join(job);
        if (job->rc && !rc && log)
            run_again(job, log, nlog);
        *job->wanted = job->program;
        rc = rc ? rc : job->rc;
    }
    parallel->njobs = 0;
    return rc;
}

void parallel_free(struct parallel *parallel)
{
    parallel_finish(parallel, NULL, 0);
    for (size_t i = 0; i < PARALLEL_MAX; i++)
        bpf_object__close(parallel->jobs[i].part);
    *parallel = (struct parallel){.njobs = 0};
}
