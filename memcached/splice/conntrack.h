/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conntrack: netfilter's connection tracking has followed the numbers of a TCP connection's old
 * socket. Segments with the wire's numbers are outside the windows that it knows, and many rule
 * sets drop what is `ct state invalid`. So netfilter is told to accept any numbers on this one
 * connection, as net.netfilter.nf_conntrack_tcp_be_liberal makes it do on all.
 *
 * Of the process's network namespace, in the default zone. Needs CAP_NET_ADMIN there. Any thread.
 */
#ifndef SPLICE_CONNTRACK_H
#define SPLICE_CONNTRACK_H

#include <stdbool.h>

struct mc_tcp_flow;

/* Of one thread; all 0 at first. */
struct conntrack {
    bool is_missing; /* Linux has no ctnetlink: asked again it would look for the module again */
};

/*
 * False: netfilter tracks no connection, or cannot be asked. True as well where it does not track
 * this one.
 */
bool conntrack_be_liberal(struct conntrack *conntrack, const struct mc_tcp_flow *flow);

#endif
