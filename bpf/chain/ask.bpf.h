/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_ask: when the requests arrived that the server has not yet answered, and the writes among
 * them.
 *
 * Every request over UDP that is passed to the server and may have a reply is recorded: otherwise
 * the reply to an unrecorded one would be taken for the reply to a later request with the same id.
 */
#ifndef MC_CHAIN_ASK_BPF_H
#define MC_CHAIN_ASK_BPF_H

#include "bpf/chain/maps.bpf.h"
#include "bpf/chain/parse_run.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/udp/frame.bpf.h"

/* What identifies a request or its reply: client and server, client port and request id. */
struct ask_id {
    u64 client[2];
    u64 server[2];
    u64 port_and_id;
};

/*
 * Reads it from a packet whose header offsets are in chain_scratch. Not 0: the packet is too short.
 */
static __always_inline long ask_read(struct packet packet, const struct chain_scratch *scratch,
                                     int to_us, struct ask_id *id)
{
    u64 *first = to_us ? id->client : id->server, *second = to_us ? id->server : id->client;
    u64 l4[(UDP_IDENTIFIED + 7) / 8];
    long rc;

    *id = (struct ask_id){{0, 0}, {0, 0}, 0};
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

static __always_inline u64 ask_hash(const struct ask_id *id)
{
    const u64 *words = (const u64 *)id;
    u64 sum = 0, i;

#pragma unroll
    for (i = 0; i < sizeof(*id) / 8; i++)
        sum += mc_hash_word(words[i], control.seed[i]);
    return mc_hash_end(sum, sizeof(*id));
}

static __always_inline struct chain_ask *ask_at(u64 hash)
{
    u32 place = hash & (settings.nasks - 1);

    return bpf_map_lookup_elem(&asks, &place);
}

/* Drops asks that are too old. */
static __always_inline void ask_age(struct chain_ask *ask, u64 now)
{
    if (!ask->first || (s64)(now - ask->first) < (s64)settings.ask)
        return;
    ask->first = ask->next;
    ask->next = 0;
    if (ask->first && (s64)(now - ask->first) < (s64)settings.ask)
        return;
    ask->first = 0;
    ask->n = 0;
}

/* --- writes ------------------------------------------------------------------------- */

/* A request that is passed. */
enum ask_kind {
    ASK_GET,    /* has one reply */
    ASK_OTHER,  /* may have any number of them, and writes nothing */
    ASK_WRITES, /* the same, but may write */
    ASK_WRITE,  /* writes one key, whose gate it has entered, and has one reply, or none */
};

/*
 * A write that is to leave its gate. until: the gate is closed until then all the same; 0: it is
 * not. gate, generation: as in struct chain_ask.
 */
struct ask_left {
    u32 gate;
    u32 generation;
    u64 until;
};

/* Takes the write from a place, under the lock; ask_leave follows without it. */
static __always_inline void ask_release(struct chain_ask *ask, u64 until, struct ask_left *out)
{
    out->gate = ask->gate;
    out->generation = ask->generation;
    out->until = until;
    ask->gate = 0;
}

/* The gate has counted the write as one in flight until here: so it has been closed all the time.
 */
static __always_inline void ask_leave(const struct ask_left *left, u64 now)
{
    if (!left->gate)
        return;
    if (left->until)
        write_close(left->gate - 1, left->until);
    write_leave(left->gate - 1, left->generation, now);
}

/* Whether a place's write, which arrived before, may be unanswered. */
static __always_inline int ask_wrote_lately(const struct chain_ask *ask, u64 now)
{
    return (s64)(now - ask->wrote) < (s64)settings.settle;
}

/*
 * A request arrives that may write. 1: its reply can be recognised, since no other request is
 * unanswered to which it could be the reply.
 */
static __always_inline int ask_write(struct chain_ask *ask, u32 who, u64 now, u32 kind,
                                     struct ask_left *left)
{
    int doubt = ask->wrote && (ask->writer == who || ask_wrote_lately(ask, now));
    int asked = ask->first && (ask->who == who || ask->before == who);

    ask_release(ask, doubt ? now + settings.settle : 0, left);
    ask->wrote = now;
    ask->writer = who;
    ask->several = doubt || kind != ASK_WRITE;
    return !ask->several && !asked;
}

/*
 * One arrives that writes nothing. A write of the same requester then leaves its gate, which is
 * closed for a time; and one that is so old that it was dropped, or that its reply was not seen. If
 * the reply leaves after all, then entries filled before it become invalid.
 */
static __always_inline void ask_no_write(struct chain_ask *ask, u32 who, u64 now,
                                         struct ask_left *left)
{
    int same = ask->writer == who;
    u32 gate = ask->gate;

    if (!gate || ask->generation == CHAIN_ASK_GONE || (!same && ask_wrote_lately(ask, now)))
        return;
    ask_release(ask, same ? now + settings.settle : 0, left);
    ask->gate = gate;
    ask->generation = CHAIN_ASK_GONE;
}

/* --- requests ------------------------------------------------------------------------ */

/* Records one of n replies; CHAIN_ASK_HOLD: of any number. */
static __always_inline void ask_count(struct chain_ask *ask, u32 who, u64 now, u32 n)
{
    if (!ask->first) {
        ask->first = now;
        ask->who = ask->before = who;
    } else if ((s64)(now - ask->first) < 0) {
        ask->first = now;
    } else if (!ask->next && now - ask->first >= settings.ask / 2) {
        ask->next = now;
    }
    if (ask->who != who) {
        n = CHAIN_ASK_HOLD;
        ask->before = ask->who;
        ask->who = who;
    }
    if (ask->n < 1u << 30)
        ask->n += n;
}

/*
 * Records a request that is passed. bucket, generation: of ASK_WRITE, of the gate that it has
 * entered. Returns 1 if its reply will end that write; else the caller is to.
 */
__attribute__((noinline)) int ask_note(u64 hash, u32 kind, u32 bucket, u32 generation)
{
    struct chain_ask *ask = ask_at(hash);
    struct ask_left left = {0, 0, 0};
    u64 now = bpf_ktime_get_ns();
    u32 who = hash >> 32;
    int alone = 0;

    if (!ask)
        return 0;
    bpf_spin_lock(&ask->lock);
    ask_age(ask, now);
    if (kind == ASK_WRITES || kind == ASK_WRITE)
        alone = ask_write(ask, who, now, kind, &left);
    else
        ask_no_write(ask, who, now, &left);
    if (alone) {
        ask->gate = bucket + 1;
        ask->generation = generation;
    }
    ask_count(ask, who, now, alone || kind == ASK_GET ? 1 : CHAIN_ASK_HOLD);
    bpf_spin_unlock(&ask->lock);
    ask_leave(&left, now);
    return alone;
}

/* The same for a get that arrives; chain_scratch describes its packet. */
__attribute__((noinline)) int ask_note_get(struct xdp_md *ctx)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct ask_id id;

    if (!scratch || ask_read(packet_xdp(ctx), scratch, 1, &id))
        return 0;
    return ask_note(ask_hash(&id), ASK_GET, 0, 0);
}

