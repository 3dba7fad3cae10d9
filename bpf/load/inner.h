/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inner: the maps that the memory of the server is, and putting them into `heap` and `table`.
 *
 * Whoever puts a map into a map waits for a grace period of RCU, 10 to 20 milliseconds while the
 * verifier has the CPUs. Until the programs are loaded nobody needs the maps there, so until then
 * threads do it. `heap` is made of the first extent's map and not, as libbpf would, of one that is
 * made for that and thrown away: the kernel clears the 8 MiB of each.
 */
#ifndef BPF_INNER_H
#define BPF_INNER_H

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
    bool waits; /* each map is put in before inner_map returns */
    int rc;     /* of the threads */
    struct inner_job jobs[INNER_MAX];
    size_t njobs;
};

/* Before the object of `heap` is loaded. 0 or -errno; to be freed in any case. */
int inner_init(struct inner *inner, struct bpf_map *heap);
/*
 * Makes a map of `size` bytes, maps it at `addr` and puts it into `outer`. Until inner_finish by
 * one thread only. 0 or -errno.
 */
int inner_map(struct inner *inner, int outer, uint32_t index, void *addr, uint32_t size);
/* Waits until all maps are put in, and from now on for each. 0 or -errno. May be called again. */
int inner_finish(struct inner *inner);
void inner_free(struct inner *inner);

#endif
