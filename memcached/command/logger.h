/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * logger: takes what the threads tell out of their rings and gives it to those who watch.
 *
 * A thread that tells never waits: its ring has room, or the event is counted as dropped. The
 * logger's own thread never waits for a watcher either: a line for whose stream there is no room is
 * skipped, and once there is some again a line says how many were. It sleeps while nobody watches.
 *
 * Lines carry a number that only grows, and come in its order; the oldest event of all rings is the
 * next.
 */
#ifndef COMMAND_LOGGER_H
#define COMMAND_LOGGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/event.h"
#include "command/ring.h"

struct stream;

enum { LOGGER_WATCHERS_MAX = 20 };

struct logger_config {
    size_t ring_bytes;   /* of each thread */
    size_t stream_bytes; /* of each watcher */
    /* Whether somebody watches what the kernel does not tell. May be NULL. Takes no lock. */
    void (*set_complete)(void *context, bool on);
    void *context;
};

struct logger_counts {
    uint64_t worker_dropped, worker_written, watcher_skipped, watcher_sent;
};

/* A ring and the event that was taken from it last, if it is still to be told. */
struct logger_source {
    struct ring ring;
    struct logger_source *next;
    size_t nrecord; /* 0: none */
    struct event_record record;
};

struct logger_watcher {
    struct stream *stream;
    uint32_t classes;
    uint64_t nskipped; /* since the last line that said so */
    bool fresh;        /* there are lines of which the stream's consumer does not know yet */
};

struct logger {
    uint32_t wanted; /* enum command_watch, of all watchers; atomic */
    uint32_t wanted_of_store;
    struct logger_config config;
    struct logger_source *shared; /* of threads without one of their own */
    pthread_t thread;
    bool running;

    uint64_t nsent, nskipped; /* atomic */
    uint32_t ncallers;        /* threads that wait for the lock; atomic */
    pthread_mutex_t lock;     /* of what follows; a leaf */
    pthread_cond_t wake;
    bool stop;
    struct logger_source *sources;
    struct logger_watcher watchers[LOGGER_WATCHERS_MAX];
    unsigned int nwatchers;
    uint64_t gid;
    struct logger_counts before; /* at the last reset */
};

/* 0 or -errno. */
int logger_init(struct logger *logger, const struct logger_config *config);
/* Ends the thread; all watchers' streams end. */
void logger_fini(struct logger *logger);
int logger_start(struct logger *logger);
/* A ring for one more thread, which stays the logger's. NULL: no memory. */
struct ring *logger_add_ring(struct logger *logger);

enum logger_result { LOGGER_DONE, LOGGER_TOO_MANY, LOGGER_FAILED };
/* A watcher of these classes: *stream is the consumer's side of what it gets. */
enum logger_result logger_watch(struct logger *logger, uint32_t classes, struct stream **stream);

static inline bool logger_wants(const struct logger *logger, uint32_t classes)
{
    return __builtin_expect(__atomic_load_n(&logger->wanted, __ATOMIC_RELAXED) & classes, 0);
}
/* Never waits. The time is filled in; longer bytes are cut. */
void logger_emit(struct ring *ring, struct event *event, struct slice bytes);

void logger_counts(struct logger *logger, struct logger_counts *out);
void logger_reset_counts(struct logger *logger);

#endif
