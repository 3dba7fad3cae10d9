/* SPDX-License-Identifier: BSD-3-Clause */
#include "kmem/allow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/load/load.h"
#include "kmem/prefix.h"

enum {
    LIST_MAX = 4 << 20, /* bytes of a list, up to Linux 6.1 */
    /* For which a list that may be reloaded has room. Addresses that differ late take many nodes.
     */
    ROOM_PREFIXES = 4096,
    ROOM_NODES = 16384,
};

struct trie {
    const struct prefix *prefixes; /* sorted, none holds another */
    uint32_t *nodes;               /* MC_ALLOW_FAN fields each */
    size_t nnodes, room;
    bool failed; /* no memory */
};

/* Four bits of an address. */
static unsigned int field(const struct prefix *prefix, unsigned int at)
{
    uint64_t word = at < 64 ? prefix->high : prefix->low;

    return (unsigned int)(word >> (60 - at % 64)) & (MC_ALLOW_FAN - 1);
}

/* Creates a node whose fields all refuse; returns its number. */
static size_t new_node(struct trie *trie)
{
    size_t room = trie->room ? 2 * trie->room : 64;
    uint32_t *more = trie->nodes;

    if (trie->nnodes >= trie->room) {
        more = room < MC_ALLOW_PREFIX ? realloc(more, room * MC_ALLOW_FAN * sizeof(*more)) : NULL;
        if (!more) {
            trie->failed = true;
            return 0;
        }
        memset(more + trie->room * MC_ALLOW_FAN, 0,
               (room - trie->room) * MC_ALLOW_FAN * sizeof(*more));
        trie->nodes = more;
        trie->room = room;
    }
    return trie->nnodes++;
}

static uint32_t make_node(struct trie *trie, size_t first, size_t end, unsigned int depth);

/*
 * The entry of a field whose addresses share `depth` bits and are covered by prefixes first to end.
 */
static uint32_t make_entry(struct trie *trie, size_t first, size_t end, unsigned int depth)
{
    if (first == end)
        return MC_ALLOW_OUT;
    if (trie->prefixes[first].bits <= depth)
        return MC_ALLOW_IN;
    if (end - first == 1)
        return MC_ALLOW_PREFIX | (uint32_t)first;
    return make_node(trie, first, end, depth);
}

/* Recurses at most as deep as an address has fields. */
static uint32_t make_node(struct trie *trie, size_t first, size_t end, unsigned int depth)
{
    size_t number = new_node(trie), stop;
    uint32_t entry;

    for (unsigned int value = 0; value < MC_ALLOW_FAN && !trie->failed; value++) {
        /* A short prefix covers several values of the field. */
        while (first < end) {
            const struct prefix *prefix = &trie->prefixes[first];
            unsigned int rest = prefix->bits < depth + 4 ? depth + 4 - prefix->bits : 0;

            if (field(prefix, depth) + (1u << rest) > value)
                break;
            first++;
        }
        for (stop = first; stop < end && field(&trie->prefixes[stop], depth) <= value;)
            stop++;
        entry = make_entry(trie, first, stop, depth + 4);
        if (!trie->failed)
            trie->nodes[number * MC_ALLOW_FAN + value] = entry;
    }
    return (uint32_t)number;
}

static void make_cells(struct trie *trie, size_t n, uint32_t *cells)
{
    const struct prefix *prefixes = trie->prefixes;
    size_t first, end, cell, i;

    for (first = 0; first < n && !trie->failed; first = end) {
        cell = prefixes[first].high >> 48 | (size_t)prefixes[first].six << 16;
        end = first + 1;
        if (prefixes[first].bits <= 16) {
            for (i = 0; i < (size_t)1 << (16 - prefixes[first].bits); i++)
                cells[cell + i] = MC_ALLOW_IN;
            continue;
        }
        while (end < n && prefixes[end].six == prefixes[first].six &&
               prefixes[end].high >> 48 == prefixes[first].high >> 48)
            end++;
        cells[cell] = make_entry(trie, first, end, 16);
    }
}

static uint32_t power_above(size_t n)
{
    uint32_t power = 1;

    while (power < n)
        power *= 2;
    return power;
}

static void put_prefixes(struct mc_allow_prefix *out, const struct prefix *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (struct mc_allow_prefix){prefixes[i].high, prefixes[i].low,
                                          prefix_mask_high(prefixes[i].bits),
                                          prefix_mask_low(prefixes[i].bits)};
}

/*
 * Chooses for how many nodes and prefixes the list has room, unless that was chosen before: for
 * twice as many as there are if there may be others later. False: there is too little room.
 */
static bool choose_room(struct loader_guard *out, size_t nnodes, size_t nprefixes)
{
    if (out->nnodes)
        return nnodes <= out->nnodes && nprefixes <= out->nprefixes;
    if (out->reloads) {
        out->nnodes = power_above(nnodes > ROOM_NODES / 2 ? 2 * nnodes : ROOM_NODES);
        out->nprefixes = power_above(nprefixes > ROOM_PREFIXES / 2 ? 2 * nprefixes : ROOM_PREFIXES);
    }
    if (!out->reloads || loader_list_bytes(out) > LIST_MAX) {
        out->nnodes = power_above(nnodes);
        out->nprefixes = power_above(nprefixes);
    }
    return true;
}

/* Writes cells, nodes and prefixes where layout.h says. Allocated, or NULL. */
static void *make_list(const struct loader_guard *guard, const uint32_t *cells,
                       const struct trie *trie, size_t n)
{
    char *list = calloc(1, loader_list_bytes(guard)), *nodes = list + MC_ALLOW_NODES_AT;
    size_t node = MC_ALLOW_FAN * sizeof(uint32_t);

    if (!list)
        return NULL;
    memcpy(list, cells, MC_ALLOW_NODES_AT);
    if (trie->nodes)
        memcpy(nodes, trie->nodes, trie->nnodes * node);
    put_prefixes((void *)(nodes + guard->nnodes * node), trie->prefixes, n);
    return list;
}

int allow_list(struct loader_guard *guard, struct prefix *prefixes, size_t *n, void **list)
{
    struct trie trie = {.prefixes = prefixes, .nnodes = 2};
    uint32_t *cells = calloc(1, MC_ALLOW_NODES_AT);
    int rc = -ENOMEM;

    *list = NULL;
    *n = prefix_reduce(prefixes, *n);
    if (cells)
        make_cells(&trie, *n, cells);
    if (cells && !trie.failed) {
        rc = choose_room(guard, trie.nnodes, *n) ? 0 : -ENOSPC;
        *list = rc ? NULL : make_list(guard, cells, &trie, *n);
        if (!rc && !*list)
            rc = -ENOMEM;
    }
    free(cells);
    free(trie.nodes);
    return rc;
}
