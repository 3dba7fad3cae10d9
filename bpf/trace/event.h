/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* event: what trace.bpf.c reports of a packet on which a traced program has run. */
#ifndef BPF_TRACE_EVENT_H
#define BPF_TRACE_EVENT_H

#include <linux/types.h>

/* The counters of enum mc_count, enum mc_tcp_count and enum chain_count, each in a map. */
enum { TRACE_MAIN, TRACE_TCP, TRACE_CHAIN, TRACE_KINDS };
enum {
    TRACE_COUNTS = 32,
    TRACE_SERVERS = 8,               /* that share an interface: SHARE_SERVERS */
    TRACE_PORTS = 2 * TRACE_SERVERS, /* theirs, UDP and TCP */
};

/* One end of a flow: IPv6, or IPv4 as ::ffff:a.b.c.d, and a port, in network order. */
struct trace_end {
    __u32 address[4];
    __u16 port; /* 0: unknown: neither UDP nor TCP, a later fragment, or an extension header */
    __u16 unused;
};

struct trace_event {
    __u64 tai_ns;  /* CLOCK_TAI when the program returned */
    __u32 program; /* its id */
    __u32 ifindex;
    __s32 verdict; /* XDP_*, or TC_ACT_* if is_tc */
    __u32 length;  /* of the frame as it came; in XDP of its first buffer */
    __u8 is_tc;
    __u8 protocol; /* IPPROTO_*, 0: the frame has no IP header in sight */
    __u8 unused[6];
    struct trace_end from, to;
    __u16 rise[TRACE_KINDS][TRACE_COUNTS]; /* of each counter, while the program ran */
};

#endif
