/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * veth: whether replies of native XDP arrive at the other end of a veth.
 *
 * The veth driver drops frames that XDP sends (XDP_TX) unless the other end has a native XDP
 * program too, even one that only passes frames. With GRO but no program there, frames wait in a
 * ring until something else wakes their receiver. Generic XDP has no such condition.
 */
#ifndef IFACE_VETH_H
#define IFACE_VETH_H

#include <stdbool.h>

enum veth_peer {
    VETH_NOT,              /* not a veth interface, or unknown */
    VETH_PEER_WITH_XDP,    /* its peer has a native XDP program */
    VETH_PEER_WITHOUT_XDP, /* its peer has none */
    VETH_PEER_UNKNOWN,     /* its peer is in a network namespace that this process cannot read */
};

enum veth_peer veth_peer(int ifindex);
/*
 * Whether the other end of this veth has a native XDP program, in whatever network namespace it is:
 * its program limits the MTU that this end may have. Needs no privilege.
 */
bool veth_limits_mtu(int ifindex);

#endif
