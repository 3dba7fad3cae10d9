/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostnet: rtnetlink messages in, addresses, MAC addresses, VLANs and MTU of this machine out. The
 * messages are made as the kernel makes them; t/e2e/kernel/interfaces.t uses the kernel's own.
 */
#include "iface/hostnet.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "t/lib/tap.h"

enum { BUFFER = 8192 };

/* --- messages ------------------------------------------------------------------------ */

struct message {
    _Alignas(8) unsigned char bytes[BUFFER];
    size_t n;
};

static void begin(struct message *message, uint16_t type, const void *body, size_t nbody)
{
    const struct nlmsghdr header = {.nlmsg_type = type};

    memset(message, 0, sizeof(*message));
    memcpy(message->bytes, &header, sizeof(header));
    memcpy(message->bytes + NLMSG_HDRLEN, body, nbody);
    message->n = NLMSG_HDRLEN + NLMSG_ALIGN(nbody);
}

static size_t put(struct message *message, uint16_t type, const void *value, size_t n)
{
    const struct rtattr head = {.rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(n)};
    size_t at = message->n;

    memcpy(message->bytes + at, &head, sizeof(head));
    if (n)
        memcpy(message->bytes + at + RTA_LENGTH(0), value, n);
    message->n = at + RTA_SPACE(n);
    return at;
}

/* Closes the nest that begins at `at`. */
static void end_nest(struct message *message, size_t at)
{
    const uint16_t n = (uint16_t)(message->n - at);

    memcpy(message->bytes + at, &n, sizeof(n));
}

static void finish(struct message *message)
{
    const uint32_t n = (uint32_t)message->n;

    memcpy(message->bytes, &n, sizeof(n));
}

/* The attributes of a link in a test. */
struct link {
    int index;
    const char *name, *kind;
    int lower, master;
    uint16_t vlan;
    bool ad, down, elsewhere, loopback;
    bool bare; /* no Ethernet header */
    uint32_t mtu;
};

static void put_kind(struct message *message, const struct link *link)
{
    const uint16_t protocol = htons(link->ad ? ETH_P_8021AD : ETH_P_8021Q);
    size_t info = put(message, IFLA_LINKINFO, NULL, 0), data;

    put(message, IFLA_INFO_KIND, link->kind, strlen(link->kind));
    data = put(message, IFLA_INFO_DATA | NLA_F_NESTED, NULL, 0);
    put(message, IFLA_VLAN_ID, &link->vlan, sizeof(link->vlan));
    put(message, IFLA_VLAN_PROTOCOL, &protocol, sizeof(protocol));
    end_nest(message, data);
    end_nest(message, info);
}

/* Its MAC address is 02:00:00:00:00:INDEX. */
static void make_link(struct message *message, uint16_t type, const struct link *link)
{
    const struct ifinfomsg info = {.ifi_type = link->bare       ? ARPHRD_NONE
                                               : link->loopback ? ARPHRD_LOOPBACK
                                                                : ARPHRD_ETHER,
                                   .ifi_index = link->index,
                                   .ifi_flags = (link->down ? 0u : (unsigned int)IFF_UP) |
                                                (link->loopback ? (unsigned int)IFF_LOOPBACK : 0)};
    const unsigned char mac[6] = {2, 0, 0, 0, 0, (unsigned char)link->index};
    const uint32_t zero = 0;

    begin(message, type, &info, sizeof(info));
    put(message, IFLA_IFNAME, link->name, strlen(link->name) + 1);
    put(message, IFLA_ADDRESS, mac, sizeof(mac));
    if (link->lower)
        put(message, IFLA_LINK, &link->lower, sizeof(link->lower));
    if (link->elsewhere)
        put(message, IFLA_LINK_NETNSID, &zero, sizeof(zero));
    if (link->master)
        put(message, IFLA_MASTER, &link->master, sizeof(link->master));
    if (link->mtu)
        put(message, IFLA_MTU, &link->mtu, sizeof(link->mtu));
    if (link->kind)
        put_kind(message, link);
    finish(message);
}

static uint64_t mac_of(int index)
{
    return 2 | (uint64_t)index << 40;
}

static void make_address(struct message *message, uint16_t type, int ifindex, const char *text,
                         uint32_t flags)
{
    struct ifaddrmsg info = {.ifa_family = strchr(text, ':') ? AF_INET6 : AF_INET,
                             .ifa_prefixlen = 24,
                             .ifa_index = (uint32_t)ifindex};
    unsigned char bytes[16];

    inet_pton(info.ifa_family, text, bytes);
    begin(message, type, &info, sizeof(info));
    put(message, IFA_ADDRESS, bytes, info.ifa_family == AF_INET ? 4 : 16);
    if (info.ifa_family == AF_INET)
        put(message, IFA_LOCAL, bytes, 4);
    put(message, IFA_FLAGS, &flags, sizeof(flags));
    finish(message);
}

static unsigned int take(struct hostnet *hostnet, const struct message *message)
{
    /* The read bytes end at the end of the allocation, so that a sanitizer sees an overrun by one
     * byte. */
    unsigned char *bytes = malloc(message->n);
    unsigned int changes;

    memcpy(bytes, message->bytes, message->n);
    changes = hostnet_update(hostnet, bytes, message->n, false);
    free(bytes);
    return changes;
}

