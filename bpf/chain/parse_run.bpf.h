/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_parse_run: one run of a parser over the bytes of a segment or a datagram.
 *
 * The caller copies the connection's parser state into the per-CPU struct parse_run, the parser
 * runs there over chunks of the packet, and the caller copies the state back. A command that writes
 * closes its gate at once; the writes whose replies will open gates again are listed, and the
 * connection keeps them.
 */
#ifndef MC_CHAIN_PARSE_RUN_BPF_H
#define MC_CHAIN_PARSE_RUN_BPF_H

#include "bpf/chain/gate.bpf.h"
#include "bpf/chain/maps.bpf.h"
#include "bpf/chain/request_parser.h"
#include "bpf/chain/response_parser.h"
#include "bpf/packet/base.bpf.h"
#include "bpf/packet/ctx.bpf.h"

enum {
    RUN_CHUNK = 256,
    RUN_BYTES = 1 << 16, /* of one packet, at most */
    /*
     * Each round but the last takes a whole chunk, or the rest of a value that is longer than one.
     */
    RUN_ROUNDS = RUN_BYTES / RUN_CHUNK + 8,
};

/*
 * Instead of a bucket's index; WRITE_AGAIN with it: the bucket's gate was closed again for the same
 * write.
 */
enum { WRITE_EVERYTHING = 1 << 26, WRITE_NOTHING = 1 << 27, WRITE_AGAIN = 1 << 28 };

/* A write in flight: bucket, generation of its gate, which reply on its connection ends it. */
struct chain_write {
    u32 bucket;
    u32 number;
    u32 generation;
};

struct parse_run {
    union {
        struct request_parser request;
        struct response_parser response;
    };
    u64 now;
    u64 settled;    /* when the server has executed what arrives now: now + settings.settle */
    u64 content;    /* hash of all bytes that were parsed */
    u32 origin;     /* sequence number that the frame's first byte would have, */
    u32 looked;     /* and that of the byte behind the last one that was parsed */
    u32 dry;        /* a dry run: counts commands and closes no gate */
    u32 checkpoint; /* of the connection: where retransmitted bytes are parsed from */
    u32 at;         /* the bytes of the packet that are left to parse */
    u32 end;
    u32 events;    /* of all bytes so far */
    u32 first;     /* the first that were not 0 */
    u32 ncommands; /* commands of the connection that have a reply */
    u32 nbefore;   /* replies in this packet up to the last one to mn, */
    u32 nreplies;  /* and behind it */
    u32 nbarriers; /* commands mn, or replies to them */
    u32 timed;     /* writes end by time, not by their replies */
    u32 carried;   /* the bucket that the command written to that is not yet complete */
    u32 old;       /* that command began in an earlier packet */
    u32 data;      /* number of the last command with a value, */
    u32 silent;    /* and of the last without a reply: of the next one that has one */
    u32 surplus;   /* of the last write for which there was no room */
    u32 room;      /* for writes in the connection's ring */
    u32 nwrites;
    u32 barrier; /* ncommands at the last mn */
    struct chain_write writes[CHAIN_WRITES];
    char bytes[RUN_CHUNK];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct parse_run);
} mc_parse_runs SEC(".maps");

static __always_inline struct parse_run *run_get(void)
{
    u32 zero = 0;

    return bpf_map_lookup_elem(&mc_parse_runs, &zero);
}

__attribute__((noinline)) int tally(u32 what)
{
    struct chain_scratch *scratch = chain_scratch_get();

    if (scratch)
        chain_count(scratch, what);
    return 0;
}

static __always_inline void run_begin(struct parse_run *run, u64 now)
{
    run->now = now;
    run->settled = now + settings.settle;
    run->content = 0;
    run->origin = 0;
    run->looked = 0;
    run->dry = 0;
    run->events = 0;
    run->first = 0;
    run->ncommands = 0;
    run->nbefore = 0;
    run->nreplies = 0;
    run->nbarriers = 0;
    run->timed = 0;
    run->carried = WRITE_NOTHING;
    run->old = 0;
    run->room = 0;
    run->nwrites = 0;
}

/* --- gates ------------------------------------------------------------------------ */

