/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_owner: whether an entry's socket still has its flow, or whether the entry is void.
 *
 * No segment shows that: a container that has this machine's addresses, a firewall, or a raw socket
 * can send any. Linux knows which socket has a flow, also while that closes and in TIME_WAIT, where
 * it has the same cookie. So if there is another one, Linux has accepted a new connection.
 */
#ifndef MC_TCP_OWNER_BPF_H
#define MC_TCP_OWNER_BPF_H

#include <bpf/bpf_core_read.h>

#include "bpf/packet/base.bpf.h"
#include "bpf/tcp/conn.bpf.h"

/* Of the kernel's own types, located by its name in its BTF. */
struct sock_common {
    struct {
        u64 counter;
    } skc_cookie;
} __attribute__((preserve_access_index));

/* Which socket has a flow. A listening one has none. */
enum owner { OWNER_NONE, OWNER_SAME, OWNER_OTHER };

/* The cookie of a socket that was found; 0: that of a request has none. */
static __always_inline u64 found_cookie(struct bpf_sock *sk)
{
    const struct sock_common *common = (const struct sock_common *)bpf_skc_to_tcp_sock(sk);

    if (!common)
        common = (const struct sock_common *)bpf_skc_to_tcp_timewait_sock(sk);
    return common ? common->skc_cookie.counter : 0;
}

/* Who has the flow of the segment that was read: whether the socket with this cookie. */
__attribute__((noinline)) int flow_owner(struct __sk_buff *skb, u64 cookie)
{
    const struct segment_scratch *tcp = segment_scratch_get();
    struct bpf_sock_tuple tuple = {};
    enum owner owner = OWNER_NONE;
    struct bpf_sock *sk;
    u32 n;

    if (!tcp)
        return OWNER_NONE;
    if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
        copy16(tuple.ipv6.saddr, tcp->segment.flow.client);
        copy16(tuple.ipv6.daddr, tcp->segment.flow.server);
        tuple.ipv6.sport = tcp->segment.flow.client_port;
        tuple.ipv6.dport = tcp->segment.flow.server_port;
        n = sizeof(tuple.ipv6);
    } else {
        tuple.ipv4.saddr = tcp->segment.flow.client[1] >> 32;
        tuple.ipv4.daddr = tcp->segment.flow.server[1] >> 32;
        tuple.ipv4.sport = tcp->segment.flow.client_port;
        tuple.ipv4.dport = tcp->segment.flow.server_port;
        n = sizeof(tuple.ipv4);
    }
    sk = bpf_skc_lookup_tcp(skb, &tuple, n, BPF_F_CURRENT_NETNS, 0);
    if (!sk)
        return OWNER_NONE;
    if (sk->state != BPF_TCP_LISTEN)
        owner = found_cookie(sk) == cookie ? OWNER_SAME : OWNER_OTHER;
    bpf_sk_release(sk);
    return owner;
}

#endif
