/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * mc_tcp_remove: removes an entry for the server, which runs this program by BPF_PROG_TEST_RUN: a
 * system call that removes one takes no lock, and its memory could become another entry while a
 * program changes it.
 *
 * It may be interrupted by the others on its CPU, before Linux 6.10, so it does not use what they
 * have for each CPU, and has no lock that they would wait for: at once an entry is void.
 */
#ifndef MC_TCP_REMOVE_BPF_H
#define MC_TCP_REMOVE_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/rtx.bpf.h"

/* 1: the entry was there, and is no more. */
SEC("tc")
int mc_tcp_remove(struct __sk_buff *skb)
{
    struct mc_tcp_removal which;
    struct mc_tcp_conn *conn;

    if (bpf_skb_load_bytes(skb, 0, &which, sizeof(which)))
        return 0;
    conn = conn_find(&which.flow);
    if (!conn || !conn_lock_as(conn, &which.flow, MC_TCP_VOID))
        return 0;
    if (conn->slot == which.tag.slot && conn->generation == which.tag.generation)
        return conn_drop(conn, &which.flow);
    conn_unlock(conn); /* the client's next connection, from the same port */
    return 0;
}

#endif
