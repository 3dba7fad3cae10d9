/* SPDX-License-Identifier: BSD-3-Clause */
#include "kmem/listeners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/load/load.h"

/* With the lock. 0 or -errno: those that have the filter keep it. */
static int filter(struct listeners *listeners)
{
    size_t i;
    int rc = 0;

    if (listeners->filtered)
        return 0;
    for (i = 0; !rc && i < listeners->n; i++)
        rc = loader_tcp_listener(listeners->loader, listeners->sockets[i], true);
    listeners->filtered = !rc;
    return rc;
}

static void clear(struct listeners *listeners)
{
    size_t i;

    for (i = 0; i < listeners->n; i++)
        loader_tcp_listener(listeners->loader, listeners->sockets[i], false);
    listeners->filtered = false;
}

int listeners_init(struct listeners *listeners, const struct loader *loader, const int *sockets,
                   size_t n)
{
    int rc;

    *listeners = (struct listeners){.loader = loader, .n = n};
    listeners->sockets = calloc(n + 1, sizeof(*sockets));
    if (!listeners->sockets)
        return -ENOMEM;
    memcpy(listeners->sockets, sockets, n * sizeof(*sockets));
    pthread_mutex_init(&listeners->lock, NULL);
    rc = filter(listeners);
    clear(listeners);
    return rc;
}

void listeners_fini(struct listeners *listeners)
{
    if (!listeners->sockets)
        return;
    pthread_mutex_destroy(&listeners->lock);
    free(listeners->sockets);
}

int listeners_begin(struct listeners *listeners)
{
    int rc;

    pthread_mutex_lock(&listeners->lock);
    rc = filter(listeners);
    listeners->nswaps += !rc;
    pthread_mutex_unlock(&listeners->lock);
    return rc;
}

void listeners_end(struct listeners *listeners, int64_t now)
{
    pthread_mutex_lock(&listeners->lock);
    listeners->nswaps--;
    listeners->last = now;
    pthread_mutex_unlock(&listeners->lock);
}

void listeners_rest(struct listeners *listeners, int64_t now)
{
    if (!listeners->sockets)
        return;
    pthread_mutex_lock(&listeners->lock);
    if (listeners->filtered && !listeners->nswaps && now - listeners->last > LISTENERS_CALM)
        clear(listeners);
    pthread_mutex_unlock(&listeners->lock);
}

void listeners_leave(struct listeners *listeners)
{
    if (!listeners->sockets)
        return;
    pthread_mutex_lock(&listeners->lock);
    filter(listeners);
    listeners->filtered = true;
    listeners->n = 0;
    pthread_mutex_unlock(&listeners->lock);
}
