/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * object: the kernel programs as one of two objects, behind one face: those that answer from the
 * server's memory (cache.bpf.c), and the chain (chain.bpf.c). The loader's own.
 */
#ifndef BPF_OBJECT_H
#define BPF_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/libbpf.h>

#include "bpf/loader/loader.h"
#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"

enum object_kind { OBJECT_INPLACE, OBJECT_CHAIN };

/* The constants of bpf/packet/guard.bpf.h. */
struct object_guard {
    uint32_t *allow, *local, *nodes_mask, *prefixes_mask, *amplification;
    uint64_t *seeds, *cost, *depth;
};

struct object {
    enum object_kind kind;
    struct bpf_object_skeleton *skeleton; /* NULL: not open */
    void *made;                           /* that the skeleton's header made */
    struct bpf_object *all;
    /* What is attached; NULL: nothing to that hook. */
    struct bpf_program *xdp, *tc[LOADER_HOOKS];
    enum loader_hook main; /* without which XDP is of no use */
    struct mc_control *control;

    /* Constants: to be set before the load. */
    void *constants;
    size_t nconstants;
    uint32_t *weakly_ordered;
    uint64_t *tick_ns;
    int64_t *clock_ahead;
    struct object_guard guard;
    uint64_t *way_factors;
    uint32_t *way_shift;
    struct chain_settings *settings; /* of the chain alone */

    /* Variables, for ever. NULL: this object has no such. */
    uint32_t *xdp_generic, *tc_follows, *tc_alone;
    uint64_t *way_epoch;
    uint32_t *way_nports;
    void *way_ports;         /* struct mc_way_port, MC_WAY_PORTS of them */
    struct chain_gate *gate; /* of everything */
};

struct loader {
    struct object object;
    struct object plain; /* the same over the same maps, for a dispatcher; or not needed yet */
    int alive_xdp, alive_tc[LOADER_HOOKS]; /* arrays of alive.h, -1: not needed yet */
    int filters[LOADER_HOOKS];             /* that call through these, -1: the same */
    int ncpus;
    uint64_t nbytes; /* of all maps */
};

/* 0 or -errno, and nothing is open. */
int object_open(struct object *object, enum object_kind kind,
                const struct bpf_object_open_opts *opts);
/* 0 or -errno; it stays open. */
int object_load(struct object *object);
/* One that is not open is legal. */
void object_close(struct object *object);

/* NULL: there is none of this name. */
struct bpf_map *object_map(const struct object *object, const char *name);
/* For XDP programs that call one another, which must agree in both; flags: BPF_F_XDP_*. */
void object_set_xdp(struct object *object, uint32_t flags, bool for_links);

/* The id of a program by its descriptor, 0: nobody knows. */
uint32_t object_program_id(int program);
/*
 * Whether a link still has the program on the interface. All kinds of links to an interface name it
 * at the same place; 0 when they were cut.
 */
bool object_link_lives(int link, int program, int ifindex);

#endif
