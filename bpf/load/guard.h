/* SPDX-License-Identifier: BSD-3-Clause */
/* guard: gives the programs the settings of bpf/packet/guard.bpf.h. Used by the loader only. */
#ifndef BPF_LOAD_GUARD_H
#define BPF_LOAD_GUARD_H

struct loader_guard;
struct object;

/* Before the load: constants, and the sizes of its maps. 0 or -errno. */
int guard_prepare(struct object *object, const struct loader_guard *guard);
/* After it: the list, and the limits. 0 or -errno. */
int guard_fill(struct object *object, const struct loader_guard *guard);

#endif
