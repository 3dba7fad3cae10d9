/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * splice_pair: a connection over loopback, of which a test has both ends, and whose streams have
 * bytes that can be told apart. Its listener gets nothing but what begins a connection, as with the
 * kernel path's filter: while a socket is swapped its segments find the listener.
 */
#ifndef T_UNIT_SPLICE_PAIR_H
#define T_UNIT_SPLICE_PAIR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum family { V4, V6, MAPPED, LINK_LOCAL, FAMILIES };
enum side { CLIENT, SERVER };
enum { PAIR_PATIENCE_MS = 20000 };

struct pair {
    int listener, client, server;
    uint32_t sent[2], received[2]; /* bytes, by side */
};

/* A network namespace of the test's own; false: it may not have one. */
bool pair_enter_namespace(void);
/* rcvbuf: of the client; 0: as Linux sets it. */
struct pair pair_open(enum family family, int rcvbuf);
void pair_close(struct pair *pair);
int pair_listen(const struct sockaddr *address, socklen_t n);
int pair_fd(const struct pair *pair, enum side side);
uint16_t pair_port(const struct pair *pair);

void pair_set(int fd, int level, int option, int value);
/* -1: there is no such option. */
int pair_get(int fd, int level, int option);
/* The socket gets nothing, until pair_unfilter. */
void pair_deafen(int fd);
void pair_unfilter(int fd);
/* The number of the oldest byte that was not acknowledged, or of the next one. */
uint32_t pair_una(int fd);

/* What the side's stream has from `at` on. */
void pair_make(char *text, size_t n, enum side side, uint32_t at);
/* Sends up to n bytes of the side's stream, as many as there is room for; how many. */
size_t pair_say(struct pair *pair, enum side side, size_t n);
/* Whether the side gets all that the other has sent, and nothing else. */
bool pair_hears(struct pair *pair, enum side side);
/* Whether the connection works in both directions: PAIR_ASKED bytes, and PAIR_ANSWERED. */
bool pair_works(struct pair *pair);
enum { PAIR_ASKED = 3000, PAIR_ANSWERED = 5000 };

#endif
