/* SPDX-License-Identifier: BSD-3-Clause */
#include "bmc/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/runfolder.h"

enum { BACKLOG = 16, WAIT_S = 5 };

/* Opens a socket; its name has the port and the network namespace. 0 or -errno. */
static int open_socket(struct sockaddr_un *name, uint16_t port, int flags, int *out)
{
    uint64_t netns = 0;
    socklen_t n = sizeof(netns);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (fd < 0)
        return -errno;
    getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &netns, &n);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(name->sun_path, sizeof(name->sun_path), STATS_FOLDER "/%u-%" PRIu64, port, netns);
    *out = fd;
    return 0;
}

static int listen_at(int fd, const struct sockaddr_un *name)
{
    /* The statistics are not secret: any user may read them. */
    return bind(fd, (const struct sockaddr *)name, sizeof(*name)) || chmod(name->sun_path, 0666) ||
                   listen(fd, BACKLOG)
               ? -errno
               : 0;
}

int stats_listen(uint16_t port)
{
    int lock = runfolder_enter(STATS_FOLDER), fd = -1, rc;
    struct sockaddr_un name;

    if (lock < 0)
        return lock;
    rc = open_socket(&name, port, SOCK_NONBLOCK, &fd);
    if (!rc)
        rc = listen_at(fd, &name);
    close(lock);
    if (rc && fd >= 0)
        close(fd);
    return rc ? rc : fd;
}

static void add_row(void *out, const char *name, const char *value)
{
    fprintf(out, "STAT %s %s\n", name, value);
}

static void answer(int fd, struct kcache *kcache)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    if (out) {
        kcache_report(kcache, add_row, out);
        /* The text fits the socket's buffer; a client that does not read it blocks nothing. */
        if (fclose(out) == 0 && send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            log_at(1, "bmc: statistics: %s", strerror(errno));
    }
    free(text);
}

void stats_serve(int listener, struct kcache *kcache)
{
    int i, fd;

    /* Bounded, so that clients cannot keep the main loop here. */
    for (i = 0; i < BACKLOG && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++) {
        answer(fd, kcache);
        close(fd);
    }
}

int stats_show(uint16_t port)
{
    const struct timeval patience = {.tv_sec = WAIT_S};
    struct sockaddr_un name;
    char buffer[4096];
    size_t total = 0;
    int fd = -1;
    ssize_t n;

    if (open_socket(&name, port, 0, &fd) ||
        connect(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
        log_write("bmc: no bmc runs for port %u in this network namespace (bmc stats --port N)",
                  port);
        if (fd >= 0)
            close(fd);
        return EXIT_FAILURE;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    while ((n = read(fd, buffer, sizeof(buffer))) > 0)
        total += fwrite(buffer, 1, (size_t)n, stdout);
    close(fd);
    if (total)
        return EXIT_SUCCESS;
    log_write("bmc: the bmc for port %u does not answer", port);
    return EXIT_FAILURE;
}
