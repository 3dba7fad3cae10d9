/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * guard: which sources the kernel path answers, how often, and with how many bytes.
 *
 * XDP runs before the host's firewall, so a firewall rule that keeps a client from the server does
 * not keep it from the kernel path. The guard does not drop what it refuses but passes it
 * unchanged: firewall and server treat it as they would without a kernel path.
 *
 * - Sources (allow=). Without the option: sources to which no router of the public internet
 *   delivers (loopback and private), if the destination is such an address too. So the kernel path
 *   opens no port that a firewall closes on a public address, and the host is no reflector. A list
 *   is a trie of 16 bits in the first step and 4 in each other, with no more steps than tell its
 *   prefixes apart: for 10,000 prefixes a lookup takes 2 to 16 ns, that of BPF_MAP_TYPE_LPM_TRIE 60
 *   to 120.
 * - Rate (rate=). One token bucket for each source: an address, or the /64 of a public IPv6
 * address, since a subscriber has all addresses of a /64. The buckets are an array, indexed by a
 *   multiplicative hash (Dietzfelbinger et al., J. Algorithms 25, 1997) with secret factors; a
 *   forged source takes no memory and evicts no other source. Two sources share a bucket with a
 *   probability of 2 in 1 << MC_RATE_BITS.
 *   A bucket is one number, by the generic cell rate algorithm (ITU-T I.371): the time at which it
 *   will be full again, which each request moves on by its cost. It is exchanged atomically; a CPU
 *   that loses the exchange passes its request. So no source gets more than burst + rate * time,
 *   and errors are on the side of passing: one request for each exchange that is lost, and a refill
 *   in steps of the clock's ticks (10 ms at most).
 * - Size (amplification=). The payload of a reply against that of its request.
 *
 * All settings are constants that are set before the load: the verifier removes the code of those
 * that are off. With guard_reloads they are in guard_now instead, and there are two lists. The
 * server fills the list that is not in use and then names it; a packet during whose check that
 * changed is passed.
 */
#ifndef MC_GUARD_BPF_H
#define MC_GUARD_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"

const volatile __u32 guard_allow = MC_ALLOW_LOCAL;
const volatile __u32 guard_local = 0;         /* the list has `local` */
const volatile __u32 guard_nodes_mask = 0;    /* of the list's nodes, less one */
const volatile __u32 guard_prefixes_mask = 0; /* of its prefixes, less one */
const volatile __u64 guard_seeds[2] = {1, 1}; /* odd */
const volatile __u64 guard_cost = 0;          /* of a request, in MC_RATE_TICKS a ns; 0: no limit */
const volatile __u64 guard_depth = 0;         /* of a bucket, the same */
const volatile __u32 guard_amplification = 0; /* 0: no limit */

const volatile __u32 guard_reloads = 0; /* guard_now has the settings */

struct mc_guard guard_now;

/* The lists, one without guard_reloads; number and size are set before the load. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_RDONLY_PROG);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(u32));
    __uint(value_size, sizeof(u64));
} mc_allowed SEC(".maps");

/* The buckets; 1 << MC_RATE_BITS of them if there is a limit, or may be one later. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} mc_rates SEC(".maps");

/* Network order: RFC 1918, 1122 (loopback), 6598 (shared). */
static __always_inline int is_local4(u32 source)
{
    u32 net = source & 0xff, pair = source & 0xffff;

    return net == 10 || pair == 0xa8c0 || (source & 0xf0ff) == 0x10ac || net == 127 ||
           (source & 0xc0ff) == 0x4064;
}

/* The first half and the second, host order: RFC 4193, ::1. */
static __always_inline int is_local6(u64 high, u64 low)
{
    return high >> 57 == 0xfc >> 1 || (!high && low == 1);
}

/*
 * Whether source and destination are both local: what `local` allows. The destination counts, since
 * a firewall may close a public address to all sources. Link-local addresses are not local here:
 * any host on the link can use one.
 */
static __always_inline int is_local_pair(const void *ip, u64 v6)
{
    if (v6)
        return is_local6(bpf_be64_to_cpu(LOAD64(ip + 8)), bpf_be64_to_cpu(LOAD64(ip + 16))) &&
               is_local6(bpf_be64_to_cpu(LOAD64(ip + 24)), bpf_be64_to_cpu(LOAD64(ip + 32)));
    return is_local4(LOAD32(ip + 12)) && is_local4(LOAD32(ip + 16));
}

/* Which list is in use, as struct mc_guard says. */
static __always_inline u32 guard_list(void)
{
    if (guard_reloads)
        return READ_ONCE(guard_now.list);
    return guard_local ? MC_GUARD_LOCAL : 0;
}

static __always_inline const void *guard_find(u32 list)
{
    u32 key = list & MC_GUARD_SECOND;

    return bpf_map_lookup_elem(&mc_allowed, &key);
}

/*
 * Which entry of a list a node leads to: a step for each four bits behind the first 16. number: of
 * guard_list.
 */
__attribute__((noinline)) int guard_walk(u64 high, u64 low, u32 node, u32 number)
{
    u64 key = high << 16 | low >> 48, rest = low << 16, at, entry = node;
    const void *list;
    u32 i;

    if (guard_allow != MC_ALLOW_LIST)
        return MC_ALLOW_OUT;
    list = guard_find(number);
    if (!list)
        return MC_ALLOW_OUT;
    for (i = 0; i < MC_ALLOW_STEPS; i++) {
        if (entry <= MC_ALLOW_IN || entry & MC_ALLOW_PREFIX)
            break;
        at = entry & guard_nodes_mask;
        entry = LOAD32(list + MC_ALLOW_NODES_AT + at * (4 * MC_ALLOW_FAN) + (key >> 60) * 4);
        key = key << 4 | rest >> 60;
        rest <<= 4;
    }
    return entry;
}