static unsigned int take_link(struct hostnet *hostnet, uint16_t type, struct link link)
{
    struct message message;

    make_link(&message, type, &link);
    return take(hostnet, &message);
}

static unsigned int take_address(struct hostnet *hostnet, uint16_t type, int ifindex,
                                 const char *text, uint32_t flags)
{
    struct message message;

    make_address(&message, type, ifindex, text, flags);
    return take(hostnet, &message);
}

#define LINK(...)      take_link(hostnet, RTM_NEWLINK, (struct link){__VA_ARGS__})
#define UNLINK(...)    take_link(hostnet, RTM_DELLINK, (struct link){__VA_ARGS__})
#define ADDRESS(...)   take_address(hostnet, RTM_NEWADDR, __VA_ARGS__)
#define UNADDRESS(...) take_address(hostnet, RTM_DELADDR, __VA_ARGS__)

/* --- local addresses ------------------------------------------------------------------- */

/* The local addresses of a server that listens on `listen`, or on everything, and is attached to
 * `ifindex`. */
static struct mc_local local_of(struct hostnet *hostnet, int ifindex, const char *listen)
{
    struct in6_addr addresses[2] = {{{{0}}}, {{{[10] = 0xff, [11] = 0xff}}}};
    struct hostnet_scope scope = {addresses, 2, &ifindex, 1};
    struct mc_local local;

    if (listen) {
        inet_pton(AF_INET6, listen, &addresses[0]);
        scope.nlisten = 1;
    }
    hostnet_local(hostnet, &scope, &local);
    return local;
}

static bool has(const struct mc_local *local, const char *text)
{
    unsigned char bytes[16];

    if (inet_pton(AF_INET, text, bytes) == 1) {
        for (uint32_t i = 0; i < local->n4; i++)
            if (memcmp(&local->v4[i], bytes, 4) == 0)
                return true;
        return false;
    }
    inet_pton(AF_INET6, text, bytes);
    for (uint32_t i = 0; i < local->n6; i++)
        if (memcmp(local->v6[i], bytes, 16) == 0)
            return true;
    return false;
}

static bool has_mac(const struct mc_local *local, int index)
{
    for (uint32_t i = 0; i < local->nmacs; i++)
        if (local->macs[i] == mac_of(index))
            return true;
    return false;
}

static bool has_vlan(const struct mc_local *local, uint32_t tags)
{
    for (uint32_t i = 0; i < local->nvlans; i++)
        if (local->vlans[i] == tags)
            return true;
    return false;
}

static void test_addresses(struct hostnet *hostnet)
{
    struct mc_local local;

    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "eth1");
    ok(ADDRESS(2, "10.0.2.1", 0) == HOSTNET_ADDRESSES, "a new address is reported as a change");
    ok(ADDRESS(2, "10.0.2.1", 0) == 0, "a known address is not reported again");
    ADDRESS(1, "10.0.1.1", 0);
    ADDRESS(1, "fd00::1", 0);
    ADDRESS(1, "fe80::1", 0);
    local = local_of(hostnet, 1, NULL);
    ok(local.n4 == 2 && has(&local, "10.0.1.1") && has(&local, "10.0.2.1"),
       "IPv4 addresses of all interfaces are local");
    memcpy(&local.v4[2], "\x0a\0\x01\x01", 4);
    ok(local.v4[0] == local.v4[2], "the attached interface's addresses come first");
    ok(local.n6 == 1 && has(&local, "fd00::1"),
       "IPv6 addresses are local, but not link-local ones");
    local = local_of(hostnet, 1, "::ffff:10.0.2.1");
    ok(local.n4 == 1 && local.n6 == 0 && has(&local, "10.0.2.1"),
       "a server that listens on one IPv4 address has only that one");
    local = local_of(hostnet, 1, "fd00::1");
    ok(local.n4 == 0 && local.n6 == 1,
       "a server that listens on one IPv6 address has only that one");
    local = local_of(hostnet, 1, "::");
    ok(local.n4 == 0 && local.n6 == 1, "a server that listens on :: alone has no IPv4 address");
    local = local_of(hostnet, 1, "::ffff:10.0.9.9");
    ok(local.n4 == 0 && local.n6 == 0,
       "a listened address that the machine does not have is not local");
    ADDRESS(2, "10.0.9.9", 0);
    local = local_of(hostnet, 1, "::ffff:10.0.9.9");
    ok(has(&local, "10.0.9.9"), "it is local when the machine gets it");
    ok(UNADDRESS(2, "10.0.9.9", 0) == HOSTNET_ADDRESSES,
       "a removed address is reported as a change");
    local = local_of(hostnet, 1, "::ffff:10.0.9.9");
    ok(local.n4 == 0, "it is not local after its removal");
}

