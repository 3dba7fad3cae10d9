/* SPDX-License-Identifier: BSD-3-Clause */
/* rtnetlink: asks the kernel what the machine is, and hears what changes. One thread. */
#ifndef KCACHE_RTNETLINK_H
#define KCACHE_RTNETLINK_H

#include "kcache/machine.h"

/*
 * A socket that hears of links and addresses, for poll(2). As much room for what was not read yet
 * as this process may have. Negative: -errno.
 */
int rtnetlink_listen(void);
/* The same of one that hears of routes and rules, to be drained. */
int rtnetlink_listen_to_routes(void);
/* Throws away what was heard, all of it. Whether there was any. */
bool rtnetlink_drain(int fd);
/*
 * Takes what was heard, up to a limit; more is left for the next time. Bits of machine_take;
 * MACHINE_BAD also if messages were lost.
 */
unsigned int rtnetlink_hear(int fd, struct machine *machine);
/* Makes `machine` what the kernel says that it is. 0 or -errno, and it is as it was. */
int rtnetlink_dump(struct machine *machine);

#endif
