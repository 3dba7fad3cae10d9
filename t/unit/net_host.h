/* SPDX-License-Identifier: BSD-3-Clause */
/* net_host: a worker that a test runs by itself, with a store on anonymous memory. */
#ifndef T_UNIT_NET_HOST_H
#define T_UNIT_NET_HOST_H

#include <stdio.h>
#include <stdlib.h>

#include "base/anonymous.h"
#include "command/command.h"
#include "net/endpoint.h"
#include "net/worker.h"
#include "store/store.h"

struct net_host {
    struct provider *provider;
    struct store *store;
    struct commands *commands;
    struct endpoints endpoints;
    struct net_config config;
    struct worker *worker;
};

static void die(const char *what)
{
    printf("Bail out! %s\n", what);
    exit(1);
}

/* All three end the test if something cannot be made. The config is set, but for its clock; */
static void net_host_begin(struct net_host *host)
{
    struct store_config config;
    const char *error = "no provider";

    clock_init(&host->config.clock);
    endpoints_init(&host->endpoints);
    store_config_defaults(&config);
    config.clock = host->config.clock;
    command_store_format(&config.format);
    host->provider = anonymous_new(false);
    host->store = host->provider ? store_new(&config, host->provider, &error) : NULL;
    if (!host->store)
        die(error);
}

/* then there are commands; */
static void net_host_run(struct net_host *host)
{
    host->worker = host->commands ? worker_new(&host->config, &host->endpoints, 0) : NULL;
    if (!host->worker)
        die("no worker");
    host->worker->local = command_local_new(host->commands);
    host->worker->watched = command_watched(host->worker->local);
}

/* and it is freed. */
static void net_host_end(struct net_host *host)
{
    worker_free(host->worker);
    commands_free(host->commands);
    store_free(host->store);
    anonymous_free(host->provider);
    endpoints_fini(&host->endpoints);
}

#endif
