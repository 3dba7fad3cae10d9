/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/logger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/stream.h"
#include "base/thread.h"
#include "command/command.h"
#include "store/store_events.h"

enum {
    BATCH = 64, /* events between two checks whether another thread waits for the lock */
    NAP_MIN_US = 500,
    NAP_MAX_US = 10000,
    NAP_GROWTH = 4, /* without events each nap is longer by 1/NAP_GROWTH */
    YIELD_US = 50,
    STREAM_MIN = 2 * EVENT_LINE_MAX,
    SKIPPED_ROOM = 8, /* a watcher that was too slow gets lines again when 1/SKIPPED_ROOM is free */
    /* Classes that only the server emits: while they are watched the kernel answers nothing. */
    NEEDS_BYPASS = COMMAND_WATCH_FETCHERS | COMMAND_WATCH_RAWCMDS,
};

/* --- emitting ------------------------------------------------------------- */

void logger_emit(struct ring *ring, struct event *event, struct slice bytes)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    event->us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    if (bytes.len > EVENT_BYTES_MAX)
        bytes.len = EVENT_BYTES_MAX;
    ring_put(ring, (struct slice){(const char *)event, sizeof(*event)}, bytes);
}

/* --- watchers; under the lock ---------------------------------------------- */

/* Updates the set of watched classes, after the watchers have changed. */
static void update_wanted(struct logger *logger)
{
    uint32_t before = logger->wanted;
    uint32_t wanted = 0;
    uint32_t store = 0;

    for (unsigned int i = 0; i < logger->nwatchers; i++)
        wanted |= logger->watchers[i].classes;
    store |= wanted & COMMAND_WATCH_EVICTIONS ? STORE_EVENT_ITEM : 0;
    store |= wanted & COMMAND_WATCH_SYSEVENTS ? STORE_EVENT_SYSTEM : 0;
    __atomic_store_n(&logger->wanted_of_store, store, __ATOMIC_RELAXED);
    __atomic_store_n(&logger->wanted, wanted, __ATOMIC_RELAXED);
    if (logger->config.set_bypass && !(before & NEEDS_BYPASS) != !(wanted & NEEDS_BYPASS))
        logger->config.set_bypass(logger->config.context, wanted & NEEDS_BYPASS);
}

static void remove_detached(struct logger *logger)
{
    unsigned int n = 0;

    for (unsigned int i = 0; i < logger->nwatchers; i++) {
        struct logger_watcher *watcher = &logger->watchers[i];

        if (stream_is_detached(watcher->stream))
            stream_end(watcher->stream, true);
        else
            logger->watchers[n++] = *watcher;
    }
    if (n < logger->nwatchers) {
        logger->nwatchers = n;
        update_wanted(logger);
    }
}

/*
 * Writes how many lines were skipped, if any and if there is room again. False: there is no room.
 */
static bool catch_up(struct logger *logger, struct logger_watcher *watcher)
{
    char line[64];
    int n;

    if (watcher->nskipped == 0)
        return true;
    if (!stream_has_room(watcher->stream, logger->config.stream_bytes / SKIPPED_ROOM))
        return false;
    n = snprintf(line, sizeof(line), "skipped=%" PRIu64 "\n", watcher->nskipped);
    if (!stream_put(watcher->stream, (struct slice){line, (size_t)n}))
        return false;
    watcher->fresh = true;
    watcher->nskipped = 0;
    return true;
}

static void deliver(struct logger *logger, struct logger_watcher *watcher, struct slice line)
{
    if (catch_up(logger, watcher) && stream_put(watcher->stream, line)) {
        watcher->fresh = true;
        __atomic_fetch_add(&logger->nsent, 1, __ATOMIC_RELAXED);
    } else {
        watcher->nskipped++;
        __atomic_fetch_add(&logger->nskipped, 1, __ATOMIC_RELAXED);
    }
}

static void deliver_to_all(struct logger *logger, const struct event *event, struct slice bytes)
{
    char text[EVENT_LINE_MAX];
    struct slice line = {text, event_line(text, event, bytes, ++logger->gid)};

    for (unsigned int i = 0; i < logger->nwatchers; i++)
        if (logger->watchers[i].classes & event->classes)
            deliver(logger, &logger->watchers[i], line);
}