static void test_states(struct hostnet *hostnet)
{
    struct mc_local local;

    LINK(.index = 1, .name = "eth0");
    ADDRESS(1, "10.0.1.1", 0);
    ADDRESS(1, "fd00::1", IFA_F_TENTATIVE);
    ADDRESS(1, "fd00::2", IFA_F_TENTATIVE | IFA_F_DADFAILED);
    ADDRESS(1, "fd00::3", IFA_F_DEPRECATED);
    local = local_of(hostnet, 1, NULL);
    ok(local.n6 == 1 && has(&local, "fd00::3"),
       "IPv6: tentative and failed addresses are not local, deprecated ones are");
    ok(ADDRESS(1, "fd00::1", 0) == HOSTNET_ADDRESSES,
       "the end of duplicate address detection is a change");
    local = local_of(hostnet, 1, NULL);
    ok(has(&local, "fd00::1") && local.n6 == 2, "after it the address is local, once");
    LINK(.index = 1, .name = "eth0", .down = true);
    local = local_of(hostnet, 1, NULL);
    ok(local.n6 == 0 && has(&local, "10.0.1.1"),
       "an interface that is down has only its IPv4 addresses, as in the stack");
    LINK(.index = 1, .name = "eth0");
    LINK(.index = 7, .name = "red", .kind = "vrf");
    LINK(.index = 1, .name = "eth0", .master = 7);
    local = local_of(hostnet, 1, NULL);
    ok(local.n4 == 0 && local.n6 == 0 && local.nmacs == 0,
       "an interface in a VRF has no local addresses");
    LINK(.index = 1, .name = "eth0");
    ok(local_of(hostnet, 1, NULL).n4 == 1, "it has them again when it leaves the VRF");
    UNLINK(.index = 1, .name = "eth0");
    local = local_of(hostnet, 1, NULL);
    ok(local.n4 == 0 && local.n6 == 0 && local.nmacs == 0,
       "a removed interface has no local addresses");
}

static int beneath(struct hostnet *hostnet, int a, int b, const char *listen)
{
    const int attached[] = {a, b};
    struct in6_addr addresses[2] = {{{{0}}}, {{{[10] = 0xff, [11] = 0xff}}}};
    struct hostnet_scope scope = {addresses, 2, attached, 2};
    const struct hostnet_link *link;
    struct mc_local local;

    if (listen) {
        inet_pton(AF_INET6, listen, &addresses[0]);
        scope.nlisten = 1;
    }
    hostnet_local(hostnet, &scope, &local);
    link = hostnet_beneath(hostnet, &scope, a);
    return link ? link->ifindex : 0;
}

static void test_beneath(struct hostnet *hostnet)
{
    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "macvlan0", .kind = "macvlan", .lower = 1);
    ok(!beneath(hostnet, 2, 0, NULL), "for a macvlan without an address ARP is not answered");
    ADDRESS(2, "fd00::1", 0);
    ok(!beneath(hostnet, 2, 0, NULL), "nor for one of IPv6");
    ADDRESS(2, "192.0.2.1", 0);
    ok(beneath(hostnet, 2, 0, NULL) == 1, "with one of IPv4 requests may come beneath");
    ok(beneath(hostnet, 2, 0, "::ffff:192.0.2.1") == 1 &&
           !beneath(hostnet, 2, 0, "::ffff:192.0.2.2"),
       "if it is one of the server's");
    ok(!beneath(hostnet, 2, 1, NULL), "where the programs are as well nothing is missing");
    LINK(.index = 3, .name = "eth1");
    LINK(.index = 4, .name = "eth1.5", .kind = "vlan", .lower = 3, .vlan = 5);
    LINK(.index = 5, .name = "macvlan1", .kind = "macvlan", .lower = 4);
    ADDRESS(5, "198.51.100.1", 0);
    ok(beneath(hostnet, 5, 0, NULL) == 4 && !beneath(hostnet, 5, 3, NULL),
       "nor where what comes beneath comes by one that has them");
    ADDRESS(4, "203.0.113.1", 0);
    ok(!beneath(hostnet, 4, 0, NULL), "a VLAN is not asked on the interface beneath");
    LINK(.index = 1, .name = "eth0", .down = true);
    ok(!beneath(hostnet, 2, 0, NULL), "nothing comes by one that is down");
}

static void test_macs(struct hostnet *hostnet)
{
    struct mc_local local;

    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "eth1");
    LINK(.index = 3, .name = "mv", .kind = "macvlan", .lower = 1);
    LINK(.index = 4, .name = "ve", .kind = "veth", .lower = 1);
    LINK(.index = 5, .name = "far", .kind = "macvlan", .lower = 1, .elsewhere = true);
    LINK(.index = 6, .name = "br", .kind = "bridge");
    LINK(.index = 8, .name = "dn", .kind = "macvlan", .lower = 1, .down = true);
    local = local_of(hostnet, 1, NULL);
    ok(local.nmacs == 2 && local.macs[0] == mac_of(1) && has_mac(&local, 3),
       "the interface's own MAC address is first, a macvlan's above it follows, and no others");
    LINK(.index = 1, .name = "eth0", .master = 6);
    ok(has_mac((local = local_of(hostnet, 1, NULL), &local), 6),
       "a member of a bridge has the bridge's MAC address");
    LINK(.index = 9, .name = "br.5", .kind = "macvlan", .lower = 6);
    ok(has_mac((local = local_of(hostnet, 1, NULL), &local), 9),
       "a member of a bridge has the MAC address of a macvlan on the bridge");
    local = local_of(hostnet, 6, NULL);
    ok(local.nmacs == 4 && local.macs[0] == mac_of(6) && has_mac(&local, 1) && !has_mac(&local, 2),
       "attached to the bridge: the members' MAC addresses, too");
}

