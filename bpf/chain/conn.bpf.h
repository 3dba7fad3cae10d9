/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_conn: the connections that are followed, and those that are not.
 *
 * Each direction of a connection belongs to the CPU that has its lock, which nobody waits for: who
 * does not get it has a segment that is not followed. Between the two stands a ring of open writes:
 * arriving segments append to it, leaving ones take off.
 *
 * The map gives an entry's memory away when it needs room, without asking who is at work in it. So
 * an entry says whose it is, and who finds that this has changed while he wrote makes it nobody's.
 *
 * Strangers are what is not followed: half-open connections, which a flood of SYNs pushes out of
 * their own map and not out of that of the connections; connections that are older than we are; and
 * those that were lost.
 */
#ifndef MC_CHAIN_CONN_BPF_H
#define MC_CHAIN_CONN_BPF_H

#include "bpf/chain/feed.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/kernel.bpf.h"

enum { TCP_BYTES = 20, TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16, TCP_URG = 32 };

/* Whose connection: addresses (IPv4 as ::ffff:a.b.c.d) and ports, network order. */
struct ends {
    u64 client[2];
    u64 server[2];
    u16 client_port;
    u16 server_port;
    u32 unused;
};

#define ENDS_IP4 0xffff0000u /* the half of such an address that is none of IPv4's */

/* What is read of a segment; at and end: its data in the frame. */
struct segment {
    struct ends ends;
    u32 seq;
    u32 ack;
    u32 at;
    u32 end;
    u32 flags;
};

/*
 * What was looked at of a segment: from the first byte to the last that was of no value, sequence
 * numbers; the hash of all before it, and the parser's state there. Between two of them are bytes
 * of a value.
 */
struct mark {
    u64 content;
    u32 seq;
    u32 end;
    struct request_parser in;
};

enum { MARKS = 8, PARTS = 8 };

/*
 * owner    hash of its ends; first, see conn_leave
 * barrier  commands up to the last mn << 32, and how many of these there were
 * surplus  number of the last write for which the ring had no room: time opens its gate again
 * parts    when such came: in each of the last PARTS quarters of a settle, which it was << 32, and
 *          the number of the last one
 * first    ring of open writes: begin and end, counted on without end
 * marks    the last ones, nmarks were made
 */
struct conn {
    u64 owner;
    u64 barrier;
    u64 content; /* hash of what was looked at of the bytes in */
    u64 last_in; /* when data came by */
    u64 last_out;
    u64 parts[PARTS];
    u32 busy_in; /* locks */
    u32 busy_out;
    u32 start_out; /* sequence number of the server's first byte */
    u32 next_in;   /* sequence numbers of the next bytes */
    u32 next_out;
    u32 acked; /* by the server, at least */
    u32 ncommands;
    u32 nreplies;
    u32 nbarriers; /* replies to mn */
    u32 carried;   /* see struct feed */
    u32 data;
    u32 silent;
    u32 surplus;
    u32 first;
    u32 last;
    u8 uncertain; /* replies are not known for certain: time ends writes */
    u8 whole;     /* the last byte out ended a line; known only while uncertain */
    u8 suspect;   /* its client's port may have begun anew: only what comes next is its own */
    u8 unused;
    u32 nmarks;
    struct request_parser in;
    struct response_parser out;
    struct chain_write writes[CHAIN_WRITES];
    struct mark marks[MARKS];
};

enum stranger_state {
    STRANGER_SYN,    /* seen */
    STRANGER_SYNACK, /* as well */
    STRANGER_LOST,
};

/* A lost one may be found again by a trial, see chain_found.bpf.h; in and out have a part each. */
struct stranger {
    u64 owner; /* as of struct conn */
    u64 last_in;
    u64 last_out;
    u32 in; /* the highest sequence numbers that are known */
    u32 out;
    u32 acked;
    u8 state;
    u8 whole;  /* the last byte out ended a line */
    u8 trying; /* in: a trial is under way, */
    u8 nsteps;
    u32 ntrials; /* the number of the last one */
    u32 ncommands;
    u32 nstepped; /* at the last step */
    u32 trial;    /* out: of which this is */
    u32 nreplies;
    u32 broken; /* a reply is missing, or none that we understand */
    struct request_parser request;
    struct response_parser response;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct ends);
    __type(value, struct conn);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct ends);
    __type(value, struct stranger);
} half_open SEC(".maps");

/* What a program has in hand; one a CPU. */
struct hand {
    struct segment segment;
    struct stranger stranger;
    struct conn conn; /* a new one */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct hand);
} hands SEC(".maps");

static __always_inline struct hand *hand_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&hands, &zero);
}

