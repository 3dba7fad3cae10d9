/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream: a bounded ring of bytes from one thread to another, by which a connection becomes the
 * receiver of what a background thread produces.
 *
 * One thread at a time produces, one (the connection's worker) consumes; neither ever waits for the
 * other unless it asks to. Each holds a reference, and either may go first: what the producer
 * writes after the consumer has left is thrown away, what it wrote before it ended is still
 * consumed.
 */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/slice.h"

struct stream;

/*
 * With one reference for each side. `size` bytes are rounded up to a power of two. discard_input:
 * the connection throws away what its client sends meanwhile, and closes when the client stops
 * sending; otherwise that waits until the stream has ended. NULL with errno.
 */
struct stream *stream_new(size_t size, bool discard_input);
bool stream_discards_input(const struct stream *stream);

/* --- the producer -------------------------------------------------------- */

/* All or nothing. False: there is no room. Never waits. */
bool stream_write(struct stream *stream, struct slice bytes);
/* The same in two: the consumer need not know of what was put before it is woken. */
bool stream_put(struct stream *stream, struct slice bytes);
void stream_wake(struct stream *stream);
bool stream_has_room(const struct stream *stream, size_t nbytes);
/* Whether the consumer has gone: nobody will read on. */
bool stream_is_detached(const struct stream *stream);
/*
 * Waits until there is room for so many bytes (at most the ring's size), the consumer goes or the
 * time is over. False: the consumer has gone.
 */
bool stream_wait_room(struct stream *stream, size_t nbytes, unsigned int timeout_ms);
/*
 * Nothing more will come. The connection goes back to reading commands, or closes. Ends the
 * producer's reference: to be called exactly once, also when the consumer has gone.
 */
void stream_end(struct stream *stream, bool close);

/* --- the consumer -------------------------------------------------------- */

enum stream_state {
    STREAM_BYTES,  /* there is something to consume */
    STREAM_EMPTY,  /* nothing now: the fd becomes readable when that changes */
    STREAM_ENDED,  /* and all of it is consumed */
    STREAM_CLOSED, /* the same, and the connection is to be closed */
};

/* After STREAM_EMPTY it becomes readable when that has changed; stream_clear_wakeup takes that
 * back. */
int stream_fd(const struct stream *stream);
void stream_clear_wakeup(struct stream *stream);
enum stream_state stream_poll(struct stream *stream);
/* What can be consumed, in at most two pieces; returns how many. */
size_t stream_iov(const struct stream *stream, struct iovec iov[2]);
void stream_consumed(struct stream *stream, size_t nbytes);
/* Ends the consumer's reference. */
void stream_detach(struct stream *stream);

#endif