static void test_vlans(struct hostnet *hostnet)
{
    struct mc_local local;

    LINK(.index = 1, .name = "eth0");
    ok(local_of(hostnet, 1, NULL).nvlans == 0, "no VLAN");
    LINK(.index = 2, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5);
    LINK(.index = 3, .name = "eth0.6", .kind = "vlan", .lower = 1, .vlan = 6, .ad = true);
    LINK(.index = 4, .name = "eth0.5.7", .kind = "vlan", .lower = 2, .vlan = 7);
    LINK(.index = 5, .name = "eth0.5.7.8", .kind = "vlan", .lower = 4, .vlan = 8);
    LINK(.index = 6, .name = "eth1.9", .kind = "vlan", .lower = 99, .vlan = 9);
    local = local_of(hostnet, 1, NULL);
    ok(local.nvlans == 3 && has_vlan(&local, 5) && has_vlan(&local, 6 | MC_VLAN_AD) &&
           has_vlan(&local, 5 | 7 << 16),
       "one tag of either kind is local, and two, the outer being the lower interface's; not "
       "three");
    UNLINK(.index = 2, .name = "eth0.5");
    local = local_of(hostnet, 1, NULL);
    ok(local.nvlans == 1, "a removed VLAN is not local, nor one above it");
    LINK(.index = 10, .name = "bond0", .kind = "bond");
    LINK(.index = 1, .name = "eth0", .master = 10);
    LINK(.index = 2, .name = "bond0.5", .kind = "vlan", .lower = 10, .vlan = 5);
    ok(has_vlan((local = local_of(hostnet, 1, NULL), &local), 5),
       "a bond's VLAN is local for its member");
    ok(has_vlan((local = local_of(hostnet, 10, NULL), &local), 5),
       "a bond's VLAN is local for the bond");
}

static void test_mtu(struct hostnet *hostnet)
{
    LINK(.index = 1, .name = "eth0");
    ok(local_of(hostnet, 1, NULL).mtu == 0, "an unknown MTU is no limit");
    LINK(.index = 1, .name = "eth0", .mtu = 9000);
    LINK(.index = 2, .name = "eth1", .mtu = 1280);
    ok(local_of(hostnet, 1, NULL).mtu == 9000,
       "the limit is the attached interface's MTU, and no other interface's");
    LINK(.index = 3, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5, .mtu = 1400);
    ok(local_of(hostnet, 1, NULL).mtu == 1400, "a smaller MTU of a VLAN above it is the limit");
    LINK(.index = 3, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5, .mtu = 1450);
    ok(local_of(hostnet, 1, NULL).mtu == 1450, "the limit follows a change of the MTU");
    LINK(.index = 3, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5, .down = true);
    ok(local_of(hostnet, 1, NULL).mtu == 9000, "the MTU of a VLAN that is down does not count");
}

static void test_ports(struct hostnet *hostnet)
{
    const int attached[] = {4, 2};
    struct hostnet_scope scope = {.ifindexes = attached, .nifindexes = 1};
    struct mc_return_path_port ports[MC_RETURN_PATH_PORTS];

    LINK(.index = 1, .name = "eth0", .master = 4);
    LINK(.index = 2, .name = "eth1", .master = 4);
    LINK(.index = 3, .name = "eth2", .master = 5);
    LINK(.index = 4, .name = "bond0", .kind = "bond");
    LINK(.index = 5, .name = "bond1", .kind = "bond");
    ok(hostnet_ports(hostnet, &scope, ports) == 2 && ports[0].port == 1 && ports[0].of == 4 &&
           ports[1].port == 2 && ports[1].of == 4,
       "packets from a bond's ports are answered by the bond, if it is attached");
    scope.nifindexes = 2;
    ok(hostnet_ports(hostnet, &scope, ports) == 1 && ports[0].port == 1,
       "packets from a port that is attached itself are answered by that port");
    for (int i = 6; i < 6 + 2 * MC_RETURN_PATH_PORTS; i++)
        LINK(.index = i, .name = "eth", .master = 4);
    ok(hostnet_ports(hostnet, &scope, ports) == MC_RETURN_PATH_PORTS,
       "the number of ports is limited");
}

/* Whether these interfaces, each a digit, lead out by an attached one: the first, or all three. */
static bool leads(struct hostnet *hostnet, size_t nattached, const char *want)
{
    const int attached[] = {1, 2, 3};
    const struct hostnet_scope scope = {.ifindexes = attached, .nifindexes = nattached};
    char have[16];
    int ways[8];
    size_t n = hostnet_ways(hostnet, &scope, ways, COUNT(ways)), i;

    for (i = 0; i < n; i++)
        have[i] = (char)('0' + ways[i]);
    have[n] = '\0';
    if (strcmp(have, want) != 0)
        diag("%s", have);
    return strcmp(have, want) == 0;
}

/* The index of an interface that is open, once so many of eth0, eth1 are attached; 0: none. */
static int open_way(struct hostnet *hostnet, size_t n)
{
    const int attached[] = {1, 2};
    const struct hostnet_scope scope = {.ifindexes = attached, .nifindexes = n};
    const struct hostnet_link *link;
    int ways[16];

    hostnet_ways(hostnet, &scope, ways, COUNT(ways));
    link = hostnet_open_way(hostnet);
    return link ? link->ifindex : 0;
}

