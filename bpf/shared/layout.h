/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * layout: the memory that the server and the kernel programs share.
 *
 * The server owns every byte of it. The kernel programs read it while the server writes, and write
 * nothing but the accessed marks of a bucket, and two words of the control block. Any layer but
 * proto and flash may include this header.
 *
 * Heap. Extents of MC_EXTENT_BYTES, each MC_EXTENT_PAGES slab pages of MC_PAGE_BYTES. A chunk never
 * crosses a page. A reference names the place of a chunk in the heap in units of 1 << ref_shift
 * bytes (struct mc_control), counted from the start of extent 0; 0 is no reference.
 *
 * Table. Linear hashing (Litwin, VLDB 1980) over buckets of 64 bytes: bucket i holds the items with
 * (hash & bucket.mask) == i. A split moves some items of bucket i to the new bucket (hash & (2 *
 * mask + 1)) and widens both masks, so a reader that comes to a bucket by an older bucket count
 * sees from the mask where to go on. Full buckets are followed by overflow buckets, numbered in
 * their own space, under the sequence counter of the bucket that heads the chain.
 *
 * Consistency. A writer holds the stripe of the bucket, makes seq odd before it changes the bucket,
 * its overflow buckets or what the kernel reads of an item that is reachable from it, and even
 * after. A reader takes seq (even), walks, copies, and takes seq again. Memory is reused only after
 * it was unlinked, so a reader that saw reused bytes sees a moved counter too. On weakly ordered
 * CPUs the writer needs a release fence on both sides of its change and the reader an acquire fence
 * after the first and before the second load of seq.
 *
 * The item and bucket fields that the kernel reads are marked [k].
 */
#ifndef MC_LAYOUT_H
#define MC_LAYOUT_H

#ifndef __bpf__
#include <linux/types.h>
#include <stddef.h>
#endif

#include "bpf/shared/counters.def"

/* Sizes: bytes unless the name says otherwise. */
enum {
    MC_PAGE_BYTES = 1 << 20,
    MC_EXTENT_PAGES = 8,
    MC_EXTENT_BYTES = MC_EXTENT_PAGES * MC_PAGE_BYTES,
    MC_TABLE_BUCKETS = 1 << 14, /* buckets in one table extent */
    MC_TABLE_BYTES = MC_TABLE_BUCKETS * 64,
    MC_MAX_EXTENTS = 1 << 15,       /* heap: 256 GiB */
    MC_MAX_TABLE_EXTENTS = 1 << 15, /* table extents, main and overflow */
    MC_OVERFLOW_TABLE = 1 << 14,    /* the first table extent of overflow buckets */
    MC_SLOTS = 8,                   /* items in one bucket */
    MC_KEY_MAX = 250,
    MC_CLASSES = 64,       /* slab classes, 0 unused */
    MC_MAX_ADDRESSES = 64, /* of IPv4, and of IPv6 */
    MC_MAX_MACS = 32,
    MC_MAX_VLANS = 64,
    MC_HASH_WORDS = 32, /* 8-byte words in the longest key */
    MC_UDP_HEADER = 8,
    MC_UDP_PAYLOAD = 1400,                          /* of one reply datagram, its header included */
    MC_REPLY_MOST = MC_UDP_PAYLOAD - MC_UDP_HEADER, /* bytes of text in a reply of the kernel's */
};

