/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share: several servers on one interface, whose XDP link has one program. A server that finds the
 * interface taken asks the others, over sockets in a folder of root's, for the link and for the
 * program through which each of them is called (mc_shared). It puts these and its own into the
 * array of its mc_share (share.bpf.c), makes that the program of the link, and hands it to the
 * others. All hold the link, so it lasts as long as one of them lives. The kernel ends the calls of
 * a server with its process (prog_array.h).
 *
 * Only root and the group of the server's user can connect. A server tells those that show it an
 * XDP program, which a process without capabilities cannot have.
 *
 * Used by the loader only; its public functions are loader_listen, loader_listener, loader_serve
 * and loader_unlisten in attach.h.
 */
#ifndef BPF_SHARE_H
#define BPF_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/attach/attach.h"

struct share_link;

/* After XDP was attached: others may share it from now on. Does nothing without a socket. */
void share_begin(struct loader *loader, struct loader_link *link);
/*
 * Shares the XDP link that others have. 0, or -errno: EBUSY: no server shares it in this mode ;
 * EADDRINUSE: one of them has a port of this server; EAGAIN: it is changing.
 */
int share_join(struct loader *loader, struct loader_link *link, bool generic);
/* Of a link that others may share: whether it still has a program of theirs or of this server. */
bool share_lives(struct loader *loader, const struct loader_link *link);
/* Before the link is closed: this server is not called any more. */
void share_end(struct loader_link *link);
void share_free(struct loader *loader);

/*
 * Before the program of this hook is attached: tells the other servers that it is of one, by a link
 * in the folder, named by its id, to this server's socket. Names of programs they can read with
 * CAP_SYS_ADMIN alone. Once: later a filter may forbid the system call.
 */
void share_show(struct loader *loader, enum loader_hook at);
/* Whether a server that has a socket in the folder has shown this program (share_show). */
bool share_knows(const struct loader *loader, uint32_t id);
/* Lets others connect, once this server's programs are loaded: they wait for its answers. */
void share_open(struct loader *loader);

#endif
