/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * gate: whether a write may be in flight to a bucket, or to any key (bpf/shared/chain.h).
 *
 * Everything here is lock-free and may run on all CPUs at once. BPF's atomic operations that return
 * a value are full barriers in every JIT, and all those between two reads of a gate are of this
 * kind.
 */
#ifndef MC_GATE_BPF_H
#define MC_GATE_BPF_H

#include "bpf/packet/base.bpf.h"
#include "bpf/shared/chain.h"

enum { GATE_TRIES = 8 };
#define GATE_WRITERS (CHAIN_GENERATION - 1)

const volatile struct chain_settings settings = {};

/*
 * The gate of the whole table: for commands that concern more than one key, and for what could not
 * be followed.
 */
struct chain_gate whole_table SEC(".data.whole_table") = {};

/* Raises `done` to `when`; it never falls. 0: too many other CPUs raised it at the same time. */
static __always_inline int gate_done(struct chain_gate *gate, u64 when)
{
    int i;

    for (i = 0; i < GATE_TRIES; i++) {
        u64 done = READ_ONCE(gate->done);

        if (done >= when || __sync_val_compare_and_swap(&gate->done, done, when) == done)
            return 1;
    }
    return 0;
}

/* The generation of writes that a word counts. */
static __always_inline u32 gate_generation(u64 word)
{
    return (word & (CHAIN_VERSION - 1)) / CHAIN_GENERATION;
}

/*
 * A write arrives whose reply will be recognised: entries of the gate become invalid. Returns the
 * generation that the write belongs to.
 */
static __always_inline u32 gate_enter(struct chain_gate *gate, u64 now)
{
    *(volatile u64 *)&gate->until = now + settings.settle;
    return gate_generation(__sync_fetch_and_add(&gate->word, CHAIN_VERSION + 1));
}

/*
 * A write arrives whose reply will not be recognised: no reply to a get that arrived before `when`
 * is kept.
 */
static __always_inline void gate_close(struct chain_gate *gate, u64 when)
{
    u64 before;

    if (!gate_done(gate, when))
        gate_enter(gate, when);
    before = __sync_fetch_and_add(&gate->word, CHAIN_VERSION);
    asm volatile("" : : "r"(before) : "memory");
}

/*
 * The reply to a write that entered leaves. If the write had been given up, entries filled since
 * then become invalid, and the count of the newer generation is not decremented. If others change
 * the gate too often meanwhile, it opens at `until`.
 */
static __always_inline void gate_leave(struct chain_gate *gate, u32 generation, u64 now)
{
    int i;

    if (!gate_done(gate, now))
        return;
    for (i = 0; i < GATE_TRIES; i++) {
        u64 word = READ_ONCE(gate->word), after = word + CHAIN_VERSION;

        if (word & GATE_WRITERS && gate_generation(word) == generation)
            after--;
        if (__sync_val_compare_and_swap(&gate->word, word, after) == word)
            return;
    }
}

/* Whether no write is in flight, or was closed for, at any time from `now` on. */
static __always_inline int gate_is_open(const struct chain_gate *gate, u64 now)
{
    return !(READ_ONCE(gate->word) & GATE_WRITERS) && READ_ONCE(gate->done) < now;
}

enum gate_state { GATE_OPEN, GATE_CLOSED, GATE_GIVEN_UP };

/*
 * Whether the reply to a request that arrived at `asked` may be kept. It is valid while the gate's
 * word is *word.
 */
static __always_inline enum gate_state gate_look(struct chain_gate *gate, u64 asked, u64 now,
                                                 u64 *word)
{
    u64 seen = READ_ONCE(gate->word);

    if (seen & GATE_WRITERS) {
        if (now < READ_ONCE(gate->until))
            return GATE_CLOSED;
        /*
         * The next generation begins: replies to the writes that are given up here decrement
         * nothing.
         */
        if (gate_done(gate, now))
            __sync_val_compare_and_swap(&gate->word, seen,
                                        (seen & ~GATE_WRITERS) + CHAIN_GENERATION);
        return GATE_GIVEN_UP;
    }
    read_barrier();
    if (READ_ONCE(gate->done) >= asked)
        return GATE_CLOSED;
    *word = seen;
    return GATE_OPEN;
}

#endif