/* Item flags [k]: the kernel answers only items with none of MC_ITEM_PASS. */
enum {
    MC_ITEM_LINKED = 1 << 0,  /* reachable from the table */
    MC_ITEM_SLABBED = 1 << 1, /* on a free list */
    MC_ITEM_FETCHED = 1 << 2, /* read at least once since it was stored */
    MC_ITEM_ACTIVE = 1 << 3,  /* read again since the LRU last judged it */
    MC_ITEM_CHUNKED = 1 << 4, /* the value lies in chunks of its own */
    MC_ITEM_CHUNK = 1 << 5,   /* not an item but one of those */
    MC_ITEM_FLASH = 1 << 6,   /* the value is on flash */
    MC_ITEM_STALE = 1 << 7,   /* meta: marked stale, served with W or Z */
    MC_ITEM_WON = 1 << 8,     /* meta: the recache token was handed out */
    MC_ITEM_BINKEY = 1 << 9,  /* meta: the key arrived base64-coded */
    MC_ITEM_SIZED = 1 << 10,  /* counted by size */
    MC_ITEM_COPY = 1 << 11,   /* not reachable: what was read from flash, for a reply */
    MC_ITEM_SUMMED = 1 << 12, /* the sum of its wire bytes follows them */
    MC_ITEM_READ = 1 << 13,   /* read since it was stored or its value went to flash */
    MC_ITEM_PASS = MC_ITEM_CHUNKED | MC_ITEM_CHUNK | MC_ITEM_FLASH | MC_ITEM_STALE | MC_ITEM_WON |
                   MC_ITEM_BINKEY,
};

/*
 * What MC_ITEM_SUMMED tells of, two bytes right behind the wire bytes: the one's complement sum of
 * these as little-endian 16-bit words, folded (RFC 1071), so that a reply's checksum need not read
 * the value. It lies in what the item leaves of its chunk; where that is too little, the item has
 * none, nor has an item that is longer than a reply of the kernel's.
 */
enum { MC_ITEM_SUM = 2 };

/*
 *  0  next   4 prev  LRU or free list links (store only, LRU lock)
 *  8  cas    [k]     unique id of this value
 * 16  exptime [k]    seconds on the server's clock, 0 never; touch changes it
 * 20  nbytes [k]     bytes of wire[]
 * 24  time           last use, seconds (racy by design)
 * 28  refcount       atomic; 1 for the table, 1 for each holder
 * 30  flags  [k]     MC_ITEM_*
 * 32  clsid          slab class in the low 6 bits, LRU segment in the high 2
 * 33  nkey   [k]     1 to MC_KEY_MAX
 * 34  nsuffix [k]    bytes between key and value
 * 35  epoch  [k]     the low byte of the epoch that it was stored in, see mc_is_behind
 * 36  wire   [k]     key, suffix, value, tail: as they go on the wire in a
 *                    text reply ("key", " flags bytes\r\n", data, "\r\n").
 *                    In a chunked item only key and suffix; the references
 *                    of its chunks begin at the next multiple of 8.
 */
struct mc_item {
    __u32 next;
    __u32 prev;
    __u64 cas;
    __u32 exptime;
    __u32 nbytes;
    __u32 time;
    __u16 refcount;
    __u16 flags;
    __u8 clsid;
    __u8 nkey;
    __u8 nsuffix;
    __u8 epoch;
    char wire[4];
};

enum { MC_ITEM_HEADER = 36 };

/*
 * One bucket of the table: a cache line.
 *
 *  0  seq    [k]  odd while a writer changes what this bucket reaches;
 *                 of the head of a chain, unused in an overflow bucket
 *  4  mask   [k]  hash bits that this bucket's items have in common
 *  8  tags   [k]  one byte for each slot, 0: empty (mc_hash_tag)
 * 16  refs   [k]
 * 48  next   [k]  number of the overflow bucket that follows, 0: none
 * 52  accessed    the kernel's marks, one bit a slot: it served that item,
 * 53  again       and served it once more. Both are written by both sides without
 *                 order; a mark may be lost or land on a slot's next tenant, and
 *                 nothing worse.
 * 56  swept  [k]  the epoch in which it was last rid of all that was flushed, of the head of a
 *                 chain: its items are of this one or of the MC_EPOCHS - 1 that followed
 */
struct mc_bucket {
    __u32 seq;
    __u32 mask;
    __u64 tags;
    __u32 refs[MC_SLOTS];
    __u32 next;
    __u8 accessed;
    __u8 again;
    __u8 unused[2];
    __u32 swept;
    __u32 unused2;
};

