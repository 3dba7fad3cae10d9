/* SPDX-License-Identifier: BSD-3-Clause */
/* outlet: a connection's end of a stream (base/stream.h). */
#ifndef NET_OUTLET_H
#define NET_OUTLET_H

#include <event2/event.h>

#include "base/stream.h"

struct outlet;

/*
 * Takes over the consumer's side; `on_wake` is called with `arg` when the stream was empty and no
 * longer is. NULL: no memory, and the stream is left.
 */
struct outlet *outlet_open(struct event_base *base, struct stream *stream,
                           void (*on_wake)(void *arg), void *arg);
struct stream *outlet_stream(struct outlet *outlet);
/* Leaves the stream. NULL is legal. */
void outlet_close(struct outlet *outlet);

#endif
