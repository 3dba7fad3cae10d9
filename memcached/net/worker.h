/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker: a thread with an event loop, its connections and its UDP sockets. This header holds what
 * conn and udp share with it. Other threads touch only the queue and the counters.
 */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/endpoint.h"
#include "net/input.h"
#include "net/listen.h"
#include "net/net.h"
#include "net/turn.h"
#include "proto/proto.h"

struct command_local;
struct conn;
struct leaving;
struct ring;
struct tls_local;
struct udp;

/* Written by the worker only; others read them without order. */
struct worker_counts {
    uint64_t bytes_read, bytes_written, conn_yields, idle_kicks;
};

struct worker {
    const struct net_config *config;
    struct endpoints *endpoints;
    unsigned int index;
    struct event_base *base;
    struct command_local *local;
    const uint32_t *watched;  /* enum command_watch, of local */
    struct input input;       /* borrowed by the connection that is being served */
    struct input_memory kept; /* by its connections beside it */
    struct reply reply;       /* borrowed as well */
    struct conn *conns;
    struct leaving *leaving;
    struct udp *udp; /* the list of its UDP sockets */
    struct ring *rings;
    struct worker_counts counts;
    unsigned int turns;        /* of connections served, see worker_turn */
    long nsleeps;              /* of its thread, when it was last judged */
    bool busy;                 /* it hardly sleeps, and there are other workers */
    unsigned int nreactivated; /* of worker_reactivate, since it last made the worker poll, */
    uint64_t poll_ns;          /* and when it does so again */
    struct tls_local *tls;     /* NULL: off */

    pthread_t thread;
    bool running;
    struct event *wake, *look;
    uint32_t nlooks; /* times that `look` came, */
    uint32_t epoch;  /* and of which epoch of the boundaries all connections are undone */
    bool ends;       /* the process ends: see close_socket in conn.c */
    int wake_fd, look_fd;
    pthread_mutex_t lock;        /* of what follows */
    struct stream_socket *queue; /* accepted sockets, until the worker serves them */
    size_t nqueue, queue_size;
    struct conn *ready; /* connections whose values have been read */
    uint32_t npings, npongs;
    pthread_cond_t read;
    bool stop;
};

static inline void count_add(uint64_t *count, uint64_t n)
{
    __atomic_store_n(count, *count + n, __ATOMIC_RELAXED);
}

enum { TURNS_BEFORE_YIELD = 8, TURNS_JUDGED = 256 };

/* Decides by the last TURNS_JUDGED turns whether the worker is busy: see worker_turn. */
void worker_judge(struct worker *worker);

/*
 * To be called when a connection's turn begins. A worker whose clients answer faster than it serves
 * them hardly sleeps, and so keeps the CPU from another worker on it until the scheduler's tick, 4
 * ms later: such a busy worker calls sched_yield every TURNS_BEFORE_YIELD turns. One that sleeps
 * every few turns gives the CPU away by that. It must not yield too: the scheduler would take the
 * rest of its slice, and when its next client comes let it wait for other computing threads. More
 * clients have come by then, so that it has more turns between its sleeps: if it counted as busy
 * from two on it would stay so, far below what it can serve.
 */
static inline void worker_turn(struct worker *worker)
{
    if (++worker->turns % TURNS_JUDGED == 0)
        worker_judge(worker);
    if (worker->busy && worker->turns % TURNS_BEFORE_YIELD == 0)
        sched_yield();
}

enum { POLL_NS = 3 * TURN_NS };

/*
 * Whether it is time to poll: after so many reactivations, or POLL_NS after one that was due to
 * time. now_ns: 0 outside that window.
 */
static inline bool worker_polls(struct worker *worker, uint64_t now_ns)
{
    enum { REACTIVATIONS = 16 };

    if (++worker->nreactivated < REACTIVATIONS && (!now_ns || now_ns < worker->poll_ns))
        return false;
    worker->nreactivated = 0;
    if (now_ns)
        worker->poll_ns = now_ns + POLL_NS;
    return true;
}

/*
 * Makes the event active again without its socket: a connection yields. libevent runs all active
 * events, and those that become active meanwhile, before it polls the kernel again: clients that
 * are ahead of their worker would starve all others. late: the turn may have lasted long.
 */
static inline void worker_reactivate(struct worker *worker, struct event *event, short what,
                                     bool late)
{
    event_active(event, what, 0);
    if (worker_polls(worker, late ? clock_exact_ns() : 0))
        event_base_loopcontinue(worker->base);
}

/* NULL with errno. */
struct worker *worker_new(const struct net_config *config, struct endpoints *endpoints,
                          unsigned int index);
/* The worker owns the UDP socket and serves it from its start on. 0 or -errno. */
int worker_add_udp(struct worker *worker, int fd);
/* pin: to the CPUs whose number modulo the number of workers is the worker's index. 0 or -errno. */
int worker_start(struct worker *worker, struct command_local *local, bool pin);
/* Wakes the worker to check its queues. Under the lock. */
void worker_wake(struct worker *worker);
/* Whether the worker has answered the previous ping; sends the next one. From one thread. */
bool worker_ping(struct worker *worker);
/* Hands over an accepted socket. False: no memory, the caller keeps it. */
bool worker_enqueue(struct worker *worker, struct stream_socket socket);
/* Ends the thread, if it runs. NULL is legal. */
void worker_stop(struct worker *worker);
/* Ends the thread and closes what it served. NULL is legal. */
void worker_free(struct worker *worker);

#endif
