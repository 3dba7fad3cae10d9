/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parallel: loads the programs of one object at the same time. The verifier needs tenths of a
 * second for a long program, and is the largest part of the server's start; libbpf loads the
 * programs of an object one after the other.
 *
 * So each long program is loaded by a thread of its own, from a copy of the object (a part) which
 * has the object's maps. Used by the loader only.
 */
#ifndef BPF_PARALLEL_H
#define BPF_PARALLEL_H

#include <stddef.h>

#include <bpf/libbpf.h>

enum { PARALLEL_MAX = 2 };

struct parallel {
    struct bpf_object *parts[PARALLEL_MAX];
};

/*
 * Loads an open object: programs[] in parallel, then *programs[i] is the one that was loaded, and
 * before these all others that are to be loaded. `log` (or NULL) gets what the verifier says of one
 * of programs[] that it refuses. 0 or -errno; to be freed in any case.
 */
int parallel_load(struct parallel *parallel, struct bpf_object_skeleton *skeleton,
                  struct bpf_program **programs[], size_t nprograms, char *log, size_t nlog);
/* One that is all zero is legal. */
void parallel_free(struct parallel *parallel);

#endif
