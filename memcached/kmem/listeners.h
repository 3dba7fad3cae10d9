/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listeners: while a socket takes the place of another one, what comes for the connection is kept
 * from the listening sockets, which would reset it, by a filter on them (mc_tcp_listener in
 * bpf/tcp/lost.bpf.h). An accepted socket inherits the filter, which then costs it some 40 ns for
 * each segment: so they have it only from before such a swap to some time after it.
 *
 * Any thread.
 */
#ifndef KMEM_LISTENERS_H
#define KMEM_LISTENERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loader;

enum { LISTENERS_CALM = 2 /* seconds after the last swap in which they keep the filter */ };

struct listeners {
    const struct loader *loader;
    pthread_mutex_t lock; /* of what follows; a leaf */
    int *sockets;
    size_t n;
    unsigned int nswaps; /* that have begun and not ended */
    int64_t last;        /* when one ended, in seconds */
    bool filtered;
};

/* Tries whether these n sockets take the filter, which none has yet. 0 or -errno. */
int listeners_init(struct listeners *listeners, const struct loader *loader, const int *sockets,
                   size_t n);
/* Does nothing to one that is all zeros. */
void listeners_fini(struct listeners *listeners);
/* Before a swap. 0 or -errno; then there must be none. */
int listeners_begin(struct listeners *listeners);
/* Behind each listeners_begin that succeeded. now: in seconds. */
void listeners_end(struct listeners *listeners, int64_t now);
/* To be called about once a second: takes the filter off when there was no swap for a while. */
void listeners_rest(struct listeners *listeners, int64_t now);
/* Before the sockets are closed: they keep the filter, and nothing is done to them any more. */
void listeners_leave(struct listeners *listeners);

#endif
