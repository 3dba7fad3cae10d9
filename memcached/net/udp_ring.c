/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_ring: requests over UDP that come by a ring of AF_XDP, and replies that leave by it. */
#include "net/udp_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/xsk.h"

enum { RING_ROUNDS = 8 }; /* batches, of which each takes half the time of one by a socket */

/* The socket that a frame would have come to; NULL: there is none. */
static struct udp *socket_of(const struct worker *worker, const struct frame *frame)
{
    struct udp *udp = worker->udp;

    while (udp && !frame_is_to(frame, &udp->name))
        udp = udp->next;
    return udp;
}

/* Starts the task of a frame. False: the caller drops the frame, as the stack would. */
static bool begin_frame(struct ring *ring, struct slice bytes, const struct turn *turn)
{
    struct datagrams_way way = {.peer = &ring->peer};

    if (!frame_parse(bytes, &ring->frame))
        return false;
    ring->udp = socket_of(ring->worker, &ring->frame);
    if (!ring->udp)
        return false;
    endpoint_used(&ring->udp->endpoint, turn->now);
    way.npeer = frame_source(&ring->frame, &ring->peer);
    if (ring->udp->any) {
        way.control = &ring->control;
        way.ncontrol = frame_control(&ring->frame, &ring->control);
    }
    if (!udp_begin_task(ring->udp, ring->frame.payload, &way, &ring->task))
        return false;
    ring->task.ring = ring;
    return true;
}

/* Serves a frame. False: others are served before the rest. */
static bool serve_frame(struct ring *ring, struct slice bytes, struct turn *turn)
{
    bool done;

    if (udp_turn_is_over(turn))
        return false;
    if (!ring->begun && !begin_frame(ring, bytes, turn))
        return true;
    done = udp_serve_task(ring->udp, &ring->task, turn);
    ring->begun = !done;
    /* What found no room in the ring; the next frame has another peer. */
    udp_send_batch(ring->udp, turn);
    if (ring->udp->first && !ring->udp->blocked)
        udp_go_on_later(ring->udp);
    return done;
}

/* Sends the replies. Those that the interface does not take now wait, or others replace them. */
static void flush_ring(struct ring *ring)
{
    const struct timeval moment = {0, 1000};

    if (!xsk_flush(ring->xsk) && ring->patience-- > 0)
        event_add(ring->unsent, &moment);
}

static void serve_ring(struct ring *ring)
{
    struct turn turn = udp_begin_turn(ring->worker, RING_ROUNDS);
    unsigned int i, n;
    bool more = true;

    ring->patience = UDP_SEND_PATIENCE_MS;
    for (int round = 0; round < RING_ROUNDS && more; round++) {
        n = xsk_waiting(ring->xsk);
        more = n > UDP_BATCH;
        n = more ? UDP_BATCH : n;
        turn.now = clock_now(&ring->worker->config->clock);
        for (i = 0; i < n && serve_frame(ring, xsk_frame(ring->xsk, i), &turn); i++)
            continue;
        xsk_release(ring->xsk, i);
        flush_ring(ring);
        more = more && i == n;
    }
}

static void on_frames(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    serve_ring(arg);
}

static void on_unsent(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    flush_ring(arg);
}

static void ring_close(struct ring *ring)
{
    if (ring->event)
        event_free(ring->event);
    if (ring->unsent)
        event_free(ring->unsent);
    free(ring);
}

int udp_add_ring(struct worker *worker, struct xsk *xsk)
{
    struct ring *ring = calloc(1, sizeof(*ring));

    if (!ring)
        return -ENOMEM;
    ring->xsk = xsk;
    ring->worker = worker;
    ring->event = event_new(worker->base, xsk->fd, EV_READ | EV_PERSIST, on_frames, ring);
    ring->unsent = event_new(worker->base, -1, 0, on_unsent, ring);
    if (!ring->event || !ring->unsent || event_add(ring->event, NULL) != 0) {
        ring_close(ring);
        return -ENOMEM;
    }
    ring->next = worker->rings;
    worker->rings = ring;
    return 0;
}

void udp_close_rings(struct worker *worker)
{
    while (worker->rings) {
        struct ring *ring = worker->rings;

        worker->rings = ring->next;
        ring_close(ring);
    }
}
