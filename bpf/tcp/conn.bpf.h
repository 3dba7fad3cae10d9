/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * tcp_conn: the state of a connection some of whose gets the kernel has answered, its lock, and how
 * its numbers are translated. doc/kernel-path/tcp.md#the-numbers-of-a-connection has the argument.
 *
 * Numbers are the socket's unless a name says `wire`: a number of the client's stream is on the
 * wire the socket's plus `rx`, one of the server's stream the socket's plus `tx`. Numbers before
 * the request, or before the reply, of the one outstanding reply are translated as they were before
 * it.
 *
 * A program writes fields under the lock. Without the lock it reads what never changes; what tells
 * it to pass a segment, or to look at it again under the lock; by which path and in how long
 * segments the server's leave, where an old value does for one more reply; and, for a connection on
 * which the kernel answers no more (the filter's note of a lost segment, the RST for a dead
 * server), what it finds. Until it has the lock all of it may be another connection's.
 *
 * From when the server has a connection followed until its next reply leaves, an entry waits: its
 * flow is the cookie of the socket, which no other socket ever has, and zeros; it has only that,
 * slot and generation. No program writes to it, so its lock is void from first to last.
 */
#ifndef MC_TCP_CONN_BPF_H
#define MC_TCP_CONN_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/packet/flow.bpf.h"
#include "bpf/packet/sieve.bpf.h"
#include "bpf/shared/tcp.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MC_TCP_CONNECTIONS_MAX);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u64);
    __type(value, struct mc_tcp_conn);
} mc_tcp_conns SEC(".maps");

/* Of the keys of entries. Set before the load. */
const volatile __u64 tcp_seeds[MC_TCP_SEEDS] = {};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); /* set before the load */
    __type(key, u32);
    __type(value, struct mc_tcp_slot);
} mc_tcp_slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct mc_tcp_counts);
} mc_tcp_counts SEC(".maps");

/* A segment as it was read; in struct segment_scratch. */
struct tcp_segment {
    struct mc_tcp_flow flow;
    u32 seq, ack;      /* wire */
    u32 n;             /* bytes of data */
    u32 tsval;         /* if `has_timestamps` */
    u32 flags;         /* TCP_* */
    u32 window;        /* as it stands in the header */
    u32 nheader;       /* TCP's, with options */
    u32 tsecr;         /* if `has_timestamps` */
    u16 urgent;        /* the pointer as it stands in the header */
    u8 has_timestamps; /* of what a socket sends those that are its first option */
    u8 no_options;     /* and no other; ACK and perhaps PSH are set, nothing else; no CE mark */
    u8 is_whole;       /* the lengths agree */
    u8 tsval_at;       /* in the header, if `has_timestamps` */
    u8 is_unstamped;   /* it has no option, and else is as `no_options` says */
    u8 unused[1];
};

enum { HEADERS_MOST = ETH_HLEN + 60 + 60 /* bytes of a segment before its data */ };

/* What a program has to keep of its packet, one for each CPU (scratch.bpf.h). */
struct segment_scratch {
    struct tcp_segment segment;
    struct mc_tcp_delta delta; /* by which it is translated, or with the reply to be sent again, */
    u32 tsval;                 /* and the connection's last TSval on the wire, */
    u32 mark;                  /* and translation mark */
    u64 boundary;              /* the server's, before the lookup */
    u64 owner;                 /* of the retransmit buffer, */
    u32 rtx;                   /* and where in the pool it is */
    u32 in_pieces;             /* how it is sent again */
    u32 start;                 /* where the reply to a request begins (wire), before the lookup */
    int reason;                /* why the segment is passed: PASS_TCP_*, 0: not counted */
    u32 can_resend;            /* the headers of a reply are in scratch->saved, */
    u32 ifindex;               /* and it leaves by this interface (TC) */
    u32 l4;                    /* where in the frame TCP's header begins */
    u32 ack_due;               /* the segment acknowledges what the socket does not know yet */
    u32 option, noption;       /* of the segment: the one that has blocks (sack.bpf.h) */
    u32 unstamped;             /* what is made of it has no timestamps (TC) */
    u32 is_one;                /* the reply is as one_lookup leaves it (one.bpf.h) */
    char frame[256];           /* one without data, while its packet is another (ingress.bpf.h) */
    /* --- several requests (pipeline.bpf.h) --- */
    u32 nrequests; /* that were answered; 1 of a segment with one */
    u32 nkeys;     /* of them all */
    u32 at;        /* of the next one in the text */
    u32 kind;      /* what it seems to be */
    char text[REQUEST_ROOM + 1024];
    /* --- kept replies, copied to `text` when the requests there are read (rtx.bpf.h) --- */
    u32 nkept; /* its bytes, */
    u32 skip;  /* of which so many are not needed any more */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct segment_scratch);
} mc_tcp_scratch SEC(".maps");

