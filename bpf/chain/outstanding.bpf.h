/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_outstanding: when the requests arrived that the server has not yet answered, and the writes
 * among them.
 *
 * Every request over UDP that is passed to the server and may have a reply is recorded: otherwise
 * the reply to an unrecorded one would be taken for the reply to a later request with the same id.
 */
#ifndef MC_CHAIN_OUTSTANDING_BPF_H
#define MC_CHAIN_OUTSTANDING_BPF_H

#include "bpf/chain/maps.bpf.h"
#include "bpf/chain/parse_run.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/udp/frame.bpf.h"

/* What identifies a request or its reply: client and server, client port and request id. */
struct outstanding_id {
    u64 client[2];
    u64 server[2];
    u64 port_and_id;
};

/*
 * Reads it from a packet whose header offsets are in chain_scratch. Not 0: the packet is too short.
 */
static __always_inline long outstanding_read(struct packet packet,
                                             const struct chain_scratch *scratch, int to_us,
                                             struct outstanding_id *id)
{
    u64 *first = to_us ? id->client : id->server, *second = to_us ? id->server : id->client;
    u64 l4[(UDP_IDENTIFIED + 7) / 8];
    long rc;

    *id = (struct outstanding_id){{0, 0}, {0, 0}, 0};
    if (scratch->v6)
        rc = packet_load(packet, scratch->l3 + 8, first, 16) ||
             packet_load(packet, scratch->l3 + 24, second, 16);
    else
        rc = packet_load(packet, scratch->l3 + 12, first, 4) ||
             packet_load(packet, scratch->l3 + 16, second, 4);
    if (rc || packet_load(packet, scratch->l4, l4, UDP_IDENTIFIED))
        return 1;
    id->port_and_id = (to_us ? port_from(l4) : port_to(l4)) | (u32)udp_id(l4) << 16;
    return 0;
}

static __always_inline u64 outstanding_hash(const struct outstanding_id *id)
{
    const u64 *words = (const u64 *)id;
    u64 sum = 0, i;

#pragma unroll
    for (i = 0; i < sizeof(*id) / 8; i++)
        sum += mc_hash_word(words[i], control.seed[i]);
    return mc_hash_end(sum, sizeof(*id));
}

static __always_inline struct chain_outstanding *outstanding_at(u64 hash)
{
    u32 place = hash & (settings.noutstanding - 1);

    return bpf_map_lookup_elem(&mc_outstanding, &place);
}

/* Drops requests that are too old. */
static __always_inline void outstanding_age(struct chain_outstanding *request, u64 now)
{
    if (!request->first || (s64)(now - request->first) < (s64)settings.outstanding)
        return;
    request->first = request->next;
    request->next = 0;
    if (request->first && (s64)(now - request->first) < (s64)settings.outstanding)
        return;
    request->first = 0;
    request->n = 0;
}

/* --- writes ------------------------------------------------------------------------- */

/* A request that is passed. */
enum outstanding_kind {
    OUTSTANDING_GET,    /* has one reply */
    OUTSTANDING_OTHER,  /* may have any number of them, and writes nothing */
    OUTSTANDING_WRITES, /* the same, but may write */
    OUTSTANDING_WRITE,  /* writes one key, whose gate it has entered, and has one reply, or none */
};

/*
 * A write that is to leave its gate. until: the gate is closed until then all the same; 0: it is
 * not. gate, generation: as in struct chain_outstanding.
 */
struct outstanding_left {
    u32 gate;
    u32 generation;
    u64 until;
};

/* Takes the write from a place, under the lock; outstanding_leave follows without it. */
static __always_inline void outstanding_release(struct chain_outstanding *request, u64 until,
                                                struct outstanding_left *out)
{
    out->gate = request->gate;
    out->generation = request->generation;
    out->until = until;
    request->gate = 0;
}

/*
 * The gate has counted the write as one in flight until here: so it has been closed all the time.
 */
static __always_inline void outstanding_leave(const struct outstanding_left *left, u64 now)
{
    if (!left->gate)
        return;
    if (left->until)
        write_close(left->gate - 1, left->until);
    write_leave(left->gate - 1, left->generation, now);
}

/* Whether a place's write, which arrived before, may be unanswered. */
static __always_inline int outstanding_wrote_lately(const struct chain_outstanding *request,
                                                    u64 now)
{
    return (s64)(now - request->wrote) < (s64)settings.settle;
}

/*
 * A request arrives that may write. 1: its reply can be recognised, since no other request is
 * unanswered to which it could be the reply.
 */
static __always_inline int outstanding_write(struct chain_outstanding *request, u32 who, u64 now,
                                             u32 kind, struct outstanding_left *left)
{
    int doubt =
        request->wrote && (request->writer == who || outstanding_wrote_lately(request, now));
    int asked = request->first && (request->who == who || request->before == who);

    outstanding_release(request, doubt ? now + settings.settle : 0, left);
    request->wrote = now;
    request->writer = who;
    request->several = doubt || kind != OUTSTANDING_WRITE;
    return !request->several && !asked;
}

