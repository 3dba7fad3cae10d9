/* SPDX-License-Identifier: BSD-3-Clause */
/* netlink: asks rtnetlink, and reads what it sends; that accepts any bytes. */
#ifndef BPF_NETLINK_H
#define BPF_NETLINK_H

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { NETLINK_PATIENCE_S = 5 };

/* A socket for questions, or -errno. */
static inline int netlink_open(void)
{
    const struct timeval patience = {NETLINK_PATIENCE_S, 0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

/* Messages, the body of one, a list of attributes, or the value of one; {NULL, 0}: none. */
struct netlink {
    const unsigned char *at;
    size_t n;
};

static inline struct netlink netlink_skip(struct netlink bytes, size_t n)
{
    n = n < bytes.n ? n : bytes.n;
    return (struct netlink){bytes.at + n, bytes.n - n};
}

/* Cuts the next message off a datagram. False: there is none; the rest is not a message. */
static inline bool netlink_next(struct netlink *bytes, struct nlmsghdr *header,
                                struct netlink *body)
{
    if (bytes->n < sizeof(*header))
        return false;
    memcpy(header, bytes->at, sizeof(*header));
    if (header->nlmsg_len < NLMSG_HDRLEN || header->nlmsg_len > bytes->n)
        return false;
    *body = (struct netlink){bytes->at + NLMSG_HDRLEN, header->nlmsg_len - NLMSG_HDRLEN};
    *bytes = netlink_skip(*bytes, NLMSG_ALIGN((size_t)header->nlmsg_len));
    return true;
}

/* The attribute `type` in a list. The high bits of a type are flags. */
static inline struct netlink netlink_find(struct netlink list, unsigned int type)
{
    struct rtattr head;

    while (list.n >= sizeof(head)) {
        memcpy(&head, list.at, sizeof(head));
        if (head.rta_len < sizeof(head) || head.rta_len > list.n)
            break;
        if ((head.rta_type & NLA_TYPE_MASK) == type)
            return (struct netlink){list.at + sizeof(head), head.rta_len - sizeof(head)};
        list = netlink_skip(list, RTA_ALIGN((size_t)head.rta_len));
    }
    return (struct netlink){NULL, 0};
}

static inline uint32_t netlink_u32(struct netlink value, uint32_t otherwise)
{
    if (value.n >= sizeof(otherwise))
        memcpy(&otherwise, value.at, sizeof(otherwise));
    return otherwise;
}

static inline uint16_t netlink_u16(struct netlink value)
{
    uint16_t number = 0;

    if (value.n >= sizeof(number))
        memcpy(&number, value.at, sizeof(number));
    return number;
}

static inline bool netlink_is(struct netlink value, const char *text)
{
    size_t n = strlen(text);

    return value.n >= n && memcmp(value.at, text, n) == 0 && (value.n == n || !value.at[n]);
}

/* Copies a text, cut to `size`; "": none. */
static inline void netlink_text(struct netlink value, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)value.n, value.at ? (const char *)value.at : "");
}

#endif
