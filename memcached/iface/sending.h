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

#include "iface/driver.h"
#include "iface/hostnet.h"
#include "iface/iface.h"

struct attachment;

/* Whether replies of native XDP leave an interface, as seen while it was attached. */
enum sending_state {
    SENDING_UNKNOWN,
    SENDING_NOT,   /* all were lost: no native XDP */
    SENDING_WORKS, /* they would leave again, whatever is known of the other end of a veth */
};

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
    enum sending_state state;
    bool stays;        /* SENDING_NOT in libxdp's dispatcher, which only a start can join */
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
 * Native XDP was detached since all was lost: sets when to try it again. Each failure soon after
 * the one before doubles the wait. Pure.
 */
void sending_fail(struct sending *sending, time_t now);
/*
 * Whether to try native XDP again: on a veth, if its other end has a program; elsewhere only after
 * a longer wait, because to try costs replies.
 */
bool sending_again(struct attachment *at, const struct hostnet *hostnet, time_t now);

/* What is the same on all interfaces. */
struct sending_host {
    const struct hostnet *hostnet;
    enum iface_mode mode;
    bool is_chain;
    uint64_t answered; /* by XDP, since the start */
};

/* XDP was attached: what was lost before does not count. */
void sending_begin(struct attachment *at, const struct sending_host *host);
/* Whether the server waits until native XDP works, because nothing else is wanted, or works. */
bool sending_waits(const struct attachment *at, const struct sending_host *host);

enum sending_step {
    SENDING_STAY,
    SENDING_LOOK,    /* again soon */
    SENDING_GIVE_UP, /* every reply was lost: attach without native XDP */
    SENDING_RETURN,  /* attach native XDP again */
};

/*
 * Looks, logs what it finds, and says what to do. is_here: the interface exists and its programs
 * were not given up. Reads nothing while this server, with no other on the interface, has answered
 * nothing.
 */
enum sending_step sending_check(struct attachment *at, const struct sending_host *host,
                                bool is_here, time_t now);

#endif