static __always_inline struct segment_scratch *segment_scratch_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&mc_tcp_scratch, &zero);
}

static __always_inline void tcp_count(u64 what)
{
    u32 zero = 0;
    struct mc_tcp_counts *counts = bpf_map_lookup_elem(&mc_tcp_counts, &zero);

    bound_mask(what, 31);
    if (counts)
        counts->count[what]++;
}

/* The entry of a flow. */
static __always_inline struct mc_tcp_conn *conn_find(const struct mc_tcp_flow *flow)
{
    u64 key = mc_tcp_key(flow, tcp_seeds);
    struct mc_tcp_conn *conn = bpf_map_lookup_elem(&mc_tcp_conns, &key);

    return conn && likely(mc_tcp_is_flow(&conn->flow, flow)) ? conn : NULL;
}

static __always_inline u32 flow_sieve_at(const struct mc_tcp_flow *flow)
{
    return mc_tcp_sieve_at(flow->client[1] >> 32, flow->client_port);
}

static __always_inline struct mc_tcp_slot *conn_slot(const struct mc_tcp_conn *conn)
{
    u32 slot = conn->slot;

    return bpf_map_lookup_elem(&mc_tcp_slots, &slot);
}

/* Whether the kernel has answered on the slot's connection, so that its segments are translated. */
static __always_inline int slot_is_used(const struct mc_tcp_slot *slot)
{
    return (READ_ONCE(slot->answered) | READ_ONCE(slot->outstanding)) != 0;
}

/* The programs see a segment that the client sends. */
static __always_inline void slot_hears(struct mc_tcp_slot *slot)
{
    u32 lost = READ_ONCE(slot->lost);

    if (lost && !(lost & MC_TCP_LOST_GUARDED))
        WRITE_ONCE(slot->lost, 0);
}

static __always_inline int conn_is_unstamped(const struct mc_tcp_conn *conn)
{
    return conn->flags & MC_TCP_UNSTAMPED; /* which never changes */
}

/* Whether a segment is as plain as those of the connection that are answered. */
static __always_inline int conn_is_plain(const struct mc_tcp_conn *conn,
                                         const struct tcp_segment *segment)
{
    return conn_is_unstamped(conn) ? segment->is_unstamped : segment->no_options;
}

/* Whether connections without timestamps are answered. Set by the server. */
__u32 takes_unstamped = 0;

/* --- the lock --------------------------------------------------------------------------------- */

/*
 * bpf_spin_lock turns interrupts off and on, and is two calls: it takes as long as the rest of what
 * a passed segment needs. No program is interrupted by another one of its CPU, so a compare and
 * swap does. The holder calls nothing and loops over nothing; another CPU waits for a few tens of
 * nanoseconds, or for as long as the holder's CPU is taken from this machine: LOCK_TRIES last for
 * tens of milliseconds. After that the segment is left to its sender's timer.
 */
enum { LOCK_TRIES = 1 << 23 /* the most that bpf_loop takes */ };

