/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * served: the server's parser and commands in this process, with a store of their own, for
 * datagrams that go through the kernel programs as well.
 */
#ifndef T_FUZZ_SERVED_H
#define T_FUZZ_SERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/command.h"
#include "store/store.h"
#include "t/bpf/lab.h"

enum { SERVED_MAX = 1 << 16 };

struct memory {
    struct provider provider;
    struct loader *loader;
};

struct server {
    struct memory memory;
    struct lab lab; /* only its loader */
    struct store *store;
    struct commands *commands;
    struct command_local *local;
    struct command_client client;
    struct reply reply;
    struct clock clock;
    char out[SERVED_MAX]; /* the first message of an answer, frame header included */
    size_t nout;
    unsigned int nmessages;
    bool long_reply; /* it was of several datagrams */
    /* If set it gets each datagram that the server sends. */
    void (*replied)(void *context, const char *bytes, size_t n);
    void *context;
};

/* Ends the test if the programs cannot be loaded. */
void server_open(struct server *server);
void server_close(struct server *server);
/* Executes a datagram as net does. */
void server_take(struct server *server, const char *bytes, size_t n, rel_time now);

#endif
