/* SPDX-License-Identifier: BSD-3-Clause */
/* The consumer of a stream reads the bytes that the producer wrote, in order, whichever of the two
 * is faster or starts first. */
#include "base/stream.h"

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "t/lib/tap.h"

enum { RING = 4096, TOTAL = 8 << 20, PATIENCE_MS = 10000 };

/* The bytes of a run: each byte's value depends on its position. */
static char byte_at(size_t place)
{
    return (char)(place * 31 + place / 251);
}

struct producer {
    struct stream *stream;
    size_t total;
    size_t nwritten;
    bool close;
    pthread_t thread;
};

/* Writes pieces of changing length until the total is written or the consumer has left. */
static void *produce(void *arg)
{
    struct producer *producer = arg;
    unsigned int seed = 1;
    char piece[RING];

    while (producer->nwritten < producer->total) {
        size_t left = producer->total - producer->nwritten;
        size_t n = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 8 ? 100 : RING);

        n = n < left ? n : left;
        for (size_t i = 0; i < n; i++)
            piece[i] = byte_at(producer->nwritten + i);
        while (!stream_write(producer->stream, (struct slice){piece, n})) {
            if (!stream_wait_room(producer->stream, n, PATIENCE_MS)) {
                stream_end(producer->stream, producer->close);
                return NULL;
            }
        }
        producer->nwritten += n;
    }
    stream_end(producer->stream, producer->close);
    return NULL;
}

/* Consumes up to `limit` bytes; returns how many were right. */
static size_t consume(struct stream *stream, size_t limit, enum stream_state *state)
{
    unsigned int seed = 2;
    size_t ndone = 0;

    while (ndone < limit) {
        struct pollfd wait = {stream_fd(stream), POLLIN, 0};
        struct iovec iov[2];
        size_t n;

        *state = stream_poll(stream);
        if (*state == STREAM_EMPTY) {
            if (poll(&wait, 1, PATIENCE_MS) <= 0) {
                diag("the consumer was not woken");
                return ndone;
            }
            stream_clear_wakeup(stream);
            continue;
        }
        if (*state != STREAM_BYTES || stream_iov(stream, iov) == 0)
            return ndone;
        n = 1 + (size_t)rand_r(&seed) % iov[0].iov_len;
        for (size_t i = 0; i < n; i++)
            if (((char *)iov[0].iov_base)[i] != byte_at(ndone + i))
                return ndone + i;
        stream_consumed(stream, n);
        ndone += n;
    }
    return ndone;
}

static void passes_everything(bool close)
{
    struct producer producer = {.stream = stream_new(RING, false), .total = TOTAL, .close = close};
    enum stream_state state = STREAM_BYTES;

    pthread_create(&producer.thread, NULL, produce, &producer);
    ok(consume(producer.stream, SIZE_MAX, &state) == TOTAL,
       "the consumer reads every byte as it was written");
    ok(state == (close ? STREAM_CLOSED : STREAM_ENDED),
       "after the last byte the stream's state is the one that the producer set");
    stream_detach(producer.stream);
    pthread_join(producer.thread, NULL);
}

static void consumer_goes_first(void)
{
    struct producer producer = {.stream = stream_new(RING, false), .total = TOTAL};
    enum stream_state state;

    pthread_create(&producer.thread, NULL, produce, &producer);
    consume(producer.stream, RING * 2, &state);
    stream_detach(producer.stream);
    pthread_join(producer.thread, NULL);
    ok(producer.nwritten < TOTAL,
       "a producer that waits for room returns when the consumer leaves");
}

static void bounds(void)
{
    struct stream *stream = stream_new(100, true);
    struct pollfd wait = {stream_fd(stream), POLLIN, 0};
    struct iovec iov[2];
    char bytes[200] = {0};

    ok(stream_discards_input(stream), "a stream created to discard input reports so");
    ok(stream_poll(stream) == STREAM_EMPTY, "a new stream is empty");
    ok(!stream_write(stream, (struct slice){bytes, 129}),
       "a write larger than the ring is refused");
    ok(stream_write(stream, (struct slice){bytes, 100}), "a write that fits is accepted");
    ok(!stream_write(stream, (struct slice){bytes, 29}),
       "a write that does not fit is refused as a whole");
    ok(stream_iov(stream, iov) == 1 && iov[0].iov_len == 100,
       "the consumer can read what was accepted");
    ok(stream_wait_room(stream, 29, 0) && stream_wait_room(stream, 1000, 1),
       "a wait for room ends at its timeout");
    stream_consumed(stream, 100);
    ok(stream_write(stream, (struct slice){bytes, 50}) && stream_iov(stream, iov) == 2 &&
           iov[0].iov_len == 28 && iov[1].iov_len == 22,
       "bytes that wrap around the end of the ring are returned as two pieces");
    stream_clear_wakeup(stream);
    ok(!stream_is_cut(stream) && poll(&wait, 1, 0) == 0, "the consumer has nothing to wake up for");
    stream_end(stream, true);
    ok(stream_is_cut(stream) && poll(&wait, 1, 0) == 1,
       "a consumer that is to close learns it even if it has bytes left");
    ok(stream_poll(stream) == STREAM_BYTES, "bytes written before the end can still be read");
    stream_consumed(stream, 50);
    ok(stream_poll(stream) == STREAM_CLOSED, "after the last byte the stream is closed");
    stream_detach(stream);
}

int main(void)
{
    bounds();
    passes_everything(false);
    passes_everything(true);
    consumer_goes_first();
    return done();
}
