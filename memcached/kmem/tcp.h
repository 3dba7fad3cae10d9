/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp: the server's side of answering on TCP connections: gives those that gain slots, and tells
 * the programs which by an entry that waits for the connection's next reply.
 *
 * tcp_init before the server's threads; the boundaries from any of them.
 */
#ifndef KMEM_TCP_H
#define KMEM_TCP_H

#include <stdbool.h>

#include "base/boundaries.h"
#include "kmem/listeners.h"
#include "kmem/slots.h"

struct credentials_user;
struct loader;
struct undo;

struct tcp {
    struct boundaries boundaries;
    struct loader *loader;
    struct undo *undo;          /* NULL: none is undone */
    struct listeners listeners; /* those of which other sockets are accepted */
    struct slots slots;
    bool follows; /* connections that are accepted get slots; atomic */
    bool refused; /* a tag was; atomic */
    bool lost;    /* a connection was reset because it was lost, which is logged once; atomic */
    uint64_t nundone[UNDO_REASONS], nresets; /* connections; atomic */
    uint64_t nreleased, nrefreshed;          /* atomic */
    int64_t unasked;  /* until when netfilter, which tracks nothing, is not asked, in s; atomic */
    int64_t reported; /* when the log was last told that one was undone, in s; atomic */
};

/* The most slots that the programs can have. */
enum { TCP_SLOTS_MAX = MC_TCP_CONNECTIONS_MAX };

/* After loader_open_tcp with n slots. refresh: that of the boundaries. 0 or -ENOMEM. */
int tcp_init(struct tcp *tcp, struct loader *loader, uint32_t n, uint32_t refresh);
void tcp_fini(struct tcp *tcp);
/*
 * Starts what undoes connections (splice/undo.h): for nthreads threads, on the server's port. By
 * the main thread, before others are started and before it gives up its rights. 0, or -1 with
 * `error`.
 */
int tcp_start_undo(struct tcp *tcp, const struct credentials_user *user, unsigned int nthreads,
                   uint16_t port, char *error, size_t nerror);
/*
 * What would leave by a way without the programs is dropped from now on, if the process was in a
 * cgroup of version 2 when the undo process was started; otherwise logs why not. After loader_wait.
 */
void tcp_guard(struct tcp *tcp);
/* The same after another process has ended that. 0 or -errno. */
int tcp_attach_guard(struct tcp *tcp);
/*
 * While a socket takes the place of another one, what comes for the connection is kept from these n
 * listening sockets, which would reset it. 0, or -errno: they do not take the filter.
 */
int tcp_filter_listeners(struct tcp *tcp, const int *sockets, size_t n);
/* Connections that are accepted from now on get slots. */
void tcp_follow(struct tcp *tcp);
/* To be called about once a second. */
void tcp_rest(struct tcp *tcp);
/* None from now on, before the listening sockets are closed. Whether some may have one. */
bool tcp_unfollow(struct tcp *tcp);
void tcp_counts(const struct tcp *tcp, struct boundaries_counts *out);

#endif
