/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_maps: the table of the chain, the outstanding requests, and the chain's per-CPU scratch
 * beside struct scratch.
 *
 * The loader sets the maps' sizes from struct chain_settings before it loads the programs.
 */
#ifndef MC_CHAIN_MAPS_BPF_H
#define MC_CHAIN_MAPS_BPF_H

#include "bpf/chain/gate.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ext6.bpf.h"
#include "bpf/shared/chain.h"

enum {
    MEDIUM_BYTES = 8 + CHAIN_MEDIUM + 8,
    LARGE_BYTES = 8 + CHAIN_LARGE + 8,
};

/*
 * MMAPABLE puts the first bucket at the start of a page, so that each takes exactly two cache
 * lines.
 */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct chain_bucket);
} mc_buckets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(u32));
    __uint(value_size, MEDIUM_BYTES);
} mc_medium SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(u32));
    __uint(value_size, LARGE_BYTES);
} mc_large SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct chain_outstanding);
} mc_outstanding SEC(".maps");

/* Fragmented packets to memcached's port whose first fragment has arrived. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, u64);
    __type(value, u8);
} mc_fragments SEC(".maps");

/*
 * tc_index of a packet that leaves and must not be parsed: it is the chain's own reply, or was
 * parsed before on an interface above this one. Others have 0 there.
 */
enum { CHAIN_SEEN = 0x4d43 };

/* What a packet is to the chain. */
enum chain_kind {
    KIND_NONE,       /* none for memcached */
    KIND_TCP,        /* to memcached's port, or from it */
    KIND_UDP,        /* the same */
    KIND_FRAGMENT,   /* of TCP or UDP to that port */
    KIND_UNFOLLOWED, /* it may be TCP or UDP, behind headers that are not parsed */
};

/* Per-CPU scratch of the chain: its counters, and what classify() finds in a packet's headers. */
struct chain_scratch {
    struct chain_counts counts;
    u32 l3;     /* where IP begins in the frame, */
    u32 l4;     /* and TCP or UDP, of KIND_TCP and KIND_UDP */
    u32 nframe; /* bytes of the frame, in all its buffers */
    u8 proto;   /* IPPROTO_TCP or IPPROTO_UDP */
    u8 v6;
    u8 kind;       /* enum chain_kind */
    u8 missing;    /* of a get: why its first missing key is missing; 0: none is */
    u8 fragment;   /* enum fragment (packet/ext6.bpf.h) */
    u64 packet_id; /* of a fragment: identifies its packet, a hash */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct chain_scratch);
} mc_chain SEC(".maps");

static __always_inline struct chain_scratch *chain_scratch_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&mc_chain, &zero);
}

/* Returns 0, for callers that return it. */
static __always_inline int chain_count(struct chain_scratch *scratch, enum chain_count count)
{
    u64 at = count;

    bound_mask(at, 31);
    scratch->counts.count[at]++;
    return 0;
}

static __always_inline u32 bucket_index(u64 hash)
{
    return hash & (settings.entries - 1);
}

static __always_inline struct chain_bucket *bucket_get(u32 index)
{
    return bpf_map_lookup_elem(&mc_buckets, &index);
}

#endif
