/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_segment: reads a segment's headers, and translates them.
 */
#ifndef MC_TCP_SEGMENT_BPF_H
#define MC_TCP_SEGMENT_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/tcp.bpf.h"
#include "bpf/tcp/conn.bpf.h"

/* Fills the flow of a segment that comes from a client, or goes to one. */
static __always_inline void segment_flow(struct mc_tcp_flow *flow, const void *ip, const void *tcp,
                                         u64 v6, int comes)
{
    u64 from[2], to[2];

    if (v6) {
        from[0] = LOAD64(ip + 8);
        from[1] = LOAD64(ip + 16);
        to[0] = LOAD64(ip + 24);
        to[1] = LOAD64(ip + 32);
    } else {
        from[0] = to[0] = 0;
        from[1] = (u64)LOAD32(ip + 12) << 32 | FLOW_IP4;
        to[1] = (u64)LOAD32(ip + 16) << 32 | FLOW_IP4;
    }
    flow->client[0] = comes ? from[0] : to[0];
    flow->client[1] = comes ? from[1] : to[1];
    flow->server[0] = comes ? to[0] : from[0];
    flow->server[1] = comes ? to[1] : from[1];
    flow->client_port = comes ? port_from(tcp) : port_to(tcp);
    flow->server_port = comes ? port_to(tcp) : port_from(tcp);
    flow->unused = 0;
}

static __always_inline u32 ip_length(const void *ip, u64 v6)
{
    return v6 ? bpf_ntohs(LOAD16(ip + 4)) + IP6_BYTES : bpf_ntohs(LOAD16(ip + 2));
}

/*
 * Reads the headers of a packet of nip bytes from IP on, whose TCP header begins at `tcp`, `before`
 * bytes behind IP's, and whose bytes up to `end`, at least TCP's fixed part, are there.
 */
static __always_inline void segment_read(struct tcp_segment *segment, const void *ip,
                                         const void *tcp, const void *end, u64 v6, u32 before,
                                         u32 nip)
{
    u32 traffic = v6 ? bpf_ntohs(LOAD16(ip)) >> 4 : LOAD8(ip + 1), flags = LOAD8(tcp + 13);
    u32 nheader = (LOAD8(tcp + 12) >> 4) * 4;

    segment->seq = bpf_ntohl(LOAD32(tcp + 4));
    segment->ack = bpf_ntohl(LOAD32(tcp + 8));
    segment->flags = flags;
    segment->window = bpf_ntohs(LOAD16(tcp + 14));
    segment->nheader = nheader;
    segment->urgent = LOAD16(tcp + 18);
    segment->is_whole = nheader >= TCP_BYTES && nip >= before + nheader;
    segment->n = segment->is_whole ? nip - before - nheader : 0;
    segment->stamped = segment->is_plain = 0;
    if (nheader >= L4_TEXT && tcp + L4_TEXT <= end && LOAD32(tcp + 20) == TCP_STAMPED) {
        segment->stamped = 1;
        segment->tsval = bpf_ntohl(LOAD32(tcp + 24));
        segment->tsecr = bpf_ntohl(LOAD32(tcp + 28));
        /* Its header's length, and no flag beside it: accurate ECN has one there. */
        segment->is_plain = LOAD8(tcp + 12) == L4_TEXT / 4 << 4 &&
                            (flags | TCP_PSH) == (TCP_PSH | TCP_ACK) && (traffic & 3) != 3;
    }
}

#endif
