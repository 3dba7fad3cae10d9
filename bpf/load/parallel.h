/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parallel: loads the programs of one object at the same time, while the server sets itself up. The
 * verifier needs tenths of a second for a long program, and is the largest part of the server's
 * start; libbpf loads the programs of an object one after the other.
 *
 * So each long program is loaded by a thread of its own, from a copy of the object (a part) which
 * has the object's maps. Used by the loader only.
 */
#ifndef BPF_PARALLEL_H
#define BPF_PARALLEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/libbpf.h>

enum { PARALLEL_MAX = 3 };

/* One program to load, and the object that it is loaded from. */
struct parallel_job {
    const struct bpf_object_skeleton *skeleton;
    struct bpf_program **wanted; /* of the object; then the one that was loaded */
    struct bpf_object *part;
    struct bpf_program *program;
    char *log;
    size_t nlog;
    int rc;
    pthread_t thread;
    bool started; /* the thread, which is not joined yet */
    bool done;
};

struct parallel {
    struct parallel_job jobs[PARALLEL_MAX];
    size_t njobs; /* that are not finished */
};

/*
 * Loads an open object but for programs[], and starts to load these. 0 or -errno; to be freed in
 * any case. Until parallel_finish no thread of the process may change its credentials, and all that
 * is given stays.
 */
int parallel_start(struct parallel *parallel, struct bpf_object_skeleton *skeleton,
                   struct bpf_program **programs[], size_t nprograms);
/*
 * Waits until the one of them in `wanted` is loaded, which it then is. What fails fails again in
 * parallel_finish. 0 or -errno.
 */
int parallel_wait(struct parallel *parallel, struct bpf_program **wanted);
/*
 * Waits until they are loaded; then *programs[i] is the one that was loaded. `log` (or NULL) gets
 * what the verifier says of one that it refuses. 0 or -errno. Once more does nothing.
 */
int parallel_finish(struct parallel *parallel, char *log, size_t nlog);
/* Zeros are legal. */
void parallel_free(struct parallel *parallel);

#endif