/* Once for each batch: a wakeup and a send cost the worker more than a line. */
static void wake_watchers(struct logger *logger)
{
    for (unsigned int i = 0; i < logger->nwatchers; i++) {
        struct logger_watcher *watcher = &logger->watchers[i];

        catch_up(logger, watcher);
        if (watcher->fresh) {
            watcher->fresh = false;
            stream_wake(watcher->stream);
        }
    }
}

/* --- the rings; under the lock ---------------------------------------------- */

/* The source with the oldest event. NULL: no events. */
static struct logger_source *oldest(struct logger *logger)
{
    struct logger_source *found = NULL;

    for (struct logger_source *s = logger->sources; s; s = s->next) {
        if (s->nrecord == 0)
            s->nrecord = ring_take(&s->ring, &s->record, sizeof(s->record));
        if (s->nrecord > 0 && (!found || s->record.event.us < found->record.event.us))
            found = s;
    }
    return found;
}

/* Delivers up to `limit` events; returns how many. */
static unsigned int deliver_some(struct logger *logger, unsigned int limit)
{
    unsigned int n;

    for (n = 0; n < limit; n++) {
        struct logger_source *source = oldest(logger);

        if (!source)
            break;
        deliver_to_all(logger, &source->record.event,
                       (struct slice){source->record.bytes,
                                      source->nrecord - offsetof(struct event_record, bytes)});
        source->nrecord = 0;
    }
    return n;
}

/*
 * Discards events that were emitted after the last watcher left: the next watcher must not get
 * them.
 */
static void discard_all(struct logger *logger)
{
    for (struct logger_source *s = logger->sources; s; s = s->next) {
        s->nrecord = 0;
        while (ring_take(&s->ring, &s->record, sizeof(s->record)) > 0) {
        }
    }
}

/* --- the thread -------------------------------------------------------------- */

static void lock(struct logger *logger)
{
    __atomic_fetch_add(&logger->ncallers, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&logger->lock);
    __atomic_fetch_sub(&logger->ncallers, 1, __ATOMIC_RELAXED);
}

static void nap(struct logger *logger, unsigned int us)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (long)us * 1000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&logger->wake, &logger->lock, &end);
}

/* How long the thread sleeps after it delivered n events; before, it slept for `last`. */
static unsigned int rest_after(struct logger *logger, unsigned int n, unsigned int last)
{
    if (n == BATCH) {
        /* A mutex is not fair: yield to the thread that waits for it. */
        return __atomic_load_n(&logger->ncallers, __ATOMIC_RELAXED) ? YIELD_US : 0;
    }
    last += last / NAP_GROWTH;
    return n > 0 || last < NAP_MIN_US ? NAP_MIN_US : last < NAP_MAX_US ? last : NAP_MAX_US;
}

static void *run(void *arg)
{
    struct logger *logger = arg;
    unsigned int rest = 0;

    pthread_mutex_lock(&logger->lock);
    while (!logger->stop) {
        unsigned int n;

        if (logger->nwatchers == 0) {
            pthread_cond_wait(&logger->wake, &logger->lock);
            continue;
        }
        n = deliver_some(logger, BATCH);
        wake_watchers(logger);
        remove_detached(logger);
        rest = rest_after(logger, n, rest);
        if (rest > 0)
            nap(logger, rest);
    }
    pthread_mutex_unlock(&logger->lock);
    return NULL;
}

/* --- life -------------------------------------------------------------------- */

static int init_waiting(struct logger *logger)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (error)
        return -error;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(&logger->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error)
        return -error;
    error = pthread_mutex_init(&logger->lock, NULL);
    if (error)
        pthread_cond_destroy(&logger->wake);
    return -error;
}

static struct logger_source *add_source(struct logger *logger)
{
    struct logger_source *source = aligned_alloc(_Alignof(struct logger_source), sizeof(*source));

