/* SPDX-License-Identifier: BSD-3-Clause */
/* watch_emit: reports connections and requests to `watch` (command.h). Unwatched: one load. */
#ifndef NET_WATCH_EMIT_H
#define NET_WATCH_EMIT_H

#include "command/command.h"
#include "net/worker.h"

/* Normal is what the client wants: it has said quit, or closed its side. */
enum close_reason { CLOSE_ERROR, CLOSE_NORMAL, CLOSE_IDLE };

static inline bool watch_emit_wanted(const struct worker *worker, uint32_t classes)
{
    return __builtin_expect(__atomic_load_n(worker->watched, __ATOMIC_RELAXED) & classes, 0);
}

/* RAWCMDS: a request as it was received. */
static inline void watch_emit_request(struct worker *worker, const struct command_client *client,
                                      struct slice request)
{
    if (watch_emit_wanted(worker, COMMAND_WATCH_RAWCMDS))
        command_emit_request(worker->local, client, request);
}

void watch_emit_opened_now(struct worker *worker, int fd);
static inline void watch_emit_opened(struct worker *worker, int fd)
{
    if (watch_emit_wanted(worker, COMMAND_WATCH_CONNEVENTS))
        watch_emit_opened_now(worker, fd);
}

/* To be called before the socket is closed. */
void watch_emit_closing_now(struct worker *worker, int fd, enum close_reason reason);
static inline void watch_emit_closing(struct worker *worker, int fd, enum close_reason reason)
{
    if (watch_emit_wanted(worker, COMMAND_WATCH_CONNEVENTS))
        watch_emit_closing_now(worker, fd, reason);
}

#endif
