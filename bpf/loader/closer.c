/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/loader/closer.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct closer {
    int in, out; /* a pipe of numbers of descriptors */
    unsigned int pending;
};

static void *run(void *context)
{
    struct closer *closer = context;
    int fd;

    while (read(closer->out, &fd, sizeof(fd)) == sizeof(fd)) {
        close(fd);
        __atomic_fetch_sub(&closer->pending, 1, __ATOMIC_RELAXED);
    }
    close(closer->out);
    free(closer);
    return NULL;
}

struct closer *closer_start(void)
{
    struct closer *closer = calloc(1, sizeof(*closer));
    sigset_t all, before;
    pthread_t thread;
    int ends[2], rc;

    if (!closer || pipe2(ends, O_CLOEXEC)) {
        free(closer);
        return NULL;
    }
    *closer = (struct closer){.in = ends[1], .out = ends[0]};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, run, closer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc) {
        pthread_detach(thread);
        return closer;
    }
    close(ends[0]);
    close(ends[1]);
    free(closer);
    return NULL;
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
    if (closer)
        close(closer->in);
}
