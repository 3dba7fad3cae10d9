/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * udp_sender: whether a UDP socket of the server has sent a packet. The server marks its sockets
 * before the programs are attached; a mark ends with its socket.
 */
#ifndef MC_UDP_SENDER_BPF_H
#define MC_UDP_SENDER_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/sender.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, u32);
} mc_sockets SEC(".maps");

static __always_inline int sender_is_server(struct __sk_buff *skb)
{
    struct bpf_sock *sk = sender_of(skb);

    return sk && bpf_sk_storage_get(&mc_sockets, sk, NULL, 0);
}

#endif
