/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * flow: TCP's flags, the header that most segments have, and the order of sequence numbers. What
 * identifies a connection is struct mc_tcp_flow.
 */
#ifndef MC_FLOW_BPF_H
#define MC_FLOW_BPF_H

#include "bpf/packet/base.bpf.h"

enum {
    TCP_BYTES = 20,   /* its header without options, */
    TCP_STAMPED = 32, /* and with timestamps alone */
    TCP_FIN = 1,
    TCP_SYN = 2,
    TCP_RST = 4,
    TCP_PSH = 8,
    TCP_ACK = 16,
    TCP_URG = 32
};

/* What mostly stands before the timestamps. */
#define TCP_TIMESTAMPS bpf_htonl(0x0101080a)

#define FLOW_IP4 0xffff0000u /* the half of a mapped address before the 32 bits of IPv4 */

/* Whether sequence number a comes before b. */
static __always_inline int seq_before(u32 a, u32 b)
{
    return (__s32)(a - b) < 0;
}

#endif
