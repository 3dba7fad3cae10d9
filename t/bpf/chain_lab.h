/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chain_lab: the chain's programs in a test: gets that arrive in XDP, and replies that leave
 * through TC.
 */
#ifndef T_BPF_CHAIN_LAB_H
#define T_BPF_CHAIN_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared/chain.h"
#include "t/bpf/lab.h"

struct chain_lab {
    struct lab lab; /* without a heap and a table */
    struct chain_settings settings;
    struct chain_bucket *buckets;
    struct chain_gate *all;
};

/* The settings of most tests: 1,024 buckets, an age of an hour. */
extern const struct chain_settings chain_lab_settings;

/* Ends the test if the programs cannot be loaded. NULL: chain_lab_settings. */
void chain_lab_open(struct chain_lab *chain, const struct chain_settings *settings,
                    const struct loader_guard *guard);
void chain_lab_close(struct chain_lab *chain);
/* Clears all entries, writes and outstanding requests. */
void chain_lab_clear(struct chain_lab *chain);

/* The descriptor of a map. */
int chain_lab_map(struct chain_lab *chain, const char *name);
struct chain_bucket *chain_lab_bucket(struct chain_lab *chain, const char *key, size_t nkey);
uint64_t chain_lab_count(struct chain_lab *chain, enum chain_count count);
uint64_t chain_lab_now(void);

/* Whether a get is passed unchanged, and counted as a miss of this kind. */
bool chain_misses(struct chain_lab *chain, const struct frame *request, enum chain_count miss);
/* Whether a frame leaves unchanged, and `counted` increased once. CHAIN_COUNTS: any counter may. */
bool chain_leaves(struct chain_lab *chain, const struct frame *frame, enum chain_count counted);
/* Whether the server's reply to it leaves unchanged, and `counted` increased once. */
bool chain_replies(struct chain_lab *chain, const struct frame *request, const char *text,
                   size_t ntext, enum chain_count counted);
/* Whether the request is passed, the reply kept, and then the request answered from it. */
bool chain_keeps(struct chain_lab *chain, const char *request, const char *text, size_t ntext);
/* Whether a request is answered with this text. */
bool chain_answers(struct chain_lab *chain, const char *request, const char *text, size_t ntext);

/* Writes "get KEY\r\n", or the block of a value; returns its length. */
size_t text_get(char *out, const char *key, size_t nkey);
size_t text_value(char *out, const char *key, size_t nkey, const char *value, size_t nvalue);

#endif