/* Whether sequence number a comes before b. */
static __always_inline int seq_before(u32 a, u32 b)
{
    return (__s32)(a - b) < 0;
}

static __always_inline u64 ends_hash(const struct ends *ends)
{
    u64 sum = mc_hash_word(ends->client[0], control.seed[0]) +
              mc_hash_word(ends->client[1], control.seed[1]) +
              mc_hash_word(ends->server[0], control.seed[2]) +
              mc_hash_word(ends->server[1], control.seed[3]) +
              mc_hash_word((u64)ends->client_port << 16 | ends->server_port, control.seed[4]);

    return mc_hash_end(sum, sizeof(*ends)) | 1;
}

/* --- a segment ----------------------------------------------------------------------- */

/* The addresses of a packet, source first. */
static __always_inline long ends_load(struct packet packet, const struct chain_scratch *scratch,
                                      u64 address[4])
{
    u32 both[2];

    if (scratch->v6)
        return packet_load(packet, scratch->l3 + 8, address, 32);
    if (packet_load(packet, scratch->l3 + 12, both, sizeof(both)))
        return -1;
    address[0] = address[2] = 0;
    address[1] = (u64)both[0] << 32 | ENDS_IP4;
    address[3] = (u64)both[1] << 32 | ENDS_IP4;
    return 0;
}

/* Where the IP packet ends in the frame, by its own header. */
static __always_inline u32 packet_end(struct packet packet, const struct chain_scratch *scratch)
{
    u16 n;

    if (packet_load(packet, scratch->l3 + (scratch->v6 ? 4 : 2), &n, sizeof(n)))
        return 0;
    return scratch->l3 + bpf_ntohs(n) + (scratch->v6 ? IP6_BYTES : 0);
}

/* Reads a segment: in XDP from a client, in TC to one. 0: it is none that we understand. */
static __always_inline int segment_load(struct packet packet, const struct chain_scratch *scratch,
                                        struct segment *segment, u32 end)
{
    u64 address[4];
    u32 tcp[TCP_BYTES / 4];
    const int comes = packet.from == PACKET_XDP, client = comes ? 0 : 2;

    segment->ends = (struct ends){{0, 0}, {0, 0}, 0, 0, 0};
    if (ends_load(packet, scratch, address) || packet_load(packet, scratch->l4, tcp, sizeof(tcp)))
        return 0;
    segment->ends.client[0] = address[client];
    segment->ends.client[1] = address[client + 1];
    segment->ends.server[0] = address[2 - client];
    segment->ends.server[1] = address[3 - client];
    segment->ends.client_port = comes ? tcp[0] : tcp[0] >> 16;
    segment->ends.server_port = comes ? tcp[0] >> 16 : tcp[0];
    segment->ends.unused = 0;
    segment->seq = bpf_ntohl(tcp[1]);
    segment->ack = bpf_ntohl(tcp[2]);
    segment->flags = tcp[3] >> 8 & 0xff;
    segment->at = scratch->l4 + (tcp[3] >> 4 & 0xf) * 4;
    segment->end = end;
    return (tcp[3] >> 4 & 0xf) >= 5 && segment->at <= end && end <= scratch->nframe;
}

/* --- locks ---------------------------------------------------------------------------- */

/* 1: the direction is ours, and the connection is still what was looked up. */
static __always_inline int conn_enter(struct conn *conn, u32 *busy, u64 owner)
{
    if (__sync_val_compare_and_swap(busy, 0, 1))
        return 0;
    if (READ_ONCE(conn->owner) == owner)
        return 1;
    __sync_val_compare_and_swap(busy, 1, 0);
    return 0;
}

/*
 * 0: its memory has been given to another connection meanwhile, which is then nobody's. A new
 * owner's value is written from its first word on.
 */
static __always_inline int conn_leave(struct conn *conn, u32 *busy, u64 owner)
{
    if (READ_ONCE(conn->owner) != owner) {
        *(volatile u64 *)&conn->owner = 0;
        return 0;
    }
    __sync_val_compare_and_swap(busy, 1, 0);
    return 1;
}

/* --- open writes ------------------------------------------------------------------------ */

/* Of a direction in: takes over what the packet wrote. */
static __always_inline void conn_append(struct conn *conn, const struct feed *feed)
{
    u32 last = conn->last, before, i;

    for (i = 0; i < CHAIN_WRITES; i++) {
        u64 from = i, to = last + i;

        if (i >= feed->nwrites)
            break;
        BOUND(from, CHAIN_WRITES - 1);
        BOUND(to, CHAIN_WRITES - 1);
        conn->writes[to] = feed->writes[from];
    }
    before = __sync_fetch_and_add(&conn->last, feed->nwrites);
    asm volatile("" : : "r"(before) : "memory");
}

