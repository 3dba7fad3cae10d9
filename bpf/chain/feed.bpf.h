/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_feed: the bytes of a segment or a datagram, through a parser, to the gates.
 *
 * The parser's state is brought into the memory of the CPU, runs there over chunks of the packet,
 * and is taken back. What it says about commands closes gates at once; the writes whose replies are
 * to open them again are listed, for the connection to keep.
 */
#ifndef MC_CHAIN_FEED_BPF_H
#define MC_CHAIN_FEED_BPF_H

#include "bpf/chain/gate.bpf.h"
#include "bpf/chain/maps.bpf.h"
#include "bpf/chain/request_parser.h"
#include "bpf/chain/response_parser.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/kernel.bpf.h"

enum {
    FEED_CHUNK = 256,
    FEED_BYTES = 1 << 16, /* of one packet, at most */
    /* Each but the last takes a chunk, or what is left of one and a value that is longer. */
    FEED_ROUNDS = FEED_BYTES / FEED_CHUNK + 8,
};

/* What stands for a bucket; and in a list a bucket that was closed once more for a write. */
enum { WRITE_EVERYTHING = 1 << 26, WRITE_NOTHING = 1 << 27, WRITE_AGAIN = 1 << 28 };

/* A write in flight: bucket, generation of its gate, which reply on its connection ends it. */
struct chain_write {
    u32 bucket;
    u32 number;
    u32 generation;
};

struct feed {
    union {
        struct request_parser request;
        struct response_parser response;
    };
    u64 now;
    u64 settled; /* when what comes now has been executed */
    u64 content; /* hash of all bytes that were looked at */
    u32 origin;  /* sequence number of the frame's first byte, as it were, */
    u32 looked;  /* and of the byte behind the last one that was looked at */
    u32 dry;     /* nothing is done but to count */
    u32 at;      /* what is left of the packet */
    u32 end;
    u32 events;    /* all that came */
    u32 first;     /* the first of them */
    u32 ncommands; /* of the connection, that have a reply */
    u32 nbefore;   /* replies in this packet: up to the last one to mn, */
    u32 nreplies;  /* and behind it */
    u32 nbarriers; /* commands mn, or replies to them */
    u32 timed;     /* replies do not end writes: time does */
    u32 carried;   /* what the command writes that has begun and is not over */
    u32 old;       /* it has begun in another packet */
    u32 data;      /* number of the last command with a value, */
    u32 silent;    /* and of the last without a reply: of the next one that has one */
    u32 surplus;   /* of the last write that could not be kept, */
    u32 room;      /* for writes that the connection can keep */
    u32 nwrites;
    u32 barrier; /* ncommands at the last mn */
    struct chain_write writes[CHAIN_WRITES];
    char bytes[FEED_CHUNK];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct feed);
} feeds SEC(".maps");

static __always_inline struct feed *feed_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&feeds, &zero);
}

__attribute__((noinline)) int tally(u32 what)
{
    struct chain_scratch *scratch = chain_scratch_get();

    if (scratch)
        chain_count(scratch, what);
    return 0;
}

static __always_inline void feed_begin(struct feed *feed, u64 now)
{
    feed->now = now;
    feed->settled = now + settings.settle;
    feed->content = 0;
    feed->origin = 0;
    feed->looked = 0;
    feed->dry = 0;
    feed->events = 0;
    feed->first = 0;
    feed->ncommands = 0;
    feed->nbefore = 0;
    feed->nreplies = 0;
    feed->nbarriers = 0;
    feed->timed = 0;
    feed->carried = WRITE_NOTHING;
    feed->old = 0;
    feed->room = 0;
    feed->nwrites = 0;
}

/* --- gates ------------------------------------------------------------------------ */

static __always_inline struct chain_gate *gate_of(u32 index)
{
    struct chain_bucket *bucket;

    if (index == WRITE_EVERYTHING)
        return &all;
    bucket = bucket_get(index);
    return bucket ? &bucket->gate : NULL;
}

/* Returns the generation, for write_leave. */
__attribute__((noinline)) u32 write_enter(u32 index, u64 now)
{
    struct chain_gate *gate = gate_of(index);

    return gate ? gate_enter(gate, now) : 0;
}

__attribute__((noinline)) int write_leave(u32 index, u32 generation, u64 now)
{
    struct chain_gate *gate = gate_of(index);

    if (gate)
        gate_leave(gate, generation, now);
    return 0;
}