/*
 * What is ours of all that comes by: a frame is answered only if it went to one of these MAC
 * addresses, with one of these tags or none, and to one of these addresses. The server leaves out
 * the addresses of links (fe80::/10), which are another machine's on another link.
 *
 * A MAC address is kept as the low 48 bits of a little-endian load; frames of lo have none and need
 * none. A VLAN is the outer tag's id and, of two tags, the inner one's << 16, each with MC_VLAN_AD
 * if its tag is 802.1ad's. Id 0 is no VLAN, and ours.
 */
struct mc_local {
    __u32 n4, n6, nmacs, nvlans;
    __u32 v4[MC_MAX_ADDRESSES];    /* network order */
    __u64 v6[MC_MAX_ADDRESSES][2]; /* network order */
    __u64 macs[MC_MAX_MACS];
    __u32 vlans[MC_MAX_VLANS];
    __u32 tags_hidden; /* not 0: an interface may take tags off before XDP; TC sees them */
    __u32 mtu;         /* of all interfaces by which replies leave, 0: any */
};

enum { MC_VLAN_AD = 0x1000 };

/*
 * A lease: for how long the kernel answers in the server's place. The upper half is when it ends,
 * in units of 2^MC_LEASE_SHIFT ns of CLOCK_MONOTONIC; all bits: never. The lower half is the thread
 * that gave it, as in a robust futex: when that thread ends, the kernel sets MC_LEASE_DEAD there,
 * before it closes any file of the process. A lease is looked at again when any bit of it has
 * changed.
 */
#define MC_LEASE_EVER (0xffffffffull << 32)
#define MC_LEASE_DEAD 0x40000000u /* FUTEX_OWNER_DIED */
enum { MC_LEASE_SHIFT = 27 };

/* Until end_ns or a moment longer; holder: a thread's id, 0: none. */
static inline __u64 mc_lease(__u64 end_ns, __u32 holder)
{
    __u64 end = (end_ns >> MC_LEASE_SHIFT) + 1;

    return (end < MC_LEASE_EVER >> 32 ? end << 32 : MC_LEASE_EVER) | holder;
}

/*
 * The control block: one page. Written by the server, read by the kernel. nbuckets and the epoch
 * are single loads; a kernel program that used an old nbuckets learns better from bucket.mask. Who
 * changes what is ours fills the struct mc_local that is not in use, then the copies in the hot
 * line, then moves local_in_use; an answer for an address that went a moment ago does no harm.
 */
struct mc_control {
    /* Hot: what every lookup reads. */
    __u64 base_ns;      /* CLOCK_MONOTONIC at second 0 of the server's clock */
    __u64 lease;        /* for how long the kernel may answer (kmem/lease.h) */
    __u32 nbuckets;     /* buckets of the table in use */
    __u32 flush_at;     /* from this second on pass everything, 0: never */
    __u32 epoch;        /* items of another epoch were flushed; it grows by 1 with each flush */
    __u8 bypass;        /* not 0: the server needs to see every request */
    __u8 ref_shift;     /* log2 of the unit of references, 3 to 6 */
    __u16 port;         /* UDP, network order; 0: answer nothing */
    __u64 mac;          /* the first of local; MC_NO_MAC: there is none, or not so simple */
    __u32 v4;           /* the first of local, 0: none */
    __u32 local_in_use; /* which of both is in use */
    __u64 leased;       /* the lease that the kernel programs took, */
    __u64 lease_end;    /* and when it ends, in ticks of the kernel's clock: both are theirs */
    __u64 seed[MC_HASH_WORDS];
    struct mc_local local[2];
    __u32 without_cas; /* -C: every cas id is 0 to the outside */
    __u32 packet_over; /* IP packets from this size on fit no interface, 0: all do */
    __u64 robust[4];   /* the server's own: the list that leads the kernel to the lease */
    __u32 tcp_port;    /* TCP, network order; 0: answer nothing over TCP */
    /* Entries of connections that wait to be followed, and that are; atomic, also the programs'. */
    __u32 tcp_waiting, tcp_followed;
    __u32 tcp_bypass; /* not 0: answer nothing over TCP, but translate */
    __u8 pad[4096 - 64 - 8 * MC_HASH_WORDS - 2 * sizeof(struct mc_local) - 56];
};

