/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/kept.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"

enum { FIRST_FD = 3, MOST_FDS = 4096 };

struct place {
    char name[NOTIFY_NAME + 1]; /* empty: taken, or another's */
    int fd;
};

struct kept {
    struct notify *notify;
    bool forgot; /* since the last kept_settle */
    size_t n;
    struct place places[];
};

/* How many descriptors the environment says were handed over, to this process. */
static size_t count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    unsigned long n = fds ? strtoul(fds, NULL, 10) : 0;

    if (!pid || strtoul(pid, NULL, 10) != (unsigned long)getpid() || n > MOST_FDS)
        return 0;
    return n;
}

/* A program that this one runs would take them for its own. */
static void clear_environment(void)
{
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

/* A count that is too high names descriptors that the server has opened itself since. */
static bool is_served(int fd)
{
    int domain = AF_UNSPEC, listens = 0;
    socklen_t n = sizeof(domain);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) != 0)
        return false;
    return listens || domain == AF_INET || domain == AF_INET6;
}

/* Notes the next of the names, which colons separate. */
static const char *note_name(struct place *place, int fd, const char *names)
{
    size_t len = strcspn(names, ":");

    place->fd = fd;
    if (len < sizeof(place->name) && is_served(fd) &&
        strncmp(names, KEPT_PREFIX, strlen(KEPT_PREFIX)) == 0) {
        memcpy(place->name, names, len);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return names + len + (names[len] == ':');
}

struct kept *kept_open(struct notify *notify)
{
    size_t n = notify_has_store(notify) ? count() : 0;
    const char *names = getenv("LISTEN_FDNAMES");
    struct kept *kept;

    if (!notify_has_store(notify))
        return NULL;
    kept = calloc(1, sizeof(*kept) + n * sizeof(kept->places[0]));
    if (!kept)
        return NULL;
    kept->notify = notify;
    kept->n = names ? n : 0;
    for (size_t i = 0; i < kept->n; i++)
        names = note_name(&kept->places[i], FIRST_FD + (int)i, names);
    clear_environment();
    return kept;
}

int kept_take(struct kept *kept, const char *name)
{
    for (size_t i = 0; kept && i < kept->n; i++) {
        if (strcmp(kept->places[i].name, name) == 0) {
            kept->places[i].name[0] = '\0';
            return kept->places[i].fd;
        }
    }
    return -1;
}

void kept_store(struct kept *kept, const char *name, int fd)
{
    int error = kept ? notify_keep(kept->notify, name, fd) : 0;

    if (error)
        log_write("the service manager cannot keep %s: %s", name, strerror(-error));
}

void kept_forget(struct kept *kept, const char *name)
{
    if (!kept)
        return;
    notify_forget(kept->notify, name);
    kept->forgot = true;
}

void kept_forget_rest(struct kept *kept)
{
    for (size_t i = 0; kept && i < kept->n; i++) {
        struct place *place = &kept->places[i];

        if (!place->name[0])
            continue;
        close(place->fd);
        kept_forget(kept, place->name);
        place->name[0] = '\0';
    }
}

bool kept_settle(struct kept *kept)
{
    if (!kept || !kept->forgot)
        return false;
    kept->forgot = false;
    return notify_settle(kept->notify);
}

void kept_close(struct kept *kept)
{
    for (size_t i = 0; kept && i < kept->n; i++)
        if (kept->places[i].name[0])
            close(kept->places[i].fd);
    free(kept);
}
