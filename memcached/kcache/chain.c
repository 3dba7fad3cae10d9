/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/chain.h"

enum {
    /* The defaults. */
    ENTRIES = 1 << 17,
    ENTRIES_A_MEDIUM = 4, /* entries for each medium block, */
    ENTRIES_A_LARGE = 16, /* and for each large one */
    AGE_MS = 1000,
    SETTLE_MS = 1000,
    CONNECTIONS = 1 << 14,

    ASKS = 1 << 14,    /* outstanding requests over UDP: more than any server has */
    AROUND_VALUE = 20, /* " flags bytes\r\n" and "\r\n" around a cached value */
    NS_A_MS = 1000000,
};

static uint32_t power_of_two(uint32_t n)
{
    uint32_t power = 1;

    while (power < n)
        power *= 2;
    return power;
}

static void fall_back(uint32_t *number, uint32_t value)
{
    if (!*number)
        *number = value;
}

void chain_complete(struct kcache_chain *chain)
{
    fall_back(&chain->entries, ENTRIES);
    chain->entries = power_of_two(chain->entries);
    fall_back(&chain->key_max, CHAIN_KEY_MAX);
    fall_back(&chain->value_max, CHAIN_VALUE_MAX);
    fall_back(&chain->medium, (chain->entries - 1) / ENTRIES_A_MEDIUM + 1);
    fall_back(&chain->large, (chain->entries - 1) / ENTRIES_A_LARGE + 1);
    /* Allocates no blocks for sizes that cannot occur. */
    if (chain->key_max + chain->value_max + AROUND_VALUE <= CHAIN_WIRE)
        chain->medium = 1;
    if (chain->key_max + chain->value_max + AROUND_VALUE <= CHAIN_MEDIUM)
        chain->large = 1;
    chain->medium = power_of_two(chain->medium);
    chain->large = power_of_two(chain->large);
    fall_back(&chain->max_age_ms, AGE_MS);
    fall_back(&chain->settle_ms, SETTLE_MS);
    fall_back(&chain->connections, CONNECTIONS);
}

void chain_settings(const struct kcache_chain *chain, uint64_t tick_ns, struct chain_settings *out)
{
    uint64_t age = (uint64_t)chain->max_age_ms * NS_A_MS, ticks = age / tick_ns;

    *out = (struct chain_settings){
        .entries = chain->entries,
        .nmedium = chain->medium,
        .nlarge = chain->large,
        .noutstanding = ASKS,
        .key_max = chain->key_max,
        .value_max = chain->value_max,
        /* An item's age in ticks may be up to one tick too low. */
        .max_age = ticks ? (uint32_t)ticks - 1 : 0,
        .nconnections = chain->connections,
        .settle = (uint64_t)chain->settle_ms * NS_A_MS,
        /*
         * A request that the server drops can make a later answer look older, by this much at most.
         */
        .outstanding = age / 2 < CHAIN_OUTSTANDING_NS ? age / 2 : CHAIN_OUTSTANDING_NS,
    };
}
