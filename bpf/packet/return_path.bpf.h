/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * return_path: by which interface, and to which MAC address, replies to a source leave.
 *
 * XDP runs before the stack checks a source, and a frame that is only turned around goes to the
 * host that sent it, even if its source address is forged. So a source is answered only through the
 * interface and to the MAC address that the stack used for a reply of the server to it: then the
 * host's routes, rules and neighbours have chosen them, and the firewall has let request and reply
 * through. A program on TC egress learns return paths from the server's replies. A request whose
 * return path is unknown is passed, and the server's reply to it makes the path known.
 *
 * A path is valid for RETURN_PATH_SECONDS. For the same time after that one request in
 * RETURN_PATH_SAMPLE is passed to confirm it (not all requests at once, to spare the server), then
 * it has expired. All paths expire when the monitor reports that routes, rules, addresses or
 * interfaces of this host have changed (return_path_epoch). If the request came from another MAC
 * address than the reply goes to (two redundant routers; a client that has moved) the path is valid
 * for a second or two.
 *
 * The paths are an array of sets of MC_RETURN_PATHS, indexed by a hash with secret factors: a
 * forged source takes no more memory, and evicts the oldest path of a set. A path is two words:
 * `to`, and `vouch`, the sum of source, interface, VLAN, epoch and `to`, each times a secret odd
 * factor. Words of two different paths do not add up (probability 2^-60), so readers and writers
 * need neither locks nor barriers.
 *
 * Frames on lo come from this host alone: there no path is needed.
 */
#ifndef MC_RETURN_PATH_BPF_H
#define MC_RETURN_PATH_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"

enum { RETURN_PATH_SECONDS = 60, RETURN_PATH_SAMPLE = 16 /* of so many requests one is passed */ };

const volatile __u64 return_path_factors[4] = {1, 1, 1, 1}; /* odd */
const volatile __u32 return_path_shift =
    0; /* log2 of the ticks in a unit of time, a second or two */
/* Changes when the host's routes, rules, addresses or interfaces do. */
__u64 return_path_epoch = 0;
/* Interfaces whose replies leave by another, as a bond's ports do. */
__u32 return_path_nports = 0;
struct mc_return_path_port return_path_ports[MC_RETURN_PATH_PORTS] = {};

/*
 * When TC egress has last seen a reply of the server's, in units of return_path_now, by interface.
 */
__u32 return_path_seen[MC_RETURN_PATH_SEEN] = {};

struct return_path_set {
    struct mc_return_path path[MC_RETURN_PATHS];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1 << MC_RETURN_PATH_BITS);
    __type(key, u32);
    __type(value, struct return_path_set);
} mc_return_paths SEC(".maps");

#define MAC_MASK 0xffffffffffffull

/* The time in units, of which a path has 16 bits, above the MAC address. */
static __always_inline u64 return_path_now(void)
{
    return bpf_jiffies64() >> return_path_shift;
}

static __always_inline u16 return_path_age(u64 to, u64 now)
{
    return now - (to >> 48);
}

/* The address of the other host, which begins there, an interface and its VLAN, as one number. */
static __always_inline u64 return_path_sum(const void *address, u64 v6, u32 ifindex, u32 vlan)
{
    u64 high = v6 ? LOAD64(address) : LOAD32(address), low = v6 ? LOAD64(address + 8) : ~0ull;

    return high * return_path_factors[0] + low * return_path_factors[1] +
           ((u64)ifindex << 32 | vlan) * return_path_factors[2] + READ_ONCE(return_path_epoch);
}

static __always_inline struct return_path_set *return_path_set_of(u64 sum)
{
    u32 index = sum >> (64 - MC_RETURN_PATH_BITS);

    return bpf_map_lookup_elem(&mc_return_paths, &index);
}

static __always_inline int return_path_is(const struct mc_return_path *path, u64 sum, u64 *to)
{
    *to = READ_ONCE(path->to);
    return READ_ONCE(path->vouch) == sum + *to * return_path_factors[3];
}

/* The interface that a port's frames leave by. */
__attribute__((noinline)) int return_path_of_port(u32 ifindex)
{
    u32 n = return_path_nports, i;

    for (i = 0; i < MC_RETURN_PATH_PORTS; i++) {
        if (i >= n)
            break;
        if (return_path_ports[i].port == ifindex)
            return return_path_ports[i].of;
    }
    return ifindex;
}

/* Whether this request has to confirm a path that was learned so long ago. */
static __always_inline int return_path_is_old(u64 to, u64 from)
{
    u64 age = return_path_age(to, return_path_now());

    if (unlikely((to & MAC_MASK) != from))
        return age > 1;
    if (likely(age <= RETURN_PATH_SECONDS))
        return 0;
    return age > 2 * RETURN_PATH_SECONDS || bpf_get_prandom_u32() % RETURN_PATH_SAMPLE == 0;
}

/*
 * The MAC address to which a reply to the source of a request goes, whose frame begins at `link`
 * and whose IP header at `ip`; 0: no path is known, or this request has to confirm it.
 */
