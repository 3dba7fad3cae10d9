/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_source: the consumer side of a stream (base/stream.h), whose bytes a connection sends. */
#ifndef NET_STREAM_SOURCE_H
#define NET_STREAM_SOURCE_H

#include <event2/event.h>

#include "base/stream.h"

struct stream_source;

/*
 * Takes over the consumer's side; `on_wake` is called with `arg` when an empty stream has bytes
 * again. NULL: no memory, and the stream is detached.
 */
struct stream_source *stream_source_open(struct event_base *base, struct stream *stream,
                                         void (*on_wake)(void *arg), void *arg);
struct stream *stream_source_stream(struct stream_source *source);
/* Detaches from the stream. NULL is legal. */
void stream_source_close(struct stream_source *source);

#endif
