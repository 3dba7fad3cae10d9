/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain: the memory that the programs of the chain and user space share.
 *
 * The chain is BMC as its paper has it (Ghigoff et al., NSDI 2021, sections 3 and 4): a cache in
 * front of any memcached, filled from the replies that leave and emptied by the writes that arrive.
 * doc/chain.md says how it stays coherent; this header says where things lie.
 *
 * Gate. What a bucket and the whole table have in common: whether a write may be in flight. A write
 * enters when its packet arrives and leaves when its reply has left; what was read from the server
 * between the two is never kept. `word` is a version, a generation and the number of writes in
 * flight, changed by atomic operations only; an entry is valid as long as it is the word that the
 * entry was filled under, so a write costs one addition and needs no lock. `done` is when the last
 * write left, and only grows. A write whose reply is never seen holds the gate until `until`: then
 * all that are in flight are given up, and the next generation begins. A write remembers the
 * generation that it entered, and takes nothing off another one. Times are the kernel's
 * CLOCK_MONOTONIC in nanoseconds (bpf_ktime_get_ns).
 *
 * Bucket. Direct-mapped by the low bits of the key's hash (mc_hash_*, layout.h, with the seeds of
 * the control block), whichever the server: a write closes the bucket for all. Two cache lines;
 * longer entries have their text in a block of one of two larger sizes, which buckets share in turn
 * (their number modulo the number of blocks).
 *
 * Ask. Where a get that was passed to the server is remembered until its reply leaves: when it came
 * in. Asks that fall on the same place count as one, that came in first: that refuses more than it
 * must, and never less.
 */
#ifndef MC_CHAIN_H
#define MC_CHAIN_H

#ifdef __bpf__
#include <linux/bpf.h>
#else
#include <stddef.h>
#endif
#include <linux/types.h>

enum {
    CHAIN_WIRE = 64,    /* bytes of an entry's text in its bucket, */
    CHAIN_MEDIUM = 448, /* in a medium block, */
    CHAIN_LARGE = 1400, /* and in a large one, at most */
    CHAIN_MAX_ENTRIES = 1 << 24,
    CHAIN_KEY_MAX = 250,
    CHAIN_VALUE_MAX = 1300,
    CHAIN_WRITES = 32, /* open writes of a connection that are followed one by one */
};

/* In a gate's word. Every connection may have CHAIN_WRITES writes in flight on the same gate. */
#define CHAIN_GENERATION (1ull << 24)
#define CHAIN_VERSION    (1ull << 36)

/*  0  word   version << 36 | generation << 24 | writes in flight
 *  8  done   the last write left
 * 16  until  writes in flight are given up
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
 * 32  word    of the gate, when it was filled
 * 40  all     of the whole table's gate
 * 48  server  which server: its address, of IPv6 hashed
 * 56  stamp   when its value was true: jiffies, 48 bits, before the server was asked; above them
 *             the top 16 bits of the key's hash
 * 64  wire    if it fits
 */
struct chain_bucket {
    struct chain_gate gate;
    __u32 seq;
    __u16 nwire;
    __u8 nkey;
    __u8 size;
    __u64 word;
    __u64 all;
    __u64 server;
    __u64 stamp;
    char wire[CHAIN_WIRE];
};

enum { CHAIN_STAMP_BITS = 48 }; /* of jiffies: they do not come round */

enum chain_size { CHAIN_IN_BUCKET, CHAIN_IN_MEDIUM, CHAIN_IN_LARGE };

/* A block of text. Its bucket's seq says nothing of it, since buckets share it: it has its own. */
struct chain_block {
    __u32 seq;
    __u32 bucket; /* whose text it is */
    char wire[];  /* 8 bytes more than the size says, which may be read and written */
};

