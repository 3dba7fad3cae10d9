/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/hostnet.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bpf/attach/netlink.h"

enum { MAC_BYTES = 6, STACK_DEPTH_MAX = 8 };

void hostnet_init(struct hostnet *hostnet)
{
    *hostnet = (struct hostnet){0};
}

void hostnet_fini(struct hostnet *hostnet)
{
    free(hostnet->links);
    free(hostnet->addresses);
    free(hostnet->routes);
    hostnet_init(hostnet);
}

/* Makes room for one more element of `size` bytes. */
static bool reserve(void **rows, size_t n, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 16;
    void *grown;

    if (n < *room)
        return true;
    grown = reallocarray(*rows, more, size);
    if (!grown)
        return false;
    *rows = grown;
    *room = more;
    return true;
}

/* --- links ----------------------------------------------------------------------- */

static enum hostnet_kind kind_of(struct netlink attributes)
{
    static const struct {
        const char *name;
        enum hostnet_kind kind;
    } kinds[] = {{"vlan", HOSTNET_VLAN},      {"macvlan", HOSTNET_MACVLAN},
                 {"ipvlan", HOSTNET_MACVLAN}, {"bond", HOSTNET_MASTER},
                 {"bridge", HOSTNET_MASTER},  {"team", HOSTNET_MASTER},
                 {"vrf", HOSTNET_VRF}};
    struct netlink kind = netlink_find(netlink_find(attributes, IFLA_LINKINFO), IFLA_INFO_KIND);
    size_t i;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (netlink_is(kind, kinds[i].name))
            return kinds[i].kind;
    return HOSTNET_PLAIN;
}

/* The tag of a VLAN device's packets. */
static uint32_t tag_of(struct netlink attributes)
{
    struct netlink data = netlink_find(netlink_find(attributes, IFLA_LINKINFO), IFLA_INFO_DATA);
    uint16_t id = netlink_u16(netlink_find(data, IFLA_VLAN_ID));
    bool ad = netlink_u16(netlink_find(data, IFLA_VLAN_PROTOCOL)) == htons(ETH_P_8021AD);

    return (id & (MC_VLAN_AD - 1)) | (ad ? MC_VLAN_AD : 0);
}

static struct hostnet_link read_link(const struct ifinfomsg *info, struct netlink attributes)
{
    struct hostnet_link link = {
        .ifindex = info->ifi_index,
        .up = info->ifi_flags & IFF_UP,
        .loopback = info->ifi_flags & IFF_LOOPBACK,
        .ethernet = info->ifi_type == ARPHRD_ETHER || info->ifi_type == ARPHRD_LOOPBACK,
        .kind = kind_of(attributes),
        .mtu = netlink_u32(netlink_find(attributes, IFLA_MTU), 0),
        .master = (int)netlink_u32(netlink_find(attributes, IFLA_MASTER), 0)};
    struct netlink mac = netlink_find(attributes, IFLA_ADDRESS);

    if (link.kind == HOSTNET_VLAN)
        link.tag = tag_of(attributes);
    if ((link.kind == HOSTNET_VLAN || link.kind == HOSTNET_MACVLAN) &&
        !netlink_find(attributes, IFLA_LINK_NETNSID).at)
        link.lower = (int)netlink_u32(netlink_find(attributes, IFLA_LINK), 0);
    netlink_text(netlink_find(attributes, IFLA_IFNAME), link.name, sizeof(link.name));
    if (mac.n == MAC_BYTES) {
        link.has_mac = true;
        memcpy(&link.mac, mac.at, MAC_BYTES);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        link.mac = __builtin_bswap64(link.mac);
#endif
    }
    return link;
}

static size_t find_link(const struct hostnet *hostnet, int ifindex)
{
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++)
        if (hostnet->links[i].ifindex == ifindex)
            break;
    return i;
}

static void remove_addresses_of(struct hostnet *hostnet, int ifindex)
{
    size_t i, kept = 0;

    for (i = 0; i < hostnet->naddresses; i++)
        if (hostnet->addresses[i].ifindex != ifindex)
            hostnet->addresses[kept++] = hostnet->addresses[i];
    hostnet->naddresses = kept;
}

static bool same_link(const struct hostnet_link *a, const struct hostnet_link *b)
{
    return memcmp(a, b, offsetof(struct hostnet_link, reachable)) == 0;
}

