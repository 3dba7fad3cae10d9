/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass: when the kernel passes every request to the server, because a client asked for something
 * (`verbosity 2`, `stats detail on`) that needs to see every request.
 *
 * The setting itself stays until a client switches it off, as in memcached. The bypass also ends
 * when the last client that asked for it disconnects. Datagrams are easily forged: they can end a
 * bypass, but cannot begin one.
 */
#ifndef COMMAND_BYPASS_H
#define COMMAND_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"

struct commands;

enum bypass_reason { BYPASS_LOG, BYPASS_DETAIL };
_Static_assert(BYPASS_DETAIL + 1 == COMMAND_HOLDS, "a hold for each reason");

/* The bypass of one reason; under commands.lock. */
struct bypass {
    uint32_t epoch;        /* how often it was switched off */
    unsigned int nholders; /* connected clients that asked for it in this epoch */
};

/*
 * Switches the reason on or off. client: the connection that asks, NULL at the start. Under the
 * lock.
 */
void bypass_switch(struct commands *commands, struct command_client *client,
                   enum bypass_reason reason, bool on);
/* To be called when the client disconnects. */
void bypass_leave(struct command_client *client);

#endif
