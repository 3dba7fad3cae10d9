/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chain: converts the options of mode=chain to the settings with which its programs are loaded.
 *
 * Pure; any thread.
 */
#ifndef KCACHE_CHAIN_H
#define KCACHE_CHAIN_H

#include "bpf/shared/chain.h"
#include "kcache/kcache.h"

/* Fills in defaults, and rounds values up to powers of two where needed. */
void chain_complete(struct kcache_chain *chain);
/* Converts completed options; tick_ns: the tick of the kernel's clock. */
void chain_settings(const struct kcache_chain *chain, uint64_t tick_ns, struct chain_settings *out);

#endif
