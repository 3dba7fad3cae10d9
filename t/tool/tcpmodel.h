/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcpmodel: what one connection of t/tool/tcpcheck asks, and what it must be answered. A connection
 * alone writes its own keys, so that each reply is known to the byte; the keys that all read have
 * one writer each. Which operations there are depends on the seed and the connection's number.
 */
#ifndef T_TOOL_TCPMODEL_H
#define T_TOOL_TCPMODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "t/tool/tcpreply.h"

enum { OWN_KEYS = 24, KEY_MAX = 250 };

/* One of a connection's own keys, as the server has it. */
struct own_key {
    char name[KEY_MAX + 1];
    bool there;
    uint32_t flags;
    uint64_t ttl, since_ns; /* 0: it does not expire */
    struct bytes value;
    uint64_t change; /* counts the writes */
    struct cas cas;
};

struct model_counts {
    uint64_t reads, writes, hits, misses, shared;
};

struct model {
    struct own_key keys[OWN_KEYS];
    struct own_key *key; /* the last one that was drawn */
    struct shared_key *shared;
    unsigned int nshared;
    unsigned int index,
        nwriters; /* writes the shared keys whose number, modulo nwriters, is its own */
    uint64_t random;
    uint64_t now_ns;
    uint64_t round, settled; /* replies to what was asked up to this round have come */
    uint64_t number;         /* of the last operation */
    double from_shared;      /* the share of shared keys among those that are read */
    double big;              /* the share of large values among those of two keys */
    bool binary;
    bool silently;    /* what is being written has no reply */
    bool quiet;       /* the last operation has no reply of its own */
    struct op *op;    /* the one that is being made */
    size_t begins;    /* its request in out */
    struct bytes out; /* requests */
    struct replies replies;
    struct model_counts counts;
};

void model_init(struct model *model, uint64_t seed, unsigned int index, const char *prefix);
void model_fini(struct model *model);

/* Asks for something; its request is behind those in `out`. */
void model_read(struct model *model);
void model_get(struct model *model); /* one key by a command that most clients use */
void model_write(struct model *model);
void model_set_silently(struct model *model); /* without a reply */

/* Something that always has a reply. */
void model_mark(struct model *model);

/* The CAS ids that were asked for may or may not have come: they are not known. */
void model_forget_cas(struct model *model);

/* Below n. */
uint64_t model_draw(struct model *model, uint64_t n);
bool model_chance(struct model *model, double share);

#endif
