/* SPDX-License-Identifier: BSD-3-Clause */
/* rtnetlink: dumps links, addresses and routes, and receives their changes. One thread. */
#ifndef IFACE_RTNETLINK_H
#define IFACE_RTNETLINK_H

#include "iface/hostnet.h"

/*
 * Opens a socket that receives events of links and addresses, for poll(2), with the largest buffer
 * that this process may have. Negative: -errno.
 */
int rtnetlink_subscribe(void);
/* Opens a socket for events of routes and rules, which the caller only drains. Negative: -errno. */
int rtnetlink_subscribe_to_routes(void);
/* Discards all received events. Whether there were any. */
bool rtnetlink_drain(int fd);
/*
 * Applies received events to hostnet, up to a limit; the rest is left for the next call. Returns
 * the bits of hostnet_update; HOSTNET_STALE also if messages were lost.
 */
unsigned int rtnetlink_receive(int fd, struct hostnet *hostnet);
/*
 * Replaces `hostnet` by a dump of the kernel's tables, without routes. 0, or -errno and it is
 * unchanged.
 */
int rtnetlink_dump(struct hostnet *hostnet);
/* Replaces the routes alone. 0 or -errno, -EAGAIN: they changed meanwhile. */
int rtnetlink_dump_routes(struct hostnet *hostnet);

#endif
