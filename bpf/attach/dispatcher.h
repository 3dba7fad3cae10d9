/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatcher: adds a member program to libxdp's dispatcher, which calls several XDP programs one
 * after another. The only user of libxdp; dispatcher_none.c replaces it in a build without libxdp.
 *
 * libxdp pins what it attaches, so that it outlives its process. Programs that answer from a
 * process's memory must not: the member is bpf/attach/member.bpf.c, which passes every packet once
 * the process has ended, and its link is unpinned, so that it ends with the process as well. The
 * files that libxdp expects stay; the next server that starts, or `xdp-loader unload`, removes the
 * dead member.
 */
#ifndef BPF_DISPATCHER_H
#define BPF_DISPATCHER_H

#include <stdbool.h>
#include <stddef.h>

enum {
    DISPATCHER_PRIORITY = 100, /* of the member; a firewall has a lower number and runs first */
};

/*
 * Whether the interface has a dispatcher. First removes the members of servers that have ended,
 * with which the dispatcher may be removed as well.
 */
bool dispatcher_is_there(int ifindex);
/*
 * Adds a member that calls the first program of `prog_array` as long as that has a descriptor.
 * *generic: how the dispatcher is attached. Returns the member's descriptor, whose close removes
 * it; or -errno, with the verifier's message or "" in `reason`.
 */
int dispatcher_join(int ifindex, int prog_array, bool *generic, char *reason, size_t nreason);

#endif
