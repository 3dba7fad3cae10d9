/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * chain_ask: when the requests arrived that the server has not yet answered.
 *
 * Every request over UDP that is passed to the server and may have a reply is recorded: otherwise
 * the reply to an unrecorded one would be taken for the reply to a later get with the same id.
 */
#ifndef MC_CHAIN_ASK_BPF_H
#define MC_CHAIN_ASK_BPF_H

#include "bpf/chain/classify.bpf.h"
#include "bpf/chain/maps.bpf.h"
#include "bpf/packet/ctx.bpf.h"
#include "bpf/packet/headers.bpf.h"
#include "bpf/packet/udp.bpf.h"

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
    u64 l4[(L4_IDENTIFIED + 7) / 8];
    long rc;

    *id = (struct ask_id){{0, 0}, {0, 0}, 0};
    if (scratch->v6)
        rc = packet_load(packet, scratch->l3 + 8, first, 16) ||
             packet_load(packet, scratch->l3 + 24, second, 16);
    else
        rc = packet_load(packet, scratch->l3 + 12, first, 4) ||
             packet_load(packet, scratch->l3 + 16, second, 4);
    if (rc || packet_load(packet, scratch->l4, l4, L4_IDENTIFIED))
        return 1;
    id->port_and_id = (to_us ? port_from(l4) : port_to(l4)) | (u32)l4_id(l4) << 16;
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

/* Records a request that is passed and may have n replies; CHAIN_ASK_HOLD: any number. */
__attribute__((noinline)) int ask_note(u64 hash, u32 n)
{
    struct chain_ask *ask = ask_at(hash);
    u64 now = bpf_ktime_get_ns();
    u32 who = hash >> 32;

    if (!ask)
        return 0;
    bpf_spin_lock(&ask->lock);
    ask_age(ask, now);
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
    bpf_spin_unlock(&ask->lock);
    return 0;
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
    if (first && ask->n < CHAIN_ASK_HOLD) {
        ask->n -= !!last;
        if (!ask->n) {
            ask->first = 0;
            ask->next = 0;
        }
    }
    bpf_spin_unlock(&ask->lock);
    return first;
}

/* The same for a packet that arrives; chain_scratch describes it. */
__attribute__((noinline)) int ask_note_packet(struct xdp_md *ctx, u32 n)
{
    struct chain_scratch *scratch = chain_scratch_get();
    struct ask_id id;

    if (!scratch || ask_read(packet_xdp(ctx), scratch, 1, &id))
        return 0;
    return ask_note(ask_hash(&id), n);
}

#endif