#define MC_NO_MAC (~0ull)

/* An item keeps a byte of its epoch. */
enum { MC_EPOCHS = 256 };

/*
 * Whether a bucket was not swept for so many flushes that the byte of an item's epoch tells
 * nothing: then all its items were flushed.
 */
static inline int mc_is_behind(__u32 epoch, __u32 swept)
{
    return epoch - swept >= MC_EPOCHS;
}

#ifndef __bpf__
_Static_assert(sizeof(struct mc_bucket) == 64, "a bucket is a cache line");
_Static_assert(offsetof(struct mc_bucket, tags) == 8, "");
_Static_assert(offsetof(struct mc_bucket, next) == 48, "");
_Static_assert(offsetof(struct mc_bucket, accessed) == 52, "");
_Static_assert(offsetof(struct mc_bucket, again) == 53, "the kernel reads both as one word");
_Static_assert(offsetof(struct mc_bucket, swept) == 56, "");
_Static_assert(offsetof(struct mc_item, cas) == 8, "");
_Static_assert(offsetof(struct mc_item, flags) == 30, "");
_Static_assert(offsetof(struct mc_item, wire) == MC_ITEM_HEADER, "");
_Static_assert(sizeof(struct mc_control) == 4096, "");
_Static_assert(offsetof(struct mc_control, seed) == 64, "what is hot is one cache line");
#endif

/*
 * The hash of a key: NH of UMAC (Black et al., CRYPTO '99; RFC 4418, 5.2.2) over its 8-byte
 * little-endian words, the last one padded with zeros, then the length and a finalizer. One
 * multiplication for each word, independent of each other; universal for a secret random seed.
 */
static inline __u64 mc_hash_word(__u64 word, __u64 seed)
{
    __u64 low = (__u32)((__u32)word + (__u32)seed);
    __u64 high = (__u32)((word >> 32) + (seed >> 32));

    return low * high;
}

static inline __u64 mc_hash_end(__u64 sum, __u64 nkey)
{
    sum += nkey * 0x9e3779b97f4a7c15ull;
    sum ^= sum >> 32;
    sum *= 0xd6e8feb86659fd93ull;
    sum ^= sum >> 32;
    return sum;
}

/* The tag of a hash: its top byte, never 0. */
static inline __u8 mc_hash_tag(__u64 hash)
{
    __u8 tag = (__u8)(hash >> 56);

    return tag ? tag : 1;
}

/*
 * The mask of a table of nbuckets buckets: the smallest 2^k - 1 that is not below nbuckets - 1.
 * Without a count of leading zeros, which BPF does not have.
 */
static inline __u32 mc_table_mask(__u32 nbuckets)
{
    __u32 mask = nbuckets - 1;

    mask |= mask >> 1;
    mask |= mask >> 2;
    mask |= mask >> 4;
    mask |= mask >> 8;
    return mask | mask >> 16;
}

/* The bucket of a hash when the table has nbuckets buckets. */
static inline __u32 mc_bucket_of(__u64 hash, __u32 nbuckets)
{
    __u32 mask = mc_table_mask(nbuckets);
    __u32 bucket = (__u32)hash & mask;

    return bucket < nbuckets ? bucket : bucket & (mask >> 1);
}

/*
 * Which sources are answered: bpf/packet/guard.bpf.h. A list is a trie over prefixes of which none
 * holds another: the cells of both families, by an address's first 16 bits; nodes, by four bits
 * each; the prefixes. A cell and a node's field say out, in, a node, or which prefix is the only
 * one there. Numbers of nodes begin at 2.
 *
 * 0                  MC_ALLOW_CELLS times 4 bytes, IPv4; then as many, IPv6
 * MC_ALLOW_NODES_AT  nodes of MC_ALLOW_FAN times 4 bytes, a power of two of them
 * behind these       struct mc_allow_prefix, a power of two of them
 */