static void test_open_way(struct hostnet *hostnet)
{
    LINK(.index = 1, .name = "eth0");
    LINK(.index = 3, .name = "lo", .loopback = true);
    LINK(.index = 4, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5);
    ok(open_way(hostnet, 0) && !open_way(hostnet, 1), "an attached interface is not open, nor lo");
    LINK(.index = 2, .name = "eth1", .down = true);
    ok(!open_way(hostnet, 1), "nor one that is down");
    LINK(.index = 2, .name = "eth1");
    ok(open_way(hostnet, 1) == 2 && !open_way(hostnet, 2), "one that is up is, until attached");
    LINK(.index = 5, .name = "macvlan0", .kind = "macvlan", .lower = 1);
    ok(open_way(hostnet, 2) == 5, "so is a macvlan above an attached one");
    UNLINK(.index = 5, .name = "macvlan0");
    LINK(.index = 7, .name = "bond0", .kind = "bond");
    LINK(.index = 2, .name = "eth1", .master = 7);
    ok(open_way(hostnet, 1) && !open_way(hostnet, 2), "a bond is if a port of it is");
}

static void test_ways(struct hostnet *hostnet)
{
    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "eth1");
    LINK(.index = 4, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5);
    LINK(.index = 5, .name = "macvlan0", .kind = "macvlan", .lower = 1);
    ok(leads(hostnet, 0, ""), "nothing is attached, and no interface leads there");
    ok(leads(hostnet, 1, "14"), "an attached interface and its VLAN do, a macvlan on it does not");
    LINK(.index = 6, .name = "eth0.7", .kind = "vlan", .lower = 1, .vlan = 7, .down = true);
    ok(leads(hostnet, 1, "146"), "so does a VLAN that may yet come up");
    LINK(.index = 6, .name = "eth0.5.7", .kind = "vlan", .lower = 4, .vlan = 7);
    ok(leads(hostnet, 1, "14"), "a VLAN in a VLAN does not: the programs find TCP behind one tag");
    LINK(.index = 6, .name = "br5", .kind = "bridge");
    LINK(.index = 4, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5, .master = 6);
    LINK(.index = 9, .name = "br5.7", .kind = "vlan", .lower = 6, .vlan = 7);
    ok(leads(hostnet, 1, "146"), "nor one upon a bridge of a VLAN");
    UNLINK(.index = 9, .name = "br5.7");
    UNLINK(.index = 6, .name = "br5");
    LINK(.index = 4, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5);
    LINK(.index = 7, .name = "bond0", .kind = "bond");
    LINK(.index = 1, .name = "eth0", .master = 7);
    LINK(.index = 2, .name = "eth1", .master = 7);
    ok(leads(hostnet, 1, "14"), "a bond does not, if a port of it does not");
    LINK(.index = 8, .name = "bond0.5", .kind = "vlan", .lower = 7, .vlan = 5);
    ok(leads(hostnet, 3, "12478"), "it does if all ports do, and a VLAN on it");
}

/* The interfaces that hostnet_beside names beside eth0, as "index reason", ',' between. */
static const char *beside(struct hostnet *hostnet)
{
    static char text[128];
    const int attached[] = {1};
    const struct in6_addr any[] = {{{{0}}}, {{{[10] = 0xff, [11] = 0xff}}}};
    const struct hostnet_scope scope = {any, 2, attached, 1};
    struct hostnet_beside found[4];
    int ways[8];
    size_t used = 0, i, n;

    hostnet_ways(hostnet, &scope, ways, 8);
    n = hostnet_beside(hostnet, &scope, found, 4);
    text[0] = '\0';
    for (i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d %s", i ? "," : "",
                                 found[i].link->ifindex,
                                 found[i].why == HOSTNET_ROUTE                     ? "route"
                                 : !found[i].attached || !found[i].attached->leads ? "wrong"
                                 : found[i].why == HOSTNET_SUBNET                  ? "subnet"
                                                                                   : "above");
    return text;
}

#define BESIDE(want, ...) ok(strcmp(beside(hostnet), want) == 0, __VA_ARGS__)

static void test_beside(struct hostnet *hostnet)
{
    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "eth1");
    ADDRESS(1, "192.0.2.1", 0);
    ADDRESS(1, "fe80::1", 0);
    ADDRESS(2, "198.51.100.1", 0);
    ADDRESS(2, "fe80::2", 0);
    BESIDE("", "an interface of another subnet may be left out");
    ADDRESS(2, "192.0.2.129", 0);
    BESIDE("2 subnet", "one with an address of the same subnet is named");
    LINK(.index = 2, .name = "eth1", .down = true);
    BESIDE("", "but not while it is down");
    LINK(.index = 2, .name = "eth1", .lower = 1, .kind = "vlan", .vlan = 7);
    BESIDE("", "nor if it is a VLAN upon the attached one");
    UNADDRESS(2, "192.0.2.129", 0);
    LINK(.index = 2, .name = "eth1");
    ADDRESS(1, "2001:db8::1", 0);
    ADDRESS(2, "2001:dff::1", 0);
    BESIDE("2 subnet", "subnets are compared bit by bit");
    UNADDRESS(2, "2001:dff::1", 0);
    ADDRESS(2, "2001:eb8::1", 0);
    BESIDE("", "as long as the prefix is");
}

