/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: properties of a network interface, from rtnetlink and ethtool. It only reads, except
 * link_try_xdp. It does not depend on the kernel programs.
 */
#ifndef IFACE_LINK_H
#define IFACE_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_info {
    char name[IF_NAMESIZE];
    char kind[IF_NAMESIZE]; /* "veth", "vlan", "bond"; "" of most hardware */
    int ifindex;
    uint16_t type;        /* ARPHRD_* */
    unsigned int flags;   /* IFF_* */
    int lower;            /* the interface below, or a veth's peer; 0: none */
    bool lower_elsewhere; /* `lower` is in another network namespace */
    int master;           /* the bond, bridge or team that it is a port of; 0: none */
    bool strips_tags;     /* strips VLAN tags from the frames that XDP sees */
    bool lro;             /* merges TCP segments */
    uint32_t mtu_max;     /* 0: unknown */
    char device[32];      /* the device: "virtio0"; "": unknown */
    char driver[32];      /* "": unknown */
};

/* Reads one interface. 0 or -errno. */
int link_read(int ifindex, struct link_info *out);

/*
 * The veth driver drops frames that XDP sends (XDP_TX) unless the other end has a native XDP
 * program too, even one that only passes frames. With GRO but no program there, frames wait in a
 * ring until something else wakes their receiver. Generic XDP has no such condition.
 */
enum veth_peer {
    VETH_NOT,              /* not a veth interface, or unknown */
    VETH_PEER_WITH_XDP,    /* its peer has a native XDP program */
    VETH_PEER_WITHOUT_XDP, /* its peer has none */
};
/*
 * In whatever network namespace the other end is: its program limits the MTU that this end may
 * have. Needs no privilege.
 */
enum veth_peer link_veth_peer(int ifindex);

/* Has the driver of an interface fill an ethtool command, and says whether it did. */
bool link_ask_ethtool(const char *name, void *command);
/* How many receive queues an interface has in use; 1 if its driver does not tell. */
unsigned int link_nqueues(const char *name);
/* Finds the name of a VLAN interface on top of this one. False: there is none. */
bool link_has_vlan(int ifindex, char name[IF_NAMESIZE]);

/*
 * Finds out why the kernel refuses an XDP program: tries by netlink, which gives reasons that links
 * do not give, and detaches at once if it succeeds after all. flags: XDP_FLAGS_DRV_MODE or
 * XDP_FLAGS_SKB_MODE. `reason` becomes the kernel's message or "". Returns -errno; 0: it succeeded.
 */
int link_try_xdp(int ifindex, int program, uint32_t flags, char *reason, size_t nreason);

#endif
