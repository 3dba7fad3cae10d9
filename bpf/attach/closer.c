/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/attach/closer.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { END = -1 };

struct closer {
    int in, out; /* a pipe of numbers of descriptors, END behind the last */
    unsigned int pending;
    bool runs;
};

static void *run(void *context)
{
    struct closer *closer = context;
    int fd;

    if (closer->runs)
        prctl(PR_SET_NAME, "closer");
    while (read(closer->out, &fd, sizeof(fd)) == sizeof(fd) && fd != END) {
        close(fd);
        __atomic_fetch_sub(&closer->pending, 1, __ATOMIC_RELAXED);
    }
    close(closer->in);
    close(closer->out);
    free(closer);
    return NULL;
}

struct closer *closer_new(void)
{
    struct closer *closer = calloc(1, sizeof(*closer));
    int ends[2];

    if (!closer || pipe2(ends, O_CLOEXEC)) {
        free(closer);
        return NULL;
    }
    *closer = (struct closer){.in = ends[1], .out = ends[0]};
    return closer;
}

void closer_start(struct closer *closer)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    closer->runs = true;
    if (pthread_create(&thread, NULL, run, closer) == 0)
        pthread_detach(thread);
    else
        closer->runs = false;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void closer_take(struct closer *closer, int fd)
{
    __atomic_fetch_add(&closer->pending, 1, __ATOMIC_RELAXED);
    if (write(closer->in, &fd, sizeof(fd)) == sizeof(fd))
        return;
    __atomic_fetch_sub(&closer->pending, 1, __ATOMIC_RELAXED);
    close(fd);
}

unsigned int closer_pending(const struct closer *closer)
{
    return __atomic_load_n(&closer->pending, __ATOMIC_RELAXED);
}

void closer_stop(struct closer *closer)
{
    const int end = END;
    bool runs;

    if (!closer)
        return;
    runs = closer->runs; /* the thread frees it when it has read the end */
    if (write(closer->in, &end, sizeof(end)) == sizeof(end) && !runs)
        run(closer);
}
