/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_conn: the state of TCP connections, tracked (their bytes are parsed) and untracked.
 *
 * Each direction of a connection has a lock, and a CPU that finds it taken does not wait: it treats
 * its segment as one that cannot be followed. Both directions share a ring of open writes: arriving
 * segments append to it, leaving segments take off it.
 *
 * An LRU map reuses an entry's memory when it needs room, even while a program is writing to it. So
 * an entry records its owner, and a program that finds another owner after it has written clears
 * the entry's owner.
 *
 * Untracked connections are half-open ones, those that began before the chain, and those whose
 * state was lost. They have a map of their own, so that a flood of SYNs evicts no tracked
 * connection.
 */
#ifndef MC_CHAIN_CONN_BPF_H
#define MC_CHAIN_CONN_BPF_H

#include "bpf/chain/parse_run.bpf.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/flow.bpf.h"

/* The header of a segment, and where its data lies in the frame: from `at` to `end`. */
struct segment {
    struct mc_tcp_flow flow;
    u32 seq;
    u32 ack;
    u32 at;
    u32 end;
    u32 flags;
};

/*
 * What was parsed of a segment: the sequence numbers of the first byte and of the last that was no
 * part of a value; the hash of all bytes parsed before it, and the parser's state there. Between
 * two checkpoints are only bytes of values. A retransmitted segment is parsed from one again.
 */
struct checkpoint {
    u64 content;
    u32 seq;
    u32 end;
    struct request_parser in;
};

enum { CHECKPOINTS = 8, QUARTERS = 8 };

/*
 * owner        hash of its flow key; the first field, see conn_leave
 * barrier      number of the last command mn << 32, and how many mn there were
 * data         number of the last command with a value
 * silent       number of the command with a reply that came after the last one without
 * surplus      number of the last write for which the ring had no room: its gate opens by time
 * quarters     when such writes arrived: for each of the last QUARTERS quarters of settings.settle
 *              which one it was << 32, and the number of its last write
 * first, last  begin and end of the ring of open writes; they only grow
 * checkpoints  the last ones; ncheckpoints were made in all
 */
struct chain_conn {
    u64 owner;
    u64 barrier;
    u64 content; /* hash of the bytes in that were parsed */
    u64 last_in; /* when data passed */
    u64 last_out;
    u64 quarters[QUARTERS];
    u32 busy_in; /* locks */
    u32 busy_out;
    u32 start_out; /* sequence number of the server's first byte */
    u32 next_in;   /* sequence numbers of the next bytes */
    u32 next_out;
    u32 acked; /* by the server: at least up to here */
    u32 ncommands;
    u32 nreplies;
    u32 nbarriers; /* replies to mn */
    u32 carried;   /* see struct parse_run */
    u32 data;
    u32 silent;
    u32 surplus;
    u32 first;
    u32 last;
    u8 uncertain; /* replies cannot be counted for certain: writes end by time */
    u8 whole;     /* the last byte out ended a line; known only while uncertain */
    u8 suspect;   /* a SYN came with its flow key: only what is next in order is taken for its */
    u8 unused;
    u32 ncheckpoints;
    struct request_parser in;
    struct response_parser out;
    struct chain_write writes[CHAIN_WRITES];
    struct checkpoint checkpoints[CHECKPOINTS];
};

enum untracked_state {
    UNTRACKED_SYN,    /* seen */
    UNTRACKED_SYNACK, /* as well */
    UNTRACKED_LOST,
};

/*
 * An untracked connection. A lost one may be tracked again after a resync (resync.bpf.h), of which
 * each direction writes its own fields.
 */