static unsigned int put_link(struct hostnet *hostnet, const struct hostnet_link *link, bool dump)
{
    size_t i = dump ? hostnet->nlinks : find_link(hostnet, link->ifindex);

    if (i < hostnet->nlinks && same_link(&hostnet->links[i], link))
        return 0;
    if (i == hostnet->nlinks) {
        if (!reserve((void **)&hostnet->links, i, &hostnet->links_room, sizeof(*link)))
            return HOSTNET_STALE;
        hostnet->nlinks++;
    }
    hostnet->links[i] = *link;
    return HOSTNET_LINKS;
}

static unsigned int take_link(struct hostnet *hostnet, bool new, struct netlink body, bool dump)
{
    struct netlink attributes = netlink_skip(body, NLMSG_ALIGN(sizeof(struct ifinfomsg)));
    struct hostnet_link link;
    struct ifinfomsg info;
    size_t i;

    if (body.n < sizeof(info))
        return HOSTNET_STALE;
    memcpy(&info, body.at, sizeof(info));
    /* Ignores messages of bridges about their ports, and wireless events. */
    if (info.ifi_family != AF_UNSPEC || netlink_find(attributes, IFLA_WIRELESS).at)
        return 0;
    if (new) {
        link = read_link(&info, attributes);
        return put_link(hostnet, &link, dump);
    }
    remove_addresses_of(hostnet, info.ifi_index);
    i = find_link(hostnet, info.ifi_index);
    if (i < hostnet->nlinks)
        hostnet->links[i] = hostnet->links[--hostnet->nlinks];
    return HOSTNET_LINKS | HOSTNET_ADDRESSES;
}

const struct hostnet_link *hostnet_link(const struct hostnet *hostnet, int ifindex)
{
    size_t i = find_link(hostnet, ifindex);

    return i < hostnet->nlinks ? &hostnet->links[i] : NULL;
}

const struct hostnet_link *hostnet_link_named(const struct hostnet *hostnet, const char *name)
{
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++)
        if (strcmp(hostnet->links[i].name, name) == 0)
            return &hostnet->links[i];
    return NULL;
}

/* --- addresses --------------------------------------------------------------------- */

static bool read_address(struct netlink body, struct hostnet_address *out)
{
    struct netlink attributes = netlink_skip(body, NLMSG_ALIGN(sizeof(struct ifaddrmsg)));
    struct netlink local = netlink_find(attributes, IFA_LOCAL),
                   peer = netlink_find(attributes, IFA_ADDRESS);
    struct ifaddrmsg info;
    size_t n;

    memcpy(&info, body.at, sizeof(info));
    n = info.ifa_family == AF_INET ? 4 : 16;
    local = local.at ? local : peer;
    if ((info.ifa_family != AF_INET && info.ifa_family != AF_INET6) || local.n != n ||
        (peer.at && peer.n != n))
        return false;
    *out = (struct hostnet_address){
        .ifindex = (int)info.ifa_index, .family = info.ifa_family, .prefix = info.ifa_prefixlen};
    memcpy(out->local, local.at, n);
    if (peer.at)
        memcpy(out->peer, peer.at, n);
    out->tentative = netlink_u32(netlink_find(attributes, IFA_FLAGS), info.ifa_flags) &
                     (IFA_F_TENTATIVE | IFA_F_DADFAILED);
    return true;
}

static bool same_address(const struct hostnet_address *a, const struct hostnet_address *b)
{
    return memcmp(a, b, offsetof(struct hostnet_address, tentative)) == 0;
}

static unsigned int put_address(struct hostnet *hostnet, const struct hostnet_address *address,
                                bool dump)
{
    size_t i = dump ? hostnet->naddresses : 0;

    while (i < hostnet->naddresses && !same_address(&hostnet->addresses[i], address))
        i++;
    if (i < hostnet->naddresses && hostnet->addresses[i].tentative == address->tentative)
        return 0;
    if (i == hostnet->naddresses) {
        if (!reserve((void **)&hostnet->addresses, i, &hostnet->addresses_room, sizeof(*address)))
            return HOSTNET_STALE;
        hostnet->naddresses++;
    }
    hostnet->addresses[i] = *address;
    return HOSTNET_ADDRESSES;
}

