/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_maps: the table of the chain, the asks, and the memory of one CPU, beside struct scratch.
 *
 * The sizes of the maps are set before the load, as chain_settings has them.
 */
#ifndef MC_CHAIN_MAPS_BPF_H
#define MC_CHAIN_MAPS_BPF_H

#include "bpf/chain/gate.bpf.h"
#include "bpf/packet/kernel.bpf.h"
#include "bpf/shared/chain.h"

enum {
    MEDIUM_BYTES = 8 + CHAIN_MEDIUM + 8,
    LARGE_BYTES = 8 + CHAIN_LARGE + 8,
};

/* MMAPABLE puts the first one at the start of a page: then each is two cache lines, and no more. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct chain_bucket);
} buckets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(u32));
    __uint(value_size, MEDIUM_BYTES);
} medium SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(u32));
    __uint(value_size, LARGE_BYTES);
} large SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct chain_ask);
} asks SEC(".maps");

/* Packets to our port that come in fragments: the first one was seen. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, u64);
    __type(value, u8);
} fragments SEC(".maps");

/*
 * tc_index of a datagram that leaves and is not to be looked at: it is our own reply, or was seen
 * before, on an interface above this one. Others have 0 there.
 */
enum { CHAIN_SEEN = 0x4d43 };

/* What a packet is to the chain. */
enum chain_kind {
    KIND_NONE,       /* nothing of ours */
    KIND_TCP,        /* to our port, or from it */
    KIND_UDP,        /* the same */
    KIND_FRAGMENT,   /* of TCP or UDP, of which the ports are not known */
    KIND_UNFOLLOWED, /* it may be TCP or UDP, but we cannot see that */
};

/* What a fragment is of a packet. */
enum chain_part { PART_NONE, PART_FIRST, PART_LATER };

/* Of one CPU. What the filters of both directions find out of a packet's headers. */
struct chain_scratch {
    struct chain_counts counts;
    u32 l3;     /* where IP begins in the frame, */
    u32 l4;     /* and TCP or UDP, of KIND_TCP and KIND_UDP */
    u32 nframe; /* bytes of the frame, in all its buffers */
    u8 proto;   /* IPPROTO_TCP or IPPROTO_UDP */
    u8 v6;
    u8 kind;    /* enum chain_kind */
    u8 missing; /* of the keys of a get: one is, and why */
    u8 part;    /* enum chain_part */
    u64 whole;  /* of which packet it is a part: a hash */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct chain_scratch);
} chain_scratch_map SEC(".maps");

static __always_inline struct chain_scratch *chain_scratch_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&chain_scratch_map, &zero);
}

/* 0, for those who then leave. */
static __always_inline int chain_count(struct chain_scratch *scratch, enum chain_count count)
{
    u64 at = count;

    BOUND(at, 31);
    scratch->counts.count[at]++;
    return 0;
}

static __always_inline u32 bucket_of(u64 hash)
{
    return hash & (settings.entries - 1);
}

static __always_inline struct chain_bucket *bucket_get(u32 index)
{
    return bpf_map_lookup_elem(&buckets, &index);
}

/* The gate of a key, by its hash. */
static __always_inline struct chain_gate *bucket_gate(u64 hash)
{
    struct chain_bucket *bucket = bucket_get(bucket_of(hash));

    return bucket ? &bucket->gate : NULL;
}

#endif
