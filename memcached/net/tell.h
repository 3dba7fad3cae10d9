/* SPDX-License-Identifier: BSD-3-Clause */
/* tell: what net tells those who watch (command.h). While nobody does, it costs one look. */
#ifndef NET_TELL_H
#define NET_TELL_H

#include "command/command.h"
#include "net/worker.h"

enum tell_reason { REASON_NORMAL, REASON_ERROR, REASON_IDLE, REASON_SHUTDOWN };

static inline bool tell_wanted(const struct worker *worker, uint32_t classes)
{
    return __builtin_expect(__atomic_load_n(worker->watched, __ATOMIC_RELAXED) & classes, 0);
}

/* A request, as it came. */
static inline void tell_request(struct worker *worker, const struct command_client *client,
                                struct slice request)
{
    if (tell_wanted(worker, COMMAND_WATCH_RAWCMDS))
        command_tell_raw(worker->local, client, request);
}

void tell_opened_now(struct worker *worker, int fd);
static inline void tell_opened(struct worker *worker, int fd)
{
    if (tell_wanted(worker, COMMAND_WATCH_CONNEVENTS))
        tell_opened_now(worker, fd);
}

/* Before the socket is closed. */
void tell_closing_now(struct worker *worker, int fd, enum tell_reason reason);
static inline void tell_closing(struct worker *worker, int fd, enum tell_reason reason)
{
    if (tell_wanted(worker, COMMAND_WATCH_CONNEVENTS))
        tell_closing_now(worker, fd, reason);
}

#endif
