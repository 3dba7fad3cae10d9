/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chain_lab: the chain in a lab: gets that come by XDP, and replies that leave by TC.
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

/* What most tests want: 1,024 buckets, an hour's age. */
extern const struct chain_settings chain_lab_settings;

/* Ends the test if the programs cannot be loaded. NULL: chain_lab_settings. */
void chain_lab_open(struct chain_lab *chain, const struct chain_settings *settings,
                    const struct loader_guard *guard);
void chain_lab_close(struct chain_lab *chain);
/* Forgets all entries, writes and asks. */
void chain_lab_clear(struct chain_lab *chain);

/* The descriptor of a map. */
int chain_lab_map(struct chain_lab *chain, const char *name);
struct chain_bucket *chain_lab_bucket(struct chain_lab *chain, const char *key, size_t nkey);
uint64_t chain_lab_count(struct chain_lab *chain, enum chain_count count);
uint64_t chain_lab_now(void);

/* A get is passed as it came, and is a miss of this kind. */
bool chain_misses(struct chain_lab *chain, const struct frame *request, enum chain_count miss);
/* A frame leaves as it is; `counted` once: what became of it. CHAIN_COUNTS: whatever. */
bool chain_leaves(struct chain_lab *chain, const struct frame *frame, enum chain_count counted);
/* The server's reply to it leaves as it is; `counted` once: what became of it. */
bool chain_replies(struct chain_lab *chain, const struct frame *request, const char *text,
                   size_t ntext, enum chain_count counted);
/* The request is passed and the reply kept, and then the request is answered by it. */
bool chain_keeps(struct chain_lab *chain, const char *request, const char *text, size_t ntext);
/* A request is answered so. */
bool chain_answers(struct chain_lab *chain, const char *request, const char *text, size_t ntext);

/* "get KEY\r\n", and the block of a value: how long it is. */
size_t text_get(char *out, const char *key, size_t nkey);
size_t text_value(char *out, const char *key, size_t nkey, const char *value, size_t nvalue);

#endif
