/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * undo: gives TCP connections on which the kernel has answered back to the server alone: a socket
 * takes the place of the old one that has the numbers which the client knows (splice/swap.h). And
 * attaches the guard, again if another process has detached it.
 *
 * That needs the capabilities of splice/swap.h, which only a small process has, a child of the
 * server: the undo process (splice/process.h). A thread of the server sends it the old socket and
 * gets the new one; or has it reset the connection, with the numbers that the client knows. It ends
 * with the server, and no signal but SIGKILL ends it before, so that connections can be undone
 * while the server ends.
 */
#ifndef SPLICE_UNDO_H
#define SPLICE_UNDO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/boundaries.h"
#include "bpf/load/entry.h"

struct credentials_user;
struct undo;

/* What the undo process has of the kernel path. */
struct undo_kernel {
    struct entry_access entries;
    int cgroup;    /* of the guard; or -errno: why there is none */
    int filter;    /* a program for new sockets; -1: none */
    uint16_t port; /* the server's */
};

/*
 * Starts the undo process as the server's user, and waits until it has swapped a socket on
 * loopback. To be called by the main thread, before others are started and before it gives up its
 * rights; nthreads: how many call those below. 0, or -1 with `error`.
 */
int undo_start(struct undo **out, const struct undo_kernel *kernel,
               const struct credentials_user *user, unsigned int nthreads, char *error,
               size_t nerror);
/* Ends the undo process, and waits until it has ended. NULL is legal. */
void undo_stop(struct undo *undo);
/*
 * From any thread; waits for some tens of microseconds, or, once, until the process counts as dead.
 * UNDO_FAILED is logged with its reason, each reason once. Unless it is UNDO_DONE the socket is as
 * it was, or its connection has ended. The caller closes it.
 */
enum undo_result undo_socket(struct undo *undo, int socket, struct mc_tcp_tag tag,
                             struct undone *out);
/*
 * The same where the connection cannot be undone: resets it with the numbers that the client knows.
 * False: it was not. The caller closes the socket.
 */
bool undo_reset(struct undo *undo, int socket, struct mc_tcp_tag tag);
/*
 * The kernel has answered on the connection: what comes for it by a way without the programs has
 * other numbers than netfilter knows. It is to let that through to the socket, where it is noticed
 * (splice/conntrack.h). False: netfilter tracks no connection, or not now.
 */
bool undo_announce(struct undo *undo, int socket, struct mc_tcp_tag tag);
/*
 * The guard's link, attached anew if it is detached, or -errno. The caller closes it; the process
 * has one, too.
 */
int undo_guard(struct undo *undo);
/* Whether the process does not count as dead. NULL: false. */
bool undo_lives(const struct undo *undo);

#endif
