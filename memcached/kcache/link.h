/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: what the kernel says of a network interface, by rtnetlink and ethtool. Reads; the one
 * exception is link_try_xdp. Knows nothing of our programs.
 */
#ifndef KCACHE_LINK_H
#define KCACHE_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_facts {
    char name[IF_NAMESIZE];
    char kind[IF_NAMESIZE]; /* "veth", "vlan", "bond"; "" of most hardware */
    int ifindex;
    uint16_t type;       /* ARPHRD_* */
    unsigned int flags;  /* IFF_* */
    int lower;           /* what it stands on, or a veth's peer; 0: nothing */
    bool lower_is_away;  /* that is in another network namespace, */
    uint32_t netns;      /* which ours calls so */
    int master;          /* the bond, bridge or team that it is a port of; 0: none */
    uint32_t native_xdp; /* id of the program in the driver, 0: none */
    bool hides_tags;     /* takes VLAN tags out of the frames that the driver shows to XDP */
    bool lro;            /* joins segments */
    uint32_t mtu_max;    /* 0: unknown */
    char device[32];     /* what the driver drives: "virtio0"; "": unknown */
    char driver[32];     /* "": unknown */
};

/* One interface. 0 or -errno. */
int link_read(int ifindex, struct link_facts *out);
/* The peer or lower interface, wherever it is; without what ethtool says. 0 or -errno. */
int link_read_lower(const struct link_facts *link, struct link_facts *out);
/* The name of a VLAN interface that stands on this one, or false: there is none. */
bool link_has_vlan(int ifindex, char name[IF_NAMESIZE]);

/*
 * Why the kernel does not take an XDP program: tries, by netlink, which gives reasons that links do
 * not give, and takes off at once what was taken after all. flags: XDP_FLAGS_DRV_MODE or
 * XDP_FLAGS_SKB_MODE. `reason` becomes the kernel's words or "". Returns -errno, 0: it was taken.
 */
int link_try_xdp(int ifindex, int program, uint32_t flags, char *reason, size_t nreason);

#endif
