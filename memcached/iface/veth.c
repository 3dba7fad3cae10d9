/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/veth.h"

#include <linux/if_ether.h>
#include <string.h>

#include "iface/link.h"

enum veth_peer veth_peer(int ifindex)
{
    struct link_info link, peer;

    if (link_read(ifindex, &link) || strcmp(link.kind, "veth") != 0)
        return VETH_NOT;
    if (link_read_lower(&link, &peer))
        return VETH_PEER_UNKNOWN;
    return peer.native_xdp ? VETH_PEER_WITH_XDP : VETH_PEER_WITHOUT_XDP;
}

bool veth_limits_mtu(int ifindex)
{
    struct link_info link;

    return link_read(ifindex, &link) == 0 && link.mtu_max != ETH_MAX_MTU;
}
