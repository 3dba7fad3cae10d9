/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * ring: requests that XDP passes go to the AF_XDP ring of their queue, from where the server takes
 * them (net/udp.c). A program of its own: without rings none of this is loaded.
 *
 * Into the ring goes what the stack would take to the server's socket without a doubt: a request in
 * one datagram and one buffer, without tags, from a source that the guard admits, and that sent it
 * from where the stack sends its replies (return_path.bpf.h), because the server sends its own
 * there. All else goes up the stack, and so does everything while the server wants to see each
 * request, has stopped, or has not emptied the ring.
 */
#ifndef MC_RING_BPF_H
#define MC_RING_BPF_H

#include "bpf/answer/scratch.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/udp.bpf.h"
#include "bpf/shared/ring.h"
#include "bpf/udp/frame.bpf.h"
#include "bpf/udp/xdp.bpf.h"

struct mc_ring rings[MC_RINGS] = {};
struct mc_ring_port ring_ports[MC_RING_PORTS] = {};
__u32 ring_nports = 0;

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, MC_RINGS);
    __type(key, u32);
    __type(value, u32);
} mc_ring_sockets SEC(".maps");

/* Of requests that the guard has admitted, and that were passed because the server is to answer. */
static __always_inline u64 ring_nadmitted(const struct scratch *scratch)
{
    const u64 *count = scratch->counts.count;

    return count[MC_COUNT_PASS_REQUEST] + count[MC_COUNT_PASS_ITEM] + count[MC_COUNT_PASS_EXPIRED] +
           count[MC_COUNT_PASS_SIZE] + count[MC_COUNT_PASS_BUSY];
}

/*
 * Why a packet was passed is seen by what was counted meanwhile: so the programs without rings need
 * not tell.
 */
static __always_inline void ring_begin(void)
{
    struct scratch *scratch = scratch_get();

    if (scratch) {
        scratch->nadmitted = ring_nadmitted(scratch);
        scratch->ncommands = scratch->counts.count[MC_COUNT_PASS_COMMAND];
    }
}

/* The ring of a queue; MC_RINGS: it has none. */
static __always_inline u32 ring_of(u32 ifindex, u32 queue)
{
    u32 n = READ_ONCE(ring_nports), i;

    for (i = 0; i < MC_RING_PORTS; i++) {
        if (i >= n)
            break;
        if (ring_ports[i].ifindex == ifindex)
            return queue < ring_ports[i].n ? ring_ports[i].first + queue : MC_RINGS;
    }
    return MC_RINGS;
}

/* Whether the largest datagram of a reply fits all interfaces by which replies leave. */
static __always_inline int ring_fits(u64 v6)
{
    return ip_bytes(v6) + L4_BYTES + MC_UDP_PAYLOAD <= READ_ONCE(control.packet_over) - 1;
}

/* Whether a frame is a request that may go into a ring. admitted: the guard has done so. */
static __always_inline int ring_admits(struct xdp_md *ctx, struct scratch *scratch, int admitted,
                                       struct offsets offsets)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *ip = data + offsets.ip, *l4 = ip + ip_bytes(offsets.v6);
    u64 nframe = (u64)(end - data), ntext;

    if (l4 + L4_CHECKED > end || nframe > MC_RING_FRAME || bpf_xdp_get_buff_len(ctx) != nframe ||
        !ip_has_no_options(ip, offsets.v6, L4_PROTOCOL) || port_to(l4) != control.port ||
        !ip_is_to_us(ip, offsets.v6) || !ring_fits(offsets.v6) ||
        udp_check(ip, offsets.v6, nframe - offsets.ip, &ntext))
        return 0;
    if (READ_ONCE(control.bypass) || server_has_stopped())
        return 0;
    if (!admitted && xdp_admit(ctx, scratch, data, ip, offsets))
        return 0;
    return (scratch->saved.back & MAC_MASK) == (LOAD64(data + 6) & MAC_MASK);
}

/* Puts a frame into a ring that has room. */
static __always_inline int ring_put(struct scratch *scratch, u64 index)
{
    struct mc_ring *ring;

    bound_mask(index, MC_RINGS - 1);
    ring = &rings[index];
    if (ring->put - READ_ONCE(ring->taken) >= MC_RING_SIZE) {
        scratch->counts.count[MC_COUNT_RING_FULL]++;
        return XDP_PASS;
    }
    if (bpf_redirect_map(&mc_ring_sockets, index, XDP_PASS) != XDP_REDIRECT)
        return XDP_PASS;
    ring->put++;
    scratch->counts.count[MC_COUNT_RING]++;
    return XDP_REDIRECT;
}

/* What becomes of a frame that is passed. */
__attribute__((noinline)) int ring_pass(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct scratch *scratch = scratch_get();
    int admitted;
    u32 index;
    u16 type;

    if (!scratch)
        return XDP_PASS;
    admitted = ring_nadmitted(scratch) != scratch->nadmitted;
    if (!admitted && scratch->counts.count[MC_COUNT_PASS_COMMAND] == scratch->ncommands)
        return XDP_PASS;
    index = ring_of(ctx->ingress_ifindex, ctx->rx_queue_index);
    if (index >= MC_RINGS || xdp_generic || data + ETH_HLEN > end)
        return XDP_PASS;
    type = LOAD16(data + 12);
    if (type == bpf_htons(ETH_P_IP)
            ? !ring_admits(ctx, scratch, admitted, OFFSETS(0, 0))
            : type != bpf_htons(ETH_P_IPV6) || !ring_admits(ctx, scratch, admitted, OFFSETS(0, 1)))
        return XDP_PASS;
    return ring_put(scratch, index);
}

SEC("xdp")
int mc_xdp_rings(struct xdp_md *ctx)
{
    int verdict;

    ring_begin();
    verdict = xdp_frame(ctx, 0);
    return verdict == XDP_PASS ? ring_pass(ctx) : verdict;
}

SEC("xdp")
int mc_both_rings(struct xdp_md *ctx)
{
    int verdict;

    ring_begin();
    verdict = xdp_frame(ctx, 1);
    return verdict == XDP_PASS ? ring_pass(ctx) : verdict;
}

#endif
