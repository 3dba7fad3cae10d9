/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * sender: which socket of this machine has sent a packet that leaves.
 *
 * Addresses and ports prove nothing: a container with a macvlan or an IPVLAN of this machine, a
 * host behind a bridge or a masquerade, one whose packets this machine forwards, and a raw socket
 * can send from any address and any port. So whatever the programs learn from a packet that leaves,
 * and whatever they do to it as the server's, they ask for its socket first. Where the programs
 * serve their own server they know its sockets: those of UDP by a mark (udp/sender.bpf.h), that of
 * a TCP connection by its cookie (struct mc_tcp_conn). In front of another server they know the
 * network namespace and the port alone (chain/sender.bpf.h).
 */
#ifndef MC_SENDER_BPF_H
#define MC_SENDER_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/shared/tcp.h"

/* NULL: the packet was forwarded, or no socket sent it. It may be of any network namespace. */
static __always_inline struct bpf_sock *sender_of(const struct __sk_buff *skb)
{
    return skb->ingress_ifindex ? NULL : skb->sk;
}

/* The socket's cookie, which no other socket ever has; 0: as above. */
static __always_inline u64 sender_cookie(struct __sk_buff *skb)
{
    return sender_of(skb) ? bpf_get_socket_cookie(skb) : 0;
}

/*
 * Whether the socket that has sent a segment was replaced, or is about to be: the segment was held
 * above this interface meanwhile, and its numbers are those of a socket that has the entry no more
 * (RULE_FROZEN_OUT).
 */
static __always_inline int sender_is_aside(const struct __sk_buff *skb)
{
    const struct bpf_sock *sk = sender_of(skb);

    return sk && sk->bound_dev_if == MC_TCP_ASIDE;
}

#endif