static void test_above(struct hostnet *hostnet)
{
    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "macvlan0", .kind = "macvlan", .lower = 1);
    BESIDE("", "a macvlan without an address is no way");
    ADDRESS(2, "198.51.100.1", 0);
    BESIDE("2 above", "with one it is named");
    LINK(.index = 2, .name = "eth0.5.7", .kind = "vlan", .lower = 6, .vlan = 7);
    LINK(.index = 6, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5);
    BESIDE("2 above", "so is a VLAN in a VLAN");
    UNLINK(.index = 2, .name = "macvlan0");
    LINK(.index = 3, .name = "br0", .kind = "bridge");
    ADDRESS(3, "192.0.2.1", 0);
    LINK(.index = 1, .name = "eth0", .master = 3);
    BESIDE("", "a bridge is not whose only port is attached");
    LINK(.index = 4, .name = "tap0", .master = 3);
    BESIDE("3 above", "it is if it has another port");
    ok(hostnet_height(hostnet, 1) == 0 && hostnet_height(hostnet, 3) == 1, "it lies on one level");
    LINK(.index = 5, .name = "br0.7", .kind = "vlan", .vlan = 7, .lower = 3);
    ok(hostnet_height(hostnet, 5) == 2, "a VLAN on it on two");
    LINK(.index = 3, .name = "br0", .kind = "vlan", .lower = 5);
    ok(hostnet_height(hostnet, 5) == 8, "a ring of them, which Linux has not, ends");
}

/* A route as the kernel dumps it. "": the default route; gateway: it leads to a router. */
struct route {
    const char *to;
    uint8_t prefix;
    int index, other; /* other: a second next hop */
    bool gateway, v6;
    uint32_t metric;
    uint8_t type, flags;
};

static void put_hop(struct message *message, int index, bool gateway)
{
    const uint32_t router = 0x01020304;

    put(message, RTA_OIF, &index, sizeof(index));
    if (gateway)
        put(message, RTA_GATEWAY, &router, sizeof(router));
}

static void put_routes_hops(struct message *message, const struct route *route)
{
    const struct rtnexthop hop = {.rtnh_len = sizeof(hop), .rtnh_ifindex = route->index},
                           other = {.rtnh_len = sizeof(other), .rtnh_ifindex = route->other};
    const struct rtnexthop hops[] = {hop, other};

    if (route->other)
        put(message, RTA_MULTIPATH, hops, sizeof(hops));
    else
        put_hop(message, route->index, route->gateway);
}

static unsigned int take_routes(struct hostnet *hostnet, const struct route *routes, size_t n)
{
    struct message message;
    unsigned char bytes[16];
    unsigned int changes = 0;

    hostnet->nroutes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct rtmsg info = {.rtm_family = routes[i].v6 ? AF_INET6 : AF_INET,
                                   .rtm_dst_len = routes[i].prefix,
                                   .rtm_type = routes[i].type ? routes[i].type : RTN_UNICAST,
                                   .rtm_flags = routes[i].flags};

        begin(&message, RTM_NEWROUTE, &info, sizeof(info));
        if (routes[i].to) {
            inet_pton(info.rtm_family, routes[i].to, bytes);
            put(&message, RTA_DST, bytes, routes[i].v6 ? 16 : 4);
        }
        put(&message, RTA_PRIORITY, &routes[i].metric, sizeof(routes[i].metric));
        put_routes_hops(&message, &routes[i]);
        finish(&message);
        changes |= hostnet_update(hostnet, message.bytes, message.n, true);
    }
    return changes;
}

static void test_routes(struct hostnet *hostnet)
{
    static const struct {
        const char *name, *want;
        struct route routes[3];
    } rows[] = {
        {"a subnet of another interface", "", {{"198.51.100.0", 24, .index = 2}}},
        {"a network behind a router",
         "2 route",
         {{"203.0.113.0", 24, .index = 2, .gateway = true}}},
        {"one by the attached interface", "", {{"203.0.113.0", 24, .index = 1, .gateway = true}}},
        {"one by a VLAN upon that", "", {{"203.0.113.0", 24, .index = 3, .gateway = true}}},
        {"the default route, of a point-to-point link", "2 route", {{NULL, 0, .index = 2}}},
        {"the default route over IPv6", "2 route", {{NULL, 0, .index = 2, .v6 = true}}},
        {"a host of the attached subnet", "2 route", {{"192.0.2.7", 32, .index = 2}}},
        {"half of the attached subnet", "2 route", {{"192.0.2.128", 25, .index = 2}}},
        {"more than that subnet", "", {{"192.0.0.0", 16, .index = 2}}},
        {"one by an interface that is down",
         "",
         {{"203.0.113.0", 24, .index = 4, .gateway = true}}},
        {"the default route by both, the other a spare",
         "",
         {{NULL, 0, .index = 1, .gateway = true, .metric = 10},
          {NULL, 0, .index = 2, .gateway = true, .metric = 20}}},
        {"the default route by both, the attached a spare",
         "2 route",
         {{NULL, 0, .index = 1, .gateway = true, .metric = 20},
          {NULL, 0, .index = 2, .gateway = true, .metric = 10}}},
        {"the default route by both at a time", "2 route", {{NULL, 0, .index = 1, .other = 2}}},
        {"what is unreachable", "", {{NULL, 0, .index = 2, .type = RTN_UNREACHABLE}}},
        {"a link without a carrier",
         "",
         {{NULL, 0, .index = 2, .gateway = true, .flags = RTNH_F_LINKDOWN}}},
        {"link-local addresses", "", {{"fe80::", 64, .index = 2, .v6 = true}}},
        {"by two interfaces",
         "2 route,5 route",
         {{"203.0.113.0", 24, .index = 2, .gateway = true},
          {"203.0.112.0", 24, .index = 5, .gateway = true}}},
        {"one of another namespace's", "", {{"203.0.113.0", 24, .index = 99, .gateway = true}}},
    };

    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "eth1");
    LINK(.index = 3, .name = "eth0.5", .kind = "vlan", .lower = 1, .vlan = 5);
    LINK(.index = 4, .name = "eth2", .down = true);
    LINK(.index = 5, .name = "wg0", .bare = true);
    ADDRESS(1, "192.0.2.1", 0);
    ADDRESS(2, "198.51.100.1", 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        take_routes(hostnet, rows[i].routes, 3);
        BESIDE(rows[i].want, "a route: %s: %s", rows[i].name, beside(hostnet));
    }
}