/* Of a direction out: ends the writes that were answered, or of uncertain ones all. */
__attribute__((noinline)) int conn_end_writes(struct conn *conn, u64 now)
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
        BOUND(at, CHAIN_WRITES - 1);
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
 * Of a direction in: bytes come that the server has not had before, though we have. All that is
 * open may have waited for them, for longer than its gates were closed.
 */
__attribute__((noinline)) int conn_close_again(struct conn *conn, u64 when)
{
    u32 i;

    if (!conn)
        return 0;
    if (conn->uncertain || seq_before(conn->nreplies, conn->surplus))
        return close_all(when);
    for (i = 0; i < CHAIN_WRITES; i++) {
        u64 at = READ_ONCE(conn->first) + i;

        if (!seq_before(at, conn->last))
            break;
        BOUND(at, CHAIN_WRITES - 1);
        write_close(conn->writes[at].bucket & ~WRITE_AGAIN, when);
    }
    return 0;
}

/* --- writes that were not kept ------------------------------------------------------------ */

static __always_inline u64 surplus_part(u64 now)
{
    return now / (settings.settle / 4 + 1);
}

/* Of a direction in: writes have come up to feed->surplus that the ring has no room for. */
static __always_inline void surplus_note(struct conn *conn, const struct feed *feed)
{
    u64 part = surplus_part(feed->now), at = part;
    u32 nreplies = READ_ONCE(conn->nreplies);
    u32 i;

    if (!seq_before(nreplies, conn->surplus)) /* none is in flight */
        for (i = 0; i < PARTS; i++)
            conn->parts[i] = nreplies;
    BOUND(at, PARTS - 1);
    /* One that has waited for so long stays the older one. */
    if (seq_before(nreplies, (u32)conn->parts[at]))
        part = conn->parts[at] >> 32;
    *(volatile u64 *)&conn->parts[at] = part << 32 | feed->surplus;
}

/*
 * Of a direction out: whether a reply behind number `before` may be that to such a write which came
 * longer ago than its gate was closed for. What was filled since then is not true.
 */
static __always_inline int surplus_is_late(const struct conn *conn, u32 before, u64 now)
{
    u64 part = surplus_part(now);
    u32 i;

    if (!seq_before(before, READ_ONCE(conn->surplus)))
        return 0;
    for (i = 0; i < PARTS; i++) {
        u64 slot = READ_ONCE(conn->parts[i]);

        if (seq_before(before, (u32)slot) && part - (slot >> 32) >= 4)
            return 1;
    }
    return 0;
}

/* --- in and out of the maps ---------------------------------------------------------------- */

/*
 * It cannot be followed from here on; `in` is the client's next sequence number. Whoever calls has
 * ended its open writes.
 */
static __always_inline void conn_forget(struct hand *hand, struct conn *conn, u32 in, u64 now)
{
    struct stranger *stranger = &hand->stranger;

    tally(CHAIN_LOST);
    *stranger = (struct stranger){.owner = conn->owner,
                                  .last_in = now,
                                  .in = in,
                                  .out = conn->next_out,
                                  .acked = conn->acked,
                                  .state = STRANGER_LOST};
    bpf_map_update_elem(&half_open, &hand->segment.ends, stranger, BPF_ANY);
    bpf_map_delete_elem(&connections, &hand->segment.ends);
}

/* The same, seen in. What it wrote is ended by time, if nobody is just taking off replies. */
static __always_inline void conn_lose(struct hand *hand, struct conn *conn, u64 now)
{
    if (!__sync_val_compare_and_swap(&conn->busy_out, 0, 1)) {
        conn->uncertain = 1;
        conn_end_writes(conn, now);
        __sync_val_compare_and_swap(&conn->busy_out, 1, 0);
    }
    conn_forget(hand, conn, hand->segment.seq + (hand->segment.end - hand->segment.at), now);
}

/* A connection whose next bytes in and out are these. */
static __always_inline struct conn *conn_new(struct hand *hand, u32 in, u32 out, u32 acked)
{
    struct conn *conn = &hand->conn;

    conn->owner = ends_hash(&hand->segment.ends);
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
    __builtin_memset(conn->parts, 0, sizeof(conn->parts));
    conn->uncertain = 0;
    conn->whole = 0;
    conn->suspect = 0;
    conn->nmarks = 0;
    req_init(&conn->in);
    resp_init(&conn->out);
    if (bpf_map_update_elem(&connections, &hand->segment.ends, conn, BPF_ANY))
        return 0;
    return bpf_map_lookup_elem(&connections, &hand->segment.ends);
}

#endif