static unsigned int take_address(struct hostnet *hostnet, bool new, struct netlink body, bool dump)
{
    struct hostnet_address address;
    size_t i, kept = 0;

    if (body.n < sizeof(struct ifaddrmsg))
        return HOSTNET_STALE;
    if (!read_address(body, &address))
        return 0;
    if (new)
        return put_address(hostnet, &address, dump);
    for (i = 0; i < hostnet->naddresses; i++)
        if (!same_address(&hostnet->addresses[i], &address))
            hostnet->addresses[kept++] = hostnet->addresses[i];
    hostnet->naddresses = kept;
    return HOSTNET_ADDRESSES;
}

static bool is_link_local(uint8_t family, const uint8_t *address)
{
    return family == AF_INET6 && address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

/* --- routes ------------------------------------------------------------------------- */

/* Puts a route with a next hop, if that is there. */
static unsigned int put_route(struct hostnet *hostnet, struct hostnet_route route, int ifindex,
                              struct netlink hop, unsigned int flags)
{
    if (!ifindex || flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN))
        return 0;
    if (hostnet->nroutes == HOSTNET_ROUTES_MAX)
        return HOSTNET_END;
    if (!reserve((void **)&hostnet->routes, hostnet->nroutes, &hostnet->routes_room, sizeof(route)))
        return HOSTNET_STALE | HOSTNET_END;
    route.ifindex = ifindex;
    route.gateway = netlink_find(hop, RTA_GATEWAY).at || netlink_find(hop, RTA_VIA).at;
    hostnet->routes[hostnet->nroutes++] = route;
    return 0;
}

static unsigned int put_hops(struct hostnet *hostnet, const struct hostnet_route *route,
                             struct netlink hops)
{
    unsigned int changes = 0;
    struct rtnexthop hop;

    while (hops.n >= sizeof(hop)) {
        memcpy(&hop, hops.at, sizeof(hop));
        if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > hops.n)
            return HOSTNET_STALE;
        changes |= put_route(hostnet, *route, hop.rtnh_ifindex,
                             netlink_skip((struct netlink){hops.at, hop.rtnh_len}, sizeof(hop)),
                             hop.rtnh_flags);
        hops = netlink_skip(hops, RTNH_ALIGN((size_t)hop.rtnh_len));
    }
    return changes;
}

/* Takes those to other machines, but not those of one link alone. */
static unsigned int take_route(struct hostnet *hostnet, struct netlink body)
{
    struct netlink attributes = netlink_skip(body, NLMSG_ALIGN(sizeof(struct rtmsg)));
    struct netlink to = netlink_find(attributes, RTA_DST),
                   hops = netlink_find(attributes, RTA_MULTIPATH);
    struct hostnet_route route;
    struct rtmsg info;
    size_t n;

    if (body.n < sizeof(info))
        return HOSTNET_STALE;
    memcpy(&info, body.at, sizeof(info));
    n = info.rtm_family == AF_INET ? 4 : 16;
    if ((info.rtm_family != AF_INET && info.rtm_family != AF_INET6) ||
        info.rtm_type != RTN_UNICAST || info.rtm_flags & RTM_F_CLONED || (to.at && to.n != n))
        return 0;
    route = (struct hostnet_route){
        .table = netlink_u32(netlink_find(attributes, RTA_TABLE), info.rtm_table),
        .metric = netlink_u32(netlink_find(attributes, RTA_PRIORITY), 0),
        .family = info.rtm_family,
        .prefix = info.rtm_dst_len};
    if (to.at)
        memcpy(route.to, to.at, n);
    if (is_link_local(route.family, route.to))
        return 0;
    if (hops.at)
        return put_hops(hostnet, &route, hops);
    return put_route(hostnet, route, (int)netlink_u32(netlink_find(attributes, RTA_OIF), 0),
                     attributes, info.rtm_flags);
}

/* --- datagrams ----------------------------------------------------------------------- */

static unsigned int take_message(struct hostnet *hostnet, const struct nlmsghdr *header,
                                 struct netlink body, bool dump)
{
    /* The kernel's tables changed during the dump. */
    unsigned int changes = header->nlmsg_flags & NLM_F_DUMP_INTR ? HOSTNET_STALE : 0;

