/* SPDX-License-Identifier: BSD-3-Clause */
/* attached: what a loader whose programs are attached keeps beside the links. Used here only. */
#ifndef BPF_ATTACHED_H
#define BPF_ATTACHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "bpf/load/object.h"

struct attached {
    /* The same programs over the same maps, for a dispatcher; not open until needed. */
    struct object plain;
    int xdp_array, tc_arrays[LOADER_HOOKS]; /* of prog_array.h; -1: not needed yet */
    int filters[LOADER_HOOKS]; /* programs that call through these; -1: not needed yet */
    int share_socket;          /* where other servers ask; -1: none */
    unsigned int share_number; /* no other server of this network namespace has it meanwhile */
    struct closer *closer;     /* of what they send; NULL: no socket */
    gid_t share_group;         /* its own, once */
    bool share_listens;        /* and others can connect */
    bool share_shown[LOADER_HOOKS];
    char share_folder[80];     /* of the sockets of all, */
    uint64_t share_netns;      /* of whose names this is the first part */
    time_t share_second;       /* a second, */
    unsigned int share_work;   /* and what was done for others in it */
    struct share_link *shares; /* links that others may share */
};

/* From the first call on loader->attached, until loader_close. NULL: no memory. */
struct attached *attached_of(struct loader *loader);

#endif
