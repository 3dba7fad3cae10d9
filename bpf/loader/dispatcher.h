/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatcher: a place among the XDP programs that libxdp's dispatcher calls one after another. The
 * one place that knows libxdp; dispatcher_none.c stands in for a build without it.
 *
 * libxdp pins what it attaches, so that it outlives its process. That is no way for programs that
 * answer from the memory of a process: what takes the place is bpf/loader/member.bpf.c, which
 * passes everything once the process is gone, and its link is taken out of the file system, so that
 * it is cut as well. The files that libxdp counts on stay; the empty place is given back by the
 * next server that comes by, or by `xdp-loader unload`.
 */
#ifndef BPF_DISPATCHER_H
#define BPF_DISPATCHER_H

#include <stdbool.h>
#include <stddef.h>

enum {
    DISPATCHER_PRIORITY = 100, /* of the place; a firewall's is lower and comes first */
};

/*
 * Whether the interface has a dispatcher. Gives back the places of servers that are gone, with
 * which it may go itself.
 */
bool dispatcher_is_there(int ifindex);
/*
 * Takes a place, whose program is the first of the program array `alive` as long as that has a
 * descriptor. *generic: how the dispatcher is attached. Returns the descriptor of the place,
 * closing it leaves; or -errno, and `reason` becomes what the verifier says or "".
 */
int dispatcher_join(int ifindex, int alive, bool *generic, char *reason, size_t nreason);

#endif
