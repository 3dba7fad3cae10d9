/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker: a thread with an event loop, the connections that it was handed and its UDP sockets. What
 * conn and udp share with it is in this header; nothing of it is touched by another thread but the
 * queue and the counters.
 */
#ifndef NET_WORKER_H
#define NET_WORKER_H

#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/endpoint.h"
#include "net/listen.h"
#include "net/net.h"
#include "proto/proto.h"

struct command_local;
struct conn;
struct tls_local;
struct udp;

/* Bytes that were received and not yet executed: [start, end) of size. */
struct input {
    char *ptr;
    size_t start, end, size;
    size_t searched; /* from start on there is no newline in so many bytes */
};

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
    const uint32_t *watched; /* of local: enum command_watch */
    struct input input;      /* borrowed by the connection that is being served */
    struct reply reply;      /* the same */
    struct conn *conns;
    struct udp *udp; /* the list of its UDP sockets */
    struct worker_counts counts;
    unsigned int turns;        /* of connections served, see worker_turn */
    unsigned int nreactivated; /* of worker_reactivate */
    struct tls_local *tls;     /* NULL: off */

    pthread_t thread;
    bool running;
    struct event *wake, *idle;
    int wake_fd;
    pthread_mutex_t lock;        /* of what follows */
    struct stream_socket *queue; /* accepted sockets that wait for the worker */
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

/*
 * A connection's turn begins. A worker whose clients answer faster than it gets through them never
 * sleeps, and so keeps the CPU from another worker on it until the scheduler's tick, 4 ms later:
 * every TURNS_BEFORE_YIELD turns it lets others go first.
 */
static inline void worker_turn(struct worker *worker)
{
    enum { TURNS_BEFORE_YIELD = 32 };

    if (++worker->turns % TURNS_BEFORE_YIELD == 0)
        sched_yield();
}

/*
 * The event happens again without its socket: a connection yields. libevent serves all that is
 * active, and what becomes so meanwhile, before it asks the kernel for more: clients that are ahead
 * of their worker would keep it from all others. So every REACTIVATIONS times it asks.
 */
static inline void worker_reactivate(struct worker *worker, struct event *event, short what)
{
    enum { REACTIVATIONS = 16 };

    event_active(event, what, 0);
    if (++worker->nreactivated % REACTIVATIONS == 0)
        event_base_loopcontinue(worker->base);
}

/* NULL with errno. */
struct worker *worker_new(const struct net_config *config, struct endpoints *endpoints,
                          unsigned int index);
/* The worker serves the UDP socket from its start on and closes it. 0 or -errno. */
int worker_add_udp(struct worker *worker, int fd);
/* pin: to the CPUs whose number modulo the number of workers is its index. 0 or -errno. */
int worker_start(struct worker *worker, struct command_local *local, bool pin);
/* Lets the worker look at its queues. Under the lock. */
void worker_wake(struct worker *worker);
/* Whether the worker has heard the last question, and the next one. From one thread. */
bool worker_ping(struct worker *worker);
/* Hands over an accepted socket. False: no memory, the caller keeps it. */
bool worker_enqueue(struct worker *worker, struct stream_socket socket);
/* Ends the thread and closes what it served. NULL is legal. */
void worker_free(struct worker *worker);

#endif
