/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_socket: whether a socket here will read a segment that comes.
 *
 * Anybody may send a segment with any addresses, ports and numbers. The server reads only those of
 * a connection that it has, whose numbers are near those that its socket waits for.
 */
#ifndef MC_CHAIN_SOCKET_BPF_H
#define MC_CHAIN_SOCKET_BPF_H

#include "bpf/chain/conn.bpf.h"
#include "bpf/packet/kernel.bpf.h"

/* Of the kernel's own type, by the names in its BTF. */
struct tcp_sock {
    u32 rcv_nxt;
    u32 snd_nxt;
} __attribute__((preserve_access_index));

enum {
    STATE_TIME_WAIT = 6, /* BPF_TCP_* */
    STATE_LISTEN = 10,
    STATE_REQUEST = 12,
    SOCKET_REACH = 1 << 26, /* more bytes than a window has, and than are on their way */
};

/* What is to be had of a segment in hand. */
enum socket_is {
    SOCKET_NONE,    /* nobody here has such a connection, as far as this can be seen */
    SOCKET_REQUEST, /* a connection may begin with it */
    SOCKET_TAKES,
    SOCKET_REFUSES, /* its numbers are of another time, or somebody's who does not know them */
};

static __always_inline int is_near(u32 a, u32 b)
{
    return a - b + SOCKET_REACH < 2u * SOCKET_REACH;
}

static __always_inline enum socket_is socket_judge(struct bpf_sock *sk,
                                                   const struct segment *segment)
{
    struct tcp_sock *tcp;

    if (sk->state == STATE_REQUEST)
        return SOCKET_REQUEST;
    if (sk->state == STATE_LISTEN || sk->state == STATE_TIME_WAIT)
        return SOCKET_NONE;
    tcp = bpf_skc_to_tcp_sock(sk);
    if (!tcp)
        return SOCKET_TAKES;
    return segment->flags & TCP_ACK && is_near(segment->seq, tcp->rcv_nxt) &&
                   is_near(segment->ack, tcp->snd_nxt)
               ? SOCKET_TAKES
               : SOCKET_REFUSES;
}

/* For the segment in hand. */
__attribute__((noinline)) int socket_find(struct xdp_md *ctx)
{
    struct bpf_sock_tuple tuple = {0};
    struct hand *hand = hand_get();
    u32 n = sizeof(tuple.ipv4);
    enum socket_is found;
    struct bpf_sock *sk;

    if (!hand)
        return SOCKET_NONE;
    if (settings.any_socket)
        return SOCKET_TAKES;
    if (!hand->segment.ends.client[0] && (u32)hand->segment.ends.client[1] == ENDS_IP4) {
        tuple.ipv4.saddr = hand->segment.ends.client[1] >> 32;
        tuple.ipv4.daddr = hand->segment.ends.server[1] >> 32;
        tuple.ipv4.sport = hand->segment.ends.client_port;
        tuple.ipv4.dport = hand->segment.ends.server_port;
    } else {
        n = sizeof(tuple.ipv6);
        STORE64(&tuple.ipv6.saddr[0], hand->segment.ends.client[0]);
        STORE64(&tuple.ipv6.saddr[2], hand->segment.ends.client[1]);
        STORE64(&tuple.ipv6.daddr[0], hand->segment.ends.server[0]);
        STORE64(&tuple.ipv6.daddr[2], hand->segment.ends.server[1]);
        tuple.ipv6.sport = hand->segment.ends.client_port;
        tuple.ipv6.dport = hand->segment.ends.server_port;
    }
    sk = bpf_skc_lookup_tcp(ctx, &tuple, n, BPF_F_CURRENT_NETNS, 0);
    if (!sk)
        return SOCKET_NONE;
    found = socket_judge(sk, &hand->segment);
    bpf_sk_release(sk);
    return found;
}

/*
 * Whether a segment of a connection that is not followed may be the server's to read. Where
 * addresses are translated on the way no socket has the ends that are seen here: then the server's
 * first reply, which has a socket, makes the connection a stranger that is lost.
 */
static __always_inline int socket_may_read(struct xdp_md *ctx, const struct segment *segment,
                                           const struct stranger *stranger)
{
    enum socket_is found = socket_find(ctx);

    if (stranger && stranger->state == STRANGER_LOST)
        return found != SOCKET_REFUSES;
    if (found == SOCKET_REQUEST && stranger && stranger->state == STRANGER_SYNACK)
        return segment->ack == stranger->out;
    return found == SOCKET_TAKES || found == SOCKET_REQUEST;
}

#endif