    switch (header->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
        return changes | take_link(hostnet, header->nlmsg_type == RTM_NEWLINK, body, dump);
    case RTM_NEWADDR:
    case RTM_DELADDR:
        return changes | take_address(hostnet, header->nlmsg_type == RTM_NEWADDR, body, dump);
    case RTM_NEWROUTE:
        return changes | (dump ? take_route(hostnet, body) : 0);
    case NLMSG_DONE:
        return changes | HOSTNET_END;
    case NLMSG_ERROR:
    case NLMSG_OVERRUN:
        return changes | HOSTNET_STALE | HOSTNET_END;
    default:
        return changes;
    }
}

unsigned int hostnet_update(struct hostnet *hostnet, const void *bytes, size_t n, bool dump)
{
    struct netlink left = {bytes, n}, body;
    struct nlmsghdr header;
    unsigned int changes = 0;

    while (netlink_next(&left, &header, &body))
        changes |= take_message(hostnet, &header, body, dump);
    return left.n ? changes | HOSTNET_STALE : changes;
}

/* --- local addresses ------------------------------------------------------------------- */

static bool is_attached(const struct hostnet_scope *scope, int ifindex)
{
    size_t i;

    for (i = 0; i < scope->nifindexes; i++)
        if (scope->ifindexes[i] == ifindex)
            return true;
    return false;
}

static bool in_vrf(const struct hostnet *hostnet, const struct hostnet_link *link)
{
    const struct hostnet_link *master = link->master ? hostnet_link(hostnet, link->master) : NULL;

    return link->kind == HOSTNET_VRF || (master && master->kind == HOSTNET_VRF);
}

/* Marks `to` as reachable by packets of `from`, or some of them. False: no change. */
static bool propagate_link(struct hostnet *hostnet, const struct hostnet_link *from,
                           struct hostnet_link *to)
{
    uint32_t tags = from->tags;

    if (to->kind == HOSTNET_VLAN && tags >> 16)
        return false; /* a third tag */
    if (to->kind == HOSTNET_VLAN)
        tags = tags ? tags | to->tag << 16 : to->tag;
    if (to->reachable || !to->up || in_vrf(hostnet, to))
        return false;
    to->reachable = true;
    to->tags = tags;
    return true;
}

/* Marks interfaces one level above reachable ones. False: no change. */
static bool propagate(struct hostnet *hostnet)
{
    bool more = false;
    size_t i, other;

    for (i = 0; i < hostnet->nlinks; i++) {
        struct hostnet_link *link = &hostnet->links[i];

        other = find_link(hostnet, link->reachable ? link->master : link->lower);
        if (other == hostnet->nlinks)
            continue;
        if (!link->reachable && hostnet->links[other].reachable)
            more |= propagate_link(hostnet, &hostnet->links[other], link);
        else if (link->reachable && hostnet->links[other].kind == HOSTNET_MASTER)
            more |= propagate_link(hostnet, link, &hostnet->links[other]);
    }
    return more;
}

/*
 * Marks the interfaces whose packets may arrive by an attached one: itself, its members, and the
 * interfaces above these, level by level.
 */
static void mark_reachable(struct hostnet *hostnet, const struct hostnet_scope *scope)
{
    unsigned int height = 0;
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++) {
        struct hostnet_link *link = &hostnet->links[i];

        link->reachable = (is_attached(scope, link->ifindex) ||
                           (link->master && is_attached(scope, link->master))) &&
                          !in_vrf(hostnet, link);
        link->tags = 0;
    }
    while (height < STACK_DEPTH_MAX && propagate(hostnet))
        height++;
}

/* Whether the server listens on an address: not, on all of its family, or on this one. */
enum wanted { WANTED_NOT, WANTED_BY_ALL, WANTED };

/* Of 127.0.0.0/8, which is lo's as a whole. */
static bool is_loopback_v4(const struct in6_addr *address)
{
    return IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127;
}

