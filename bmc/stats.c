/* SPDX-License-Identifier: BSD-3-Clause */
#include "bmc/stats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

enum { BACKLOG = 16, WAIT_S = 5 };

/* The name begins with a 0 byte: it is none of a file. */
static socklen_t name_socket(struct sockaddr_un *out, uint16_t port)
{
    int n;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "memcachedsr-bmc-%u", port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int stats_listen(uint16_t port)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name;
    socklen_t n = name_socket(&name, port);
    int rc;

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&name, n) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    rc = -errno;
    close(fd);
    return rc;
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
        /* It fits into the socket's buffer; who does not read it harms nobody. */
        if (fclose(out) == 0 && send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            log_at(1, "bmc: statistics: %s", strerror(errno));
    }
    free(text);
}

void stats_serve(int listener, struct kcache *kcache)
{
    int i, fd;

    /* Not for ever, whoever comes: there is more to do. */
    for (i = 0; i < BACKLOG && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++) {
        answer(fd, kcache);
        close(fd);
    }
}

int stats_show(uint16_t port)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = WAIT_S};
    struct sockaddr_un name;
    socklen_t nname = name_socket(&name, port);
    char buffer[4096];
    size_t total = 0;
    ssize_t n;

    if (fd < 0 || connect(fd, (struct sockaddr *)&name, nname) != 0) {
        fprintf(stderr,
                "bmc: none runs for port %u in this network namespace (bmc stats --port N)\n",
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
    fprintf(stderr, "bmc: the one that runs for port %u does not answer\n", port);
    return EXIT_FAILURE;
}
