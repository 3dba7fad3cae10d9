/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * trace: reports what a packet program does with the packets of a flow.
 *
 * trace.c loads this object once for each program that it traces, and attaches two of its programs
 * to that one. *_enter runs before it: it reads addresses and ports, and copies this CPU's
 * counters. *_leave runs after it: it has the verdict, and the counters that have risen are the
 * reason. The traced program is unchanged, and pays nothing while no trace is attached.
 *
 * A tail call skips the place where *_enter is attached. So the program that the hook calls is
 * traced, and what it tail-calls shows in its verdict and its counters.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/trace/event.h"

/* The kernel's types; libbpf finds where their members are when it loads the programs. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device {
    int ifindex;
};
struct xdp_rxq_info {
    struct net_device *dev;
};
struct xdp_buff {
    void *data, *data_end;
    struct xdp_rxq_info *rxq;
};
struct sk_buff {
    struct net_device *dev;
    unsigned int len, data_len;
    __u16 network_header;
    unsigned char *head, *data;
};
#pragma clang attribute pop

enum {
    FRAME_READ = 128, /* bytes: two tags, the longest header of IPv4, and the ports */
    FRAME_ROOM = FRAME_READ + 16,
    TAG_BYTES = 4,
    TAGS_MAX = 2,
    IP4_BYTES = 20,
    IP6_BYTES = 40,
    PORTS_BYTES = 4,
    FRAGMENT_OFFSET = 0x1fff,
};

/* Set before the load: the traced program's id; the end that a packet must have, zeros: any. */
const volatile __u32 program = 0;
const volatile struct trace_end filter = {};

__u16 ports[TRACE_PORTS] = {}; /* of the servers, 0: none; may change at any time */
__u64 lost = 0;                /* events for which the ring had no room */

/* What *_enter leaves to *_leave. */
struct run {
    __u32 is_traced;
    __u32 nframe;
    __u8 frame[FRAME_ROOM];
    struct trace_event event;
    __u64 before[TRACE_KINDS][TRACE_SERVERS][TRACE_COUNTS];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct run);
} runs SEC(".maps");

/* The maps that have a server's counters, one of each server; trace.c sets their form. */
#define COUNTERS(name)                                                                             \
    struct {                                                                                       \
        __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                                  \
        __uint(key_size, sizeof(__u32));                                                           \
        __uint(value_size, sizeof(__u32));                                                         \
        __uint(max_entries, TRACE_SERVERS);                                                        \
    } name SEC(".maps")

COUNTERS(main_counters);
COUNTERS(tcp_counters);
COUNTERS(chain_counters);

/* All objects of a trace use one ring. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} events SEC(".maps");

static __always_inline struct run *run_get(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&runs, &zero);
}

/* --- headers ---------------------------------------------------------------------------------- */

static __always_inline const __u8 *frame_at(const struct run *run, __u32 at)
{
    return run->frame + (at & (FRAME_READ - 1));
}

#define LOAD16(p) (*(const __u16 *)(p))
#define LOAD32(p) (*(const __u32 *)(p))

/* Where IP begins in a frame of Ethernet; FRAME_READ: nowhere. */
static __always_inline __u32 frame_ip(const struct run *run)
{
    __u32 at = ETH_HLEN;
    __u16 type = 0;
    int i;

    for (i = 0; i <= TAGS_MAX; i++) {
        type = LOAD16(frame_at(run, at - 2));
        if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
            break;
        at += TAG_BYTES;
    }
    return type == bpf_htons(ETH_P_IP) || type == bpf_htons(ETH_P_IPV6) ? at : FRAME_READ;
}

static __always_inline void end_read4(struct trace_end *end, const void *address)
{
    end->address[0] = end->address[1] = 0;
    end->address[2] = bpf_htonl(0xffff);
    end->address[3] = LOAD32(address);
}

static __always_inline void end_read6(struct trace_end *end, const void *address)
{
    end->address[0] = LOAD32(address);
    end->address[1] = LOAD32(address + 4);
    end->address[2] = LOAD32(address + 8);
    end->address[3] = LOAD32(address + 12);
}

/* Where the transport's header begins. */
static __always_inline __u32 read_ip4(const struct run *run, struct trace_event *event, __u32 at)
{
    end_read4(&event->from, frame_at(run, at + 12));
    end_read4(&event->to, frame_at(run, at + 16));
    event->protocol = *frame_at(run, at + 9);
    if (LOAD16(frame_at(run, at + 6)) & bpf_htons(FRAGMENT_OFFSET))
        return FRAME_READ;
    return at + (*frame_at(run, at) & 15) * 4;
}

static __always_inline __u32 read_ip6(const struct run *run, struct trace_event *event, __u32 at)
{
    end_read6(&event->from, frame_at(run, at + 8));
    end_read6(&event->to, frame_at(run, at + 24));
    event->protocol = *frame_at(run, at + 6);
    return at + IP6_BYTES;
}

/* Reads addresses, protocol and ports; what is not in sight is 0. */
static __always_inline void read_headers(const struct run *run, struct trace_event *event, __u32 at)
{
    __u8 version = *frame_at(run, at) >> 4;

    event->protocol = 0;
    __builtin_memset(&event->from, 0, sizeof(event->from));
    __builtin_memset(&event->to, 0, sizeof(event->to));
    if (version == 4 && at + IP4_BYTES <= run->nframe)
        at = read_ip4(run, event, at);
    else if (version == 6 && at + IP6_BYTES <= run->nframe)
        at = read_ip6(run, event, at);
    else
        return;
    if ((event->protocol != IPPROTO_TCP && event->protocol != IPPROTO_UDP) ||
        at + PORTS_BYTES > run->nframe)
        return;
    event->from.port = LOAD16(frame_at(run, at));
    event->to.port = LOAD16(frame_at(run, at + 2));
}

