/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * gate: whether a write may be in flight, of a bucket or of all (bpf/shared/chain.h).
 *
 * Everything here is lock-free and may run on all CPUs at once. BPF's atomic operations with a
 * result are full barriers in every JIT, and those that stand between two looks at a gate are all
 * of that kind.
 */
#ifndef MC_GATE_BPF_H
#define MC_GATE_BPF_H

#include "bpf/packet/kernel.bpf.h"
#include "bpf/shared/chain.h"

enum { GATE_TRIES = 8 };
#define GATE_WRITERS (CHAIN_GENERATION - 1)

const volatile struct chain_settings settings = {};

/* Of everything: commands that are not about one key, and what could not be followed. */
struct chain_gate all SEC(".data.all") = {};

/* Moves `done` on; it never goes back. 0: others moved it too often. */
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

/* Of a word: which writes are counted in it. */
static __always_inline u32 gate_generation(u64 word)
{
    return (word & (CHAIN_VERSION - 1)) / CHAIN_GENERATION;
}

/*
 * A write whose reply will be recognised comes in: what is there is no longer valid. Returns the
 * generation that it belongs to.
 */
static __always_inline u32 gate_enter(struct chain_gate *gate, u64 now)
{
    *(volatile u64 *)&gate->until = now + settings.settle;
    return gate_generation(__sync_fetch_and_add(&gate->word, CHAIN_VERSION + 1));
}

/* One whose reply will not: nothing that was asked for before `when` is kept. */
static __always_inline void gate_close(struct chain_gate *gate, u64 when)
{
    u64 before;

    if (!gate_done(gate, when))
        gate_enter(gate, when);
    before = __sync_fetch_and_add(&gate->word, CHAIN_VERSION);
    asm volatile("" : : "r"(before) : "memory");
}

/*
 * The reply of a write that entered leaves. What was filled after it was given up, if it was, is
 * not valid any more; it takes nobody's place then. If it cannot be told, the gate opens at
 * `until`.
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

enum gate_state { GATE_OPEN, GATE_CLOSED, GATE_GIVEN_UP };

/*
 * Whether what the server said to a request that came in at `asked` is true until the word that
 * *word becomes changes.
 */
static __always_inline enum gate_state gate_look(struct chain_gate *gate, u64 asked, u64 now,
                                                 u64 *word)
{
    u64 seen = READ_ONCE(gate->word);

    if (seen & GATE_WRITERS) {
        if (now < READ_ONCE(gate->until))
            return GATE_CLOSED;
        /* Late writers that are forgotten here find their generation over. */
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
