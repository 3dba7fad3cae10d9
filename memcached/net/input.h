/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input: bytes that a connection has received and not executed yet. While a connection is served
 * they lie in the buffer of its worker, unless they are many; between events in one of its own, if
 * there are any: a connection that waits costs no buffer.
 *
 * A worker's thread calls these for its connections.
 */
#ifndef NET_INPUT_H
#define NET_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* [start, end) of size. */
struct input {
    char *ptr;
    size_t start, end, size;
    size_t searched; /* bytes from start on that have no newline */
};

/* A connection's. To be initialized with input_init, and freed with input_free. */
struct conn_input {
    struct input *now; /* own, or the worker's while being served */
    struct input own;  /* ptr NULL: nothing */
};

static inline struct slice input_unread(const struct input *in)
{
    return (struct slice){in->ptr + in->start, in->end - in->start};
}

void input_init(struct conn_input *input);

void input_free(struct conn_input *input);

/* At the start of an event: moves what is kept to the front of the worker's buffer if it fits. */
void input_borrow(struct conn_input *input, struct input *workers);

/* At the end of an event: frees the worker's buffer for the next connection. False: no memory. */
bool input_return(struct conn_input *input);

/* Makes room behind the unread bytes; the parser bounds the length of a line. False: no memory. */
bool input_make_room(struct conn_input *input);

#endif