static enum wanted is_wanted(const struct hostnet_scope *scope,
                             const struct hostnet_address *address)
{
    struct in6_addr own = {{{[10] = 0xff, [11] = 0xff}}}, all = own;
    enum wanted wanted = WANTED_NOT;
    size_t i;

    if (address->family == AF_INET) {
        memcpy(&own.s6_addr[12], address->local, 4);
    } else {
        memcpy(&own, address->local, sizeof(own));
        all = in6addr_any;
    }
    for (i = 0; i < scope->nlisten && wanted != WANTED; i++)
        if (IN6_ARE_ADDR_EQUAL(&scope->listen[i], &own))
            wanted = WANTED;
        else if (IN6_ARE_ADDR_EQUAL(&scope->listen[i], &all))
            wanted = WANTED_BY_ALL;
    return wanted;
}

/*
 * Whether the network stack accepts packets to the address: IPv4 on any interface, also one that is
 * down; IPv6 only after duplicate address detection, and while its interface is up. Link-local
 * addresses (fe80::) can belong to another machine on another link: the server answers those.
 */
static bool is_ours(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                    const struct hostnet_address *address)
{
    const struct hostnet_link *link = hostnet_link(hostnet, address->ifindex);

    if (!link || in_vrf(hostnet, link) || address->tentative || !is_wanted(scope, address))
        return false;
    return address->family == AF_INET ||
           (link->up && !is_link_local(address->family, address->local));
}

/* False: there is no room. */
static bool add_v4(struct mc_local *out, const uint8_t *bytes)
{
    uint32_t address, i;

    memcpy(&address, bytes, sizeof(address));
    for (i = 0; i < out->n4; i++)
        if (out->v4[i] == address)
            return true;
    if (!address || out->n4 == MC_MAX_ADDRESSES)
        return !address;
    out->v4[out->n4++] = address;
    return true;
}

static bool add_v6(struct mc_local *out, const uint8_t *bytes)
{
    uint32_t i;

    for (i = 0; i < out->n6; i++)
        if (memcmp(out->v6[i], bytes, sizeof(out->v6[i])) == 0)
            return true;
    if (out->n6 == MC_MAX_ADDRESSES)
        return false;
    memcpy(out->v6[out->n6++], bytes, sizeof(out->v6[0]));
    return true;
}

static bool add_mac(struct mc_local *out, uint64_t mac)
{
    uint32_t i;

    for (i = 0; i < out->nmacs; i++)
        if (out->macs[i] == mac)
            return true;
    if (out->nmacs == MC_MAX_MACS)
        return false;
    out->macs[out->nmacs++] = mac;
    return true;
}

static bool add_vlan(struct mc_local *out, uint32_t tags)
{
    uint32_t i;

    for (i = 0; i < out->nvlans; i++)
        if (out->vlans[i] == tags)
            return true;
    if (out->nvlans == MC_MAX_VLANS)
        return false;
    out->vlans[out->nvlans++] = tags;
    return true;
}

static size_t add_addresses(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                            bool reachable, struct mc_local *out)
{
    size_t i, left_out = 0;

    for (i = 0; i < hostnet->naddresses; i++) {
        const struct hostnet_address *address = &hostnet->addresses[i];

        if (!is_ours(hostnet, scope, address) ||
            hostnet_link(hostnet, address->ifindex)->reachable != reachable)
            continue;
        left_out += !(address->family == AF_INET ? add_v4(out, address->local)
                                                 : add_v6(out, address->local));
    }
    return left_out;
}

/* MAC addresses and VLANs of the attached interfaces, or of those above and below. */
static size_t add_macs_and_vlans(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                                 bool attached, struct mc_local *out)
{
    size_t i, left_out = 0;

    for (i = 0; i < hostnet->nlinks; i++) {
        const struct hostnet_link *link = &hostnet->links[i];

        if (!link->reachable || is_attached(scope, link->ifindex) != attached)
            continue;
        if (link->has_mac)
            left_out += !add_mac(out, link->mac);
        if (link->tags)
            left_out += !add_vlan(out, link->tags);
    }
    return left_out;
}

/* The least MTU of reachable interfaces: a larger packet would be fragmented. 0: no limit. */
static uint32_t least_mtu(const struct hostnet *hostnet)
{
    uint32_t least = 0;
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++) {
        const struct hostnet_link *link = &hostnet->links[i];

        if (link->reachable && link->mtu && (!least || link->mtu < least))
            least = link->mtu;
    }
    return least;
}

