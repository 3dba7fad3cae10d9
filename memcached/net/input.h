/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input: bytes that a connection has received and not executed yet. While a connection is served
 * they lie in the buffer of its worker, unless they are many; between events in one of its own, if
 * there are any: a connection that waits costs no buffer. A line of get has no limit, but all long
 * lines that a worker's clients have not ended have one: INPUT_KEPT_MAX.
 *
 * A worker's thread calls these for its connections.
 */
#ifndef NET_INPUT_H
#define NET_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/slice.h"

/* [start, end) of size. */
struct input {
    char *ptr;
    size_t start, end, size;
    size_t searched; /* bytes from start on that have no newline */
};

/*
 * Without a limit a connection gets a buffer of up to INPUT_SHORT in any case; a longer one only as
 * long as all of them have no more than INPUT_KEPT_MAX.
 */
enum { INPUT_SHORT = 64 * 1024, INPUT_KEPT_MAX = 128 << 20 };

/* The own buffers of a worker's connections. */
struct input_memory {
    size_t kept;  /* bytes of all of them */
    size_t limit; /* of that, for short ones too (read_buf_mem_limit); 0: none */
};

/* A connection's. To be initialized with input_init, and freed with input_free. */
struct conn_input {
    struct input *now; /* own, or the worker's while being served */
    struct input own;  /* ptr NULL: nothing */
    struct input_memory *memory;
};

static inline struct slice input_unread(const struct input *in)
{
    return (struct slice){in->ptr + in->start, in->end - in->start};
}

/* Whether a line of more than `most` bytes still has no newline: it need not be parsed again. */
static inline bool input_is_endless(struct input *in, size_t most)
{
    const struct slice text = input_unread(in);
    bool endless =
        in->searched > most && !memchr(text.ptr + in->searched, '\n', text.len - in->searched);

    in->searched = text.len;
    return endless;
}

/* memory: of the worker, which outlives the connection. */
void input_init(struct conn_input *input, struct input_memory *memory);

void input_free(struct conn_input *input);

/* At the start of an event: moves what is kept to the front of the worker's buffer if it fits. */
void input_borrow(struct conn_input *input, struct input *workers);

/* At the end of an event: frees the worker's buffer for the next connection. False: no memory, or
 * the worker's clients keep too much. */
bool input_return(struct conn_input *input);

/* Makes room behind the unread bytes. False: no memory, or the worker's clients keep too much. */
bool input_make_room(struct conn_input *input);

#endif
