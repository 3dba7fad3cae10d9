/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream: a bounded ring of bytes from one thread to another: from a background thread that
 * produces (a dump, watch events) to the worker whose connection sends them.
 *
 * One thread at a time produces, one (the connection's worker) consumes; neither blocks on the
 * other unless it asks to. Each holds a reference, and either may end first: bytes written after
 * the consumer has detached are discarded, bytes written before the producer ended are still
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
 * Creates a stream with one reference for each side. `size` bytes are rounded up to a power of two.
 * discard_input: the connection discards what its client sends meanwhile, and closes when the
 * client closes; otherwise the client's input waits until the stream has ended. NULL with errno.
 */
struct stream *stream_new(size_t size, bool discard_input);
bool stream_discards_input(const struct stream *stream);

/* --- the producer -------------------------------------------------------- */

/* Writes all bytes or none. False: there is no room. Never blocks. */
bool stream_write(struct stream *stream, struct slice bytes);
/* stream_write in two steps: stream_put may leave the consumer asleep until stream_wake. */
bool stream_put(struct stream *stream, struct slice bytes);
void stream_wake(struct stream *stream);
bool stream_has_room(const struct stream *stream, size_t nbytes);
/* Whether the consumer has detached, and reads no more. */
bool stream_is_detached(const struct stream *stream);
/*
 * Waits until there is room for `nbytes` (at most the ring's size), the consumer detaches or the
 * timeout ends. False: the consumer has detached.
 */
bool stream_wait_room(struct stream *stream, size_t nbytes, unsigned int timeout_ms);
/*
 * The producer writes nothing more. The connection goes back to reading commands, or closes: then
 * at once if its client does not take what is left. Drops the producer's reference: to be called
 * exactly once, also when the consumer has detached.
 */
void stream_end(struct stream *stream, bool close);

/* --- the consumer -------------------------------------------------------- */

enum stream_state {
    STREAM_BYTES,  /* there is something to consume */
    STREAM_EMPTY,  /* nothing yet: the fd becomes readable when that changes */
    STREAM_ENDED,  /* the producer has ended, and everything is consumed */
    STREAM_CLOSED, /* the same, and the caller closes the connection */
};

/*
 * After STREAM_EMPTY the fd becomes readable when there is news, and in any case when the stream is
 * cut; stream_clear_wakeup resets it.
 */
int stream_fd(const struct stream *stream);
void stream_clear_wakeup(struct stream *stream);
enum stream_state stream_poll(struct stream *stream);
/* Whether the producer has ended and wants the connection closed; true before STREAM_CLOSED too. */
bool stream_is_cut(const struct stream *stream);
/* The bytes to consume, in at most two pieces; returns how many pieces. */
size_t stream_iov(const struct stream *stream, struct iovec iov[2]);
void stream_consumed(struct stream *stream, size_t nbytes);
/* Drops the consumer's reference. */
void stream_detach(struct stream *stream);

#endif
