/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_pair: real sockets with the addresses and ports of the lab's connection, in a network
 * namespace of their own, where both ends are on lo.
 */
#ifndef T_BPF_TCP_PAIR_H
#define T_BPF_TCP_PAIR_H

#include "t/bpf/tcp_lab.h"

struct pair {
    bool v6;
    int listener, client, server; /* -1: closed */
    int raw;                      /* sends whole packets */
};

/*
 * A test's main: runs `test` for each version of IP, with a listening socket. Ends the test where
 * there can be no namespace.
 */
int pair_main(void (*test)(struct tcp_lab *lab, struct pair *pair));
/* Connects, and accepts. */
void pair_connect(struct pair *pair);
/* Closes both ends without a word to each other. */
void pair_vanish(struct pair *pair);
uint64_t pair_cookie(int socket);
/* The number of the next byte that the server receives. */
uint32_t pair_next(const struct pair *pair);
/* Sends the server a segment of the client's, without options, as it would be next, but for port,
 * flags and urgent pointer. */
void pair_forge(struct pair *pair, uint16_t port, unsigned int flags, uint16_t urgent,
                const char *text);
/* What the server can read at once. */
const char *pair_read(const struct pair *pair);

#endif