struct lock_wait {
    u32 *lock;
    u32 to;
    int taken;
};

static long lock_try(u32 i __attribute__((unused)), struct lock_wait *wait)
{
    u32 was = READ_ONCE(*wait->lock);

    wait->taken = was == MC_TCP_FREE &&
                  __sync_val_compare_and_swap(wait->lock, MC_TCP_FREE, wait->to) == MC_TCP_FREE;
    return wait->taken || was == MC_TCP_VOID || was == MC_TCP_FROZEN;
}

/* 0: it did not become free. */
__attribute__((noinline)) int lock_wait(u32 *lock, u32 to)
{
    struct lock_wait wait = {lock, to, 0};

    if (lock)
        bpf_loop(LOCK_TRIES, lock_try, &wait, 0);
    return wait.taken;
}

/* Makes the lock, which this program has, what it was before, or FREE. */
static __always_inline void conn_unlock_as(struct mc_tcp_conn *conn, u32 to)
{
    barrier();
    if (weakly_ordered) { /* see read_barrier */
        u32 was = __sync_lock_test_and_set(&conn->lock, to);

        asm volatile("" : : "r"(was) : "memory");
    } else {
        WRITE_ONCE(conn->lock, to);
    }
}

static __always_inline void conn_unlock(struct mc_tcp_conn *conn)
{
    conn_unlock_as(conn, MC_TCP_FREE);
}

/*
 * Makes the lock of the entry that was found for a flow TAKEN, VOID or FROZEN. 0: another CPU keeps
 * it; it is frozen (RULE_FROZEN); or it was removed meanwhile, and its memory may be another
 * connection's entry: the map gives it out again at once.
 */
static __always_inline int conn_lock_as(struct mc_tcp_conn *conn, const struct mc_tcp_flow *flow,
                                        u32 to)
{
    if (unlikely(__sync_val_compare_and_swap(&conn->lock, MC_TCP_FREE, to)) &&
        !lock_wait(&conn->lock, to))
        return 0;
    if (likely(mc_tcp_is_flow(&conn->flow, flow)))
        return 1;
    conn_unlock(conn);
    return 0;
}

static __always_inline int conn_lock(struct mc_tcp_conn *conn, const struct mc_tcp_flow *flow)
{
    return conn_lock_as(conn, flow, MC_TCP_TAKEN);
}

static __always_inline int conn_is_frozen(const struct mc_tcp_conn *conn)
{
    return READ_ONCE(conn->lock) == MC_TCP_FROZEN;
}

/*
 * Removes a flow's entry, which is VOID, and stays so: a program that waits for its lock gives up,
 * and none takes it before the memory is another whole entry (doc/coherence.md). 0: the entry
 * stays, with the lock that it had, since this program has interrupted Linux in another change of
 * the table.
 */
static __always_inline int conn_remove(struct mc_tcp_conn *conn, const struct mc_tcp_flow *flow,
                                       u32 was)
{
    u64 key = mc_tcp_key(flow, tcp_seeds);

    if (!bpf_map_delete_elem(&mc_tcp_conns, &key)) {
        sieve_add(flow_sieve_at(flow), -1);
        return 1;
    }
    conn_unlock_as(conn, was);
    return 0;
}

/* --- translation ---------------------------------------------------------------------------- */

/* The end of the outstanding reply, of its request (wire). */
static __always_inline u32 delta_reply_end(const struct mc_tcp_delta *delta)
{
    return delta->reply + delta->nreply;
}

static __always_inline u32 delta_request_end(const struct mc_tcp_delta *delta)
{
    return delta->request + delta->nrequest;
}

/* A client's acknowledgement, or the edge of a block that it acknowledges selectively. */
static __always_inline u32 delta_ack_rx(const struct mc_tcp_delta *delta, u32 wire)
{
    u32 before = delta->tx - delta->nreply;

    if (!delta->nreply || !seq_before(wire, delta_reply_end(delta)))
        return wire - delta->tx;
    /* RULE_OLD_ACK, RULE_ACK_INSIDE */
    return (seq_before(delta->reply, wire) ? delta->reply : wire) - before;
}