/* --- which packets ---------------------------------------------------------------------------- */

static __always_inline int end_matches(const struct trace_end *end)
{
    return end->address[0] == filter.address[0] && end->address[1] == filter.address[1] &&
           end->address[2] == filter.address[2] && end->address[3] == filter.address[3] &&
           (!filter.port || end->port == filter.port);
}

static __always_inline int is_wanted(const struct trace_event *event)
{
    if (!(filter.address[0] | filter.address[1] | filter.address[2] | filter.address[3]))
        return 1;
    return end_matches(&event->from) || end_matches(&event->to);
}

/* Whether it goes to a server, or comes from one. */
static __always_inline int is_served(const struct trace_event *event)
{
    int i;

    for (i = 0; i < TRACE_PORTS; i++)
        if (ports[i] && (event->from.port == ports[i] || event->to.port == ports[i]))
            return 1;
    return 0;
}

/* --- counters --------------------------------------------------------------------------------- */

/* This CPU's counters of a server. NULL: there is no such server. */
static __always_inline const __u64 *counters_of(void *servers, __u32 server)
{
    void *map = bpf_map_lookup_elem(servers, &server);
    __u32 zero = 0;

    return map ? bpf_map_lookup_elem(map, &zero) : 0;
}

static __always_inline void keep(struct run *run, void *servers, int kind)
{
    const __u64 *now;
    __u32 i;

    for (i = 0; i < TRACE_SERVERS; i++) {
        now = counters_of(servers, i);
        if (!now)
            break;
        bpf_probe_read_kernel(run->before[kind][i], sizeof(run->before[kind][i]), now);
    }
}

/* Whether any has risen. */
static __always_inline int compare(struct run *run, void *servers, int kind)
{
    __u16 *rise = run->event.rise[kind];
    const __u64 *now;
    __u32 i, j;
    int any = 0;

    __builtin_memset(rise, 0, sizeof(run->event.rise[kind]));
    for (i = 0; i < TRACE_SERVERS; i++) {
        now = counters_of(servers, i);
        if (!now)
            break;
        for (j = 0; j < TRACE_COUNTS; j++) {
            rise[j] += (__u16)(now[j] - run->before[kind][i][j]);
            any |= rise[j];
        }
    }
    return any;
}

/* --- programs --------------------------------------------------------------------------------- */

/* nframe: bytes in sight of `length`; ip: where IP begins, 0: behind the header of Ethernet. */
static __always_inline void enter(const void *data, __u32 nframe, __u32 length, __u32 ip)
{
    struct run *run = run_get();

    if (!run)
        return;
    run->is_traced = 0;
    run->event.length = length;
    if (nframe > FRAME_READ)
        nframe = FRAME_READ;
    if (bpf_probe_read_kernel(run->frame, nframe, data))
        return;
    run->nframe = nframe;
    read_headers(run, &run->event, ip ? ip : frame_ip(run));
    if (!is_wanted(&run->event))
        return;
    keep(run, &main_counters, TRACE_MAIN);
    keep(run, &tcp_counters, TRACE_TCP);
    keep(run, &chain_counters, TRACE_CHAIN);
    run->is_traced = 1;
}

/* What goes to no server and is not counted is not reported. */
static __always_inline void leave(int verdict, int is_tc, __u32 ifindex)
{
    struct run *run = run_get();
    struct trace_event *event;
    int any;

    if (!run || !run->is_traced)
        return;
    run->is_traced = 0;
    event = &run->event;
    any = compare(run, &main_counters, TRACE_MAIN);
    any |= compare(run, &tcp_counters, TRACE_TCP);
    any |= compare(run, &chain_counters, TRACE_CHAIN);
    if (!any && !is_served(event))
        return;
    event->tai_ns = bpf_ktime_get_tai_ns();
    event->program = program;
    event->ifindex = ifindex;
    event->verdict = verdict;
    event->is_tc = is_tc;
    if (bpf_ringbuf_output(&events, event, sizeof(*event), 0))
        __sync_fetch_and_add(&lost, 1);
}

/* BPF_PROG gives each program a context that those without another argument do not name. */
#pragma clang diagnostic ignored "-Wunused-parameter"

/* By helpers: what a pointer to bytes may be used for differs from kernel to kernel. */
SEC("fentry")
int BPF_PROG(xdp_enter, struct xdp_buff *xdp)
{
    const void *data = BPF_CORE_READ(xdp, data);
    __u32 n = (__u32)(BPF_CORE_READ(xdp, data_end) - data);

    enter(data, n, n, 0);
    return 0;
}

SEC("fexit")
int BPF_PROG(xdp_leave, struct xdp_buff *xdp, int verdict)
{
    leave(verdict, 0, (__u32)BPF_CORE_READ(xdp, rxq, dev, ifindex));
    return 0;
}

SEC("fentry")
int BPF_PROG(tc_enter, struct sk_buff *skb)
{
    const unsigned char *data = BPF_CORE_READ(skb, data), *head = BPF_CORE_READ(skb, head);
    __u32 length = BPF_CORE_READ(skb, len);

    enter(data, length - BPF_CORE_READ(skb, data_len), length,
          (__u32)(head + BPF_CORE_READ(skb, network_header) - data));
    return 0;
}

SEC("fexit")
int BPF_PROG(tc_leave, struct sk_buff *skb, int verdict)
{
    leave(verdict, 1, (__u32)BPF_CORE_READ(skb, dev, ifindex));
    return 0;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
