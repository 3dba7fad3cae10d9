/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * object: one interface to the two BPF objects: the programs that answer from the server's memory
 * (udp), and the chain. Used by the loader only.
 */
#ifndef BPF_OBJECT_H
#define BPF_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/libbpf.h>

#include "bpf/load/load.h"
#include "bpf/load/memory.h"
#include "bpf/load/parallel.h"
#include "bpf/shared/chain.h"
#include "bpf/shared/layout.h"
#include "bpf/shared/ring.h"

/* OBJECT_BOTH: in place, and segments of TCP are handed to the programs of bpf/tcp. */
enum object_kind { OBJECT_UDP, OBJECT_BOTH, OBJECT_CHAIN };

/* The constants of bpf/packet/guard.bpf.h. */
struct object_guard {
    uint32_t *allow, *local, *nodes_mask, *prefixes_mask, *amplification, *reloads;
    uint64_t *seeds, *cost, *depth;
};

struct object {
    enum object_kind kind;
    bool has_rings;                       /* its XDP program fills rings of AF_XDP */
    struct bpf_object_skeleton *skeleton; /* NULL: not open */
    void *made;                           /* the generated skeleton itself */
    struct bpf_object *all;
    struct parallel parallel; /* where xdp and tc[] in place come from */
    /* The programs to attach; NULL: none on that hook. */
    struct bpf_program *xdp, *tc[LOADER_HOOKS];
    enum loader_hook main; /* the hook without which XDP is useless */
    struct mc_control *control;

    /* Constants, to be set before the load. */
    void *constants;
    size_t nconstants;
    uint32_t *weakly_ordered;
    uint64_t *tick_ns;
    int64_t *clock_ahead;
    struct object_guard guard;
    uint64_t *return_path_factors;
    uint32_t *return_path_shift;
    struct chain_settings *settings; /* of the chain only */

    /* Variables, which may be set at any time. NULL: this object does not have it. */
    uint32_t *xdp_generic, *tc_follows, *tc_alone;
    struct mc_guard *guard_now;
    uint64_t *return_path_epoch;
    uint32_t *return_path_nports;
    void *return_path_ports;    /* struct mc_return_path_port, MC_RETURN_PATH_PORTS of them */
    uint32_t *return_path_seen; /* MC_RETURN_PATH_SEEN of them */
    struct mc_ring *rings;      /* MC_RINGS of them */
    struct mc_ring_port *ring_ports;
    uint32_t *ring_nports;
    struct chain_gate *gate; /* the gate of the whole cache */
};

struct loader {
    struct object object;
    struct loader_tcp *tcp; /* NULL: TCP is not answered */
    struct inner inner;     /* the server's memory */
    int ncpus;
    uint64_t nbytes;           /* of all maps */
    struct attached *attached; /* of bpf/attach; NULL: nothing was attached. loader_close ends it */
    void (*end_attached)(struct loader *loader);
};

/* has_rings: not of the chain. 0 or -errno, and nothing is open. */
int object_open(struct object *object, enum object_kind kind, bool has_rings,
                const struct bpf_object_open_opts *opts);
/*
 * Loads the maps, and starts to load the programs. 0 or -errno; it stays open. Until object_finish
 * no thread of the process may change its credentials.
 */
int object_start(struct object *object);
/* Waits until the program of this hook is loaded. 0 or -errno, as object_finish will say again. */
int object_wait_hook(struct object *object, enum loader_hook hook);
/*
 * Waits until the programs are loaded. `log` (or NULL) gets what the verifier says of one that it
 * refuses. 0 or -errno. Once more does nothing.
 */
int object_finish(struct object *object, char *log, size_t nlog);
/* An object that is not open is legal. */
void object_close(struct object *object);

/* The cookie of this process's network namespace. 0 or -errno. */
int loader_netns_cookie(__u64 *out);

/* NULL: no map has this name. */
struct bpf_map *object_map(const struct object *object, const char *name);
/* Reads a per-CPU map of one entry: a row for each CPU, `*size` bytes apart. Allocated, or NULL. */
char *object_rows(const struct bpf_map *map, int ncpus, size_t *size);
/*
 * Sets flags (BPF_F_XDP_*) and attach type, which must match in XDP programs that call each other.
 */
void object_set_xdp(struct object *object, uint32_t flags, bool for_links);

/* The id of a program by its descriptor, 0: unknown. */
uint32_t object_program_id(int program);
/*
 * Whether a link still attaches the program to the interface. All kinds of links to an interface
 * have its index at the same offset of their info; it is 0 after a detach.
 */
bool object_link_lives(int link, int program, int ifindex);

#endif
