/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/versions.h"

#include <stdlib.h>

#include "bench/options.h"

#define WRITING (1u << 31)
#define UNKNOWN (1u << 30)
#define FOUND   (1u << 29) /* no write of ours is acknowledged */
#define VERSION (FOUND - 1)

void versions_init(struct versions *versions, uint32_t nkeys, bool stored)
{
    versions->nkeys = nkeys;
    versions->states = calloc(nkeys, sizeof(*versions->states));
    if (!versions->states)
        fail("out of memory");
    for (uint32_t i = 0; !stored && i < nkeys; i++)
        versions->states[i] = FOUND;
}

void versions_fini(struct versions *versions)
{
    free(versions->states);
}

bool versions_begin(struct versions *versions, uint32_t index, uint32_t *version)
{
    uint32_t *state = &versions->states[index];
    uint32_t before = __atomic_load_n(state, __ATOMIC_RELAXED), after;

    do {
        if (before & WRITING)
            return false;
        after = WRITING | (before & (UNKNOWN | FOUND)) | ((before + 1) & VERSION);
    } while (!__atomic_compare_exchange_n(state, &before, after, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    *version = after & VERSION;
    return true;
}

void versions_end(struct versions *versions, uint32_t index)
{
    __atomic_fetch_and(&versions->states[index], ~(WRITING | FOUND), __ATOMIC_ACQ_REL);
}

void versions_lose(struct versions *versions, uint32_t index)
{
    __atomic_fetch_or(&versions->states[index], UNKNOWN, __ATOMIC_ACQ_REL);
    versions_end(versions, index);
}

uint32_t versions_look(const struct versions *versions, uint32_t index)
{
    uint32_t state = __atomic_load_n(&versions->states[index], __ATOMIC_ACQUIRE);

    return ((state - !!(state & WRITING)) & VERSION) | (state & FOUND);
}

bool versions_may_be(const struct versions *versions, uint32_t index, uint32_t looked,
                     uint32_t version, uint32_t modulus)
{
    uint32_t state = __atomic_load_n(&versions->states[index], __ATOMIC_ACQUIRE);
    uint32_t begun = (state - looked) & VERSION;
    uint32_t later = (version % modulus + modulus - looked % modulus) % modulus;

    return state & UNKNOWN || looked & FOUND || later <= begun;
}