static __always_inline struct chain_gate *gate_of(u32 index)
{
    struct chain_bucket *bucket;

    if (index == WRITE_EVERYTHING)
        return &whole_table;
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

/* For what cannot be followed: no reply to a get that arrives before `when` is kept. */
static __always_inline int chain_close_all(u64 when)
{
    tally(CHAIN_CLOSED_ALL);
    return write_close(WRITE_EVERYTHING, when);
}

/* --- commands ---------------------------------------------------------------------- */

static __always_inline void run_enter(struct parse_run *run, u32 index, u32 again)
{
    u64 n = run->nwrites;
    u32 generation;

    if (run->timed || n >= run->room || n >= CHAIN_WRITES) {
        run->surplus = run->ncommands + 1;
        write_close(index, run->settled);
        return;
    }
    generation = write_enter(index, run->now);
    bound_mask(n, CHAIN_WRITES - 1);
    run->writes[n].bucket = index | again;
    run->writes[n].number = run->ncommands + 1;
    run->writes[n].generation = generation;
    run->nwrites++;
}

static __always_inline void run_write(struct parse_run *run, u32 index)
{
    tally(CHAIN_WRITES_SEEN);
    run_enter(run, index, 0);
    run->carried = run->carried == WRITE_NOTHING ? index : WRITE_EVERYTHING;
}

/*
 * flush_all with a delay: no reply is kept until it is over. A delay above 30 days is a date in
 * UTC. The only clock of that kind that a program may read is TAI, 37 seconds ahead of UTC, or
 * equal to it while the offset is unset: then the gate is closed for longer than needed.
 */
static __always_inline void run_flush(struct parse_run *run)
{
    u64 seconds = run->request.seconds, today;

    if (seconds > 60 * 60 * 24 * 30) {
        today = bpf_ktime_get_tai_ns() / 1000000000;
        seconds = seconds + 37 > today ? seconds + 37 - today : 0;
    }
    if (seconds)
        chain_close_all(run->settled + seconds * 1000000000);
}

/*
 * A command is complete. If it began in an earlier packet, the gate that it closed then may have
 * opened since, and the server executes it only now: closes the gate again.
 */
static __always_inline void run_command_end(struct parse_run *run, u32 events)
{
    if (run->old && run->carried != WRITE_NOTHING)
        run_enter(run, run->carried, WRITE_AGAIN);
    run->old = 0;
    run->carried = WRITE_NOTHING;
    if (events & REQ_DATA)
        run->data = run->ncommands + 1;
    if (events & REQ_SILENT)
        run->silent = run->ncommands + 1;
    if (events & REQ_ANSWERED)
        run->ncommands++;
    if (events & REQ_UNCERTAIN)
        run->ncommands++;
    if (events & REQ_BARRIER) {
        run->nbarriers++;
        run->barrier = run->ncommands;
    }
}

__attribute__((noinline)) int run_event(struct parse_run *run, u32 events)
{
    if (!run)
        return 0;
    if (!run->events)
        run->first = events;
    run->events |= events;
    if (run->dry) {
        run->ncommands += !!(events & REQ_ANSWERED);
        return 0;
    }
    if (events & REQ_WRITE)
        run_write(run, bucket_index(run->request.hash));
    if (events & REQ_WRITE_ALL) {
        run_write(run, WRITE_EVERYTHING);
        tally(CHAIN_CLOSED_ALL);
        run_flush(run);
    }
    if (events & (REQ_ANSWERED | REQ_UNCERTAIN | REQ_SILENT))
        run_command_end(run, events);
    return 0;
}

/* --- bytes -------------------------------------------------------------------------- */

__attribute__((noinline)) u32 run_request_byte(struct request_parser *request, u32 byte)
{
    return request ? req_step(request, byte, (const __u64 *)control.seed) : REQ_LOST;
}

__attribute__((noinline)) u32 run_response_byte(struct response_parser *response, u32 byte)
{
    return response ? resp_step(response, byte) : RESP_LOST;
}

/*
 * Adds a byte and its position to the hash of what was parsed. The multiplier is secret, and the
 * shift keeps the hash from being a polynomial, of which collisions are known for any multiplier.
 */
static __always_inline void run_hash(struct parse_run *run, u8 byte, u32 place)
{
    u64 sum = (run->content + ((u64)place << 8 | byte)) * (control.seed[5] | 1);

    run->content = sum ^ sum >> 31;
}

/* Skips up to *skip of the n bytes from `at` on; returns the new position. */
static __always_inline u64 run_skip(u32 *skip, u64 at, u64 n)
{
    u64 left = n - at;

    if (left > *skip)
        left = *skip;
    *skip -= left;
    return at + left;
}

/* Parses the first n bytes of run->bytes as requests; they begin at `from` in the frame. */
__attribute__((noinline)) int run_requests(struct parse_run *run, u32 n, u32 from)
{
    u64 at = 0, place;
    u32 i, events;
    u8 byte;

    if (!run)
        return 0;
    for (i = 0; i < RUN_CHUNK; i++) {
        at = run_skip(&run->request.skip, at, n);
        bound_mask(at, 2 * RUN_CHUNK - 1);
        if (at >= n || run->events & REQ_LOST)
            break;
        place = at++;
        bound_mask(place, RUN_CHUNK - 1);
        byte = run->bytes[place];
        run->looked = run->origin + from + (u32)at;
        if (run->request.skip_line && byte != '\n')
            continue;
        run_hash(run, byte, run->looked);
        if (req_more(&run->request, byte, (const __u64 *)control.seed))
            continue;
        events = run_request_byte(&run->request, byte);
        if (events)
            run_event(run, events);
    }
    return 0;
}

__attribute__((noinline)) int run_responses(struct parse_run *run, u32 n)
{
    u64 at = 0, place;
    u32 i, events;

    if (!run)
        return 0;
    for (i = 0; i < RUN_CHUNK; i++) {
        at = run_skip(&run->response.skip, at, n);
        bound_mask(at, 2 * RUN_CHUNK - 1);
        if (at >= n || run->events & RESP_LOST)
            break;
        place = at++;
        bound_mask(place, RUN_CHUNK - 1);
        events = run_response_byte(&run->response, (u8)run->bytes[place]);
        run->events |= events;
        if (events & RESP_COMPLETE)
            run->nreplies++;
        if (events & RESP_MN) {
            run->nbarriers++;
            run->nbefore += run->nreplies;
            run->nreplies = 0;
        }
    }
    return 0;
}

struct run_source {
    void *ctx;
    struct parse_run *run;
};

/* Loads the next chunk and returns its length; 0: none is left, or the packet is shorter. */
static __always_inline u64 run_load(struct packet packet, struct parse_run *run, u32 *skip)
{
    u64 n;

    run->at = run_skip(skip, run->at, run->end);
    n = run->end - run->at;
    if (n - 1 >= RUN_BYTES)
        return 0;
    if (n > RUN_CHUNK)
        n = RUN_CHUNK;
    bound_size(n, RUN_CHUNK - 1);
    if (packet_load(packet, run->at, run->bytes, n))
        return 0;
    run->at += n;
    return n;
}

static long run_round_in(u32 i, struct run_source *source)
{
    u64 n = run_load(packet_xdp(source->ctx), source->run, &source->run->request.skip);

    (void)i;
    if (n)
        run_requests(source->run, n, source->run->at - n);
    return !n || source->run->events & REQ_LOST;
}

static long run_round_out(u32 i, struct run_source *source)
{
    u64 n = run_load(packet_tc(source->ctx), source->run, &source->run->response.skip);

    (void)i;
    if (n)
        run_responses(source->run, n);
    return !n || source->run->events & RESP_LOST;
}

/* Parses a client's bytes from run->at to run->end. */
static __always_inline void run_in(struct xdp_md *ctx, struct parse_run *run)
{
    struct run_source source = {ctx, run};

    if (bpf_loop(RUN_ROUNDS, run_round_in, &source, 0) < 0 || run->at != run->end)
        run->events |= REQ_LOST;
}

/* The same for the server's bytes. */
static __always_inline void run_out(struct __sk_buff *skb, struct parse_run *run)
{
    struct run_source source = {skb, run};

    if (bpf_loop(RUN_ROUNDS, run_round_out, &source, 0) < 0 || run->at != run->end)
        run->events |= RESP_LOST;
}

#endif
