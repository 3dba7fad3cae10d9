/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { CACHE_LINE = 64, SIZE_MIN = 64 };

enum ending { ENDING_NONE, ENDING_RESUME, ENDING_CLOSE };

/*
 * written and consumed count bytes since the start; their difference is what is in the ring. The
 * two pairs (written or ending, asleep) and (consumed, wanted) are each stored on one side and then
 * loaded on the other in one total order: when the producer writes while the consumer goes to
 * sleep, at least one sees the other, and no wakeup is lost.
 */
struct stream {
    char *ring;
    size_t size; /* a power of two */
    int fd;
    bool discard_input;
    unsigned int refs;

    size_t written __attribute__((aligned(CACHE_LINE))); /* by the producer */
    uint8_t ending;                                      /* enum ending, by the producer */
    size_t wanted; /* room that the producer waits for, 0: it does not wait */

    size_t consumed __attribute__((aligned(CACHE_LINE))); /* by the consumer */
    bool asleep;                                          /* the consumer waits for the fd */
    bool detached;

    pthread_mutex_t lock; /* only to wait under; a leaf */
    pthread_cond_t room;
};

static int init_waiting(struct stream *stream)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);

    if (error)
        return error;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(&stream->room, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error)
        return error;
    error = pthread_mutex_init(&stream->lock, NULL);
    if (error)
        pthread_cond_destroy(&stream->room);
    return error;
}

struct stream *stream_new(size_t size, bool discard_input)
{
    struct stream *stream = aligned_alloc(CACHE_LINE, sizeof(*stream));
    size_t rounded = SIZE_MIN;

    if (!stream)
        return NULL;
    while (rounded < size)
        rounded *= 2;
    *stream = (struct stream){.size = rounded, .discard_input = discard_input, .refs = 2};
    stream->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    stream->ring = malloc(rounded);
    if (stream->fd >= 0 && stream->ring) {
        errno = init_waiting(stream);
        if (errno == 0)
            return stream;
    }
    if (stream->fd >= 0)
        close(stream->fd);
    free(stream->ring);
    free(stream);
    return NULL;
}

