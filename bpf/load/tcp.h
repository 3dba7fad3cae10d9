/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: loads the programs that answer over TCP, behind those of udp. Used by the loader only.
 */
#ifndef BPF_LOADER_TCP_H
#define BPF_LOADER_TCP_H

#include <stdbool.h>
#include <stddef.h>

struct loader;
struct loader_tcp;

/*
 * Waits until the programs are loaded, and hands them segments. 0 or -errno. Once more, or without
 * loader_open_tcp, does nothing.
 */
int tcp_finish(struct loader *loader);
void tcp_explain(int rc, char *text, size_t ntext);
/* NULL is legal. */
void tcp_free(struct loader_tcp *tcp);
void tcp_set_alone(struct loader_tcp *tcp, bool alone);

#endif