struct untracked {
    u64 owner; /* as of struct chain_conn */
    u64 last_in;
    u64 last_out;
    u32 in; /* the highest sequence numbers seen */
    u32 out;
    u32 acked;
    u8 state;
    u8 whole;  /* the last byte out ended a line */
    u8 trying; /* written by direction in: an attempt to resync is under way */
    u8 nturns;
    u32 nattempts; /* the number of the last attempt */
    u32 ncommands;
    u32 turn_ncommands; /* ncommands at the end of the last turn */
    u32 attempt;        /* written by direction out: the attempt that the next fields belong to */
    u32 nreplies;
    u32 broken; /* a reply is missing, or cannot be parsed */
    struct request_parser request;
    struct response_parser response;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct mc_tcp_flow);
    __type(value, struct chain_conn);
} mc_connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct mc_tcp_flow);
    __type(value, struct untracked);
} mc_untracked SEC(".maps");

/* Per-CPU scratch of the programs that handle TCP. */
struct chain_tcp_scratch {
    struct segment segment;
    struct untracked untracked;
    struct chain_conn conn; /* one that is about to be inserted */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct chain_tcp_scratch);
} mc_chain_tcp SEC(".maps");

static __always_inline struct chain_tcp_scratch *chain_tcp_scratch_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&mc_chain_tcp, &zero);
}

static __always_inline u64 flow_hash(const struct mc_tcp_flow *flow)
{
    return mc_hash_end(mc_tcp_key(flow, control.seed), sizeof(*flow)) | 1;
}

/* --- a segment ----------------------------------------------------------------------- */

/* The addresses of a packet, source first. */
static __always_inline long flow_load(struct packet packet, const struct chain_scratch *scratch,
                                      u64 address[4])
{
    u32 both[2];

    if (scratch->v6)
        return packet_load(packet, scratch->l3 + 8, address, 32);
    if (packet_load(packet, scratch->l3 + 12, both, sizeof(both)))
        return -1;
    address[0] = address[2] = 0;
    address[1] = (u64)both[0] << 32 | FLOW_IP4;
    address[3] = (u64)both[1] << 32 | FLOW_IP4;
    return 0;
}

/* Where the IP packet ends in the frame, by the length in its header. */
static __always_inline u32 packet_end(struct packet packet, const struct chain_scratch *scratch)
{
    u16 n;

    if (packet_load(packet, scratch->l3 + (scratch->v6 ? 4 : 2), &n, sizeof(n)))
        return 0;
    return scratch->l3 + bpf_ntohs(n) + (scratch->v6 ? IP6_BYTES : 0);
}

/* Reads a segment: in XDP one from a client, in TC one to a client. 0: it is malformed. */
static __always_inline int segment_load(struct packet packet, const struct chain_scratch *scratch,
                                        struct segment *segment, u32 end)
{
    u64 address[4];
    u32 tcp[TCP_BYTES / 4];
    const int comes = packet.from == PACKET_XDP, client = comes ? 0 : 2;

    segment->flow = (struct mc_tcp_flow){{0, 0}, {0, 0}, 0, 0, 0};
    if (flow_load(packet, scratch, address) || packet_load(packet, scratch->l4, tcp, sizeof(tcp)))
        return 0;
    segment->flow.client[0] = address[client];
    segment->flow.client[1] = address[client + 1];
    segment->flow.server[0] = address[2 - client];
    segment->flow.server[1] = address[3 - client];
    segment->flow.client_port = comes ? tcp[0] : tcp[0] >> 16;
    segment->flow.server_port = comes ? tcp[0] >> 16 : tcp[0];
    segment->flow.unused = 0;
    segment->seq = bpf_ntohl(tcp[1]);
    segment->ack = bpf_ntohl(tcp[2]);
    segment->flags = tcp[3] >> 8 & 0xff;
    segment->at = scratch->l4 + (tcp[3] >> 4 & 0xf) * 4;
    segment->end = end;
    return (tcp[3] >> 4 & 0xf) >= 5 && segment->at <= end && end <= scratch->nframe;
}

/* --- locks ---------------------------------------------------------------------------- */

/*
 * Takes a direction's lock. 1: it is held, and the connection is still the one that was looked up.
 */