size_t hostnet_local(struct hostnet *hostnet, const struct hostnet_scope *scope,
                     struct mc_local *out)
{
    mark_reachable(hostnet, scope);
    memset(out, 0, sizeof(*out));
    out->mtu = least_mtu(hostnet);
    return add_addresses(hostnet, scope, true, out) + add_addresses(hostnet, scope, false, out) +
           add_macs_and_vlans(hostnet, scope, true, out) +
           add_macs_and_vlans(hostnet, scope, false, out);
}

size_t hostnet_ports(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                     struct mc_return_path_port *out)
{
    size_t i, n = 0;

    for (i = 0; i < hostnet->nlinks && n < MC_RETURN_PATH_PORTS; i++) {
        const struct hostnet_link *link = &hostnet->links[i];

        if (link->master && is_attached(scope, link->master) && !is_attached(scope, link->ifindex))
            out[n++] =
                (struct mc_return_path_port){(uint32_t)link->ifindex, (uint32_t)link->master};
    }
    return n;
}

/* --- ways out ------------------------------------------------------------------------------ */

/* Whether it has members, which all lead to an attached interface. */
static bool leads_by_members(const struct hostnet *hostnet, struct hostnet_link *master)
{
    bool any = false;
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++) {
        if (hostnet->links[i].master != master->ifindex)
            continue;
        if (!hostnet->links[i].leads)
            return false;
        any = true;
        if (hostnet->links[i].ntags > master->ntags)
            master->ntags = hostnet->links[i].ntags;
    }
    return any;
}

static bool leads_by_tag(const struct hostnet_link *lower, struct hostnet_link *vlan)
{
    vlan->ntags = 1;
    return lower && lower->leads && !lower->ntags;
}

/* Marks interfaces one level above those that lead there. False: no change. */
static bool propagate_ways(struct hostnet *hostnet)
{
    bool more = false;
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++) {
        struct hostnet_link *link = &hostnet->links[i];

        if (link->leads || (link->kind != HOSTNET_VLAN && link->kind != HOSTNET_MASTER))
            continue;
        link->leads = link->kind == HOSTNET_VLAN
                          ? leads_by_tag(hostnet_link(hostnet, link->lower), link)
                          : leads_by_members(hostnet, link);
        more |= link->leads;
    }
    return more;
}

size_t hostnet_ways(struct hostnet *hostnet, const struct hostnet_scope *scope, int *out,
                    size_t max)
{
    unsigned int height = 0;
    size_t i, n = 0;

    for (i = 0; i < hostnet->nlinks; i++) {
        hostnet->links[i].leads = is_attached(scope, hostnet->links[i].ifindex);
        hostnet->links[i].ntags = 0;
    }
    while (height < STACK_DEPTH_MAX && propagate_ways(hostnet))
        height++;
    for (i = 0; i < hostnet->nlinks && n < max; i++)
        if (hostnet->links[i].leads)
            out[n++] = hostnet->links[i].ifindex;
    return n;
}

/* Whether what leaves by an interface may leave by no attached one. */
static bool is_open(const struct hostnet *hostnet, const struct hostnet_link *link)
{
    const struct hostnet_link *master = hostnet_link(hostnet, link->master);

    return link->up && !link->loopback && !link->leads && !(master && master->leads);
}

const struct hostnet_link *hostnet_open_way(const struct hostnet *hostnet)
{
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++)
        if (is_open(hostnet, &hostnet->links[i]))
            return &hostnet->links[i];
    return NULL;
}

/* Whether the shorter of both prefixes is that of both addresses. */
static bool share_subnet(const struct hostnet_address *a, const struct hostnet_address *b)
{
    const unsigned int bits = a->prefix < b->prefix ? a->prefix : b->prefix;
    const unsigned int last = bits / 8, most = a->family == AF_INET ? 32 : 128;

    if (a->family != b->family || bits > most || is_link_local(a->family, a->local))
        return false;
    return memcmp(a->local, b->local, last) == 0 &&
           (bits % 8 == 0 || (a->local[last] ^ b->local[last]) >> (8 - bits % 8) == 0);
}

/* Whether it is there, and the server's replies may leave by it and no attached one. */
static bool avoids(const struct hostnet *hostnet, const struct hostnet_link *link)
{
    return link && is_open(hostnet, link) && !in_vrf(hostnet, link);
}