/* --- replies ------------------------------------------------------------------------- */

/* One of the replies to requests that may have one has left. */
static __always_inline void ask_uncount(struct chain_ask *ask)
{
    if (ask->n >= CHAIN_ASK_HOLD)
        return;
    ask->n--;
    if (!ask->n) {
        ask->first = 0;
        ask->next = 0;
    }
}

/*
 * A reply leaves: returns the earliest time at which its request may have arrived; 0: no request is
 * known. last: this is the last datagram of the reply.
 */
__attribute__((noinline)) u64 ask_reply(u64 hash, u64 now, u32 last)
{
    struct chain_ask *ask = ask_at(hash);
    u32 who = hash >> 32;
    u64 first = 0;

    if (!ask)
        return 0;
    bpf_spin_lock(&ask->lock);
    ask_age(ask, now);
    if (ask->who == who || ask->before == who)
        first = ask->first;
    if (first && last)
        ask_uncount(ask);
    bpf_spin_unlock(&ask->lock);
    return first;
}

/*
 * A datagram leaves that is no reply to a get. sure: nothing is answered so but a write that was
 * executed. Returns 1 if a write ends by it. If that is in doubt, its gate is closed for a time
 * from now on.
 */
__attribute__((noinline)) int ask_answer(u64 hash, u64 now, u32 sure)
{
    struct chain_ask *ask = ask_at(hash);
    struct ask_left left = {0, 0, 0};
    u32 who = hash >> 32;

    if (!ask)
        return 0;
    bpf_spin_lock(&ask->lock);
    ask_age(ask, now);
    if (ask->wrote && ask->writer == who) {
        sure = sure && !ask->several;
        ask_release(ask, sure ? 0 : now + settings.settle, &left);
        if (sure) {
            if (ask->first && (s64)(ask->wrote - ask->first) >= 0)
                ask_uncount(ask);
            ask->wrote = 0;
        }
    }
    bpf_spin_unlock(&ask->lock);
    ask_leave(&left, now);
    if (!left.gate || left.until)
        return 0;
    tally(CHAIN_WRITES_ENDED);
    return 1;
}

#endif
