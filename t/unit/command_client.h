/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command_client: a server without sockets. It replaces net: it parses, runs commands, passes a
 * value in steps of a given size, and returns the bytes of the replies.
 */
#ifndef T_UNIT_COMMAND_CLIENT_H
#define T_UNIT_COMMAND_CLIENT_H

#include <stdlib.h>
#include <string.h>

#include "base/anonymous.h"
#include "command/command.h"
#include "proto/proto.h"
#include "store/store.h"
#include "store/store_crawler.h"
#include "t/lib/tap.h"

enum { OUT_MAX = 8 << 20 };

struct server {
    struct provider *provider;
    struct store *store;
    struct commands *commands;
    struct command_local *local;
    struct command_client client; /* a stream is being sent */
    struct command_config config;
    struct reply reply;
    rel_time now;
    bool crawler; /* runs */
    size_t step;  /* bytes of a value that arrive at a time */
    bool closed;  /* the last dialogue closed the connection */
    char *out;
    size_t nout;
    /* What the commands called back for. */
    unsigned int nshutdowns, nresets;
    bool graceful;
    int verbosity;
    struct mc_counts kernel;
    bool detail;
};

static void on_net_stats(void *context, struct command_net_stats *out)
{
    (void)context;
    *out = (struct command_net_stats){
        .curr_connections = 2,
        .bytes_read = 1000,
        .bytes_written = 2000,
        .accepting_conns = true,
        .libevent = "2.1.12-stable",
    };
}

static void on_kernel_counts(void *context, struct mc_counts *out)
{
    *out = ((struct server *)context)->kernel;
}

static void on_stats_bmc(void *context, struct stat_sink *sink)
{
    (void)context;
    stat_add(sink, "bmc_hits", "%d", 5);
}

static void on_stats_settings(void *context, struct stat_sink *sink)
{
    (void)context;
    stat_add(sink, "maxbytes", "%s", "67108864");
}

static void on_stats_conns(void *context, struct stat_sink *sink)
{
    (void)context;
    stat_add(sink, "7:state", "%s", "conn_listening");
}

static void on_reset_stats(void *context)
{
    ((struct server *)context)->nresets++;
}

static void on_verbosity(void *context, unsigned int level)
{
    ((struct server *)context)->verbosity = (int)level;
}

static void on_shutdown(void *context, bool graceful)
{
    ((struct server *)context)->nshutdowns++;
    ((struct server *)context)->graceful = graceful;
}