/* What is said of a route: that to most machines, and which interface to attach. */
static void test_routes_words(struct hostnet *hostnet)
{
    static const struct route routes[] = {{"203.0.113.0", 24, 2, .gateway = true},
                                          {"203.0.0.0", 16, 2, .gateway = true},
                                          {"203.0.113.7", 32, 2, .gateway = true},
                                          {"203.0.112.0", 24, 3, .gateway = true}};
    const int attached[] = {1};
    const struct hostnet_scope scope = {NULL, 0, attached, 1};
    struct hostnet_beside found[4];
    static struct route many[HOSTNET_ROUTES_MAX + 1];
    int ways[8];

    LINK(.index = 1, .name = "eth0");
    LINK(.index = 4, .name = "eth1");
    LINK(.index = 2, .name = "eth1.5", .kind = "vlan", .lower = 4, .vlan = 5);
    LINK(.index = 3, .name = "wg0", .bare = true);
    hostnet_ways(hostnet, &scope, ways, 8);
    take_routes(hostnet, routes, 4);
    ok(hostnet_beside(hostnet, &scope, found, 4) == 2 && found[0].route->prefix == 16,
       "of several routes by an interface that to most machines is named");
    ok(found[0].carrier && found[0].carrier->ifindex == 4, "beneath a VLAN is what to attach");
    ok(found[1].link->ifindex == 3 && !found[1].carrier, "what has no Ethernet header cannot be");
    ok(hostnet_beside(hostnet, &scope, found, 1) == 1, "no more are found than there is room for");
    for (size_t i = 0; i <= HOSTNET_ROUTES_MAX; i++)
        many[i] = (struct route){"203.0.113.0", 24, 2, .gateway = true};
    ok(take_routes(hostnet, many, HOSTNET_ROUTES_MAX) == 0 &&
           take_routes(hostnet, many, HOSTNET_ROUTES_MAX + 1) == HOSTNET_END &&
           hostnet->nroutes == HOSTNET_ROUTES_MAX,
       "no more routes are read than there is room for");
}

static void test_many(struct hostnet *hostnet)
{
    const int ifindex = 1;
    const struct in6_addr any[] = {{{{0}}}, {{{[10] = 0xff, [11] = 0xff}}}};
    const struct hostnet_scope scope = {any, 2, &ifindex, 1};
    struct mc_local local;
    char text[64];

    LINK(.index = 1, .name = "eth0");
    LINK(.index = 2, .name = "eth1");
    for (int i = 0; i < 2000; i++) {
        snprintf(text, sizeof(text), "10.%d.%d.1", i / 250, i % 250 + 1);
        ADDRESS(2, text, 0);
    }
    ADDRESS(1, "192.0.2.1", 0);
    ok(hostnet_local(hostnet, &scope, &local) == 2001 - MC_MAX_ADDRESSES &&
           local.n4 == MC_MAX_ADDRESSES && has(&local, "192.0.2.1"),
       "of 2,001 addresses as many as fit are local, the attached interface's among them");
    for (int i = 0; i < 2000; i++) {
        snprintf(text, sizeof(text), "10.%d.%d.1", i / 250, i % 250 + 1);
        UNADDRESS(2, text, 0);
    }
    ok(hostnet_local(hostnet, &scope, &local) == 0 && local.n4 == 1,
       "all removed addresses are gone");
}

/* --- malformed messages ------------------------------------------------------------------ */

