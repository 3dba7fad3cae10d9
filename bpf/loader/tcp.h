/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: loads the programs that answer over TCP, behind those of inplace. Used by the loader only.
 */
#ifndef BPF_LOADER_TCP_H
#define BPF_LOADER_TCP_H

#include <stdbool.h>

struct loader;
struct loader_tcp;

/* NULL is legal. */
void tcp_free(struct loader_tcp *tcp);
void tcp_set_alone(struct loader_tcp *tcp, bool alone);

#endif
