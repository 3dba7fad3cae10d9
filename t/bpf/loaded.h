/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loaded: what tests do with a loader's programs that a server does not: run them, look into them.
 */
#ifndef T_BPF_LOADED_H
#define T_BPF_LOADED_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/load/load.h"

/* Loads the programs for UDP, and waits for them. NULL: `error` says why. */
struct loader *loader_open(char *error, size_t nerror);

/* The descriptor of any program by its name, or -ENOENT. */
int loader_program_named(struct loader *loader, const char *name);

struct loader_packet {
    const void *in; /* a frame */
    size_t nin;
    void *out;        /* the frame as the program left it */
    size_t nout;      /* size of the buffer; then the frame's length */
    int ifindex;      /* its ingress interface, which needs an XDP program; 0: lo */
    uint32_t repeat;  /* runs of the program, each on what the one before left; 0: one */
    uint32_t verdict; /* of the last run */
    uint32_t ns;      /* mean time of a run */
    uint32_t nmark;   /* bytes of metadata that XDP left before the frame in `out` */
};

/* Runs a program on one packet. 0 or -errno. */
int loader_run(struct loader *loader, enum loader_program program, struct loader_packet *packet);

/* Of the programs for TCP: the descriptor of a map, */
int loader_tcp_map(struct loader *loader, const char *name);
/*
 * the mark that they set in packets of their own, their translation mark, and the key of a flow's
 * entry.
 */
uint32_t loader_tcp_mark(struct loader *loader);
uint16_t loader_tcp_translation_mark(struct loader *loader, bool second);
uint64_t loader_tcp_key(const struct loader *loader, const struct mc_tcp_flow *flow);
/* The sieve counts n more entries of a flow, which a test has put into the table itself. */
void loader_tcp_sieve(struct loader *loader, const struct mc_tcp_flow *flow, int n);
/* Where the reply's text is kept, at the try'th attempt. */
uint32_t loader_tcp_place(const struct loader *loader, const struct mc_tcp_flow *flow,
                          uint32_t slot, uint32_t try);
/* Whether connections without timestamps are answered. */
void loader_tcp_set_unstamped(struct loader *loader, bool answered);
/* Detaches the guard as another process can. */
void loader_tcp_unguard(struct loader *loader);

#endif
