/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_sender: whether a packet that leaves from the server's port was sent by the server.
 *
 * The port alone says nothing: whoever has an interface behind ours (a bridge, a masquerade, a
 * macvlan), or has us forward what he sends, may send from any address and any port. So the packet
 * has to come from no other interface, and from a socket of our network namespace that is bound to
 * the port: nobody has that but the server, unless he has another address of this machine.
 */
#ifndef MC_CHAIN_SENDER_BPF_H
#define MC_CHAIN_SENDER_BPF_H

#include <bpf/bpf_core_read.h>

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/find.bpf.h"
#include "bpf/chain/maps.bpf.h"

/* What of the kernel's own types is read here, by the names that they have in its BTF. */
struct net {
    u64 net_cookie;
} __attribute__((preserve_access_index));

struct sock_common {
    struct {
        struct net *net;
    } skc_net;
} __attribute__((preserve_access_index));

enum { SENDER_HEAD = 128, STATE_SYN_RECEIVED = 12 }; /* BPF_TCP_NEW_SYN_RECV */

/*
 * Whether a socket, of any kind, is of our network namespace. There is a helper for that in
 * programs like ours from Linux 6.15 on only.
 */
static __always_inline int sender_is_here(const struct bpf_sock *sk)
{
    const u32 at = bpf_core_field_offset(struct sock_common, skc_net);
    char head[SENDER_HEAD];
    struct net *net;
    u64 cookie = 0;

    if (at > sizeof(head) - sizeof(net) || bpf_probe_read_kernel(head, at + sizeof(net), sk))
        return 0;
    net = *(struct net **)(head + at);
    return !bpf_core_read(&cookie, sizeof(cookie), &net->net_cookie) && cookie == settings.netns;
}

/* The answer to a SYN that is remembered nowhere but in its number (SYN cookies): it has no socket.
 */
static __always_inline int sender_accepts(struct __sk_buff *skb,
                                          const struct chain_scratch *scratch)
{
    u8 flags;

    return scratch->proto == PROTOCOL_TCP &&
           !bpf_skb_load_bytes(skb, scratch->l4 + 13, &flags, sizeof(flags)) && flags & TCP_SYN;
}

/* 0: it is none of the server's, whatever its addresses and ports say. */
__attribute__((noinline)) int sender_is_server(struct __sk_buff *skb)
{
    const struct chain_scratch *scratch = chain_scratch_get();
    struct bpf_sock *sk, *full;

    if (!scratch)
        return 0;
    if (settings.any_socket)
        return 1;
    if (skb->ingress_ifindex)
        return 0;
    sk = skb->sk;
    if (!sk)
        return sender_accepts(skb, scratch);
    if (sk->src_port != bpf_ntohs(control.port) || !sender_is_here(sk))
        return 0;
    full = bpf_sk_fullsock(sk);
    /* What accepts a connection is no socket yet. */
    return full ? full->protocol == scratch->proto
                : scratch->proto == PROTOCOL_TCP && sk->state == STATE_SYN_RECEIVED;
}

#endif
