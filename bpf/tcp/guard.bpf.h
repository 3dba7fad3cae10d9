/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * mc_tcp_guard: drops what would leave by a way without the programs, of connections whose segments
 * have to be translated. It runs on the egress of the server's control group, behind all that may
 * choose another interface: routes, netfilter, IPsec. What it drops the socket sends again.
 *
 * The program on TC egress, which begins to follow a connection, leaves the tag of its slot in the
 * socket's storage, which ends with the socket. So a socket that is not followed costs one look,
 * and the server no system call. That program takes a connection for followed once the guard has
 * seen a segment of it leave by an interface with the programs: then the socket is one whose
 * segments the guard sees, whatever group the server was moved to, and the way is one that it
 * knows.
 *
 * Softirqs may interrupt it, and programs in them, so it does not use what the others have for each
 * CPU.
 */
#ifndef MC_TCP_GUARD_BPF_H
#define MC_TCP_GUARD_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/tcp/conn.bpf.h"
#include "bpf/tcp/lost.bpf.h"

/* What a socket's storage has. */
struct guarded {
    struct mc_tcp_tag tag;
    u32 is_seen; /* by the guard, on a way with the programs */
    u64 way;     /* the last of these, as guard_way has it */
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct guarded);
} mc_tcp_guarded SEC(".maps");

/* The interfaces what leaves by which passes the program on TC egress; set by the server. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MC_TCP_WAYS_MAX);
    __type(key, u32);
    __type(value, u32);
} mc_tcp_ways SEC(".maps");

/* Changes when interfaces are removed from these. Set by the server. */
__u32 ways_number = 0;

/* Whether the guard is attached. Set by the server. */
__u32 is_guarded = 0;

/* What programs on a control group's egress return. */
enum { GUARD_DROP, GUARD_PASS };

/* On TC egress: the connection whose socket sends begins to be followed. 0: it must not. */
static __always_inline int guard_begin(struct bpf_sock *sk, const struct mc_tcp_conn *conn)
{
    struct guarded *guarded;

    if (!READ_ONCE(is_guarded))
        return 1;
    guarded = bpf_sk_storage_get(&mc_tcp_guarded, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
    if (guarded) /* perhaps there since the connection was followed before */
        guarded->tag = (struct mc_tcp_tag){conn->slot, conn->generation};
    return guarded != NULL;
}

/* On TC egress: whether the guard sees what the socket sends. */
static __always_inline int guard_sees(struct bpf_sock *sk)
{
    const struct guarded *guarded;

    if (!READ_ONCE(is_guarded))
        return 1;
    guarded = sk ? bpf_sk_storage_get(&mc_tcp_guarded, sk, NULL, 0) : NULL;
    return guarded && READ_ONCE(guarded->is_seen);
}

/* An interface, and since which change of mc_tcp_ways it is there. Never 0. */
static __always_inline u64 guard_way(u32 ifindex)
{
    return (u64)READ_ONCE(ways_number) << 32 | ifindex;
}

/*
 * Whether the segment as it is passes the program on TC egress, and this finds TCP's header. The
 * number is read before the table, so what is kept of a way is void from the change on that removes
 * this; both are one word, since two CPUs may send for a socket.
 */
static __always_inline int guard_knows_way(struct __sk_buff *skb, struct guarded *guarded)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    u64 v6 = skb->protocol == bpf_htons(ETH_P_IPV6), way;
    u32 ifindex = skb->ifindex;

    if (data + IP4_BYTES > end || ip_protocol(data, v6) != IPPROTO_TCP)
        return 0;
    way = guard_way(ifindex);
    if (likely(READ_ONCE(guarded->way) == way))
        return 1;
    read_barrier();
    if (!bpf_map_lookup_elem(&mc_tcp_ways, &ifindex))
        return 0;
    WRITE_ONCE(guarded->way, way);
    return 1;
}

/*
 * Whether the kernel has answered on the connection of a socket whose slot is another's by now: it
 * is closed, and sends what is left.
 */
__attribute__((noinline)) int guard_is_used(struct __sk_buff *skb)
{
    u32 l4 = skb->protocol == bpf_htons(ETH_P_IPV6) ? IP6_BYTES : IP4_BYTES;
    const struct mc_tcp_conn *conn;
    struct mc_tcp_flow flow;

    if (!socket_flow(skb, l4, &flow, 0))
        return 1;
    conn = conn_find(&flow);
    return conn && delta_is_used(&conn->delta);
}

static __always_inline int guard_drop(void)
{
    u32 zero = 0;
    struct mc_tcp_counts *counts = bpf_map_lookup_elem(&mc_tcp_counts, &zero);

    if (counts)
        __sync_fetch_and_add(&counts->count[MC_TCP_GUARDED], 1);
    return GUARD_DROP;
}

SEC("cgroup_skb/egress")
int mc_tcp_guard(struct __sk_buff *skb)
{
    struct bpf_sock *sk = skb->sk;
    struct mc_tcp_slot *slot;
    struct guarded *guarded;
    u32 at;

    guarded = sk ? bpf_sk_storage_get(&mc_tcp_guarded, sk, NULL, 0) : NULL;
    if (likely(!guarded))
        return GUARD_PASS;
    if (likely(guard_knows_way(skb, guarded))) {
        if (unlikely(!READ_ONCE(guarded->is_seen)))
            WRITE_ONCE(guarded->is_seen, 1);
        return GUARD_PASS;
    }
    at = guarded->tag.slot;
    slot = bpf_map_lookup_elem(&mc_tcp_slots, &at);
    if (!slot || READ_ONCE(slot->generation) != guarded->tag.generation)
        return guard_is_used(skb) ? guard_drop() : GUARD_PASS;
    if (!slot_is_used(slot))
        return GUARD_PASS;
    at = READ_ONCE(slot->lost);
    WRITE_ONCE(slot->lost, (at ? at : slot_time(0)) | MC_TCP_LOST_GUARDED);
    return guard_drop();
}

#endif
