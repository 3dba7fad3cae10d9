/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_socket: whether a socket of this network namespace will read a segment that arrives.
 *
 * Anybody can send a segment with any addresses, ports and sequence numbers. The server reads only
 * segments of its own connections, with numbers close to those that its socket expects.
 */
#ifndef MC_CHAIN_SOCKET_BPF_H
#define MC_CHAIN_SOCKET_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/packet/base.bpf.h"

/* The fields of the kernel's own type that are read here, located by their names in its BTF. */
struct tcp_sock {
    u32 rcv_nxt;
    u32 snd_nxt;
} __attribute__((preserve_access_index));

enum {
    SOCKET_REACH = 1 << 26, /* more than any window plus what may be in flight */
};

/* What the sockets here will do with a segment. */
enum socket_is {
    SOCKET_NONE,    /* no socket here has its connection, as far as can be seen */
    SOCKET_REQUEST, /* a connection may begin with it */
    SOCKET_TAKES,
    SOCKET_REFUSES, /* its sequence numbers are old, or a guess */
};

static __always_inline int is_near(u32 a, u32 b)
{
    return a - b + SOCKET_REACH < 2u * SOCKET_REACH;
}

static __always_inline enum socket_is socket_judge(struct bpf_sock *sk,
                                                   const struct segment *segment)
{
    struct tcp_sock *tcp;

    if (sk->state == BPF_TCP_NEW_SYN_RECV)
        return SOCKET_REQUEST;
    if (sk->state == BPF_TCP_LISTEN || sk->state == BPF_TCP_TIME_WAIT)
        return SOCKET_NONE;
    tcp = bpf_skc_to_tcp_sock(sk);
    if (!tcp)
        return SOCKET_TAKES;
    return segment->flags & TCP_ACK && is_near(segment->seq, tcp->rcv_nxt) &&
                   is_near(segment->ack, tcp->snd_nxt)
               ? SOCKET_TAKES
               : SOCKET_REFUSES;
}

/* Looks up the socket of chain_tcp_scratch's segment; enum socket_is. */
__attribute__((noinline)) int socket_find(struct xdp_md *ctx)
{
    struct bpf_sock_tuple tuple = {0};
    struct chain_tcp_scratch *tcp = chain_tcp_scratch_get();
    u32 n = sizeof(tuple.ipv4);
    enum socket_is found;
    struct bpf_sock *sk;

    if (!tcp)
        return SOCKET_NONE;
    if (settings.any_socket)
        return SOCKET_TAKES;
    if (!tcp->segment.flow.client[0] && (u32)tcp->segment.flow.client[1] == FLOW_IP4) {
        tuple.ipv4.saddr = tcp->segment.flow.client[1] >> 32;
        tuple.ipv4.daddr = tcp->segment.flow.server[1] >> 32;
        tuple.ipv4.sport = tcp->segment.flow.client_port;
        tuple.ipv4.dport = tcp->segment.flow.server_port;
    } else {
        n = sizeof(tuple.ipv6);
        STORE64(&tuple.ipv6.saddr[0], tcp->segment.flow.client[0]);
        STORE64(&tuple.ipv6.saddr[2], tcp->segment.flow.client[1]);
        STORE64(&tuple.ipv6.daddr[0], tcp->segment.flow.server[0]);
        STORE64(&tuple.ipv6.daddr[2], tcp->segment.flow.server[1]);
        tuple.ipv6.sport = tcp->segment.flow.client_port;
        tuple.ipv6.dport = tcp->segment.flow.server_port;
    }
    sk = bpf_skc_lookup_tcp(ctx, &tuple, n, BPF_F_CURRENT_NETNS, 0);
    if (!sk)
        return SOCKET_NONE;
    found = socket_judge(sk, &tcp->segment);
    bpf_sk_release(sk);
    return found;
}

/*
 * Whether the server may read this segment of an untracked connection. Where addresses are
 * translated on the way, no socket has the flow key that is seen here: then the server's first
 * reply, which has a socket, adds the connection to the untracked ones as a lost one.
 */
static __always_inline int socket_may_read(struct xdp_md *ctx, const struct segment *segment,
                                           const struct untracked *untracked)
{
    enum socket_is found = socket_find(ctx);

    if (untracked && untracked->state == UNTRACKED_LOST)
        return found != SOCKET_REFUSES;
    if (found == SOCKET_REQUEST && untracked && untracked->state == UNTRACKED_SYNACK)
        return segment->ack == untracked->out;
    return found == SOCKET_TAKES || found == SOCKET_REQUEST;
}

#endif
