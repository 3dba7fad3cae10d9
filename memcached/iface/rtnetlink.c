/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/rtnetlink.h"

#include <errno.h>
#include <unistd.h>

#include "bpf/attach/netlink.h"

enum {
    MESSAGE_ROOM = 65536,
    QUEUE_BYTES = 4 << 20,
    RECEIVED_MAX = 256, /* datagrams received in one call */
    DRAINED_MAX = 1 << 16,
    DUMPS_MAX = 8, /* tries while links or addresses keep changing */
};

static int subscribe(uint32_t groups)
{
    const struct sockaddr_nl name = {.nl_family = AF_NETLINK, .nl_groups = groups};
    const int room = QUEUE_BYTES;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), error;

    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    if (bind(fd, (const struct sockaddr *)&name, sizeof(name)) == 0)
        return fd;
    error = errno;
    close(fd);
    return -error;
}

int rtnetlink_subscribe(void)
{
    return subscribe(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
}

int rtnetlink_subscribe_to_routes(void)
{
    return subscribe(RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE |
                     1u << (RTNLGRP_IPV6_RULE - 1));
}

bool rtnetlink_drain(int fd)
{
    bool any = false;
    char first;
    unsigned int i;

    for (i = 0; i < DRAINED_MAX; i++) {
        if (recv(fd, &first, sizeof(first), 0) < 0 && errno != ENOBUFS && errno != EINTR)
            break;
        any = true;
    }
    return any;
}

/* Receives one datagram of the kernel, and ignores other senders. -errno: there is none. */
static int receive(int fd, struct hostnet *hostnet, bool dump)
{
    struct sockaddr_nl from = {.nl_pid = 1};
    socklen_t nfrom = sizeof(from);
    char bytes[MESSAGE_ROOM];
    ssize_t n = recvfrom(fd, bytes, sizeof(bytes), MSG_TRUNC, (struct sockaddr *)&from, &nfrom);

    if (n < 0)
        return -errno;
    if (from.nl_pid != 0)
        return 0;
    if ((size_t)n > sizeof(bytes))
        return HOSTNET_STALE;
    return (int)hostnet_update(hostnet, bytes, (size_t)n, dump);
}

unsigned int rtnetlink_receive(int fd, struct hostnet *hostnet)
{
    unsigned int flags = 0, i;
    int rc;

    for (i = 0; i < RECEIVED_MAX; i++) {
        rc = receive(fd, hostnet, false);
        if (rc == -EAGAIN || rc == -EWOULDBLOCK)
            break;
        flags |= rc >= 0 ? (unsigned int)rc : rc == -EINTR ? 0 : HOSTNET_STALE;
    }
    return flags;
}

/* Dumps all links, addresses or routes. 0, -errno, or -EAGAIN: they changed meanwhile. */
static int ask(int fd, uint16_t type, struct hostnet *hostnet)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link; /* as long as struct ifaddrmsg, struct rtmsg and more */
        struct rtattr attribute;
        uint32_t mask;
    } request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = type,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .attribute = {.rta_type = IFLA_EXT_MASK, .rta_len = RTA_LENGTH(sizeof(uint32_t))},
        .mask = RTEXT_FILTER_SKIP_STATS,
    };
    unsigned int flags = 0;
    int rc;

    if (type != RTM_GETLINK)
        request.header.nlmsg_len = NLMSG_LENGTH(sizeof(request.link));
    if (send(fd, &request, request.header.nlmsg_len, 0) < 0)
        return -errno;
    while (!(flags & HOSTNET_END)) {
        rc = receive(fd, hostnet, true);
        if (rc < 0)
            return rc == -EAGAIN ? -ETIMEDOUT : rc;
        flags |= (unsigned int)rc;
    }
    return flags & HOSTNET_STALE ? -EAGAIN : 0;
}

/* Uses a socket of its own, so that nothing of an aborted dump arrives later. */
static int dump_once(struct hostnet *hostnet)
{
    int fd = netlink_open(), rc;

    if (fd < 0)
        return fd;
    rc = ask(fd, RTM_GETLINK, hostnet);
    if (rc == 0)
        rc = ask(fd, RTM_GETADDR, hostnet);
    close(fd);
    return rc;
}

int rtnetlink_dump_routes(struct hostnet *hostnet)
{
    int fd = netlink_open(), rc;

    hostnet->nroutes = 0;
    if (fd < 0)
        return fd;
    rc = ask(fd, RTM_GETROUTE, hostnet);
    close(fd);
    return rc;
}

int rtnetlink_dump(struct hostnet *hostnet)
{
    struct hostnet fresh;
    unsigned int tries;
    int rc = -EAGAIN;

    for (tries = 0; rc == -EAGAIN && tries < DUMPS_MAX; tries++) {
        hostnet_init(&fresh);
        rc = dump_once(&fresh);
        if (rc == 0) {
            hostnet_fini(hostnet);
            *hostnet = fresh;
        } else {
            hostnet_fini(&fresh);
        }
    }
    return rc;
}