enum mc_allow { MC_ALLOW_LOCAL, MC_ALLOW_ALL, MC_ALLOW_LIST };
enum {
    MC_ALLOW_OUT,
    MC_ALLOW_IN,
    MC_ALLOW_PREFIX = 1 << 30, /* or'ed to a prefix's number */
    MC_ALLOW_CELLS = 1 << 16,
    MC_ALLOW_FAN = 16,
    MC_ALLOW_STEPS = (128 - 16) / 4,
    MC_ALLOW_NODES_AT = 2 * 4 * MC_ALLOW_CELLS,
    MC_RATE_BITS = 18, /* log2 of the buckets of rate= */
    MC_RATE_TICKS = 16 /* of their clock, in a nanosecond */
};

/* Host order; an IPv4 address stands in the top half of `high`. */
struct mc_allow_prefix {
    __u64 high, low, mask_high, mask_low;
};

/*
 * The settings of bpf/packet/guard.bpf.h where the server may change them. cost: of a request, and
 * depth: of a bucket, in MC_RATE_TICKS a nanosecond; 0: no limit. list: which of the two lists is
 * in use, whether `local` is on it, and in the other bits a number that changes with each list.
 */
struct mc_guard {
    __u64 cost, depth;
    __u32 amplification, list;
};
enum { MC_GUARD_SECOND = 1 << 0, MC_GUARD_LOCAL = 1 << 1, MC_GUARD_NUMBER = 1 << 2 };

/* The return paths to sources: bpf/packet/return_path.bpf.h. */
enum {
    MC_RETURN_PATHS = 4,      /* in a set */
    MC_RETURN_PATH_BITS = 15, /* log2 of the sets */
    MC_RETURN_PATH_PORTS = 32,
    MC_RETURN_PATH_SEEN = 64 /* interfaces of which egress says when it saw a reply */
};

/* to: a MAC address as in struct mc_local, and in the upper 16 bits when it was learned. */
struct mc_return_path {
    __u64 to, vouch;
};

/* What comes by `port` is answered by the interface `of`. */
struct mc_return_path_port {
    __u32 port, of;
};

/*
 * One row for each CPU: what the kernel programs count. The server adds the rows up. Rows are
 * written by their own CPU only.
 */
enum mc_count { MC_COUNTERS(COUNTER_CONSTANT) MC_COUNTS };

struct mc_counts {
    __u64 count[32];
    __u64 class_hits[MC_CLASSES];
};
_Static_assert((int)MC_COUNTS <= 32, "the programs mask a counter's place");

/*
 * Sources of requests over UDP that neither the kernel programs nor the server answer. A forged
 * datagram could make two machines answer each other for ever: so there is no answer to ports where
 * services answer, to memcached's and our own, nor to addresses that are not one machine's. Ports
 * and addresses are in network order.
 */
#define MC_LITTLE   (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define MC_NET16(x) (MC_LITTLE ? __builtin_bswap16(x) : (x))
#define MC_NET64(x) (MC_LITTLE ? __builtin_bswap64(x) : (x))

static inline int mc_port_is_unanswerable(__u16 port, __u16 own)
{
    return !(port & MC_NET16(0xfc00)) || port == MC_NET16(11211) || port == own;
}

/* By the address's first byte. 0/8, and 224/4 to the end: multicast, broadcast. */
static inline int mc_source4_is_unanswerable(__u8 first)
{
    return (__u8)(first - 1) >= 223;
}

/* By the first byte and both halves. Multicast; ::/64 but ::1: no address, IPv4's mapped. */
static inline int mc_source6_is_unanswerable(__u8 first, __u64 high, __u64 low)
{
    return first == 0xff || (!high && low != MC_NET64(1ull));
}

#endif
