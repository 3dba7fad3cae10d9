/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/stream_source.h"

#include <stdlib.h>

struct stream_source {
    struct stream *stream;
    struct event *event;
    void (*on_wake)(void *arg);
    void *arg;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct stream_source *source = arg;

    (void)fd;
    (void)what;
    stream_clear_wakeup(source->stream);
    source->on_wake(source->arg);
}

struct stream_source *stream_source_open(struct event_base *base, struct stream *stream,
                                         void (*on_wake)(void *arg), void *arg)
{
    struct stream_source *source = calloc(1, sizeof(*source));

    if (!source) {
        stream_detach(stream);
        return NULL;
    }
    *source = (struct stream_source){.stream = stream, .on_wake = on_wake, .arg = arg};
    source->event = event_new(base, stream_fd(stream), EV_READ | EV_PERSIST, on_readable, source);
    if (!source->event || event_add(source->event, NULL) != 0) {
        stream_source_close(source);
        return NULL;
    }
    return source;
}

struct stream *stream_source_stream(struct stream_source *source)
{
    return source->stream;
}

void stream_source_close(struct stream_source *source)
{
    if (source) {
        if (source->event)
            event_free(source->event);
        stream_detach(source->stream);
        free(source);
    }
}
