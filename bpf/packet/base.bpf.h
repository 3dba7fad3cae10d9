/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * base: what all kernel side files share: types, loads, the control block, clocks and the lease.
 *
 * The server owns the heap, the table and the control block (bpf/shared/layout.h) and maps all
 * three; here they are only read.
 */
#ifndef MC_BASE_BPF_H
#define MC_BASE_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pkt_cls.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bpf/shared/layout.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The compiler may neither move loads and stores over this nor reuse a value. */
#define barrier()         asm volatile("" ::: "memory")
#define READ_ONCE(x)      (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, to) (*(volatile typeof(x) *)&(x) = (to))
#define LOAD8(p)          (*(const u8 *)(p))
#define LOAD16(p)         (*(const u16 *)(p))
#define LOAD32(p)         (*(const u32 *)(p))
#define LOAD64(p)         (*(const u64 *)(p))
#define STORE16(p, value) (*(u16 *)(p) = (value))
#define STORE32(p, value) (*(u32 *)(p) = (value))
#define STORE64(p, value) (*(u64 *)(p) = (value))

/*
 * Bounds a 64-bit number right before pointer arithmetic, where the compiler can neither see
 * through it nor move it: the verifier of Linux 6.1 loses bounds that stand further away or in
 * another register.
 */
#define bound_mask(var, mask) asm volatile("%0 &= %1" : "+r"(var) : "i"(mask))

/*
 * The same for the size that a helper is given: 1 to mask + 1. Linux 6.1 learns nothing from "not
 * 0".
 */
#define bound_size(var, mask)                                                                      \
    do {                                                                                           \
        (var)--;                                                                                   \
        bound_mask(var, mask);                                                                     \
        (var)++;                                                                                   \
    } while (0)

/*
 * The same for a limit that is no mask: beyond it the number becomes 0, and the caller is to
 * notice.
 */
#define clamp_or_zero(var, limit)                                                                  \
    asm volatile("if %0 <= %1 goto +1\n%0 = 0" : "+r"(var) : "i"(limit))

/* Whether they are equal; the compiler does not take one, which has no bounds, for the other. */
static __always_inline int is_same(u64 bounded, u64 other)
{
    u64 differs = bounded ^ other;

    barrier_var(differs);
    return !differs;
}

/* Where things lie in a frame, which headers.bpf.h draws. */
enum {
    TAG_BYTES = 4,
    IP4_BYTES = 20, /* to the transport's header, of which udp.bpf.h knows */
    IP6_BYTES = 40,
    FRAME_MIN = 60,    /* of Ethernet, without its checksum */
    REQUEST_LEAST = 6, /* "get k\n" */
    TEXT_MAX = MC_REPLY_MOST,
};

/* "get ", "END\r\n" and "VALUE " as little-endian numbers, and how long they are. */
#define TEXT_GET   0x20746567u
#define TEXT_END   0x0a0d444e45ull
#define TEXT_VALUE 0x2045554c4156ull
enum { NGET = 4, NEND = 5, NVALUE = 6 };

enum {
    KEY_WORDS = MC_HASH_WORDS,
    KEYS_MAX = 736,               /* all that fit a request of REQUEST_MAX */
    HITS_MAX = TEXT_MAX / 15 + 1, /* in one reply: "VALUE k 0 0\r\n\r\n" */
    MARKS_MAX = 128,              /* a power of two above it */
    KEYS_RETRIED = 32,            /* repeated lookups in one request */
    REQUEST_MAX = 1472,           /* of keys; what an Ethernet frame can carry */
    REQUEST_ROOM = 2048,          /* a power of two above it: offsets are masked */
    BUCKETS_MAX = 4,              /* buckets of one chain that are searched */
    HOPS_MAX = 2,                 /* buckets looked at for one: a split is followed once */
    TRIES_MAX = 4,                /* readings of a bucket for one key */
};

/* --- maps ---------------------------------------------------------------- */

/* The control block is a data section: its address is a constant of the program. */
struct mc_control control SEC(".data.control") = {};

/* CPUs that may move loads: set by the loader before the programs are loaded. */
const volatile __u32 weakly_ordered = 0;
/* Nanoseconds of a tick of the kernel's clock: set by the loader before they are loaded. */
const volatile __u64 tick_ns = 0;
/*
 * How far the server's CLOCK_MONOTONIC is before the kernel's, in its time namespace: set before
 * they are loaded.
 */
const volatile __s64 clock_ahead = 0;
/* A TC program follows this one: set by the loader when both are attached. */
__u32 tc_follows = 0;
/* No XDP program stands before TC, which then answers what it can itself. */
__u32 tc_alone = 0;
/* This program stands in the stack on some interface: set when it is attached so. */
__u32 xdp_generic = 0;

__u32 always_zero = 0;

/*
 * 0, of which the verifier knows no more than that it is at most 7. A pointer into a packet to
 * which it is added has a range of its own: how much of the packet a loop over it has found to be
 * there does not tell the paths behind the loop apart.
 */
static __always_inline u64 unknown_zero(void)
{
    u64 zero = READ_ONCE(always_zero);

    bound_mask(zero, 7);
    return zero;
}

/* CLOCK_MONOTONIC_COARSE as the server has it. */
static __always_inline u64 coarse_ns(void)
{
    return bpf_ktime_get_coarse_ns() + clock_ahead;
}

/*
 * Whether a lease has ended. Converts a new lease to ticks: the JIT turns reading them into a load,
 * while reading a clock is a call, which costs as much as a lookup where the CPU's returns are
 * guarded (x86 after 2023).
 */
__attribute__((noinline)) int lease_take(u64 lease)
{
    u64 now = coarse_ns(), end = ~0ull;

    u64 until = (lease >> 32) << MC_LEASE_SHIFT;

    if (lease & MC_LEASE_DEAD || until <= now)
        end = 0;
    else if (lease < MC_LEASE_EVER && tick_ns)
        end = bpf_jiffies64() + (until - now) / tick_ns + 1;
    control.lease_end = end;
    barrier();
    control.leased = lease;
    return !end;
}

/* Whether the server has stopped: its lease was not renewed in time, or it has ended. */
static __always_inline int server_has_stopped(void)
{
    u64 lease = READ_ONCE(control.lease);

    /* Not by lease_end if the lease is dead: another CPU may be about to store a later one. */
    if (unlikely((lease ^ READ_ONCE(control.leased)) | (lease & MC_LEASE_DEAD)))
        return lease_take(lease);
    return bpf_jiffies64() > READ_ONCE(control.lease_end);
}

/*
 * The server's clock against an item's expiry or a delayed flush. It may run a tick ahead of the
 * server, which then decides. *now: that clock, in nanoseconds.
 */
static __always_inline int second_reached_at(u32 second, u64 *now)
{
    *now = coarse_ns() - control.base_ns;
    return *now >= second * 1000000000ull;
}

static __always_inline int second_reached(u32 second)
{
    u64 now;

    return second_reached_at(second, &now);
}

/*
 * Loads before this come before loads after it. x86 needs no more than a compiler's barrier;
 * elsewhere an atomic operation with a result is a full barrier in every JIT. An unused result is
 * no barrier: clang leaves BPF_FETCH out then, and arm64 has STADD for it, which orders nothing.
 */
static __always_inline void read_barrier(void)
{
    barrier();
    if (weakly_ordered) {
        u64 fence = 0, before = __sync_fetch_and_add(&fence, 1);

        asm volatile("" : : "r"(before) : "memory");
    }
}

#endif
