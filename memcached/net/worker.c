/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/worker.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "command/command.h"
#include "net/boundary.h"
#include "net/conn.h"
#include "net/leaving.h"
#include "net/tls.h"
#include "net/udp.h"

enum {
    INPUT_BYTES = 16 * 1024,
    FIRST_QUEUE = 16,
    CACHE_LINE = 64,
    IDLE_MS = 1000, /* how often connections are looked at, where the kernel answers on none */
    FEW_SLEEPS = TURNS_JUDGED / 8, /* a busy worker has fewer */
};

/* Its time has come, or worker_reactivate. */
static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct worker *worker = arg;
    uint64_t count;

    if (what & EV_READ && read(fd, &count, sizeof(count)) < 0)
        return;
    conn_check(worker, clock_now(&worker->config->clock));
}

/* A socket was queued, values were read, a ping came, or the worker is to stop. */
static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct worker *worker = arg;
    uint64_t count;
    struct conn *ready;
    size_t n;
    struct stream_socket *queue;
    bool stop;

    (void)what;
    if (read(fd, &count, sizeof(count)) < 0)
        return;
    pthread_mutex_lock(&worker->lock);
    n = worker->nqueue;
    queue = worker->queue;
    stop = worker->stop;
    ready = worker->ready;
    worker->npongs = worker->npings;
    worker->ready = NULL;
    worker->queue = NULL;
    worker->nqueue = worker->queue_size = 0;
    pthread_mutex_unlock(&worker->lock);
    for (size_t i = 0; i < n; i++)
        conn_open(worker, queue[i]);
    free(queue);
    conn_ready(ready);
    if (stop)
        event_base_loopbreak(worker->base);
}

void worker_wake(struct worker *worker)
{
    const uint64_t one = 1;

    if (write(worker->wake_fd, &one, sizeof(one)) < 0)
        log_write("cannot wake worker %u", worker->index);
}

void worker_judge(struct worker *worker)
{
    struct rusage usage;

    if (worker->config->nthreads == 1 || getrusage(RUSAGE_THREAD, &usage) != 0)
        return;
    worker->busy = usage.ru_nvcsw - worker->nsleeps < FEW_SLEEPS;
    worker->nsleeps = usage.ru_nvcsw;
}

bool worker_ping(struct worker *worker)
{
    bool heard;

    pthread_mutex_lock(&worker->lock);
    heard = worker->npongs == worker->npings;
    worker->npings += heard;
    pthread_mutex_unlock(&worker->lock);
    if (heard)
        worker_wake(worker);
    return heard;
}

/*
 * Has the worker look at its connections. An event with a timeout would arm a timer, and ask for
 * the time, at each wait for the next request: 3 % of what a set costs.
 */
static bool make_looks(struct worker *worker)
{
    const long ms = worker->config->boundaries ? BOUNDARY_LOOK_MS : IDLE_MS;
    const struct timespec period = {ms / 1000, ms % 1000 * 1000000};

    worker->look_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (worker->look_fd < 0 ||
        timerfd_settime(worker->look_fd, 0, &(struct itimerspec){period, period}, NULL) != 0)
        return false;
    worker->look = event_new(worker->base, worker->look_fd, EV_READ | EV_PERSIST, on_look, worker);
    return worker->look && event_add(worker->look, NULL) == 0;
}

static bool make_events(struct worker *worker)
{
    worker->base = event_base_new();
    if (!worker->base)
        return false;
    worker->wake = event_new(worker->base, worker->wake_fd, EV_READ | EV_PERSIST, on_wake, worker);
    if (!worker->wake || event_add(worker->wake, NULL) != 0)
        return false;
    return (worker->config->idle_timeout == 0 && !worker->config->boundaries) || make_looks(worker);
}