static void put_reference(struct stream *stream)
{
    /* Acquire and release: the last reference sees the other side's writes. */
    if (__atomic_sub_fetch(&stream->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->room);
    close(stream->fd);
    free(stream->ring);
    free(stream);
}

bool stream_discards_input(const struct stream *stream)
{
    return stream->discard_input;
}

/* --- the producer -------------------------------------------------------- */

static size_t room(const struct stream *stream)
{
    /* Acquire: the consumer is done with the bytes that are overwritten. */
    return stream->size - (stream->written - __atomic_load_n(&stream->consumed, __ATOMIC_ACQUIRE));
}

static void make_readable(const struct stream *stream)
{
    const uint64_t one = 1;
    /* Only a count of 2^64 - 2 could refuse it, and that is readable. */
    ssize_t n = write(stream->fd, &one, sizeof(one));

    (void)n;
}

void stream_wake(struct stream *stream)
{
    if (__atomic_load_n(&stream->asleep, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&stream->asleep, false, __ATOMIC_SEQ_CST))
        make_readable(stream);
}

bool stream_put(struct stream *stream, struct slice bytes)
{
    size_t at = stream->written & (stream->size - 1);
    size_t first = stream->size - at < bytes.len ? stream->size - at : bytes.len;

    if (bytes.len > room(stream))
        return false;
    memcpy(stream->ring + at, bytes.ptr, first);
    memcpy(stream->ring, bytes.ptr + first, bytes.len - first);
    __atomic_store_n(&stream->written, stream->written + bytes.len, __ATOMIC_SEQ_CST);
    return true;
}

bool stream_write(struct stream *stream, struct slice bytes)
{
    bool taken = stream_put(stream, bytes);

    if (taken)
        stream_wake(stream);
    return taken;
}

bool stream_has_room(const struct stream *stream, size_t nbytes)
{
    return room(stream) >= nbytes;
}

bool stream_is_detached(const struct stream *stream)
{
    return __atomic_load_n(&stream->detached, __ATOMIC_SEQ_CST);
}

static struct timespec after_ms(unsigned int ms)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += (long)(ms % 1000) * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

bool stream_wait_room(struct stream *stream, size_t nbytes, unsigned int timeout_ms)
{
    struct timespec end = after_ms(timeout_ms);
    size_t wanted = nbytes < stream->size ? nbytes : stream->size;
    int error = 0;

    if (wanted == 0 || room(stream) >= wanted)
        return !stream_is_detached(stream);
    pthread_mutex_lock(&stream->lock);
    __atomic_store_n(&stream->wanted, wanted, __ATOMIC_SEQ_CST);
    while (error == 0 && !stream_is_detached(stream) &&
           stream->size - (stream->written - __atomic_load_n(&stream->consumed, __ATOMIC_SEQ_CST)) <
               wanted)
        error = pthread_cond_timedwait(&stream->room, &stream->lock, &end);
    __atomic_store_n(&stream->wanted, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&stream->lock);
    return !stream_is_detached(stream);
}

void stream_end(struct stream *stream, bool close)
{
    __atomic_store_n(&stream->ending, (uint8_t)(close ? ENDING_CLOSE : ENDING_RESUME),
                     __ATOMIC_SEQ_CST);
    if (close)
        make_readable(stream); /* the consumer may wait for its client instead */
    else
        stream_wake(stream);
    put_reference(stream);
}

/* --- the consumer -------------------------------------------------------- */

int stream_fd(const struct stream *stream)
{
    return stream->fd;
}

static enum stream_state state(const struct stream *stream)
{
    /* Reads the end first: then it sees all that was written before that. */
    uint8_t ending = __atomic_load_n(&stream->ending, __ATOMIC_SEQ_CST);

    if (__atomic_load_n(&stream->written, __ATOMIC_SEQ_CST) != stream->consumed)
        return STREAM_BYTES;
    return ending == ENDING_NONE     ? STREAM_EMPTY
           : ending == ENDING_RESUME ? STREAM_ENDED
                                     : STREAM_CLOSED;
}

bool stream_is_cut(const struct stream *stream)
{
    return __atomic_load_n(&stream->ending, __ATOMIC_SEQ_CST) == ENDING_CLOSE;
}

void stream_clear_wakeup(struct stream *stream)
{
    uint64_t count;
    ssize_t n = read(stream->fd, &count, sizeof(count));

    (void)n; /* EAGAIN: it was clear already */
}

enum stream_state stream_poll(struct stream *stream)
{
    enum stream_state now = state(stream);

    if (now == STREAM_EMPTY) {
        __atomic_store_n(&stream->asleep, true, __ATOMIC_SEQ_CST);
        now = state(stream);
        if (now != STREAM_EMPTY)
            __atomic_store_n(&stream->asleep, false, __ATOMIC_SEQ_CST);
    }
    return now;
}

size_t stream_iov(const struct stream *stream, struct iovec iov[2])
{
    size_t at = stream->consumed & (stream->size - 1);
    size_t len = __atomic_load_n(&stream->written, __ATOMIC_ACQUIRE) - stream->consumed;
    size_t first = stream->size - at < len ? stream->size - at : len;

    if (len == 0)
        return 0;
    iov[0] = (struct iovec){stream->ring + at, first};
    iov[1] = (struct iovec){stream->ring, len - first};
    return first < len ? 2 : 1;
}

static void signal_room(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    pthread_cond_signal(&stream->room);
    pthread_mutex_unlock(&stream->lock);
}

void stream_consumed(struct stream *stream, size_t nbytes)
{
    size_t wanted, used;

    __atomic_store_n(&stream->consumed, stream->consumed + nbytes, __ATOMIC_SEQ_CST);
    wanted = __atomic_load_n(&stream->wanted, __ATOMIC_SEQ_CST);
    used = __atomic_load_n(&stream->written, __ATOMIC_RELAXED) - stream->consumed;
    if (wanted > 0 && stream->size - used >= wanted)
        signal_room(stream);
}

void stream_detach(struct stream *stream)
{
    __atomic_store_n(&stream->detached, true, __ATOMIC_SEQ_CST);
    signal_room(stream);
    put_reference(stream);
}
