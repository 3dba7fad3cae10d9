/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_sender: whether the server sent a packet that leaves from its port (packet/sender.bpf.h).
 *
 * The chain does not know the server's sockets. So a packet is the server's if a socket of this
 * network namespace has sent it that is bound to the port. Only the server has such a socket,
 * unless another process binds the port at another address of this machine.
 */
#ifndef MC_CHAIN_SENDER_BPF_H
#define MC_CHAIN_SENDER_BPF_H

#include <bpf/bpf_core_read.h>

#include "bpf/chain/conn.bpf.h"
#include "bpf/chain/maps.bpf.h"
#include "bpf/packet/sender.bpf.h"

/* The fields of the kernel's own types that are read here, located by their names in its BTF. */
struct net {
    u64 net_cookie;
} __attribute__((preserve_access_index));

struct sock_common {
    struct {
        struct net *net;
    } skc_net;
} __attribute__((preserve_access_index));

enum { SENDER_HEAD = 128 };

/*
 * Whether a socket of any kind belongs to this network namespace. TC programs have a helper for
 * this only from Linux 6.15 on.
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

/* Whether a packet's socket, if it has one, is bound to memcached's port. */
static __always_inline int sender_has_port(const struct bpf_sock *sk)
{
    return sk && sk->src_port == bpf_ntohs(control.port);
}

/*
 * With SYN cookies nothing but a sequence number remembers a SYN, and the answer to it has no
 * socket.
 */
static __always_inline int sender_accepts(struct __sk_buff *skb,
                                          const struct chain_scratch *scratch)
{
    u8 flags;

    return scratch->proto == IPPROTO_TCP && !skb->ingress_ifindex && !skb->sk &&
           !bpf_skb_load_bytes(skb, scratch->l4 + 13, &flags, sizeof(flags)) && flags & TCP_SYN;
}

/* 0: the server did not send it, whatever its addresses and ports are. */
__attribute__((noinline)) int sender_is_server(struct __sk_buff *skb, u32 protocol)
{
    struct bpf_sock *sk = sender_of(skb), *full;

    if (!sk || !sender_has_port(sk) || !sender_is_here(sk))
        return 0;
    full = bpf_sk_fullsock(sk);
    return full ? full->protocol == protocol
                : protocol == IPPROTO_TCP && sk->state == BPF_TCP_NEW_SYN_RECV;
}

/* The same of a datagram, from which a return path is learned. */
static __always_inline int sender_is_udp(struct __sk_buff *skb)
{
    return sender_is_server(skb, IPPROTO_UDP);
}

#endif