/*
 * One arrives that writes nothing. A write of the same requester then leaves its gate, which is
 * closed for a time; and one that is so old that it was dropped, or that its reply was not seen. If
 * the reply leaves after all, then entries filled before it become invalid.
 */
static __always_inline void outstanding_no_write(struct chain_outstanding *request, u32 who,
                                                 u64 now, struct outstanding_left *left)
{
    int same = request->writer == who;
    u32 gate = request->gate;

    if (!gate || request->generation == CHAIN_OUTSTANDING_GONE ||
        (!same && outstanding_wrote_lately(request, now)))
        return;
    outstanding_release(request, same ? now + settings.settle : 0, left);
    request->gate = gate;
    request->generation = CHAIN_OUTSTANDING_GONE;
}

/* --- requests ------------------------------------------------------------------------ */

/* Records one of n replies; CHAIN_OUTSTANDING_HOLD: of any number. */
static __always_inline void outstanding_count(struct chain_outstanding *request, u32 who, u64 now,
                                              u32 n)
{
    if (!request->first) {
        request->first = now;
        request->who = request->before = who;
    } else if ((s64)(now - request->first) < 0) {
        request->first = now;
    } else if (!request->next && now - request->first >= settings.outstanding / 2) {
        request->next = now;
    }
    if (request->who != who) {
        n = CHAIN_OUTSTANDING_HOLD;
        request->before = request->who;
        request->who = who;
    }
    if (request->n < 1u << 30)
        request->n += n;
}

/*
 * Records a request that is passed. bucket, generation: of OUTSTANDING_WRITE, of the gate that it
 * has entered. Returns 1 if its reply will end that write; else the caller is to.
 */
__attribute__((noinline)) int outstanding_note(u64 hash, u32 kind, u32 bucket, u32 generation)
{
    struct chain_outstanding *request = outstanding_at(hash);
    struct outstanding_left left = {0, 0, 0};
    u64 now = bpf_ktime_get_ns();
    u32 who = hash >> 32;
    int alone = 0;

    if (!request)
        return 0;
    bpf_spin_lock(&request->lock);
    outstanding_age(request, now);
    if (kind == OUTSTANDING_WRITES || kind == OUTSTANDING_WRITE)
        alone = outstanding_write(request, who, now, kind, &left);
    else
        outstanding_no_write(request, who, now, &left);
    if (alone) {
        request->gate = bucket + 1;
        request->generation = generation;
    }
    outstanding_count(request, who, now,
                      alone || kind == OUTSTANDING_GET ? 1 : CHAIN_OUTSTANDING_HOLD);
    bpf_spin_unlock(&request->lock);
    outstanding_leave(&left, now);
    return alone;
}

/* The same for a get that arrives; chain_scratch describes its packet. */
__attribute__((noinline)) int outstanding_note_get(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct outstanding_id id;

    if (!scratch || outstanding_read(packet_xdp(ctx), scratch, 1, &id))
        return 0;
    return outstanding_note(outstanding_hash(&id), OUTSTANDING_GET, 0, 0);
}

/* --- replies ------------------------------------------------------------------------- */

/* One of the replies to requests that may have one has left. */
static __always_inline void outstanding_uncount(struct chain_outstanding *request)
{
    if (request->n >= CHAIN_OUTSTANDING_HOLD)
        return;
    request->n--;
    if (!request->n) {
        request->first = 0;
        request->next = 0;
    }
}

/*
 * A reply leaves: returns the earliest time at which its request may have arrived; 0: no request is
 * known. last: this is the last datagram of the reply.
 */
__attribute__((noinline)) u64 outstanding_reply(u64 hash, u64 now, u32 last)
{
    struct chain_outstanding *request = outstanding_at(hash);
    u32 who = hash >> 32;
    u64 first = 0;

    if (!request)
        return 0;
    bpf_spin_lock(&request->lock);
    outstanding_age(request, now);
    if (request->who == who || request->before == who)
        first = request->first;
    if (first && last)
        outstanding_uncount(request);
    bpf_spin_unlock(&request->lock);
    return first;
}

/*
 * A datagram leaves that is no reply to a get. sure: nothing is answered so but a write that was
 * executed. Returns 1 if a write ends by it. If that is in doubt, its gate is closed for a time
 * from now on.
 */
__attribute__((noinline)) int outstanding_answer(u64 hash, u64 now, u32 sure)
{
    struct chain_outstanding *request = outstanding_at(hash);
    struct outstanding_left left = {0, 0, 0};
    u32 who = hash >> 32;

    if (!request)
        return 0;
    bpf_spin_lock(&request->lock);
    outstanding_age(request, now);
    if (request->wrote && request->writer == who) {
        sure = sure && !request->several;
        outstanding_release(request, sure ? 0 : now + settings.settle, &left);
        if (sure) {
            if (request->first && (s64)(request->wrote - request->first) >= 0)
                outstanding_uncount(request);
            request->wrote = 0;
        }
    }
    bpf_spin_unlock(&request->lock);
    outstanding_leave(&left, now);
    if (!left.gate || left.until)
        return 0;
    tally(CHAIN_WRITES_ENDED);
    return 1;
}

#endif