__attribute__((noinline)) int write_close(u32 index, u64 when)
{
    struct chain_gate *gate = gate_of(index);

    if (gate)
        gate_close(gate, when);
    return 0;
}

/* What cannot be followed: nothing that is asked for before `when` is kept. */
static __always_inline int close_all(u64 when)
{
    tally(CHAIN_CLOSED_ALL);
    return write_close(WRITE_EVERYTHING, when);
}

/* --- commands ---------------------------------------------------------------------- */

static __always_inline void feed_enter(struct feed *feed, u32 index, u32 again)
{
    u64 n = feed->nwrites;
    u32 generation;

    if (feed->timed || n >= feed->room || n >= CHAIN_WRITES) {
        feed->surplus = feed->ncommands + 1;
        write_close(index, feed->settled);
        return;
    }
    generation = write_enter(index, feed->now);
    BOUND(n, CHAIN_WRITES - 1);
    feed->writes[n].bucket = index | again;
    feed->writes[n].number = feed->ncommands + 1;
    feed->writes[n].generation = generation;
    feed->nwrites++;
}

static __always_inline void feed_write(struct feed *feed, u32 index)
{
    tally(CHAIN_WRITES_SEEN);
    feed_enter(feed, index, 0);
    feed->carried = feed->carried == WRITE_NOTHING ? index : WRITE_EVERYTHING;
}

/*
 * 10 s: nothing is kept until then. Above 30 days it is a date in UTC, and the one clock that we
 * may read is 37 seconds ahead of that, or none if nobody has set it so: then we close for longer.
 */
static __always_inline void feed_flush(struct feed *feed)
{
    u64 seconds = feed->request.seconds, today;

    if (seconds > 60 * 60 * 24 * 30) {
        today = bpf_ktime_get_tai_ns() / 1000000000;
        seconds = seconds + 37 > today ? seconds + 37 - today : 0;
    }
    if (seconds)
        close_all(feed->settled + seconds * 1000000000);
}

/*
 * A command is over. The gate that it closed when it began may have opened since: what came in
 * between is not yet true for long.
 */
static __always_inline void feed_over(struct feed *feed, u32 events)
{
    if (feed->old && feed->carried != WRITE_NOTHING)
        feed_enter(feed, feed->carried, WRITE_AGAIN);
    feed->old = 0;
    feed->carried = WRITE_NOTHING;
    if (events & REQ_DATA)
        feed->data = feed->ncommands + 1;
    if (events & REQ_SILENT)
        feed->silent = feed->ncommands + 1;
    if (events & REQ_ANSWERED)
        feed->ncommands++;
    if (events & REQ_UNCERTAIN)
        feed->ncommands++;
    if (events & REQ_BARRIER) {
        feed->nbarriers++;
        feed->barrier = feed->ncommands;
    }
}

__attribute__((noinline)) int feed_event(struct feed *feed, u32 events)
{
    if (!feed)
        return 0;
    if (!feed->events)
        feed->first = events;
    feed->events |= events;
    if (feed->dry) {
        feed->ncommands += !!(events & REQ_ANSWERED);
        return 0;
    }
    if (events & REQ_WRITE)
        feed_write(feed, bucket_of(feed->request.hash));
    if (events & REQ_WRITE_ALL) {
        feed_write(feed, WRITE_EVERYTHING);
        tally(CHAIN_CLOSED_ALL);
        feed_flush(feed);
    }
    if (events & (REQ_ANSWERED | REQ_UNCERTAIN | REQ_SILENT))
        feed_over(feed, events);
    return 0;
}

/* --- bytes -------------------------------------------------------------------------- */

__attribute__((noinline)) u32 feed_request_byte(struct request_parser *request, u32 byte)
{
    return request ? req_step(request, byte, (const __u64 *)control.seed) : REQ_LOST;
}

__attribute__((noinline)) u32 feed_response_byte(struct response_parser *response, u32 byte)
{
    return response ? resp_step(response, byte) : RESP_LOST;
}

/*
 * Takes a byte and its place into the hash of what was looked at. The multiplier is secret, and the
 * shift keeps it from being a polynomial, of which collisions are known for any multiplier.
 */
