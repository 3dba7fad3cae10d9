/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/bypass.h"

#include "command/call.h"

static void notify_server(const struct commands *commands, enum bypass_reason reason)
{
    const struct command_server *server = &commands->server;
    void (*set)(void *context, bool on) =
        reason == BYPASS_LOG ? server->set_logged : server->set_detail;

    if (set)
        set(server->context, commands->bypasses[reason].nholders > 0);
}

/* Whether the client is a holder in the current epoch. */
static bool is_holder(const struct bypass *bypass, const struct command_client *client,
                      enum bypass_reason reason)
{
    const struct command_hold *hold = &client->holds[reason];

    return hold->commands && hold->epoch == bypass->epoch;
}

void bypass_switch(struct commands *commands, struct command_client *client,
                   enum bypass_reason reason, bool on)
{
    struct bypass *bypass = &commands->bypasses[reason];

    if (!on) {
        bypass->epoch++;
        bypass->nholders = 0;
    } else if (!client) {
        bypass->nholders++;
    } else if (client->transport == COMMAND_STREAM && !is_holder(bypass, client, reason)) {
        client->holds[reason] = (struct command_hold){commands, bypass->epoch};
        bypass->nholders++;
    }
    notify_server(commands, reason);
}

void bypass_leave(struct command_client *client)
{
    for (unsigned int reason = 0; reason < COMMAND_HOLDS; reason++) {
        struct commands *commands = client->holds[reason].commands;

        if (!commands)
            continue;
        pthread_mutex_lock(&commands->lock);
        if (is_holder(&commands->bypasses[reason], client, reason)) {
            commands->bypasses[reason].nholders--;
            notify_server(commands, reason);
        }
        pthread_mutex_unlock(&commands->lock);
        client->holds[reason] = (struct command_hold){0};
    }
}