/*
 * The interface that leads to an attached one, and has a subnet which the address is of. all: with
 * all of its own subnet.
 */
static const struct hostnet_link *subnet_of(const struct hostnet *hostnet,
                                            const struct hostnet_address *address, bool all)
{
    const struct hostnet_link *link;
    size_t i;

    for (i = 0; i < hostnet->naddresses; i++) {
        link = hostnet_link(hostnet, hostnet->addresses[i].ifindex);
        if (link && link->leads && !link->loopback &&
            (!all || address->prefix >= hostnet->addresses[i].prefix) &&
            share_subnet(address, &hostnet->addresses[i]))
            return link;
    }
    return NULL;
}

/* An attached interface beneath this one, or further down. */
static const struct hostnet_link *attached_beneath(const struct hostnet *hostnet,
                                                   const struct hostnet_scope *scope,
                                                   const struct hostnet_link *link)
{
    const struct hostnet_link *beneath;
    unsigned int height;
    size_t i;

    for (height = 0; link && height < STACK_DEPTH_MAX; height++) {
        for (i = 0; i < scope->nifindexes; i++) {
            beneath = hostnet_link(hostnet, scope->ifindexes[i]);
            if (beneath && (beneath->master == link->ifindex || link->lower == beneath->ifindex))
                return beneath;
        }
        link = hostnet_link(hostnet, link->lower);
    }
    return NULL;
}

const struct hostnet_link *hostnet_lowest(const struct hostnet *hostnet,
                                          const struct hostnet_link *link)
{
    const struct hostnet_link *below = link;
    unsigned int height;

    for (height = 0; below && below->kind == HOSTNET_VLAN && height < STACK_DEPTH_MAX; height++) {
        link = below;
        below = hostnet_link(hostnet, link->lower);
    }
    return below ? below : link;
}

/* Adds an interface, or gives one that is there for a route another of more machines. */
static size_t add_beside(const struct hostnet *hostnet, struct hostnet_beside *out, size_t n,
                         size_t max, struct hostnet_beside beside)
{
    size_t i;

    for (i = 0; i < n && out[i].link != beside.link;)
        i++;
    if (i == max || (i < n && (!out[i].route || out[i].route->prefix <= beside.route->prefix)))
        return n;
    beside.carrier = hostnet_lowest(hostnet, beside.link);
    if (!beside.carrier->ethernet)
        beside.carrier = NULL;
    out[i] = beside;
    return i < n ? n : n + 1;
}

/* Whether another route to the same is taken as long as it is there. */
static bool is_spare(const struct hostnet *hostnet, const struct hostnet_route *route)
{
    const size_t key =
        offsetof(struct hostnet_route, ifindex) - offsetof(struct hostnet_route, family);
    size_t i;

    for (i = 0; i < hostnet->nroutes; i++)
        if (hostnet->routes[i].table == route->table && hostnet->routes[i].metric < route->metric &&
            memcmp(&hostnet->routes[i].family, &route->family, key) == 0)
            return true;
    return false;
}

/*
 * Whether a route leads to clients of the attached interfaces: those behind routers may come by any
 * interface. Others are at its own, unless it leads into a subnet of an attached one.
 */
static bool leads_to_clients(const struct hostnet *hostnet, const struct hostnet_route *route)
{
    struct hostnet_address to = {.family = route->family, .prefix = route->prefix};

    memcpy(to.local, route->to, sizeof(to.local));
    return (route->gateway || !route->prefix || subnet_of(hostnet, &to, true)) &&
           !is_spare(hostnet, route);
}

static bool any_leads_away(const struct hostnet *hostnet)
{
    size_t i;

    for (i = 0; i < hostnet->nlinks; i++)
        if (hostnet->links[i].leads && !hostnet->links[i].loopback)
            return true;
    return false;
}

