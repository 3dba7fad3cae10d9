/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass: for how long the kernel leaves every request to the server, because a client asked for
 * something (`verbosity 2`, `stats detail on`) that is complete only then.
 *
 * What was asked for stays as it is with memcached, until somebody takes it back. The bypass also
 * ends when no client is connected any more that asked for it. Datagrams are forged too easily:
 * they take a bypass back, but none begins with them.
 */
#ifndef COMMAND_BYPASS_H
#define COMMAND_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"

struct commands;

enum bypass_reason { BYPASS_LOG, BYPASS_DETAIL };
_Static_assert(BYPASS_DETAIL + 1 == COMMAND_HOLDS, "a hold for each reason");

/* Of one reason; under commands.lock. */
struct bypass {
    uint32_t round;        /* how often it was taken back */
    unsigned int nholders; /* who asked for it in this round, and is there */
};

/* What the reason stands for is switched on or off. client: NULL at the start. Under the lock. */
void bypass_switch(struct commands *commands, struct command_client *client,
                   enum bypass_reason reason, bool on);
/* The client goes. */
void bypass_leave(struct command_client *client);

#endif
