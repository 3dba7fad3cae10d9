/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * share: the XDP program of an interface that several servers have. It calls the program of the
 * server to whose port a packet goes, through that server's mc_shared, which calls on while the
 * server lives. Whatever it cannot read, and what goes to no server's port, goes to the stack: the
 * servers' programs would pass it as well.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include "bpf/attach/prog_array.bpf.h"
#include "bpf/attach/share_ports.h"

#include <bpf/bpf_endian.h>

/*
 * The mc_shared of the servers, in the order of their ports. Nothing calls what is at the last
 * place, where the loader tries whether a descriptor is an XDP program.
 */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
    __uint(max_entries, SHARE_SERVERS + 1);
} mc_servers SEC(".maps");

struct share_ports share_ports;

#define LOAD8(p)  (*(const __u8 *)(p))
#define LOAD16(p) (*(const __u16 *)(p))

enum { TAG_BYTES = 4, IP4_BYTES = 20, IP6_BYTES = 40, FRAGMENT_OFFSET = 0x1fff };

/* Where the header of IP begins, behind up to two VLAN tags, and its type; 0: not in sight. */
static __always_inline const void *skip_link(const void *data, const void *end, __u16 *type)
{
    const void *ip = data + ETH_HLEN;
    int i;

#pragma clang loop unroll(full)
    for (i = 0; i < 3; i++) {
        if (ip + TAG_BYTES > end)
            break;
        *type = LOAD16(ip - 2);
        if (*type != bpf_htons(ETH_P_8021Q) && *type != bpf_htons(ETH_P_8021AD))
            return ip;
        ip += TAG_BYTES;
    }
    *type = 0;
    return ip;
}

/* The protocol of a packet, and where its ports would be; 0: behind a fragment's offset. */
static __always_inline __u8 skip_ip(const void *ip, const void *end, __u16 type, const void **l4)
{
    if (type == bpf_htons(ETH_P_IPV6)) {
        *l4 = ip + IP6_BYTES;
        return *l4 > end ? 0 : LOAD8(ip + 6);
    }
    *l4 = ip + IP4_BYTES;
    if (type != bpf_htons(ETH_P_IP) || *l4 > end || LOAD16(ip + 6) & bpf_htons(FRAGMENT_OFFSET))
        return 0;
    *l4 = ip + (LOAD8(ip) & 15) * 4;
    return LOAD8(ip + 9);
}

SEC("xdp")
int mc_share(struct xdp_md *ctx)
{
    const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip, *l4;
    const __u16 *ports = share_ports.udp;
    __u16 type, port;
    __u8 protocol;
    __u32 i;

    ip = skip_link(data, end, &type);
    protocol = skip_ip(ip, end, type, &l4);
    if (protocol == IPPROTO_TCP)
        ports = share_ports.tcp;
    else if (protocol != IPPROTO_UDP)
        return XDP_PASS;
    if (l4 + 4 > end)
        return XDP_PASS;
    port = LOAD16(l4 + 2);
#pragma clang loop unroll(full)
    for (i = 0; i < SHARE_SERVERS; i++)
        if (port == ports[i] && port)
            bpf_tail_call_static(ctx, &mc_servers, i);
    return XDP_PASS;
}

SEC("xdp")
int mc_shared(struct xdp_md *ctx)
{
    bpf_tail_call_static(ctx, &mc_prog_array, 0);
    return XDP_PASS;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
