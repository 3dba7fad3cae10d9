/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/outlet.h"

#include <stdlib.h>

struct outlet {
    struct stream *stream;
    struct event *event;
    void (*on_wake)(void *arg);
    void *arg;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct outlet *outlet = arg;

    (void)fd;
    (void)what;
    stream_woken(outlet->stream);
    outlet->on_wake(outlet->arg);
}

struct outlet *outlet_open(struct event_base *base, struct stream *stream,
                           void (*on_wake)(void *arg), void *arg)
{
    struct outlet *outlet = calloc(1, sizeof(*outlet));

    if (!outlet) {
        stream_leave(stream);
        return NULL;
    }
    *outlet = (struct outlet){.stream = stream, .on_wake = on_wake, .arg = arg};
    outlet->event = event_new(base, stream_fd(stream), EV_READ | EV_PERSIST, on_readable, outlet);
    if (!outlet->event || event_add(outlet->event, NULL) != 0) {
        outlet_close(outlet);
        return NULL;
    }
    return outlet;
}

struct stream *outlet_stream(struct outlet *outlet)
{
    return outlet->stream;
}

void outlet_close(struct outlet *outlet)
{
    if (outlet) {
        if (outlet->event)
            event_free(outlet->event);
        stream_leave(outlet->stream);
        free(outlet);
    }
}
