/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * mc_tcp_order: removes, freezes or thaws an entry for the server, which runs this program by
 * BPF_PROG_TEST_RUN: a system call that removes one takes no lock, and its memory could become
 * another entry while a program changes it.
 *
 * It may be interrupted by the others on its CPU, before Linux 6.10, so it does not use what they
 * have for each CPU, and has no lock that they would wait for: at once an entry is void, frozen or
 * free.
 */
#ifndef MC_TCP_ORDER_BPF_H
#define MC_TCP_ORDER_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/rtx.bpf.h"

static __always_inline int order_is_of(const struct mc_tcp_order *order,
                                       const struct mc_tcp_conn *conn)
{
    return mc_tcp_is_flow(&conn->flow, &order->flow) && conn->slot == order->tag.slot &&
           conn->generation == order->tag.generation;
}

/* 1: the entry was there, and is removed, frozen, or no longer frozen. */
SEC("tc")
int mc_tcp_order(struct __sk_buff *skb)
{
    struct mc_tcp_order order;
    struct mc_tcp_conn *conn;
    u32 to, was;

    if (bpf_skb_load_bytes(skb, 0, &order, sizeof(order)))
        return 0;
    conn = conn_find(&order.flow);
    if (!conn)
        return 0;
    if (order.what == MC_TCP_THAW)
        return order_is_of(&order, conn) &&
               __sync_val_compare_and_swap(&conn->lock, MC_TCP_FROZEN, MC_TCP_FREE) ==
                   MC_TCP_FROZEN;
    to = order.what == MC_TCP_FREEZE ? MC_TCP_FROZEN : MC_TCP_VOID;
    was = __sync_val_compare_and_swap(&conn->lock, MC_TCP_FROZEN, to);
    if (was != MC_TCP_FROZEN) {
        was = MC_TCP_FREE;
        if (!conn_lock_as(conn, &order.flow, to))
            return 0;
    }
    /* The client's next connection, from the same port; or one that needs its entry. */
    if (!order_is_of(&order, conn) ||
        (order.what == MC_TCP_RELEASE && delta_is_used(&conn->delta))) {
        conn_unlock_as(conn, was);
        return 0;
    }
    return order.what == MC_TCP_FREEZE || conn_drop(conn, &order.flow, was);
}

#endif
