/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * ring: hands UDP over IPv4 to ring_port to the AF_XDP socket of its queue.
 *
 * The kernel drops what it cannot put into a full ring, and decides that when the program has
 * ended. So the program counts what it put there, the server what it has taken out, and what would
 * find the ring full goes to the stack, as everything else does. A queue is polled on one CPU at a
 * time, and there is one queue, so the count needs no atomic.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bench/ring.h"

const volatile __u16 ring_port = 11211; /* host order */

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} ring_sockets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct ring_credit);
} ring_credit SEC(".maps");

SEC("xdp")
int ring_put(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = data + sizeof(*eth);
    struct udphdr *udp = data + sizeof(*eth) + sizeof(*ip);
    struct ring_credit *credit;
    __u32 zero = 0;

    if ((void *)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || *(__u8 *)ip != 0x45 ||
        ip->frag_off & bpf_htons(0x3fff) || ip->protocol != IPPROTO_UDP ||
        udp->dest != bpf_htons(ring_port))
        return XDP_PASS;
    credit = bpf_map_lookup_elem(&ring_credit, &zero);
    if (!credit || credit->put - *(volatile __u64 *)&credit->taken >= RING_SIZE)
        return XDP_PASS;
    credit->put++;
    return bpf_redirect_map(&ring_sockets, ctx->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "Dual BSD/GPL";
