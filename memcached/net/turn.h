/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turn: how long a turn of a connection or a UDP socket has lasted. 20 requests take 5 us or, if
 * they ask for statistics, 1 ms. To read the clock takes a tenth of a small request. So it is read
 * only after so many bytes of requests and replies, and after each request for something else than
 * items.
 */
#ifndef NET_TURN_H
#define NET_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/proto.h"

struct turn_time {
    size_t nbytes;   /* since the last look */
    uint64_t end_ns; /* 0: not known yet */
};

enum { TURN_NS = 100000, LOOK_BYTES = 8 * 1024 };

static inline void turn_requests(struct turn_time *time, enum verb verb, size_t nbytes)
{
    time->nbytes += proto_names_items(verb) ? nbytes : LOOK_BYTES;
}

/*
 * To be called after each request, with the bytes of its reply. Whether the turn is over: TURN_NS
 * after the first look.
 */
static inline bool turn_is_long(struct turn_time *time, size_t nreply, uint64_t clock_ns(void))
{
    uint64_t now;

    time->nbytes += nreply;
    if (time->nbytes < LOOK_BYTES)
        return false;
    time->nbytes = 0;
    now = clock_ns();
    if (time->end_ns == 0)
        time->end_ns = now + TURN_NS;
    return now >= time->end_ns;
}

#endif