static __always_inline int conn_enter(struct chain_conn *conn, u32 *busy, u64 owner)
{
    if (__sync_val_compare_and_swap(busy, 0, 1))
        return 0;
    if (READ_ONCE(conn->owner) == owner)
        return 1;
    __sync_val_compare_and_swap(busy, 1, 0);
    return 0;
}

/*
 * Releases the lock. 0: the map has given the memory to another connection meanwhile, whose owner
 * it then clears. (The map writes a new owner's value from its first word on.)
 */
static __always_inline int conn_leave(struct chain_conn *conn, u32 *busy, u64 owner)
{
    if (READ_ONCE(conn->owner) != owner) {
        *(volatile u64 *)&conn->owner = 0;
        return 0;
    }
    __sync_val_compare_and_swap(busy, 1, 0);
    return 1;
}

/* --- open writes ------------------------------------------------------------------------ */

/* Direction in: appends the writes of a packet to the ring. */
static __always_inline void conn_append(struct chain_conn *conn, const struct parse_run *run)
{
    u32 last = conn->last, before, i;

    for (i = 0; i < CHAIN_WRITES; i++) {
        u64 from = i, to = last + i;

        if (i >= run->nwrites)
            break;
        bound_mask(from, CHAIN_WRITES - 1);
        bound_mask(to, CHAIN_WRITES - 1);
        conn->writes[to] = run->writes[from];
    }
    before = __sync_fetch_and_add(&conn->last, run->nwrites);
    asm volatile("" : : "r"(before) : "memory");
}

/* Direction out: ends the writes that were answered; all, if replies are uncertain. */
__attribute__((noinline)) int conn_end_writes(struct chain_conn *conn, u64 now)
{
    u32 i;

    if (!conn)
        return 0;
    for (i = 0; i < CHAIN_WRITES; i++) {
        u64 at = conn->first;
        struct chain_write write;
        u32 bucket;

        if (at == READ_ONCE(conn->last))
            break;
        read_barrier();
        bound_mask(at, CHAIN_WRITES - 1);
        write = conn->writes[at];
        if (!conn->uncertain && seq_before(conn->nreplies, write.number))
            break;
        bucket = write.bucket & ~WRITE_AGAIN;
        if (conn->uncertain)
            write_close(bucket, now + settings.settle);
        else if (bucket == write.bucket)
            tally(CHAIN_WRITES_ENDED);
        write_leave(bucket, write.generation, now);
        conn->first++;
    }
    return 0;
}

/*
 * Direction in: bytes arrive again that the server did not acknowledge. Every open write may have
 * waited for them, for longer than its gate was closed: closes these gates again.
 */
__attribute__((noinline)) int conn_close_again(struct chain_conn *conn, u64 when)
{
    u32 i;

    if (!conn)
        return 0;
    if (conn->uncertain || seq_before(conn->nreplies, conn->surplus))
        return chain_close_all(when);
    for (i = 0; i < CHAIN_WRITES; i++) {
        u64 at = READ_ONCE(conn->first) + i;

        if (!seq_before(at, conn->last))
            break;
        bound_mask(at, CHAIN_WRITES - 1);
        write_close(conn->writes[at].bucket & ~WRITE_AGAIN, when);
    }
    return 0;
}

/* --- writes that were not kept ------------------------------------------------------------ */

static __always_inline u64 surplus_quarter(u64 now)
{
    return now / (settings.settle / 4 + 1);
}

/*
 * Direction in: notes that writes arrived, up to number run->surplus, for which the ring has no
 * room.
 */
static __always_inline void surplus_note(struct chain_conn *conn, const struct parse_run *run)
{
    u64 quarter = surplus_quarter(run->now), at = quarter;
    u32 nreplies = READ_ONCE(conn->nreplies);
    u32 i;

    if (!seq_before(nreplies, conn->surplus)) /* no such write is in flight */
        for (i = 0; i < QUARTERS; i++)
            conn->quarters[i] = nreplies;
    bound_mask(at, QUARTERS - 1);
    /* If the slot's older write is still unanswered, its time stays. */
    if (seq_before(nreplies, (u32)conn->quarters[at]))
        quarter = conn->quarters[at] >> 32;
    *(volatile u64 *)&conn->quarters[at] = quarter << 32 | run->surplus;
}

