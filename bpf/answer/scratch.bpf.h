/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * scratch: the memory of one CPU, in which a packet's request becomes its reply.
 *
 * A program keeps everything that is longer than a few registers in struct scratch, one for each
 * CPU: the stack is small, and what is loaded from a map value is unknown to the verifier, so that
 * the paths before it and after it add instead of multiplying.
 */
#ifndef MC_SCRATCH_BPF_H
#define MC_SCRATCH_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/headers.bpf.h"

enum {
    /* Where in struct scratch a reply's text begins: behind the longest headers, aligned. */
    REPLY_TEXT = (ETH_HLEN + 2 * TAG_BYTES + IP6_BYTES + L4_TEXT + 7) / 8 * 8,
    REPLY_MAX = REPLY_TEXT + TEXT_MAX,
};

/* A request of mg (answer/meta.bpf.h). */
struct mg {
    u64 given;   /* a bit for each flag */
    u64 shown;   /* those that are repeated in the answer, and v and q, the first in the low byte */
    u32 nshown;  /* bits of that */
    u32 recache; /* the number of R */
    u32 opaque;  /* where in the request its word begins */
    u32 nopaque; /* its length */
    u64 cas;     /* of the item, */
    u64 ttl;     /* and the seconds for which it lives; ~0: for ever */
};

struct scratch {
    struct mc_counts counts;

    /* --- when this CPU last read the kernel's clock, in its ticks, and what it read (lookup) -- */
    u64 clock_tick;
    u64 clock_ns;

    /* --- the packet --- */
    struct offsets offsets;
    struct saved_headers saved;
    u64 last; /* its last 8 bytes as they came */
    u64 nframe;
    u32 ntext;            /* of the transport's payload, from the text on */
    u32 checksum_partial; /* in TC: it is partial */
    u32 for_tc;           /* in the chain's XDP programs: TC is to answer it */

    /* --- the text that is parsed: a request behind "get " or from its verb on; a reply (fill) - */
    u32 nrequest;
    u32 at;     /* of the next key in it */
    u32 nkeys;  /* so far */
    u32 ntries; /* of this key, disturbed */
    u32 needs;  /* flags that an item must have */
    char request[REQUEST_ROOM + 8];

    /* --- the key that is being looked up --- */
    u64 key[KEY_WORDS + 1]; /* the last word padded with zeros */
    u64 nkey;
    u64 hash;
    u64 key_sum;  /* for checksums, of a get's only key */
    u32 seq;      /* of its bucket, before it was read */
    u32 index;    /* of that */
    u32 ref;      /* of its item, if chain_search found it */
    u64 unmarked; /* the slot of that, if it lacks a mark (answer/lookup.bpf.h) */

    /* --- the item that was copied last --- */
    u32 nwire;    /* bytes of it */
    u32 wire_sum; /* of the reply's only one, for checksums; 0: not known */
    u8 clsid;
    u32 ndigits; /* of the client flags in its suffix, */
    u32 nsize;   /* and of the value's length */
    u64 value;   /* where in its extent gets's value begins, while the line before it is written, */
    u64 nvalue;  /* and how long it is: there is little stack */

    /* --- the reply: its text from REPLY_TEXT on, and at last its headers before that --- */
    u8 classes[HITS_MAX]; /* of the items in it */
    u32 nhits;
    u32 nmarks;           /* slots of those that lack a mark (answer/lookup.bpf.h) */
    u32 marks[MARKS_MAX]; /* and which */
    u32 nreply;           /* where it ends */
    char reply[2048 + 128] __attribute__((aligned(8)));

    /* --- verbs other than get (answer/get.bpf.h) --- */
    u32 verb;
    struct mg mg;

    /* --- rings of AF_XDP (udp/ring.bpf.h): counts before the packet --- */
    u64 nadmitted, ncommands;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct scratch);
} mc_scratch SEC(".maps");

static __always_inline struct scratch *scratch_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&mc_scratch, &zero);
}

/*
 * How many whole words the key has, read from memory. Behind a loop over them the verifier knows
 * that number, and would go on once for each.
 */
static __always_inline u64 key_words(const struct scratch *scratch)
{
    return READ_ONCE(scratch->nkey) / 8;
}

/* clang copies a struct of the map's value byte by byte, but not its fields. */
static __always_inline struct offsets scratch_offsets(const struct scratch *scratch)
{
    return (struct offsets){scratch->offsets.ip, scratch->offsets.v6};
}

/* clang 19 knows what a function returns and leaves a mask out; the verifier does not know. */
static __always_inline void count_reason(struct scratch *scratch, u64 reason)
{
    bound_mask(reason, 31);
    scratch->counts.count[reason]++;
}

/* Counts the bytes of the request and of its reply of nreply bytes of text. */
static __always_inline void count_payload(struct scratch *scratch, u64 nreply)
{
    scratch->counts.count[MC_COUNT_BYTES_READ] += l4_payload(scratch->ntext);
    scratch->counts.count[MC_COUNT_BYTES_WRITTEN] += l4_payload(nreply);
}

#endif
