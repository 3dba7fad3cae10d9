/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * machine: what this machine is on the network, as rtnetlink tells it: its interfaces, its
 * addresses, and what of that is "us" for the kernel programs (struct mc_local).
 *
 * Pure: messages in, a picture out; no system call, any bytes are taken. One thread at a time.
 */
#ifndef KCACHE_MACHINE_H
#define KCACHE_MACHINE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/shared/layout.h"

/* What an interface is to those below and above it. */
enum machine_kind {
    MACHINE_PLAIN,
    MACHINE_VLAN,   /* has the packets of the interface below it that have its tag, */
    MACHINE_UPPER,  /* macvlan: those to its MAC address */
    MACHINE_MASTER, /* bond, team, bridge: has those of its members */
    MACHINE_VRF,    /* a routing domain of its own: our sockets get nothing from there */
};

struct machine_link {
    int ifindex;
    int lower;  /* index of the interface below, 0: elsewhere, or of no matter */
    int master; /* index, 0: none */
    enum machine_kind kind;
    uint32_t tag; /* of MACHINE_VLAN: as in struct mc_local */
    uint32_t mtu;
    uint64_t mac; /* as in struct mc_local */
    char name[IF_NAMESIZE];
    bool up;
    bool has_mac;
    /* Of machine_local: what comes in by an attached interface with these tags is its packet. */
    bool near;
    uint32_t tags;
};

struct machine_address {
    int ifindex;
    uint8_t family; /* AF_INET or AF_INET6 */
    uint8_t prefix;
    uint16_t zero;
    uint8_t local[16], peer[16]; /* network order; IPv4 in the first four */
    uint32_t tentative;          /* not, or not yet, the machine's: last, and no part of the key */
};

struct machine {
    struct machine_link *links;
    size_t nlinks, links_room;
    struct machine_address *addresses;
    size_t naddresses, addresses_room;
};

/* What messages said, as bits. */
enum {
    MACHINE_LINKS = 1 << 0,     /* the links are others now, */
    MACHINE_ADDRESSES = 1 << 1, /* or the addresses */
    MACHINE_END = 1 << 2,       /* of a dump */
    MACHINE_BAD = 1 << 3,       /* the picture is not right: dump again */
};

/* Empty. */
void machine_init(struct machine *machine);
void machine_fini(struct machine *machine);

/*
 * Takes one datagram. dump: it belongs to the answer to a dump into an empty machine, so that
 * everything in it is new.
 */
unsigned int machine_take(struct machine *machine, const void *bytes, size_t n, bool dump);

/* NULL: there is none. Valid until the next machine_take. */
const struct machine_link *machine_link(const struct machine *machine, int ifindex);
const struct machine_link *machine_link_named(const struct machine *machine, const char *name);

/* Who is meant by "us". */
struct machine_scope {
    /* That the server listens on, IPv4 mapped into IPv6; :: and ::ffff:0.0.0.0: all. */
    const struct in6_addr *listen;
    size_t nlisten;
    const int *ifindexes; /* that the programs are attached to */
    size_t nifindexes;
};

/*
 * The addresses of the scope that the machine has, those of the attached interfaces first, and the
 * MAC addresses and VLANs by which packets to us may come in there, and the least MTU on their way.
 * tags_hidden stays 0. How many did not fit.
 */
size_t machine_local(struct machine *machine, const struct machine_scope *scope,
                     struct mc_local *out);

/*
 * Which interfaces have replies to their packets leave by an attached one: its members, as a bond's
 * ports are, which a native XDP program names as where a packet came by. How many, up to
 * MC_WAY_PORTS.
 */
size_t machine_ports(const struct machine *machine, const struct machine_scope *scope,
                     struct mc_way_port *out);

#endif
