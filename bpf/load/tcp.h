/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: loads the programs that answer over TCP, behind those of udp. Used by the loader only. */
#ifndef BPF_LOADER_TCP_H
#define BPF_LOADER_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/load/parallel.h"

struct bpf_map;
struct loader;

struct loader_tcp {
    struct tcp *skel;
    struct parallel parallel;
    struct mc_tcp_slot *slots;
    size_t nslots;
    uint64_t *cookies; /* of the slots' sockets */
    int guard;         /* the link of mc_tcp_guard; -1: none */
    uint64_t *ended;   /* ids of connections that the last sweep found closed, in ascending order */
    size_t nended;
};

/*
 * Waits until the programs are loaded, and hands them segments. `log` (or NULL) gets what the
 * verifier says of one that it refuses. 0 or -errno. Once more, or without loader_open_tcp, does
 * nothing.
 */
int tcp_finish(struct loader *loader, char *log, size_t nlog);
void tcp_explain(int rc, const char *log, char *text, size_t ntext);
/* NULL is legal. */
void tcp_free(struct loader_tcp *tcp);
void tcp_set_alone(struct loader_tcp *tcp, bool alone);
/* What its programs count, a row for each CPU; NULL without TCP. */
const struct bpf_map *tcp_counts_map(const struct loader_tcp *tcp);

#endif