static __always_inline u32 delta_seq_rx(const struct mc_tcp_delta *delta, u32 wire)
{
    if (delta->nreply && !seq_before(delta->request, wire))
        return wire - (delta->rx - delta->nrequest); /* RULE_OLD_SEQ */
    return wire - delta->rx;
}

/*
 * A number of the client's stream that the socket names: an acknowledgement, which while a reply is
 * outstanding is not beyond the start of its request, or the edge of a block.
 */
static __always_inline u32 delta_ack_tx(const struct mc_tcp_delta *delta, u32 ack)
{
    u32 wire = ack + delta->rx - (delta->nreply ? delta->nrequest : 0);

    /* RULE_CLAMP */
    return delta->nreply && seq_before(delta->request, wire) ? delta->request : wire;
}

static __always_inline u32 delta_edge_tx(const struct mc_tcp_delta *delta, u32 edge)
{
    u32 before = edge + delta->rx - delta->nrequest;

    return delta->nreply && !seq_before(delta->request, before) ? before : edge + delta->rx;
}

/*
 * The sequence number of n bytes, of which a FIN is one, that the socket sends. *straddles: they
 * lie on both sides of the reply.
 */
static __always_inline u32 delta_seq_tx(const struct mc_tcp_delta *delta, u32 seq, u32 n,
                                        int *straddles)
{
    u32 before = delta->tx - delta->nreply, start = delta->reply - before;

    if (!delta->nreply || !seq_before(seq, start))
        return seq + delta->tx;
    *straddles = seq_before(start, seq + n); /* RULE_STRADDLE */
    return seq + before;                     /* RULE_OLD_EGRESS */
}

enum { CONN_BEYOND = 1 << 17 /* of a window, beside which others may have been told */ };

/*
 * How far behind what a socket has acknowledged a client's segment may end. The window counts
 * twice, since the socket may have told the client a larger one than the program has seen.
 */
static __always_inline u32 conn_room(const struct mc_tcp_conn *conn)
{
    return 2 * ((u32)bpf_ntohs(conn->window) << (conn->rcv_wscale & 15)) + CONN_BEYOND;
}

/* Whether the kernel has answered on the connection, so that all of it is translated. */
static __always_inline int delta_is_used(const struct mc_tcp_delta *delta)
{
    return (delta->rx | delta->tx) != 0;
}

/*
 * Whether a timestamp of the server's is one of the wire; `last` is a late one. Else it is the
 * socket's, or was sent before the first answer. Right unless the socket is silent for days; its
 * keepalive speaks every two hours.
 */
static __always_inline int timestamp_is_wire(u32 stamp, u32 last)
{
    return !seq_before(stamp, last - MC_TCP_AHEAD / 2);
}

/* The timestamp that a client's segment echoes. */
static __always_inline u32 timestamp_rx(u32 tsecr, u32 last)
{
    return timestamp_is_wire(tsecr, last) ? tsecr - MC_TCP_AHEAD : tsecr;
}

/* That of a segment of the socket's. */
static __always_inline u32 conn_timestamp_tx(const struct mc_tcp_conn *conn, u32 tsval)
{
    return delta_is_used(&conn->delta) ? tsval + MC_TCP_AHEAD : tsval;
}

/*
 * A client that does not know the connection any more, and gets an acknowledgement of the socket's,
 * sends a RST with the number that was acknowledged. If that was held back, what the socket said
 * itself is put in its place, since it takes no other RST.
 */
static __always_inline u32 conn_seq_rx(const struct mc_tcp_conn *conn,
                                       const struct tcp_segment *segment)
{
    if (segment->flags & TCP_RST && conn->delta.nreply && segment->seq == conn->delta.request)
        return conn->last_ack_sent;
    return delta_seq_rx(&conn->delta, segment->seq);
}

#endif
