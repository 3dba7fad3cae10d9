/* SPDX-License-Identifier: BSD-3-Clause */
/* net_store: the store of a worker that a test runs by itself, on anonymous memory. */
#ifndef T_UNIT_NET_STORE_H
#define T_UNIT_NET_STORE_H

#include <stdio.h>
#include <stdlib.h>

#include "base/anonymous.h"
#include "command/command.h"
#include "store/store.h"

static void die(const char *what)
{
    printf("Bail out! %s\n", what);
    exit(1);
}

/* Ends the test if it cannot be made. Free the store, then the memory in *provider. */
static struct store *net_store_new(struct provider **provider, const struct clock *clock)
{
    struct store_config config;
    const char *error = "no provider";
    struct store *store;

    store_config_defaults(&config);
    config.clock = *clock;
    command_store_format(&config.format);
    *provider = anonymous_new(false);
    store = *provider ? store_new(&config, *provider, &error) : NULL;
    if (!store)
        die(error);
    return store;
}

#endif
