/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/loader/parallel.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* One program to load, and the object that it is loaded from. */
struct job {
    const struct bpf_object_skeleton *skeleton;
    const struct bpf_program *wanted;
    struct bpf_object *part;
    struct bpf_program *program;
    char *log;
    size_t nlog;
    int rc;
    pthread_t thread;
    bool started;
};

/* The part uses the object's maps. Both come from the same bytes, so they have the same order. */
static int share_maps(const struct bpf_object *object, const struct bpf_object *part)
{
    struct bpf_map *from = NULL, *to = NULL;
    int rc = 0;

    while (!rc && (from = bpf_object__next_map(object, from)) &&
           (to = bpf_object__next_map(part, to)))
        rc = bpf_map__reuse_fd(to, bpf_map__fd(from));
    return rc;
}

/* Only the wanted program is loaded, as the caller has set it. */
static void choose(struct job *job)
{
    const char *name = bpf_program__name(job->wanted);
    struct bpf_program *each;

    bpf_object__for_each_program(each, job->part)
    {
        bool wanted = strcmp(bpf_program__name(each), name) == 0;

        bpf_program__set_autoload(each, wanted);
        if (!wanted)
            continue;
        job->program = each;
        bpf_program__set_flags(each, bpf_program__flags(job->wanted));
        bpf_program__set_expected_attach_type(each, bpf_program__expected_attach_type(job->wanted));
    }
}

static void *run(void *context)
{
    struct job *job = context;
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
static void run_again(struct job *job, char *log, size_t nlog)
{
    bpf_object__close(job->part);
    job->log = log;
    job->nlog = nlog;
    run(job);
}

int parallel_load(struct parallel *parallel, struct bpf_object_skeleton *skeleton,
                  struct bpf_program **programs[], size_t nprograms, char *log, size_t nlog)
{
    struct job jobs[PARALLEL_MAX] = {{0}};
    size_t i;
    int rc;

    for (i = 0; i < nprograms; i++) {
        jobs[i] = (struct job){.skeleton = skeleton, .wanted = *programs[i]};
        bpf_program__set_autoload(*programs[i], false);
    }
    rc = bpf_object__load_skeleton(skeleton);
    if (rc)
        return rc;
    for (i = 0; i + 1 < nprograms; i++)
        jobs[i].started = pthread_create(&jobs[i].thread, NULL, run, &jobs[i]) == 0;
    for (i = 0; i < nprograms; i++)
        if (!jobs[i].started)
            run(&jobs[i]);
    for (i = 0; i < nprograms; i++) {
        if (jobs[i].started)
            pthread_join(jobs[i].thread, NULL);
        if (jobs[i].rc && !rc && log)
            run_again(&jobs[i], log, nlog);
        parallel->parts[i] = jobs[i].part;
        *programs[i] = jobs[i].program;
        rc = rc ? rc : jobs[i].rc;
    }
    return rc;
}

void parallel_free(struct parallel *parallel)
{
    for (size_t i = 0; i < PARALLEL_MAX; i++)
        bpf_object__close(parallel->parts[i]);
    *parallel = (struct parallel){{NULL}};
}
