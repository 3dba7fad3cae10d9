/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * logger: takes the events that the threads emit from their rings and delivers them to the
 * watchers.
 *
 * A thread that emits never blocks: without room in its ring the event is dropped and counted. The
 * logger's thread never blocks on a watcher either: without room in the watcher's stream it skips
 * the line, and when there is room again it writes a line with the number skipped. It sleeps while
 * there is no watcher.
 *
 * Each line has a sequence number, and lines come in its order; the next line is the oldest event
 * of all rings.
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
    /*
     * A class that the kernel does not emit is watched, or no longer. May be NULL. Takes no lock.
     */
    void (*set_bypass)(void *context, bool on);
    void *context;
};

struct logger_counts {
    uint64_t worker_dropped, worker_written, watcher_skipped, watcher_sent;
};

/* A ring, and the event that was taken from it and is still to be delivered. */
struct logger_source {
    struct ring ring;
    struct logger_source *next;
    size_t nrecord; /* 0: none */
    struct event_record record;
};

struct logger_watcher {
    struct stream *stream;
    uint32_t classes;
    uint64_t nskipped; /* since the last line that reported them */
    bool fresh;        /* its stream has lines for which the consumer was not woken yet */
};

struct logger {
    uint32_t wanted; /* enum command_watch, of all watchers; atomic */
    uint32_t wanted_of_store;
    struct logger_config config;
    struct logger_source *shared; /* for threads without a ring of their own */
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
/* Creates a ring for one more thread; the logger owns it. NULL: no memory. */
struct ring *logger_add_ring(struct logger *logger);

enum logger_result { LOGGER_DONE, LOGGER_TOO_MANY, LOGGER_FAILED };
/* Adds a watcher of these classes; *stream is the consumer's side of its stream. */
enum logger_result logger_watch(struct logger *logger, uint32_t classes, struct stream **stream);

static inline bool logger_wants(const struct logger *logger, uint32_t classes)
{
    return __builtin_expect(__atomic_load_n(&logger->wanted, __ATOMIC_RELAXED) & classes, 0);
}
/* Never blocks. Fills in the time; truncates longer bytes. */
void logger_emit(struct ring *ring, struct event *event, struct slice bytes);

void logger_counts(struct logger *logger, struct logger_counts *out);
void logger_reset_counts(struct logger *logger);

#endif