/*
 * Whether a prefix of the list holds an address, in host order, an IPv4 address in the top bits.
 * Most often its first 16 bits tell which prefix alone that could be. number: of guard_list.
 */
static __always_inline int guard_listed(u64 high, u64 low, u64 six, u32 number)
{
    const struct mc_allow_prefix *prefix;
    const void *list;
    u64 at, entry;

    list = guard_find(number);
    if (!list)
        return 0;
    at = high >> 48 | six << 16;
    bound_mask(at, 2 * MC_ALLOW_CELLS - 1);
    entry = LOAD32(list + at * 4);
    if (!(entry & MC_ALLOW_PREFIX)) {
        if (entry > MC_ALLOW_IN)
            entry = (u32)guard_walk(high, low, entry, number);
        if (!(entry & MC_ALLOW_PREFIX))
            return entry == MC_ALLOW_IN;
    }
    at = entry & guard_prefixes_mask;
    prefix = list + MC_ALLOW_NODES_AT + ((u64)guard_nodes_mask + 1) * (4 * MC_ALLOW_FAN) +
             at * sizeof(*prefix);
    return !(((high ^ prefix->high) & prefix->mask_high) |
             ((low ^ prefix->low) & prefix->mask_low));
}

static __always_inline u64 guard_request_cost(void)
{
    return guard_reloads ? READ_ONCE(guard_now.cost) : guard_cost;
}

/*
 * Takes a request out of a source's bucket. 0: it holds none, or another CPU was there. A bucket
 * that would be full later than any of this depth was filled under another rate, and begins anew; a
 * second more, because the other CPU's clock may be ahead by a tick.
 */
static __always_inline int guard_charge(u64 hash)
{
    u64 cost = guard_request_cost(),
        depth = guard_reloads ? READ_ONCE(guard_now.depth) : guard_depth;
    u32 slot = hash >> (64 - MC_RATE_BITS);
    u64 now, full, wait, *bucket;

    bucket = bpf_map_lookup_elem(&mc_rates, &slot);
    if (!bucket)
        return 0;
    now = bpf_jiffies64() * tick_ns * MC_RATE_TICKS; /* a clock would be a call */
    full = READ_ONCE(*bucket);
    wait = full - now;
    if (wait > depth + 1000000000ull * MC_RATE_TICKS)
        wait = 0;
    if (wait + cost > depth)
        return 0;
    return __sync_val_compare_and_swap(bucket, full, now + wait + cost) == full;
}

/*
 * Whether a source is on the list, of an address as guard_listed takes it: 0, or the reason to
 * pass. A function, so that what it keeps on the stack is not added to that of all that follows:
 * 512 bytes are the limit.
 */
__attribute__((noinline)) int guard_ask(u64 high, u64 low, u32 six)
{
    u32 number = guard_list();

    if (guard_allow != MC_ALLOW_LIST)
        return VERDICT_OK;
    if (guard_reloads)
        read_barrier();
    if (!guard_listed(high, low, !!six, number))
        return PASS_ALLOW;
    if (!guard_reloads)
        return VERDICT_OK;
    read_barrier();
    return guard_list() == number ? VERDICT_OK : PASS_ALLOW;
}

/* Whether a source is within its rate: 0, or the reason to pass. */
static __always_inline enum verdict guard_take(u64 high, u64 low, u64 six)
{
    u64 hash = high * guard_seeds[0];

    if (six && (is_local6(high, low) || high >> 54 == 0xfe80 >> 6))
        hash += low * guard_seeds[1];
    return guard_charge(hash) ? VERDICT_OK : PASS_RATE;
}

static __always_inline u64 source_high(const void *ip, u64 v6)
{
    return v6 ? bpf_be64_to_cpu(LOAD64(ip + 8)) : (u64)bpf_ntohl(LOAD32(ip + 12)) << 32;
}

static __always_inline u64 source_low(const void *ip, u64 v6)
{
    return v6 ? bpf_be64_to_cpu(LOAD64(ip + 16)) : 0;
}

/* Whether a request, whose IP header begins there, may be answered: 0, or the reason to pass. */
static __always_inline enum verdict guard_source(const void *ip, u64 v6)
{
    if (guard_allow == MC_ALLOW_LOCAL && unlikely(!is_local_pair(ip, v6)))
        return PASS_ALLOW;
    if (guard_allow == MC_ALLOW_LIST && !(guard_list() & MC_GUARD_LOCAL && is_local_pair(ip, v6)))
        return guard_ask(source_high(ip, v6), source_low(ip, v6), !!v6);
    return VERDICT_OK;
}

/*
 * Whether the rate of its source allows a request now: 0, or the reason to pass. The last check,
 * made once for each request, since it charges the source.
 */
static __always_inline enum verdict guard_rate(const void *ip, u64 v6)
{
    return guard_request_cost() ? guard_take(source_high(ip, v6), source_low(ip, v6), v6)
                                : VERDICT_OK;
}

/*
 * Whether a reply of nreply bytes of text to a request of nrequest may be so large: 0, or the
 * reason to pass. What needs fragments is left to the server: the kernel programs make none.
 */
static __always_inline enum verdict guard_size(u64 v6, u64 nrequest, u64 nreply)
{
    u64 most = guard_reloads ? READ_ONCE(guard_now.amplification) : guard_amplification;

    if (unlikely(ip_bytes(v6) + L4_TEXT + nreply > READ_ONCE(control.packet_over) - 1))
        return PASS_SIZE;
    if (most && l4_payload(nreply) > l4_payload(nrequest) * most)
        return PASS_AMPLIFICATION;
    return VERDICT_OK;
}

#endif
