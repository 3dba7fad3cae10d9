/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * repair: options of a TCP socket, and the numbers of its queues while it is repaired. 0 or -errno.
 */
#ifndef SPLICE_REPAIR_H
#define SPLICE_REPAIR_H

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

static inline int set_tcp(int fd, int option, int value)
{
    return setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)) ? -errno : 0;
}

/* queue: TCP_SEND_QUEUE or TCP_RECV_QUEUE. */
static inline int set_queue(int fd, int queue, uint32_t number)
{
    int rc = set_tcp(fd, TCP_REPAIR_QUEUE, queue);

    return rc ? rc : set_tcp(fd, TCP_QUEUE_SEQ, (int)number);
}

#endif