    if (!source)
        return NULL;
    *source = (struct logger_source){.nrecord = 0};
    if (ring_init(&source->ring, logger->config.ring_bytes) != 0) {
        free(source);
        return NULL;
    }
    lock(logger);
    source->next = logger->sources;
    logger->sources = source;
    pthread_mutex_unlock(&logger->lock);
    return source;
}

int logger_init(struct logger *logger, const struct logger_config *config)
{
    int error;

    *logger = (struct logger){.config = *config};
    error = init_waiting(logger);
    if (error)
        return error;
    if (logger->config.stream_bytes < STREAM_MIN)
        logger->config.stream_bytes = STREAM_MIN;
    logger->shared = add_source(logger);
    if (!logger->shared) {
        pthread_mutex_destroy(&logger->lock);
        pthread_cond_destroy(&logger->wake);
        return -ENOMEM;
    }
    return 0;
}

struct ring *logger_add_ring(struct logger *logger)
{
    struct logger_source *source = add_source(logger);

    return source ? &source->ring : NULL;
}

int logger_start(struct logger *logger)
{
    int error = thread_start(&logger->thread, run, logger);

    logger->running = error == 0;
    return error;
}

void logger_fini(struct logger *logger)
{
    if (logger->running) {
        lock(logger);
        logger->stop = true;
        pthread_cond_signal(&logger->wake);
        pthread_mutex_unlock(&logger->lock);
        pthread_join(logger->thread, NULL);
    }
    for (unsigned int i = 0; i < logger->nwatchers; i++)
        stream_end(logger->watchers[i].stream, true);
    while (logger->sources) {
        struct logger_source *next = logger->sources->next;

        ring_fini(&logger->sources->ring);
        free(logger->sources);
        logger->sources = next;
    }
    pthread_mutex_destroy(&logger->lock);
    pthread_cond_destroy(&logger->wake);
}

static enum logger_result add_watcher(struct logger *logger, uint32_t classes,
                                      struct stream **stream)
{
    struct stream *made;

    remove_detached(logger);
    if (!logger->running)
        return LOGGER_FAILED;
    if (logger->nwatchers == LOGGER_WATCHERS_MAX)
        return LOGGER_TOO_MANY;
    made = stream_new(logger->config.stream_bytes, true);
    if (!made)
        return LOGGER_FAILED;
    if (logger->nwatchers == 0) {
        discard_all(logger);
        pthread_cond_signal(&logger->wake);
    }
    logger->watchers[logger->nwatchers++] =
        (struct logger_watcher){.stream = made, .classes = classes};
    update_wanted(logger);
    *stream = made;
    return LOGGER_DONE;
}

enum logger_result logger_watch(struct logger *logger, uint32_t classes, struct stream **stream)
{
    enum logger_result result;

    lock(logger);
    result = add_watcher(logger, classes, stream);
    pthread_mutex_unlock(&logger->lock);
    return result;
}

/* --- counts ------------------------------------------------------------------ */

/* Since the start. Under the lock. */
static struct logger_counts count(const struct logger *logger)
{
    struct logger_counts sum = {
        .watcher_skipped = __atomic_load_n(&logger->nskipped, __ATOMIC_RELAXED),
        .watcher_sent = __atomic_load_n(&logger->nsent, __ATOMIC_RELAXED),
    };

    for (const struct logger_source *s = logger->sources; s; s = s->next) {
        sum.worker_dropped += __atomic_load_n(&s->ring.ndropped, __ATOMIC_RELAXED);
        sum.worker_written += __atomic_load_n(&s->ring.nwritten, __ATOMIC_RELAXED);
    }
    return sum;
}

void logger_counts(struct logger *logger, struct logger_counts *out)
{
    lock(logger);
    *out = count(logger);
    out->worker_dropped -= logger->before.worker_dropped;
    out->worker_written -= logger->before.worker_written;
    out->watcher_skipped -= logger->before.watcher_skipped;
    out->watcher_sent -= logger->before.watcher_sent;
    pthread_mutex_unlock(&logger->lock);
}

void logger_reset_counts(struct logger *logger)
{
    lock(logger);
    logger->before = count(logger);
    pthread_mutex_unlock(&logger->lock);
}