static __always_inline void feed_hash(struct feed *feed, u8 byte, u32 place)
{
    u64 sum = (feed->content + ((u64)place << 8 | byte)) * (control.seed[5] | 1);

    feed->content = sum ^ sum >> 31;
}

/* What is skipped of the n bytes behind `at`. */
static __always_inline u64 feed_skip(u32 *skip, u64 at, u64 n)
{
    u64 left = n - at;

    if (left > *skip)
        left = *skip;
    *skip -= left;
    return at + left;
}

/* Follows the first n bytes of feed->bytes, which begin at `from` of the frame. */
__attribute__((noinline)) int feed_requests(struct feed *feed, u32 n, u32 from)
{
    u64 at = 0, place;
    u32 i, events;
    u8 byte;

    if (!feed)
        return 0;
    for (i = 0; i < FEED_CHUNK; i++) {
        at = feed_skip(&feed->request.skip, at, n);
        BOUND(at, 2 * FEED_CHUNK - 1);
        if (at >= n || feed->events & REQ_LOST)
            break;
        place = at++;
        BOUND(place, FEED_CHUNK - 1);
        byte = feed->bytes[place];
        feed->looked = feed->origin + from + (u32)at;
        if (feed->request.skip_line && byte != '\n')
            continue;
        feed_hash(feed, byte, feed->looked);
        if (req_more(&feed->request, byte, (const __u64 *)control.seed))
            continue;
        events = feed_request_byte(&feed->request, byte);
        if (events)
            feed_event(feed, events);
    }
    return 0;
}

__attribute__((noinline)) int feed_responses(struct feed *feed, u32 n)
{
    u64 at = 0, place;
    u32 i, events;

    if (!feed)
        return 0;
    for (i = 0; i < FEED_CHUNK; i++) {
        at = feed_skip(&feed->response.skip, at, n);
        BOUND(at, 2 * FEED_CHUNK - 1);
        if (at >= n || feed->events & RESP_LOST)
            break;
        place = at++;
        BOUND(place, FEED_CHUNK - 1);
        events = feed_response_byte(&feed->response, (u8)feed->bytes[place]);
        feed->events |= events;
        if (events & RESP_COMPLETE)
            feed->nreplies++;
        if (events & RESP_MN) {
            feed->nbarriers++;
            feed->nbefore += feed->nreplies;
            feed->nreplies = 0;
        }
    }
    return 0;
}

struct feed_way {
    void *ctx;
    struct feed *feed;
};

/* Brings the next chunk. How many bytes; 0: there are no more, or the packet has less. */
static __always_inline u64 feed_load(struct packet packet, struct feed *feed, u32 *skip)
{
    u64 n;

    feed->at = feed_skip(skip, feed->at, feed->end);
    n = feed->end - feed->at;
    if (n - 1 >= FEED_BYTES)
        return 0;
    if (n > FEED_CHUNK)
        n = FEED_CHUNK;
    BOUND_SIZE(n, FEED_CHUNK - 1);
    if (packet_load(packet, feed->at, feed->bytes, n))
        return 0;
    feed->at += n;
    return n;
}

static long feed_round_in(u32 i, struct feed_way *way)
{
    u64 n = feed_load(packet_xdp(way->ctx), way->feed, &way->feed->request.skip);

    (void)i;
    if (n)
        feed_requests(way->feed, n, way->feed->at - n);
    return !n || way->feed->events & REQ_LOST;
}

static long feed_round_out(u32 i, struct feed_way *way)
{
    u64 n = feed_load(packet_tc(way->ctx), way->feed, &way->feed->response.skip);

    (void)i;
    if (n)
        feed_responses(way->feed, n);
    return !n || way->feed->events & RESP_LOST;
}

/* What clients say from feed->at to feed->end. */
static __always_inline void feed_in(struct xdp_md *ctx, struct feed *feed)
{
    struct feed_way way = {ctx, feed};

    if (bpf_loop(FEED_ROUNDS, feed_round_in, &way, 0) < 0 || feed->at != feed->end)
        feed->events |= REQ_LOST;
}

/* The same of what the server says. */
static __always_inline void feed_out(struct __sk_buff *skb, struct feed *feed)
{
    struct feed_way way = {skb, feed};

    if (bpf_loop(FEED_ROUNDS, feed_round_out, &way, 0) < 0 || feed->at != feed->end)
        feed->events |= RESP_LOST;
}

#endif