static void test_malformed(struct hostnet *hostnet)
{
    const struct ifinfomsg port = {.ifi_family = AF_BRIDGE, .ifi_index = 1};
    struct message message, cut;
    struct nlmsghdr header;
    unsigned int changes = 0;

    LINK(.index = 1, .name = "eth0");
    ADDRESS(1, "10.0.0.1", 0);
    begin(&message, RTM_DELLINK, &port, sizeof(port));
    finish(&message);
    ok(take(hostnet, &message) == 0 && hostnet_link(hostnet, 1),
       "a port that leaves its bridge is not removed");
    make_link(&message, RTM_NEWLINK, &(struct link){.index = 2, .name = "x", .kind = "vlan"});
    for (size_t n = 0; n < message.n; n++) {
        cut = message;
        cut.n = n;
        changes |= take(hostnet, &cut) ^ (n ? HOSTNET_STALE : 0);
    }
    ok(changes == 0 && !hostnet_link(hostnet, 2),
       "a truncated message is reported as stale and changes nothing");
    for (size_t n = NLMSG_HDRLEN; n < message.n; n++) {
        cut = message;
        cut.n = n;
        finish(&cut);
        take(hostnet, &cut);
    }
    ok(true, "truncated attributes do no harm");
    header = (struct nlmsghdr){.nlmsg_len = sizeof(header), .nlmsg_type = NLMSG_ERROR};
    ok(hostnet_update(hostnet, &header, sizeof(header), true) == (HOSTNET_STALE | HOSTNET_END),
       "an error ends a dump, which is then stale");
    header.nlmsg_type = NLMSG_DONE;
    ok(hostnet_update(hostnet, &header, sizeof(header), true) == HOSTNET_END,
       "NLMSG_DONE ends a dump");
    header.nlmsg_flags = NLM_F_DUMP_INTR;
    ok(hostnet_update(hostnet, &header, sizeof(header), true) == (HOSTNET_STALE | HOSTNET_END),
       "NLM_F_DUMP_INTR makes the dump stale");
    ok(hostnet_link(hostnet, 1) && !hostnet_link(hostnet, 77) &&
           hostnet_link_named(hostnet, "eth0") == hostnet_link(hostnet, 1) &&
           !hostnet_link_named(hostnet, "eth"),
       "interfaces are found by index and name");
}

/* --- bmc=auto -------------------------------------------------------------------------- */

/* The interfaces of bmc=auto for a server that listens on `listen`, or on everything, in a line. */
static const char *carriers(const struct hostnet *hostnet, const char *listen, bool with_lo)
{
    static char line[128];
    struct in6_addr addresses[2] = {{{{0}}}, {{{[10] = 0xff, [11] = 0xff}}}};
    struct hostnet_scope scope = {.listen = addresses, .nlisten = 2};
    char names[3][IF_NAMESIZE];
    size_t n, i;

    if (listen) {
        inet_pton(AF_INET6, listen, &addresses[0]);
        scope.nlisten = 1;
    }
    n = hostnet_carriers(hostnet, &scope, with_lo, names, 3);
    line[0] = '\0';
    for (i = 0; i < n; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", i ? " " : "", names[i]);
    return line;
}

static void test_carriers(struct hostnet *hostnet)
{
    static const struct {
        bool with_lo;
        const char *listen, *want, *name;
    } rows[] = {
        {false, NULL, "eth0 eth1",
         "all that are up, have an address and an Ethernet header, without lo"},
        {true, NULL, "lo eth0 eth1", "with lo that, too"},
        {false, "::ffff:0.0.0.0", "eth0 eth1", "for all of IPv4 those with such an address"},
        {false, "::", "eth0", "for all of IPv6 those with one that is not link-local"},
        {false, "fe80::1", "eth1", "a link-local address that is named counts"},
        {false, "::ffff:10.0.5.1", "eth0", "a VLAN is replaced by what is below it"},
        {false, "::ffff:127.0.0.9", "lo", "all of 127.0.0.0/8 is lo's"},
        {false, "::1", "lo", "so is ::1"},
        {false, "::ffff:10.0.3.1", "", "none for an address of an interface that is down"},
        {false, "::ffff:10.0.7.1", "eth5.9", "a VLAN whose interface below is elsewhere stays"},
    };

    LINK(.index = 1, .name = "lo", .loopback = true);
    LINK(.index = 2, .name = "eth0");
    LINK(.index = 3, .name = "eth0.5", .kind = "vlan", .vlan = 5, .lower = 2);
    LINK(.index = 4, .name = "eth1");
    LINK(.index = 5, .name = "eth2", .down = true);
    LINK(.index = 6, .name = "wg0", .bare = true);
    ADDRESS(1, "127.0.0.1", 0);
    ADDRESS(2, "10.0.2.1", 0);
    ADDRESS(3, "10.0.5.1", 0);
    ADDRESS(4, "10.0.4.1", 0);
    ADDRESS(5, "10.0.3.1", 0);
    ADDRESS(6, "10.0.6.1", 0);
    ADDRESS(1, "::1", 0);
    ADDRESS(3, "fd00::5", 0);
    ADDRESS(4, "fe80::1", 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got;

        if (i + 1 == sizeof(rows) / sizeof(rows[0])) {
            LINK(.index = 7, .name = "eth5.9", .kind = "vlan", .vlan = 9, .lower = 2,
                 .elsewhere = true);
            ADDRESS(7, "10.0.7.1", 0);
        }
        got = carriers(hostnet, rows[i].listen, rows[i].with_lo);
        ok(strcmp(got, rows[i].want) == 0, "bmc=auto: %s: %s", rows[i].name, got);
    }
}

static void with_hostnet(void (*test)(struct hostnet *hostnet))
{
    struct hostnet hostnet;

    hostnet_init(&hostnet);
    test(&hostnet);
    hostnet_fini(&hostnet);
}

int main(void)
{
    with_hostnet(test_addresses);
    with_hostnet(test_states);
    with_hostnet(test_macs);
    with_hostnet(test_vlans);
    with_hostnet(test_mtu);
    with_hostnet(test_ports);
    with_hostnet(test_ways);
    with_hostnet(test_open_way);
    with_hostnet(test_beside);
    with_hostnet(test_above);
    with_hostnet(test_beneath);
    with_hostnet(test_routes);
    with_hostnet(test_routes_words);
    with_hostnet(test_carriers);
    with_hostnet(test_many);
    with_hostnet(test_malformed);
    return done();
}
