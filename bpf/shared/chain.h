/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain: the memory that the chain's programs and user space share.
 *
 * The chain is BMC as its paper describes it (Ghigoff et al., NSDI 2021, sections 3 and 4): a cache
 * in front of any memcached, filled from the replies that leave and invalidated by the writes that
 * arrive. doc/chain.md describes how it stays coherent, this header the layout of its memory.
 *
 * Gate. Says whether a write may be in flight; each bucket has one, and so has the whole table. A
 * write enters when its packet arrives and leaves when its reply has left; no reply to a get that
 * the server handled between the two is kept. `word` is a version, a generation and the number of
 * writes in flight, changed by atomic operations only. An entry is valid as long as the word is the
 * one under which it was filled, so a write costs one addition and needs no lock. `done` is the
 * time at which the last write left, and never falls. A write whose reply is never seen holds the
 * gate until the time `until`: then all writes in flight are given up, and the next generation
 * begins. A write remembers the generation that it entered, and does not decrement the count of
 * another one. Times are the kernel's CLOCK_MONOTONIC in nanoseconds (bpf_ktime_get_ns).
 *
 * Bucket. Direct-mapped by the low bits of the key's hash (mc_hash_*, layout.h, with the seeds of
 * the control block), whichever server the key belongs to: a write closes the bucket for all
 * servers. Two cache lines; a longer entry has its text in a block of one of two larger sizes,
 * which buckets share (block = bucket modulo number of blocks).
 *
 * Outstanding request. The record of a request over UDP that was passed to the server, until its
 * reply leaves: when it arrived, and which gate it has entered, if it writes. Outstanding requests
 * that fall on the same place count as one that arrived when the first did: so fewer replies are
 * kept than could be, never more.
 */
#ifndef MC_CHAIN_H
#define MC_CHAIN_H

#ifdef __bpf__
#include <linux/bpf.h>
#else
#include <stddef.h>
#endif
#include <linux/types.h>

#include "bpf/shared/counters.def"

enum {
    CHAIN_WIRE = 64,    /* bytes of an entry's text in its bucket, */
    CHAIN_MEDIUM = 448, /* in a medium block, */
    CHAIN_LARGE = 1400, /* and in a large one, at most */
    CHAIN_MAX_ENTRIES = 1 << 24,
    CHAIN_KEY_MAX = 250,
    CHAIN_VALUE_MAX = 1300,
    CHAIN_WRITES = 32, /* open writes of a connection that are recorded one by one */
};

/* The fields of a gate's word. The count has room for CHAIN_WRITES writes of every connection. */
#define CHAIN_GENERATION (1ull << 24)
#define CHAIN_VERSION    (1ull << 36)

/*  0  word   version << 36 | generation << 24 | writes in flight
 *  8  done   when the last write left
 * 16  until  when writes in flight are given up
 */
struct chain_gate {
    __u64 word;
    __u64 done;
    __u64 until;
};

/*
 *  0  gate
 * 24  seq     odd while the entry is filled
 * 28  nwire   bytes of text: key, suffix, value, tail, as in struct mc_item
 * 30  nkey    0: empty
 * 31  size    where the text is: enum chain_size
 * 32  word    the gate's word when the entry was filled
 * 40  all     the word of the whole table's gate then
 * 48  server  which server: its IPv4 address, or a hash of its IPv6 address
 * 56  stamp   when the request arrived that the entry answers: jiffies, 48 bits; above them the top
 *             16 bits of the key's hash
 * 64  wire    the text, if it fits
 */
struct chain_bucket {
    struct chain_gate gate;
    __u32 seq;
    __u16 nwire;
    __u8 nkey;
    __u8 size;
    __u64 word;
    __u64 whole_table_word;
    __u64 server;
    __u64 stamp;
    char wire[CHAIN_WIRE];
};

enum { CHAIN_STAMP_BITS = 48 }; /* of jiffies: enough never to wrap */

enum chain_size { CHAIN_IN_BUCKET, CHAIN_IN_MEDIUM, CHAIN_IN_LARGE };

/* A block of text. Since buckets share it, their seq does not protect it: it has its own. */
struct chain_block {
    __u32 seq;
    __u32 bucket; /* the bucket whose text it is */
    char wire[];  /* 8 bytes more than its size, which may be read and written */
};

/*
 * The outstanding requests of one place. first: when the earliest one in flight arrived; next: when
 * the first arrived that came chain_settings.outstanding / 2 or more after it, and becomes `first`
 * when that is chain_settings.outstanding old; 0: none. So a request that the server dropped holds
 * the place for no longer. A place is found by a hash of both addresses, the client's port and the
 * request id; `who` is the hash's other half. Requests of several requesters hold the place, as
 * does one that may have any number of replies (CHAIN_OUTSTANDING_HOLD): then no reply ends it, and
 * `first` advances with time only. Of several requesters the last two are known; a reply to any
 * other is not kept.
 *
 * Of the requests that may write the last one is known until its reply leaves, however long that
 * takes. `several`: when it arrived, another one may have been unanswered, or it may have any
 * number of replies; then no reply is taken for its own. Of each place at most one write is counted
 * by a gate, so the gates' counts have room for all.
 */
struct chain_outstanding {
#ifdef __bpf__
    struct bpf_spin_lock lock;
#else
    __u32 lock;
#endif
    __u32 n;      /* in flight */
    __u32 who;    /* the last requester, */
    __u32 before; /* and the last different one before it */
    __u64 first;
    __u64 next;
    __u64 wrote;   /* when the last request arrived that may write; 0: none, or it was answered */
    __u32 writer;  /* its requester */
    __u32 several; /* its reply proves nothing */
    __u32 gate;    /* the bucket whose gate it has entered, plus 1; 0: none */
    __u32 generation; /* of that gate */
};

enum {
    CHAIN_OUTSTANDING_HOLD = 1 << 16,
    CHAIN_OUTSTANDING_GONE = 1 << 12, /* instead of a generation: the write has left the gate */
};
#define CHAIN_OUTSTANDING_NS 2000000000ull /* the maximum of chain_settings.outstanding */

/* The loader sets these before it loads the programs. */
struct chain_settings {
    __u32 entries; /* buckets, a power of two */
    __u32 nmedium; /* blocks, powers of two */
    __u32 nlarge;
    __u32 noutstanding; /* a power of two */
    __u32 key_max;      /* longer ones are left to the server */
    __u32 value_max;
    __u32 max_age; /* of an entry, jiffies */
    __u32 nconnections;
    __u32 any_socket; /* packets need no socket of the server: for tests, which have none */
    __u32 unused;
    __u64 settle;      /* nanoseconds for which a write may be in flight, */
    __u64 outstanding; /* and for which a place of outstanding requests is held */
    __u64 netns;       /* cookie of the network namespace that the server's sockets are in */
};

/* Counters of the chain beside those in mc_counts; one row for each CPU. */
enum chain_count { CHAIN_COUNTERS(COUNTER_CONSTANT) CHAIN_COUNTS };

/* One row for each CPU, the first in the memory of the programs (map mc_chain). */
struct chain_counts {
    __u64 count[32];
};

#ifndef __bpf__
_Static_assert(sizeof(struct chain_gate) == 24, "");
_Static_assert(sizeof(struct chain_bucket) == 128, "two cache lines");
_Static_assert(offsetof(struct chain_bucket, wire) == 64, "what is looked at first is one");
_Static_assert(offsetof(struct chain_bucket, server) == 48, "");
_Static_assert(sizeof(struct chain_outstanding) == 56, "");
_Static_assert((int)CHAIN_COUNTS <= 32, "the programs mask a counter's place");
#endif

#endif
