/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_internal: what net/udp.c and net/udp_ring.c share: a socket, the datagram that is being
 * answered, and what an event may do.
 */
#ifndef NET_UDP_INTERNAL_H
#define NET_UDP_INTERNAL_H

#include <event2/event.h>

#include "command/command.h"
#include "net/datagrams.h"
#include "net/frame.h"
#include "net/socket.h"
#include "net/udp.h"

enum {
    UDP_BATCH = 32,            /* received datagrams in one system call */
    UDP_SEND_PATIENCE_MS = 20, /* waits so long for a full socket; then drops the replies, as UDP
                                  may */
};

/* A datagram that is being answered. */
struct task {
    struct datagrams_way way; /* of its replies */
    struct ring *ring;        /* by which they leave as long as it has room; NULL: none */
    enum protocol protocol;
    uint16_t id;
    struct slice rest;       /* not yet executed */
    size_t next, ndatagrams; /* of the current reply: the next to send, and all */
    unsigned int nturns;
};

/* What an event may do before the worker serves others. */
struct turn {
    rel_time now;
    unsigned int nrequests; /* left */
    size_t nbytes;          /* of replies so far */
    struct turn_time time;
    bool late;      /* it lasts too long */
    bool impatient; /* the socket was full for too long */
};

struct udp {
    struct endpoint endpoint;
    struct command_client client;
    struct worker *worker;
    struct udp *next, **link;
    struct event *event;
    struct socket_name name;  /* its own */
    bool any;                 /* replies say which address they leave from */
    bool unanswerable_logged; /* the log has named a source that is not answered, */
    bool long_logged;         /* a reply that was too long */

    struct event *writable;
    bool blocked;  /* the socket is full: nothing deferred is sent until it is writable, */
    bool hopeless; /* and it was for too long: until then nothing waits for it */
    struct deferred *first, **last;
    unsigned int ndeferred;

    unsigned int at, n; /* received datagrams: the next to answer, and all */
    bool begun;         /* its task has begun */
    struct task task;
    struct mmsghdr in[UDP_BATCH];
    struct iovec in_iov[UDP_BATCH];
    struct sockaddr_storage peers[UDP_BATCH];
    struct datagrams_control in_control[UDP_BATCH];
    char *requests; /* UDP_BATCH times DATAGRAM_MAX */

    struct datagrams out;
};

/* Requests that come by a ring of AF_XDP. Each belongs to the socket that it would have come to. */
struct ring {
    struct xsk *xsk;
    struct worker *worker;
    struct ring *next;
    struct event *event;
    struct event *unsent;  /* what the interface did not take is sent a moment later, */
    unsigned int patience; /* so many times */
    bool begun;            /* the first frame's task has begun, of the socket `udp`: */
    struct udp *udp;
    struct task task;
    struct frame frame;
    struct sockaddr_storage peer;
    struct datagrams_control control;
};

/* Whether others are served before the next command. */
bool udp_turn_is_over(const struct turn *turn);
/* A turn that may execute -R requests, or as many as `rounds` batches have datagrams. */
struct turn udp_begin_turn(const struct worker *worker, unsigned int rounds);
/*
 * Sends the replies that wait. Drops what a full socket does not take in time. If it stays full,
 * the next turns do not wait for it again: that can last for seconds (replies to hosts that do not
 * answer ARP), and the worker's connections wait as well.
 */
void udp_send_batch(struct udp *udp, struct turn *turn);
/* Makes a task of a datagram. False: the caller drops the datagram. */
bool udp_begin_task(struct udp *udp, struct slice rest, const struct datagrams_way *way,
                    struct task *task);
/* Goes on with a task. False: others are served before its rest. */
bool udp_serve_task(struct udp *udp, struct task *task, struct turn *turn);
/* Lets other sockets be served first, also those whose events libevent has not polled yet. */
void udp_go_on_later(struct udp *udp);

#endif
