/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/passfd.h"

enum {
    STATUS_TEXT = 1024,
    MESSAGE_TEXT = STATUS_TEXT + 64,
    WATCHDOG_MIN_US = 2000000, /* notify_alive comes every second */
    SETTLE_MS = 5000,
};

struct notify {
    int fd;
    bool watchdog, store;
    char status[STATUS_TEXT]; /* the last that was sent */
};

/* 0 or -errno. A name that begins with @ is one of the abstract namespace. */
static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    int fd, error;

    if ((name[0] != '/' && name[0] != '@') || len < 2)
        return -EAFNOSUPPORT;
    if (len >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    len += offsetof(struct sockaddr_un, sun_path);
    if (connect(fd, (struct sockaddr *)&address, (socklen_t)len) == 0)
        return fd;
    error = -errno;
    close(fd);
    return error;
}

/* Whether WATCHDOG_USEC is set, for this process. */
static bool is_watched(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    unsigned long long us = text ? strtoull(text, NULL, 10) : 0;

    if (us == 0 || (pid && strtoull(pid, NULL, 10) != (unsigned long long)getpid()))
        return false;
    if (us < WATCHDOG_MIN_US)
        log_write("warning: WATCHDOG_USEC=%llu: the server reports every second, so the service "
                  "manager may end it at any time (in a unit: WatchdogSec=2 or more)",
                  us);
    return true;
}

struct notify *notify_open(void)
{
    const char *name = getenv("NOTIFY_SOCKET"), *store = getenv("FDSTORE");
    struct notify *notify;
    int fd;

    if (!name || !name[0])
        return NULL;
    fd = connect_to(name);
    notify = fd < 0 ? NULL : calloc(1, sizeof(*notify));
    if (!notify) {
        log_write("cannot tell the service manager anything: NOTIFY_SOCKET=%s: %s", name,
                  strerror(fd < 0 ? -fd : ENOMEM));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    notify->fd = fd;
    notify->watchdog = is_watched();
    notify->store = store && strtoul(store, NULL, 10) > 0;
    return notify;
}

bool notify_has_watchdog(const struct notify *notify)
{
    return notify && notify->watchdog;
}

/* flags: of send(2). Whether it was sent. */
__attribute__((format(printf, 3, 4))) static bool tell(const struct notify *notify, int flags,
                                                       const char *format, ...)
{
    char message[MESSAGE_TEXT];
    va_list arguments;
    int len;

    va_start(arguments, format);
    len = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (len <= 0 || (size_t)len >= sizeof(message))
        return false;
    return send(notify->fd, message, (size_t)len, flags | MSG_NOSIGNAL) == len;
}

/* Without this message the manager would end the server later: it waits until it can be sent. */
void notify_ready(struct notify *notify, const char *status)
{
    if (!notify)
        return;
    snprintf(notify->status, sizeof(notify->status), "%s", status);
    if (!tell(notify, 0, "READY=1\nMAINPID=%ld\nSTATUS=%s\n", (long)getpid(), notify->status))
        log_write("cannot tell the service manager READY: %s", strerror(errno));
}

void notify_status(struct notify *notify, const char *status)
{
    if (!notify || strncmp(notify->status, status, sizeof(notify->status) - 1) == 0)
        return;
    if (tell(notify, MSG_DONTWAIT, "STATUS=%.*s\n", STATUS_TEXT - 1, status))
        snprintf(notify->status, sizeof(notify->status), "%s", status);
}

void notify_alive(struct notify *notify)
{
    if (notify_has_watchdog(notify))
        tell(notify, MSG_DONTWAIT, "WATCHDOG=1\n");
}

void notify_stopping(struct notify *notify)
{
    if (notify)
        tell(notify, MSG_DONTWAIT, "STOPPING=1\nSTATUS=ending\n");
}

bool notify_has_store(const struct notify *notify)
{
    return notify && notify->store;
}

/* FDPOLL=0: the manager would drop a socket that reports an error. */
int notify_keep(struct notify *notify, const char *name, int fd)
{
    char text[NOTIFY_NAME + 64];

    snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%.*s\nFDPOLL=0\n", NOTIFY_NAME, name);
    return passfd_send(notify->fd, text, strlen(text), fd, 0);
}

void notify_forget(struct notify *notify, const char *name)
{
    tell(notify, 0, "FDSTOREREMOVE=1\nFDNAME=%.*s\n", NOTIFY_NAME, name);
}

bool notify_settle(struct notify *notify)
{
    static const char barrier[] = "BARRIER=1";
    struct pollfd end = {.events = POLLHUP};
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    error = passfd_send(notify->fd, barrier, strlen(barrier), ends[1], 0);
    close(ends[1]);
    end.fd = ends[0];
    while (error == 0 && poll(&end, 1, SETTLE_MS) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    return error == 0 && (end.revents & POLLHUP);
}

void notify_close(struct notify *notify)
{
    if (!notify)
        return;
    close(notify->fd);
    free(notify);
}
