/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostnet: the host's network as rtnetlink reports it: its interfaces, addresses and routes, and
 * the local addresses for the kernel programs (struct mc_local).
 *
 * Pure: parses messages into a model, makes no system call and accepts any bytes. One thread at a
 * time.
 */
#ifndef IFACE_HOSTNET_H
#define IFACE_HOSTNET_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared/layout.h"

/* How an interface relates to those below and above it. */
enum hostnet_kind {
    HOSTNET_PLAIN,
    HOSTNET_VLAN,    /* gets the packets of the interface below that have its tag */
    HOSTNET_MACVLAN, /* macvlan, ipvlan: those to its MAC address */
    HOSTNET_MASTER,  /* bond, team, bridge: gets the packets of its members */
    HOSTNET_VRF,     /* a routing domain of its own: the server's sockets get nothing from it */
};

struct hostnet_link {
    int ifindex;
    int lower;  /* index of the interface below; 0: in another namespace, or not relevant */
    int master; /* index, 0: none */
    enum hostnet_kind kind;
    uint32_t tag; /* of HOSTNET_VLAN; format of struct mc_local */
    uint32_t mtu;
    uint64_t mac; /* as in struct mc_local */
    char name[IF_NAMESIZE];
    bool up, loopback;
    bool ethernet; /* its frames have an Ethernet header, or lo's, which looks like one */
    bool has_mac;
    /*
     * For hostnet_local: a packet that arrives at an attached interface with these tags is for this
     * one.
     */
    bool reachable;
    uint32_t tags;
    bool leads;         /* for hostnet_ways: to an attached interface, */
    unsigned int ntags; /* where what leaves has so many */
};

struct hostnet_address {
    int ifindex;
    uint8_t family; /* AF_INET or AF_INET6 */
    uint8_t prefix;
    uint16_t zero;
    uint8_t local[16], peer[16]; /* network order; IPv4 in the first four */
    uint32_t tentative; /* not, or not yet, usable; last, because it is no part of the key */
};

/* Of a destination, with one of its next hops. */
struct hostnet_route {
    uint32_t table, metric;
    uint8_t family; /* AF_INET or AF_INET6 */
    uint8_t prefix;
    uint16_t zero;
    uint8_t to[16]; /* network order; IPv4 in the first four */
    int ifindex;
    bool gateway; /* by a router */
};

struct hostnet {
    struct hostnet_link *links;
    size_t nlinks, links_room;
    struct hostnet_address *addresses;
    size_t naddresses, addresses_room;
    struct hostnet_route *routes; /* those to other machines, of a dump */
    size_t nroutes, routes_room;
};

enum { HOSTNET_ROUTES_MAX = 4096 /* further ones are not read */ };

/* The effects of messages, as bits. */
enum {
    HOSTNET_LINKS = 1 << 0,     /* the links have changed */
    HOSTNET_ADDRESSES = 1 << 1, /* the addresses have changed */
    HOSTNET_END = 1 << 2,       /* the end of a dump */
    HOSTNET_STALE = 1 << 3,     /* the model may be wrong: dump again */
};

/* Makes an empty model. */
void hostnet_init(struct hostnet *hostnet);
void hostnet_fini(struct hostnet *hostnet);

/*
 * Applies one datagram. dump: it is part of a dump into an empty model, so that everything in it is
 * new.
 */
unsigned int hostnet_update(struct hostnet *hostnet, const void *bytes, size_t n, bool dump);

/* NULL: no such link. Valid until the next hostnet_update. */
const struct hostnet_link *hostnet_link(const struct hostnet *hostnet, int ifindex);
const struct hostnet_link *hostnet_link_named(const struct hostnet *hostnet, const char *name);

/* Which addresses and interfaces count as local. */
struct hostnet_scope {
    /* The server's listening addresses, IPv4 mapped into IPv6; :: and ::ffff:0.0.0.0: all. */
    const struct in6_addr *listen;
    size_t nlisten;
    const int *ifindexes; /* interfaces with attached programs */
    size_t nifindexes;
};

/*
 * The addresses of the scope that the machine has, those of the attached interfaces first, and the
 * MAC addresses and VLANs by which packets to us may come in there, and the least MTU on their way.
 * tags_hidden stays 0. How many did not fit.
 */
size_t hostnet_local(struct hostnet *hostnet, const struct hostnet_scope *scope,
                     struct mc_local *out);

/*
 * The interfaces what leaves by which leaves by an interface of the scope as well, with one tag at
 * most, behind which the programs find TCP: these, VLANs upon them, and masters of which they are
 * all members. Returns how many, at most `max`.
 */
size_t hostnet_ways(struct hostnet *hostnet, const struct hostnet_scope *scope, int *out,
                    size_t max);

/*
 * Finds an interface that is up, and by which what leaves leaves by none of the scope of the last
 * hostnet_ways: not lo, nor a member of a master that leads there. NULL: there is none.
 */
const struct hostnet_link *hostnet_open_way(const struct hostnet *hostnet);

/*
 * bmc=auto: finds the names of the interfaces that carry an address of the scope; for a wildcard
 * address, those that are up and have an address, without lo and without link-local addresses,
 * which every interface has. A VLAN is replaced by the interface below it, which sees the frames of
 * both. with_lo: adds lo, by which this machine reaches itself. Returns how many, at most `max`.
 */
size_t hostnet_carriers(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                        bool with_lo, char (*names)[IF_NAMESIZE], size_t max);
/* Whether the scope has loopback addresses alone, which no other machine can reach. */
bool hostnet_is_loopback(const struct hostnet_scope *scope);

/* Why replies to clients of the attached interfaces may leave by another one. */
enum hostnet_why {
    HOSTNET_SUBNET, /* it has an address of the same subnet, */
    HOSTNET_ABOVE,  /* or one of the server's and lies above, and sends by others as well, */
    HOSTNET_ROUTE,  /* or a route leads by it, to those behind a router or into such a subnet */
};

struct hostnet_beside {
    enum hostnet_why why;
    const struct hostnet_link *link;
    const struct hostnet_link *attached; /* beside which, or above which; NULL: HOSTNET_ROUTE */
    const struct hostnet_route *route;   /* of HOSTNET_ROUTE: that to most machines */
    const struct hostnet_link *carrier;  /* what to attach: the interface, or the one beneath it;
                                            NULL: it cannot be */
};

/*
 * Finds the interfaces by which replies may leave that pass no attached one: see above. Those of
 * the last hostnet_local and hostnet_ways are the attached ones. Returns how many, at most `max`.
 */
size_t hostnet_beside(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                      struct hostnet_beside *out, size_t max);

/*
 * The interface beneath an attached one by which requests to its IPv4 addresses may come, past what
 * is attached, if Linux answers ARP for them there: beneath a macvlan that has such an address of
 * the scope. Of the last hostnet_local. NULL: there is none.
 */
const struct hostnet_link *hostnet_beneath(const struct hostnet *hostnet,
                                           const struct hostnet_scope *scope, int ifindex);
/* The interface itself, or the one below it if it is a VLAN in this network namespace. */
const struct hostnet_link *hostnet_lowest(const struct hostnet *hostnet,
                                          const struct hostnet_link *link);

/* On how many interfaces, one above another, this one lies. */
unsigned int hostnet_height(const struct hostnet *hostnet, int ifindex);

/*
 * Finds the interfaces whose replies leave by an attached one: its members, such as a bond's ports,
 * which native XDP reports as the ingress interface. Returns how many, up to MC_RETURN_PATH_PORTS.
 */
size_t hostnet_ports(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                     struct mc_return_path_port *out);

#endif