static __always_inline u64 return_path(const void *link, const void *ip, u64 v6, u32 ifindex,
                                       u32 vlan)
{
    u64 from = LOAD64(link + 6) & MAC_MASK, sum, to;
    const struct return_path_set *set;

    if (ifindex == LOOPBACK_IFINDEX)
        return from | 1ull << 63;
    if (unlikely(return_path_nports))
        ifindex = return_path_of_port(ifindex);
    sum = return_path_sum(ip + (v6 ? 8 : 12), v6, ifindex, vlan);
    set = return_path_set_of(sum);
    if (!set)
        return 0;
    if (unlikely(!return_path_is(&set->path[0], sum, &to)) &&
        !return_path_is(&set->path[1], sum, &to) && !return_path_is(&set->path[2], sum, &to) &&
        !return_path_is(&set->path[3], sum, &to))
        return 0;
    if (unlikely(return_path_is_old(to, from)))
        return 0;
    return (to & MAC_MASK) | 1ull << 63;
}

/* --- learning from what the stack sends ------------------------------------------------------- */

/* Where in a set a path goes: into its own place, or that of the oldest. */
static __always_inline struct mc_return_path *return_path_place(struct return_path_set *set,
                                                                u64 sum, u64 now)
{
    struct mc_return_path *oldest = &set->path[0];
    u64 most = 0, age, to, i;

    for (i = 0; i < MC_RETURN_PATHS; i++) {
        struct mc_return_path *path = &set->path[i];

        if (return_path_is(path, sum, &to))
            return path;
        age = path->vouch ? return_path_age(to, now) : 1 << 16;
        if (age > most) {
            most = age;
            oldest = path;
        }
    }
    return oldest;
}

static __always_inline void return_path_learn(u64 mac, u64 sum)
{
    u64 now = return_path_now(), to = (mac & MAC_MASK) | now << 48;
    struct return_path_set *set = return_path_set_of(sum);
    struct mc_return_path *path;

    if (!set)
        return;
    path = return_path_place(set, sum, now);
    if (READ_ONCE(path->to) == to && READ_ONCE(path->vouch) == sum + to * return_path_factors[3])
        return;
    WRITE_ONCE(path->to, to);
    WRITE_ONCE(path->vouch, sum + to * return_path_factors[3]);
}

/* Read by all CPUs, and written once in a unit of time. */
static __always_inline void return_path_note(u32 ifindex)
{
    u32 now = return_path_now(), *seen = &return_path_seen[ifindex % MC_RETURN_PATH_SEEN];

    if (READ_ONCE(*seen) != now)
        WRITE_ONCE(*seen, now);
}

/* Whether the server has sent a datagram (sender.bpf.h). */
typedef int return_path_sender(struct __sk_buff *skb);

static __always_inline int ip_is_from_us(const void *ip, u64 v6)
{
    return v6 ? address6_is_ours(LOAD64(ip + 8), LOAD64(ip + 16))
              : address_is_ours(LOAD32(ip + 12));
}

/* Learns from a frame that leaves, whose headers are there from the first byte on. */
static __always_inline void return_path_read(struct __sk_buff *skb, const void *link,
                                             const void *end, return_path_sender *is_server)
{
    u32 vlan = 0, outer = skb->vlan_present;
    const void *ip = link + ETH_HLEN, *l4;
    u16 type;
    u64 v6;

    if (ip > end)
        return;
    type = LOAD16(link + 12);
    if (outer)
        vlan = vlan_id(skb->vlan_proto, bpf_htons(skb->vlan_tci));
    if (type_is_tag(type)) {
        if (ip + TAG_BYTES > end)
            return;
        vlan |= vlan_id(type, LOAD16(ip)) << (outer ? 16 : 0);
        type = LOAD16(ip + 2);
        ip += TAG_BYTES;
        if (!outer && type_is_tag(type)) {
            if (ip + TAG_BYTES > end)
                return;
            vlan |= vlan_id(type, LOAD16(ip)) << 16;
            type = LOAD16(ip + 2);
            ip += TAG_BYTES;
        }
    }
    v6 = type == bpf_htons(ETH_P_IPV6);
    if (!v6 && type != bpf_htons(ETH_P_IP))
        return;
    l4 = ip + ip_bytes(v6);
    if (l4 + 4 > end || !ip_has_no_options(ip, v6, L4_PROTOCOL) || port_from(l4) != control.port ||
        LOAD8(link) & 1 || !ip_is_from_us(ip, v6) || !is_server(skb))
        return;
    return_path_note(skb->ifindex);
    return_path_learn(LOAD64(link), return_path_sum(ip + (v6 ? 24 : 16), v6, skb->ifindex, vlan));
}

/* Whatever leaves. */
static __always_inline void return_path_egress(struct __sk_buff *skb, return_path_sender *is_server)
{
    return_path_read(skb, (void *)(long)skb->data, (void *)(long)skb->data_end, is_server);
}

#endif