/*
 * Direction out: whether a reply after number `before` may be that to such a write which arrived
 * longer ago than its gate was closed for. Then entries filled since may be stale.
 */
static __always_inline int surplus_is_late(const struct chain_conn *conn, u32 before, u64 now)
{
    u64 quarter = surplus_quarter(now);
    u32 i;

    if (!seq_before(before, READ_ONCE(conn->surplus)))
        return 0;
    for (i = 0; i < QUARTERS; i++) {
        u64 slot = READ_ONCE(conn->quarters[i]);

        if (seq_before(before, (u32)slot) && quarter - (slot >> 32) >= 4)
            return 1;
    }
    return 0;
}

/* --- in and out of the maps ---------------------------------------------------------------- */

/*
 * The connection cannot be parsed from here on and becomes an untracked one; `in` is the client's
 * next sequence number. The caller has ended its open writes.
 */
static __always_inline void conn_forget(struct chain_tcp_scratch *tcp, struct chain_conn *conn,
                                        u32 in, u64 now)
{
    struct untracked *untracked = &tcp->untracked;

    tally(CHAIN_LOST);
    *untracked = (struct untracked){.owner = conn->owner,
                                    .last_in = now,
                                    .in = in,
                                    .out = conn->next_out,
                                    .acked = conn->acked,
                                    .state = UNTRACKED_LOST};
    bpf_map_update_elem(&mc_untracked, &tcp->segment.flow, untracked, BPF_ANY);
    bpf_map_delete_elem(&mc_connections, &tcp->segment.flow);
}

/* The same for direction in. Its open writes end by time, unless direction out holds its lock. */
static __always_inline void conn_lose(struct chain_tcp_scratch *tcp, struct chain_conn *conn,
                                      u64 now)
{
    if (!__sync_val_compare_and_swap(&conn->busy_out, 0, 1)) {
        conn->uncertain = 1;
        conn_end_writes(conn, now);
        __sync_val_compare_and_swap(&conn->busy_out, 1, 0);
    }
    conn_forget(tcp, conn, tcp->segment.seq + (tcp->segment.end - tcp->segment.at), now);
}

/* Begins to track a connection whose next bytes in and out have these sequence numbers. */
static __always_inline struct chain_conn *conn_insert(struct chain_tcp_scratch *tcp, u32 in,
                                                      u32 out, u32 acked)
{
    struct chain_conn *conn = &tcp->conn;

    conn->owner = flow_hash(&tcp->segment.flow);
    conn->barrier = 0;
    conn->content = 0;
    conn->last_in = 0;
    conn->last_out = 0;
    conn->busy_in = 0;
    conn->busy_out = 0;
    conn->start_out = out;
    conn->next_in = in;
    conn->next_out = out;
    conn->acked = acked;
    conn->ncommands = 0;
    conn->nreplies = 0;
    conn->nbarriers = 0;
    conn->carried = WRITE_NOTHING;
    conn->first = 0;
    conn->last = 0;
    conn->data = 0;
    conn->silent = 0;
    conn->surplus = 0;
    __builtin_memset(conn->quarters, 0, sizeof(conn->quarters));
    conn->uncertain = 0;
    conn->whole = 0;
    conn->suspect = 0;
    conn->ncheckpoints = 0;
    req_init(&conn->in, PARSER_ANY);
    resp_init(&conn->out, PARSER_ANY);
    if (bpf_map_update_elem(&mc_connections, &tcp->segment.flow, conn, BPF_ANY))
        return 0;
    return bpf_map_lookup_elem(&mc_connections, &tcp->segment.flow);
}

#endif