struct worker *worker_new(const struct net_config *config, struct endpoints *endpoints,
                          unsigned int index)
{
    void *memory;
    struct worker *worker;

    errno = posix_memalign(&memory, CACHE_LINE, sizeof(*worker));
    if (errno != 0)
        return NULL;
    worker = memory;
    *worker =
        (struct worker){.config = config, .endpoints = endpoints, .index = index, .look_fd = -1};
    worker->kept.limit = config->read_buf_limit / config->nthreads;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->read, NULL);
    reply_init(&worker->reply);
    worker->input.size = INPUT_BYTES;
    worker->input.ptr = malloc(INPUT_BYTES);
    worker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    worker->tls = config->tls ? tls_local_new(config->tls) : NULL;
    if (!worker->input.ptr || worker->wake_fd < 0 || !worker->tls != !config->tls ||
        !make_events(worker)) {
        int error = errno ? errno : ENOMEM;

        worker_free(worker);
        errno = error;
        return NULL;
    }
    return worker;
}

int worker_add_udp(struct worker *worker, int fd)
{
    struct udp *udp = udp_open(worker, fd);

    return udp ? 0 : -ENOMEM;
}

static void *run(void *arg)
{
    struct worker *worker = arg;

    event_base_loop(worker->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

/* Pins to the CPUs whose packets the steering program sends to this worker's sockets. */
static void pin_to_cpus(const struct worker *worker, pthread_attr_t *attributes)
{
    cpu_set_t allowed, mine;

    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return;
    for (unsigned int cpu = worker->index; cpu < CPU_SETSIZE; cpu += worker->config->nthreads)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &mine);
    if (CPU_COUNT(&mine) > 0)
        pthread_attr_setaffinity_np(attributes, sizeof(mine), &mine);
}

int worker_start(struct worker *worker, struct command_local *local, bool pin)
{
    pthread_attr_t attributes;
    int error;

    worker->local = local;
    worker->watched = command_watched(local);
    udp_begin(worker);
    pthread_attr_init(&attributes);
    if (pin)
        pin_to_cpus(worker, &attributes);
    error = pthread_create(&worker->thread, &attributes, run, worker);
    pthread_attr_destroy(&attributes);
    worker->running = error == 0;
    return -error;
}

bool worker_enqueue(struct worker *worker, struct stream_socket socket)
{
    bool room;

    pthread_mutex_lock(&worker->lock);
    room = worker->nqueue < worker->queue_size;
    if (!room) {
        size_t size = worker->queue_size ? worker->queue_size * 2 : FIRST_QUEUE;
        struct stream_socket *queue = reallocarray(worker->queue, size, sizeof(*queue));

        if (queue) {
            worker->queue = queue;
            worker->queue_size = size;
            room = true;
        }
    }
    if (room)
        worker->queue[worker->nqueue++] = socket;
    pthread_mutex_unlock(&worker->lock);
    if (room)
        worker_wake(worker);
    return room;
}

void worker_stop(struct worker *worker)
{
    if (!worker || !worker->running)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->stop = true;
    pthread_mutex_unlock(&worker->lock);
    worker_wake(worker);
    pthread_join(worker->thread, NULL);
    worker->running = false;
}

void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    worker_stop(worker);
    worker->ends = true;
    while (worker->conns)
        conn_close(worker->conns);
    leaving_end_all(worker);
    udp_close_rings(worker);
    while (worker->udp)
        udp_close(worker->udp);
    for (size_t i = 0; i < worker->nqueue; i++)
        close(worker->queue[i].fd);
    free(worker->queue);
    if (worker->look)
        event_free(worker->look);
    if (worker->wake)
        event_free(worker->wake);
    if (worker->base)
        event_base_free(worker->base);
    if (worker->wake_fd >= 0)
        close(worker->wake_fd);
    if (worker->look_fd >= 0)
        close(worker->look_fd);
    tls_local_free(worker->tls);
    if (worker->local)
        command_local_free(worker->local);
    reply_fini(&worker->reply);
    free(worker->input.ptr);
    pthread_cond_destroy(&worker->read);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
