/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * entry: what user space does to the entry of one TCP connection (bpf/shared/tcp.h), and to the
 * guard. It needs descriptors of maps and of two programs alone, so the undo process can do it
 * without the rest of the loader.
 *
 * Any thread.
 */
#ifndef BPF_LOAD_ENTRY_H
#define BPF_LOAD_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared/tcp.h"

/* Descriptors of the programs mc_tcp_order, mc_tcp_guard and of the maps mc_tcp_*; of keys. */
struct entry_access {
    int order, guard, conns, kept, slots, guarded;
    __u64 seeds[MC_TCP_SEEDS];
};

/*
 * The numbers with which a connection's client takes the next segment. It takes a reset only with
 * the very next one of the stream to it, which is one of several if it was not heard for a while.
 */
struct entry_numbers {
    uint32_t seq[4], ack;
};

/* The flow of a socket's connection. 0 or -errno. */
int entry_flow(int socket, struct mc_tcp_flow *flow);
/*
 * Has the program do this (MC_TCP_REMOVE, ...) to an entry that does not wait. 0, -ENOENT if there
 * is none that it can be done to, or -errno.
 */
int entry_order(int program, const struct mc_tcp_flow *flow, const struct mc_tcp_tag *tag,
                uint32_t what);
/* Reads an entry that is frozen. 0 or -errno. */
int entry_read(const struct entry_access *access, const struct mc_tcp_flow *flow,
               struct mc_tcp_conn *conn);
/* Reads the text of its outstanding replies, conn->delta.nreply bytes. 0 or -errno. */
int entry_read_kept(const struct entry_access *access, const struct mc_tcp_conn *conn,
                    char text[MC_TCP_RTX_BYTES]);
/* The numbers of an entry that is frozen. 0 or -errno. */
int entry_read_numbers(const struct entry_access *access, const struct mc_tcp_conn *conn,
                       struct entry_numbers *out);
/* From now on the guard lets pass what a socket sends. */
void entry_unguard(const struct entry_access *access, int socket);
/*
 * Attaches the guard to a control group (version 2): a link, with whose last descriptor it ends, or
 * -errno. Needs CAP_NET_ADMIN.
 */
int entry_attach_guard(const struct entry_access *access, int cgroup);
/* Whether it is attached: another process may have detached it. */
bool entry_guard_is_attached(int link);

#endif
