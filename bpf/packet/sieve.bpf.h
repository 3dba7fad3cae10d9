/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * sieve: tells segments of connections that bpf/tcp does not follow from others by two bytes of the
 * packet's port and four of its address, before the programs there are called: most of what such a
 * segment would cost is the call, and the search for an entry that is not there.
 */
#ifndef MC_SIEVE_BPF_H
#define MC_SIEVE_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/shared/tcp.h"

/* Entries of followed connections at each place. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MC_TCP_SIEVE);
    __type(key, u32);
    __type(value, u64);
} mc_tcp_sieve SEC(".maps");

static __always_inline int sieve_has(u32 at)
{
    u64 *count = bpf_map_lookup_elem(&mc_tcp_sieve, &at);

    return !count || READ_ONCE(*count);
}

static __always_inline void sieve_add(u32 at, u64 n)
{
    u64 *count = bpf_map_lookup_elem(&mc_tcp_sieve, &at);

    if (count)
        __sync_fetch_and_add(count, n);
    __sync_fetch_and_add(&control.tcp_followed, (u32)n);
}

/*
 * Whether no connection is followed, nor, on egress, waits for it. Asked first, since it is one
 * load or two, and the packet's bytes are not touched.
 */
static __always_inline int sieve_is_empty(int egress)
{
    return !READ_ONCE(control.tcp_followed) && !(egress && READ_ONCE(control.tcp_waiting));
}

/*
 * Whether a segment may be of a connection that is followed, or, on egress, that waits for it. Its
 * IP header has no options, and the ports are there.
 */
static __always_inline int sieve_keeps(const void *ip, u64 v6, int egress)
{
    const void *l4 = ip + ip_bytes(v6), *client = ip + (v6 ? 20 : 12);

    if (egress)
        client += v6 ? 16 : 4;
    if (egress && READ_ONCE(control.tcp_waiting))
        return 1;
    return sieve_has(mc_tcp_sieve_at(LOAD32(client), egress ? port_to(l4) : port_from(l4)));
}

#endif
