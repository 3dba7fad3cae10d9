/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sending: whether replies of native XDP leave their interface. A driver may take the program and
 * later lose every frame that it sends: a veth, once its other end has no XDP program any more. The
 * programs do not learn of it; the driver's counts tell.
 *
 * One thread at a time. Times are seconds of CLOCK_MONOTONIC.
 */
#ifndef IFACE_SENDING_H
#define IFACE_SENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "iface/attach.h"
#include "iface/driver.h"
#include "iface/hostnet.h"

enum sending_verdict {
    SENDING_FINE,
    SENDING_MIXED, /* some were lost, perhaps the last ones: look again soon */
    SENDING_LOST,  /* all were lost: on a veth at least one, elsewhere SENDING_LEAST */
};

/* A queue that was full may lose a reply or two of a driver that works. */
enum { SENDING_LEAST = 4 };

/* What there is to see of an interface, and of the ports of a bond together. */
struct sending_view {
    struct driver_counts counts;
    bool is_deaf; /* a veth whose other end has no program: what it counts as sent may wait there */
    bool redirects; /* a bond: what comes by one port may leave by another, which counts nothing */
};

struct sending {
    bool known;        /* these are: */
    uint64_t answered; /* by XDP, on all interfaces */
    struct driver_counts counts;
    uint64_t nlost;      /* that the last look has found, */
    uint64_t nsince;     /* and so many since one was sent last */
    time_t tried, again; /* when native XDP was, and may next be tried again */
    unsigned int wait_s; /* the last wait; 0: it never failed */
};

/*
 * Compares with the last look. answered: by XDP since the start, on all interfaces; of a driver
 * that does not count the frames that left, that is how many there were. Pure.
 */
enum sending_verdict sending_judge(struct sending *sending, uint64_t answered,
                                   const struct sending_view *view);
/*
 * Looks and judges. Reads nothing while this server, with no other on the interface, has answered
 * nothing. The first look finds nothing.
 */
enum sending_verdict sending_look(struct sending *sending, const struct hostnet *hostnet,
                                  const struct attachment *at, uint64_t answered);
/*
 * Native XDP was detached since all was lost: sets when to try it again. Each failure soon after
 * the one before doubles the wait. Pure.
 */
void sending_fail(struct sending *sending, time_t now);
/*
 * Whether to try native XDP again: on a veth, if its other end has a program; elsewhere only after
 * a longer wait, because to try costs replies.
 */
bool sending_again(struct sending *sending, const struct hostnet *hostnet,
                   const struct attachment *at, time_t now);

#endif