size_t hostnet_beside(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                      struct hostnet_beside *out, size_t max)
{
    struct hostnet_beside beside;
    size_t i, n = 0;

    if (!any_leads_away(hostnet))
        return 0;
    for (i = 0; i < hostnet->naddresses; i++) {
        beside =
            (struct hostnet_beside){.link = hostnet_link(hostnet, hostnet->addresses[i].ifindex)};
        if (!avoids(hostnet, beside.link))
            continue;
        beside.attached = subnet_of(hostnet, &hostnet->addresses[i], false);
        if (!beside.attached && is_ours(hostnet, scope, &hostnet->addresses[i])) {
            beside.why = HOSTNET_ABOVE;
            beside.attached = attached_beneath(hostnet, scope, beside.link);
        }
        if (beside.attached)
            n = add_beside(hostnet, out, n, max, beside);
    }
    for (i = 0; i < hostnet->nroutes; i++) {
        beside = (struct hostnet_beside){.why = HOSTNET_ROUTE,
                                         .link = hostnet_link(hostnet, hostnet->routes[i].ifindex),
                                         .route = &hostnet->routes[i]};
        if (avoids(hostnet, beside.link) && leads_to_clients(hostnet, beside.route))
            n = add_beside(hostnet, out, n, max, beside);
    }
    return n;
}

/* One that has the MAC address of the interface beneath takes what comes there. */
const struct hostnet_link *hostnet_beneath(const struct hostnet *hostnet,
                                           const struct hostnet_scope *scope, int ifindex)
{
    const struct hostnet_link *link = hostnet_link(hostnet, ifindex);
    const struct hostnet_link *lower = link ? hostnet_link(hostnet, link->lower) : NULL;
    size_t i;

    if (!lower || link->kind != HOSTNET_MACVLAN || lower->mac == link->mac || lower->reachable ||
        !lower->up)
        return NULL;
    for (i = 0; i < hostnet->naddresses; i++)
        if (hostnet->addresses[i].family == AF_INET && hostnet->addresses[i].ifindex == ifindex &&
            is_ours(hostnet, scope, &hostnet->addresses[i]))
            return lower;
    return NULL;
}

/* At most `most` steps down. */
static unsigned int height_of(const struct hostnet *hostnet, const struct hostnet_link *link,
                              unsigned int most)
{
    unsigned int height = 0, other;
    size_t i;

    for (i = 0; most && i < hostnet->nlinks; i++) {
        if (hostnet->links[i].master != link->ifindex &&
            (!link->lower || link->lower != hostnet->links[i].ifindex))
            continue;
        other = 1 + height_of(hostnet, &hostnet->links[i], most - 1);
        height = other > height ? other : height;
    }
    return height;
}

unsigned int hostnet_height(const struct hostnet *hostnet, int ifindex)
{
    const struct hostnet_link *link = hostnet_link(hostnet, ifindex);

    return link ? height_of(hostnet, link, STACK_DEPTH_MAX) : 0;
}

/* --- bmc=auto -------------------------------------------------------------------------- */

bool hostnet_is_loopback(const struct hostnet_scope *scope)
{
    size_t i;

    for (i = 0; i < scope->nlisten; i++)
        if (!is_loopback_v4(&scope->listen[i]) && !IN6_IS_ADDR_LOOPBACK(&scope->listen[i]))
            return false;
    return scope->nlisten > 0;
}

static bool carries(const struct hostnet_scope *scope, const struct hostnet_link *link,
                    const struct hostnet_address *address, bool with_lo)
{
    const enum wanted wanted = is_wanted(scope, address);
    size_t i;

    if (!link || !link->up)
        return false;
    if (address->family == AF_INET && address->local[0] == 127)
        for (i = 0; i < scope->nlisten; i++)
            if (is_loopback_v4(&scope->listen[i]))
                return true;
    return wanted == WANTED ||
           (link->loopback ? with_lo : wanted && !is_link_local(address->family, address->local));
}

size_t hostnet_carriers(const struct hostnet *hostnet, const struct hostnet_scope *scope,
                        bool with_lo, char (*names)[IF_NAMESIZE], size_t max)
{
    const struct hostnet_link *link;
    size_t n = 0, i, j;

    for (i = 0; i < hostnet->naddresses && n < max; i++) {
        link = hostnet_link(hostnet, hostnet->addresses[i].ifindex);
        if (!carries(scope, link, &hostnet->addresses[i], with_lo))
            continue;
        link = hostnet_lowest(hostnet, link);
        for (j = 0; j < n && strcmp(names[j], link->name) != 0;)
            j++;
        if (link->ethernet && j == n)
            memcpy(names[n++], link->name, IF_NAMESIZE);
    }
    return n;
}
