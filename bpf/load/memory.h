/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory: the maps that are the memory of the server, and putting them into `heap` and `table`.
 *
 * A thread that puts a map into a map waits for a grace period of RCU, 10 to 20 milliseconds while
 * the verifier has the CPUs. Until the programs are loaded no program needs the maps there, so
 * until then threads do it. `heap` is made of the first extent's map and not, as libbpf would, of
 * one that is made for that and thrown away: the kernel clears the 8 MiB of each.
 */
#ifndef BPF_MEMORY_H
#define BPF_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/libbpf.h>

enum { INNER_MAX = 8 };

/* Puts the map `fd` into `outer`, and closes `fd`. */
struct inner_job {
    pthread_t thread;
    uint32_t index;
    int outer, fd, rc;
};

struct inner {
    int first;  /* the first extent's map; -1: none, also before inner_init */
    bool waits; /* each map is put in before loader_map_extent returns */
    int rc;     /* of the threads */
    struct inner_job jobs[INNER_MAX];
    size_t njobs;
};

/* Before the object of `heap` is loaded. 0 or -errno; to be freed in any case. */
int inner_init(struct inner *inner, struct bpf_map *heap);
/*
 * Waits until all maps are put in, and from now on for each; until then one thread only may add
 * memory. 0 or -errno. May be called again.
 */
int inner_finish(struct inner *inner);
void inner_free(struct inner *inner);

#endif