static void on_detail(void *context, bool on)
{
    ((struct server *)context)->detail = on;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Set `config` and `store` first; the rest is made here. */
static void server_start(struct server *server, struct store_config *store)
{
    const struct command_server calls = {
        .context = server,
        .net_stats = on_net_stats,
        .kernel_counts = on_kernel_counts,
        .stats_bmc = on_stats_bmc,
        .stats_settings = on_stats_settings,
        .stats_conns = on_stats_conns,
        .reset_stats = on_reset_stats,
        .set_verbosity = on_verbosity,
        .shutdown = on_shutdown,
        .set_detail = on_detail,
    };
    const char *error = "";

    clock_init(&server->config.clock);
    store->clock = server->config.clock;
    command_store_format(&store->format);
    server->now = 100;
    server->step = 7;
    server->out = malloc(OUT_MAX);
    server->provider = anonymous_new(false);
    server->store = server->provider ? store_new(store, server->provider, &error) : NULL;
    server->commands = server->store ? commands_new(server->store, &server->config, &calls) : NULL;
    server->local = server->commands ? command_local_new(server->commands) : NULL;
    if (!server->local || !server->out)
        die(error);
    if (server->crawler && store_crawler_start(server->store) != 0)
        die("crawler");
    reply_init(&server->reply);
}

static void server_stop(struct server *server)
{
    reply_fini(&server->reply);
    command_local_free(server->local);
    commands_free(server->commands);
    store_crawler_stop(server->store);
    store_free(server->store);
    anonymous_free(server->provider);
    free(server->out);
}

/* A server with memcached's defaults. */
static void server_defaults(struct server *server, struct store_config *store)
{
    memset(server, 0, sizeof(*server));
    store_config_defaults(store);
    server->config = (struct command_config){
        .flush_enabled = true,
        .dump_enabled = true,
        .prefix_delimiter = ':',
        .maxconns_fast = true,
        .lru_segmented = true,
        .slab_reassign = true,
        .nthreads = 4,
        .max_connections = 1024,
        .item_max = 1 << 20,
    };
    server->crawler = true;
}

/* Runs a test with such a server. */
__attribute__((unused)) static void with_server(void (*test)(struct server *server))
{
    struct store_config store;
    struct server server;

    server_defaults(&server, &store);
    server_start(&server, &store);
    test(&server);
    server_stop(&server);
}

static void send_reply(struct server *server)
{
    struct iovec iov[16];
    size_t sent = 0;
    size_t n, i;

    while ((n = reply_iov(&server->reply, sent, OUT_MAX, iov, 16)) > 0) {
        for (i = 0; i < n; i++) {
            if (iov[i].iov_len > OUT_MAX - 1 - server->nout)
                die("the answer does not fit");
            memcpy(server->out + server->nout, iov[i].iov_base, iov[i].iov_len);
            server->nout += iov[i].iov_len;
            sent += iov[i].iov_len;
        }
    }
    command_release(server->local, &server->reply);
}

/* Passes the value from the input; returns the bytes used. With too few bytes it gives the value
 * up. */
static size_t take_value(struct server *server, struct command_pending *pending, struct slice input)
{
    size_t at = 0;

    while (pending->nleft > 0 && at < input.len) {
        char *ptr;
        size_t n = command_value_room(server->local, pending, &ptr);

        n = n < server->step ? n : server->step;
        n = n < input.len - at ? n : input.len - at;
        if (ptr)
            memcpy(ptr, input.ptr + at, n);
        command_value_filled(pending, n);
        at += n;
    }
    if (pending->nleft > 0) {
        command_abandon(server->local, pending);
        server->closed = true;
    } else if (command_finish(server->local, &server->client, pending, server->now,
                              &server->reply) == COMMAND_CLOSE) {
        server->closed = true;
    }
    return at;
}

/* Sends bytes; server->out then holds the answer, NUL-terminated. */
static const char *server_ask(struct server *server, const char *bytes, size_t len)
{
    struct slice input = {bytes, len};
    enum protocol protocol = len > 0 ? proto_protocol(bytes[0]) : PROTOCOL_TEXT;
    enum verb line = VERB_UNKNOWN; /* of which a part was executed */

    server->nout = 0;
    server->closed = false;
    while (!server->closed) {
        struct command_pending pending = {0};
        struct request request;
        ssize_t n = input.len == 0 ? 0
                    : line         ? proto_parse_rest(input, line, &request)
                                   : proto_parse(protocol, input, &request);

        if (n <= 0) {
            server->closed = n < 0;
            break;
        }
        input = (struct slice){input.ptr + n, input.len - (size_t)n};
        line = request.more ? request.verb : VERB_UNKNOWN;
        switch (command_run(server->local, &request, &server->client, server->now, &server->reply,
                            &pending)) {
        case COMMAND_DONE:
            break;
        case COMMAND_VALUE:
            n = (ssize_t)take_value(server, &pending, input);
            input = (struct slice){input.ptr + n, input.len - (size_t)n};
            break;
        case COMMAND_TO_STREAM: /* the test finds it in client.stream */
        case COMMAND_QUIT:
        case COMMAND_CLOSE:
            server->closed = true;
            break;
        }
        send_reply(server);
    }
    server->out[server->nout] = 0;
    return server->out;
}

static inline const char *ask(struct server *server, const char *text)
{
    return server_ask(server, text, strlen(text));
}

#endif