/*
 * Asks of one place. first: the earliest of those in flight; next: the first that came
 * chain_settings.ask / 2 after that or later, which follows it when it is chain_settings.ask old:
 * so a request that the server dropped holds the place for no longer. 0: none. A place is found by
 * a hash of both addresses, the client's port and the request id, of which `who` is the other half.
 * Asks of several hold the place, as does one that may have any number of replies (CHAIN_ASK_HOLD):
 * then no reply ends it, and `first` moves with the time alone. Of several the last two are known;
 * a reply to nobody who is known is to nobody.
 */
struct chain_ask {
#ifdef __bpf__
    struct bpf_spin_lock lock;
#else
    __u32 lock;
#endif
    __u32 n;      /* in flight */
    __u32 who;    /* the last one, */
    __u32 before; /* and the last other one before, if there are several */
    __u64 first;
    __u64 next;
};

enum { CHAIN_ASK_HOLD = 1 << 16 };
#define CHAIN_ASK_NS 2000000000ull /* the most that chain_settings.ask may be */

/* What is set before the programs are loaded. */
struct chain_settings {
    __u32 entries; /* buckets, a power of two */
    __u32 nmedium; /* blocks, powers of two */
    __u32 nlarge;
    __u32 nasks;   /* a power of two */
    __u32 key_max; /* longer ones are left to the server */
    __u32 value_max;
    __u32 max_age; /* of an entry, jiffies */
    __u32 nconnections;
    __u32 any_socket; /* what comes and leaves needs none: of tests that have none */
    __u32 unused;
    __u64 settle; /* nanoseconds that a write may be in flight, */
    __u64 ask;    /* and that a place of asks is held for */
    __u64 netns;  /* cookie of the network namespace whose sockets are the server's */
};

/* Beside what mc_counts counts of the requests; one row a CPU. */
enum chain_count {
    CHAIN_FILLS,
    CHAIN_FILL_NOT_ASKED, /* replies to nobody's get that we know of */
    CHAIN_FILL_WRITING,   /* a write was in flight, or had been since the request */
    CHAIN_FILL_SIZE,      /* key or value too long, or more than one datagram */
    CHAIN_FILL_FORM,      /* no reply that we understand */
    CHAIN_FILL_BUSY,      /* another CPU was filling the entry */
    CHAIN_FOREIGN,        /* left from the server's port, and the server did not send it */
    CHAIN_MISS_EMPTY,     /* gets that were passed: the bucket has another key or none, */
    CHAIN_MISS_WRITTEN,   /* what it has was overwritten, */
    CHAIN_MISS_AGE,       /* or is too old */
    CHAIN_WRITES_SEEN,    /* commands that close a bucket */
    CHAIN_WRITES_ENDED,   /* their replies */
    CHAIN_WRITES_LATE,    /* given up, since no reply came in time */
    CHAIN_CLOSED_ALL,  /* times that everything was invalidated: by a command such as flush_all, */
    CHAIN_UNFOLLOWED,  /* segments that could not be followed */
    CHAIN_NO_SOCKET,   /* segments that nobody here will read: not looked at */
    CHAIN_CONNECTIONS, /* that were followed from their start, */
    CHAIN_LOST,        /* and from some point on no more, */
    CHAIN_FOUND,       /* until they could be followed again */
    CHAIN_RETRANSMITTED, /* segments that came again */
    CHAIN_COUNTS
};

/* One row for each CPU, the first in the memory of the programs (map chain_scratch_map). */
struct chain_counts {
    __u64 count[32];
};

#ifndef __bpf__
_Static_assert(sizeof(struct chain_gate) == 24, "");
_Static_assert(sizeof(struct chain_bucket) == 128, "two cache lines");
_Static_assert(offsetof(struct chain_bucket, wire) == 64, "what is looked at first is one");
_Static_assert(offsetof(struct chain_bucket, server) == 48, "");
_Static_assert(sizeof(struct chain_ask) == 32, "");
_Static_assert((int)CHAIN_COUNTS <= 32, "");
#endif

#endif
