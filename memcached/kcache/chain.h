/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chain: from the words of mode=chain to what its programs are loaded with.
 *
 * Pure; any thread.
 */
#ifndef KCACHE_CHAIN_H
#define KCACHE_CHAIN_H

#include "bpf/shared/chain.h"
#include "kcache/kcache.h"

/* Fills in what was not given, and makes powers of two of what has to be one. */
void chain_complete(struct kcache_chain *chain);
/* Of complete words; tick_ns: of the kernel's clock. */
void chain_settings(const struct kcache_chain *chain, uint64_t tick_ns, struct chain_settings *out);

#endif
