/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/machine.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MAC_BYTES = 6, HEIGHT_MAX = 8 };

/* Bytes of a message. */
struct span {
    const unsigned char *at;
    size_t n;
};

void machine_init(struct machine *machine)
{
    *machine = (struct machine){0};
}

void machine_fini(struct machine *machine)
{
    free(machine->links);
    free(machine->addresses);
    machine_init(machine);
}

/* --- messages and attributes --------------------------------------------------- */

static struct span skip(struct span bytes, size_t n)
{
    n = n < bytes.n ? n : bytes.n;
    return (struct span){bytes.at + n, bytes.n - n};
}

/* Takes the next message from a datagram. False: there is no other; what is left is no message. */
static bool next_message(struct span *bytes, struct nlmsghdr *header, struct span *body)
{
    if (bytes->n < sizeof(*header))
        return false;
    memcpy(header, bytes->at, sizeof(*header));
    if (header->nlmsg_len < NLMSG_HDRLEN || header->nlmsg_len > bytes->n)
        return false;
    *body = (struct span){bytes->at + NLMSG_HDRLEN, header->nlmsg_len - NLMSG_HDRLEN};
    *bytes = skip(*bytes, NLMSG_ALIGN((size_t)header->nlmsg_len));
    return true;
}

/* The attribute `type` in a list; {NULL, 0}: none. The high bits of a type are flags. */
static struct span find(struct span list, unsigned int type)
{
    struct rtattr head;

    while (list.n >= sizeof(head)) {
        memcpy(&head, list.at, sizeof(head));
        if (head.rta_len < sizeof(head) || head.rta_len > list.n)
            break;
        if ((head.rta_type & NLA_TYPE_MASK) == type)
            return (struct span){list.at + sizeof(head), head.rta_len - sizeof(head)};
        list = skip(list, RTA_ALIGN((size_t)head.rta_len));
    }
    return (struct span){NULL, 0};
}

static uint32_t as_u32(struct span value, uint32_t otherwise)
{
    if (value.n >= sizeof(otherwise))
        memcpy(&otherwise, value.at, sizeof(otherwise));
    return otherwise;
}

static uint16_t as_u16(struct span value)
{
    uint16_t number = 0;

    if (value.n >= sizeof(number))
        memcpy(&number, value.at, sizeof(number));
    return number;
}

static bool says(struct span value, const char *text)
{
    size_t n = strlen(text);

    return value.n >= n && memcmp(value.at, text, n) == 0 && (value.n == n || !value.at[n]);
}

/* Room for one more of `size` bytes. */
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

static enum machine_kind kind_of(struct span attributes)
{
    static const struct {
        const char *name;
        enum machine_kind kind;
    } kinds[] = {{"vlan", MACHINE_VLAN},     {"macvlan", MACHINE_UPPER}, {"bond", MACHINE_MASTER},
                 {"bridge", MACHINE_MASTER}, {"team", MACHINE_MASTER},   {"vrf", MACHINE_VRF}};
    struct span kind = find(find(attributes, IFLA_LINKINFO), IFLA_INFO_KIND);
    size_t i;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (says(kind, kinds[i].name))
            return kinds[i].kind;
    return MACHINE_PLAIN;
}

/* Of a VLAN device, the tag that its packets have. */
static uint32_t tag_of(struct span attributes)
{
    struct span data = find(find(attributes, IFLA_LINKINFO), IFLA_INFO_DATA);
    uint16_t id = as_u16(find(data, IFLA_VLAN_ID));
    bool ad = as_u16(find(data, IFLA_VLAN_PROTOCOL)) == htons(ETH_P_8021AD);

    return (id & (MC_VLAN_AD - 1)) | (ad ? MC_VLAN_AD : 0);
}

static struct machine_link read_link(const struct ifinfomsg *info, struct span attributes)
{
    struct machine_link link = {.ifindex = info->ifi_index,
                                .up = info->ifi_flags & IFF_UP,
                                .kind = kind_of(attributes),
                                .mtu = as_u32(find(attributes, IFLA_MTU), 0),
                                .master = (int)as_u32(find(attributes, IFLA_MASTER), 0)};
    struct span name = find(attributes, IFLA_IFNAME), mac = find(attributes, IFLA_ADDRESS);

    if (link.kind == MACHINE_VLAN)
        link.tag = tag_of(attributes);
    if ((link.kind == MACHINE_VLAN || link.kind == MACHINE_UPPER) &&
        !find(attributes, IFLA_LINK_NETNSID).at)
        link.lower = (int)as_u32(find(attributes, IFLA_LINK), 0);
    memcpy(link.name, name.at ? name.at : (const unsigned char *)"",
           name.n < sizeof(link.name) ? name.n : sizeof(link.name) - 1);
    if (mac.n == MAC_BYTES) {
        link.has_mac = true;
        memcpy(&link.mac, mac.at, MAC_BYTES);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        link.mac = __builtin_bswap64(link.mac);
#endif
    }
    return link;
}

static size_t find_link(const struct machine *machine, int ifindex)
{
    size_t i;

    for (i = 0; i < machine->nlinks; i++)
        if (machine->links[i].ifindex == ifindex)
            break;
    return i;
}

static void remove_addresses_of(struct machine *machine, int ifindex)
{
    size_t i, kept = 0;

    for (i = 0; i < machine->naddresses; i++)
        if (machine->addresses[i].ifindex != ifindex)
            machine->addresses[kept++] = machine->addresses[i];
    machine->naddresses = kept;
}

static bool same_link(const struct machine_link *a, const struct machine_link *b)
{
    return memcmp(a, b, offsetof(struct machine_link, near)) == 0;
}

static unsigned int put_link(struct machine *machine, const struct machine_link *link, bool dump)
{
    size_t i = dump ? machine->nlinks : find_link(machine, link->ifindex);

    if (i < machine->nlinks && same_link(&machine->links[i], link))
        return 0;
    if (i == machine->nlinks) {
        if (!reserve((void **)&machine->links, i, &machine->links_room, sizeof(*link)))
            return MACHINE_BAD;
        machine->nlinks++;
    }
    machine->links[i] = *link;
    return MACHINE_LINKS;
}

static unsigned int take_link(struct machine *machine, bool new, struct span body, bool dump)
{
    struct span attributes = skip(body, NLMSG_ALIGN(sizeof(struct ifinfomsg)));
    struct machine_link link;
    struct ifinfomsg info;
    size_t i;

    if (body.n < sizeof(info))
        return MACHINE_BAD;
    memcpy(&info, body.at, sizeof(info));
    /* A bridge speaks of its ports in this way too, and a radio of what it hears. */
    if (info.ifi_family != AF_UNSPEC || find(attributes, IFLA_WIRELESS).at)
        return 0;
    if (new) {
        link = read_link(&info, attributes);
        return put_link(machine, &link, dump);
    }
    remove_addresses_of(machine, info.ifi_index);
    i = find_link(machine, info.ifi_index);
    if (i < machine->nlinks)
        machine->links[i] = machine->links[--machine->nlinks];
    return MACHINE_LINKS | MACHINE_ADDRESSES;
}

const struct machine_link *machine_link(const struct machine *machine, int ifindex)
{
    size_t i = find_link(machine, ifindex);

    return i < machine->nlinks ? &machine->links[i] : NULL;
}

const struct machine_link *machine_link_named(const struct machine *machine, const char *name)
{
    size_t i;

    for (i = 0; i < machine->nlinks; i++)
        if (strcmp(machine->links[i].name, name) == 0)
            return &machine->links[i];
    return NULL;
}

/* --- addresses --------------------------------------------------------------------- */

static bool read_address(struct span body, struct machine_address *out)
{
    struct span attributes = skip(body, NLMSG_ALIGN(sizeof(struct ifaddrmsg)));
    struct span local = find(attributes, IFA_LOCAL), peer = find(attributes, IFA_ADDRESS);
    struct ifaddrmsg info;
    size_t n;

    memcpy(&info, body.at, sizeof(info));
    n = info.ifa_family == AF_INET ? 4 : 16;
    local = local.at ? local : peer;
    if ((info.ifa_family != AF_INET && info.ifa_family != AF_INET6) || local.n != n ||
        (peer.at && peer.n != n))
        return false;
    *out = (struct machine_address){
        .ifindex = (int)info.ifa_index, .family = info.ifa_family, .prefix = info.ifa_prefixlen};
    memcpy(out->local, local.at, n);
    if (peer.at)
        memcpy(out->peer, peer.at, n);
    out->tentative =
        as_u32(find(attributes, IFA_FLAGS), info.ifa_flags) & (IFA_F_TENTATIVE | IFA_F_DADFAILED);
    return true;
}

static bool same_address(const struct machine_address *a, const struct machine_address *b)
{
    return memcmp(a, b, offsetof(struct machine_address, tentative)) == 0;
}

static unsigned int put_address(struct machine *machine, const struct machine_address *address,
                                bool dump)
{
    size_t i = dump ? machine->naddresses : 0;

    while (i < machine->naddresses && !same_address(&machine->addresses[i], address))
        i++;
    if (i < machine->naddresses && machine->addresses[i].tentative == address->tentative)
        return 0;
    if (i == machine->naddresses) {
        if (!reserve((void **)&machine->addresses, i, &machine->addresses_room, sizeof(*address)))
            return MACHINE_BAD;
        machine->naddresses++;
    }
    machine->addresses[i] = *address;
    return MACHINE_ADDRESSES;
}

static unsigned int take_address(struct machine *machine, bool new, struct span body, bool dump)
{
    struct machine_address address;
    size_t i, kept = 0;

    if (body.n < sizeof(struct ifaddrmsg))
        return MACHINE_BAD;
    if (!read_address(body, &address))
        return 0;
    if (new)
        return put_address(machine, &address, dump);
    for (i = 0; i < machine->naddresses; i++)
        if (!same_address(&machine->addresses[i], &address))
            machine->addresses[kept++] = machine->addresses[i];
    machine->naddresses = kept;
    return MACHINE_ADDRESSES;
}

/* --- datagrams ----------------------------------------------------------------------- */

static unsigned int take_message(struct machine *machine, const struct nlmsghdr *header,
                                 struct span body, bool dump)
{
    /* The kernel changed what it was dumping. */
    unsigned int said = header->nlmsg_flags & NLM_F_DUMP_INTR ? MACHINE_BAD : 0;

    switch (header->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
        return said | take_link(machine, header->nlmsg_type == RTM_NEWLINK, body, dump);
    case RTM_NEWADDR:
    case RTM_DELADDR:
        return said | take_address(machine, header->nlmsg_type == RTM_NEWADDR, body, dump);
    case NLMSG_DONE:
        return said | MACHINE_END;
    case NLMSG_ERROR:
    case NLMSG_OVERRUN:
        return said | MACHINE_BAD | MACHINE_END;
    default:
        return said;
    }
}

unsigned int machine_take(struct machine *machine, const void *bytes, size_t n, bool dump)
{
    struct span left = {bytes, n}, body;
    struct nlmsghdr header;
    unsigned int said = 0;

    while (next_message(&left, &header, &body))
        said |= take_message(machine, &header, body, dump);
    return left.n ? said | MACHINE_BAD : said;
}

/* --- who we are ------------------------------------------------------------------------ */

static bool is_attached(const struct machine_scope *scope, int ifindex)
{
    size_t i;

    for (i = 0; i < scope->nifindexes; i++)
        if (scope->ifindexes[i] == ifindex)
            return true;
    return false;
}

static bool in_vrf(const struct machine *machine, const struct machine_link *link)
{
    const struct machine_link *master = link->master ? machine_link(machine, link->master) : NULL;

    return link->kind == MACHINE_VRF || (master && master->kind == MACHINE_VRF);
}

/* The packets of an interface, or some of them, are also this upper one's. False: nothing new. */
static bool lift(struct machine *machine, const struct machine_link *from, struct machine_link *to)
{
    uint32_t tags = from->tags;

    if (to->kind == MACHINE_VLAN && tags >> 16)
        return false; /* a third tag */
    if (to->kind == MACHINE_VLAN)
        tags = tags ? tags | to->tag << 16 : to->tag;
    if (to->near || !to->up || in_vrf(machine, to))
        return false;
    to->near = true;
    to->tags = tags;
    return true;
}

/* One step up from what is near. False: there is nothing new. */
static bool spread(struct machine *machine)
{
    bool more = false;
    size_t i, other;

    for (i = 0; i < machine->nlinks; i++) {
        struct machine_link *link = &machine->links[i];

        other = find_link(machine, link->near ? link->master : link->lower);
        if (other == machine->nlinks)
            continue;
        if (!link->near && machine->links[other].near)
            more |= lift(machine, &machine->links[other], link);
        else if (link->near && machine->links[other].kind == MACHINE_MASTER)
            more |= lift(machine, link, &machine->links[other]);
    }
    return more;
}

/*
 * Whose packets may come in by an attached interface: its own, its members', and those of what
 * stands above these, floor by floor.
 */
static void mark_near(struct machine *machine, const struct machine_scope *scope)
{
    unsigned int height = 0;
    size_t i;

    for (i = 0; i < machine->nlinks; i++) {
        struct machine_link *link = &machine->links[i];

        link->near = (is_attached(scope, link->ifindex) ||
                      (link->master && is_attached(scope, link->master))) &&
                     !in_vrf(machine, link);
        link->tags = 0;
    }
    while (height < HEIGHT_MAX && spread(machine))
        height++;
}

static bool is_wanted(const struct machine_scope *scope, const struct machine_address *address)
{
    struct in6_addr wanted = {{{[10] = 0xff, [11] = 0xff}}}, all = wanted;
    size_t i;

    if (address->family == AF_INET) {
        memcpy(&wanted.s6_addr[12], address->local, 4);
    } else {
        memcpy(&wanted, address->local, sizeof(wanted));
        all = in6addr_any;
    }
    for (i = 0; i < scope->nlisten; i++)
        if (IN6_ARE_ADDR_EQUAL(&scope->listen[i], &wanted) ||
            IN6_ARE_ADDR_EQUAL(&scope->listen[i], &all))
            return true;
    return false;
}

/*
 * As the stack takes packets for it: IPv4 on whatever interface, also one that is down; IPv6 only
 * once it is known to be nobody else's, and while its interface is up. One that is good on a single
 * link (fe80::) could mean another machine on the next: those are the server's.
 */
static bool is_ours(const struct machine *machine, const struct machine_scope *scope,
                    const struct machine_address *address)
{
    const struct machine_link *link = machine_link(machine, address->ifindex);
    struct in6_addr v6;

    if (!link || in_vrf(machine, link) || address->tentative || !is_wanted(scope, address))
        return false;
    memcpy(&v6, address->local, sizeof(v6));
    return address->family == AF_INET || (link->up && !IN6_IS_ADDR_LINKLOCAL(&v6));
}

/* False: there is no room for it. */
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

static size_t add_addresses(const struct machine *machine, const struct machine_scope *scope,
                            bool near, struct mc_local *out)
{
    size_t i, left_out = 0;

    for (i = 0; i < machine->naddresses; i++) {
        const struct machine_address *address = &machine->addresses[i];

        if (!is_ours(machine, scope, address) ||
            machine_link(machine, address->ifindex)->near != near)
            continue;
        left_out += !(address->family == AF_INET ? add_v4(out, address->local)
                                                 : add_v6(out, address->local));
    }
    return left_out;
}

/* MAC addresses and VLANs of the attached interfaces, or of those above and below. */
static size_t add_ways(const struct machine *machine, const struct machine_scope *scope,
                       bool attached, struct mc_local *out)
{
    size_t i, left_out = 0;

    for (i = 0; i < machine->nlinks; i++) {
        const struct machine_link *link = &machine->links[i];

        if (!link->near || is_attached(scope, link->ifindex) != attached)
            continue;
        if (link->has_mac)
            left_out += !add_mac(out, link->mac);
        if (link->tags)
            left_out += !add_vlan(out, link->tags);
    }
    return left_out;
}

/* A packet that is larger fits some interface on its way, or all, in pieces alone. 0: any fits. */
static uint32_t least_mtu(const struct machine *machine)
{
    uint32_t least = 0;
    size_t i;

    for (i = 0; i < machine->nlinks; i++) {
        const struct machine_link *link = &machine->links[i];

        if (link->near && link->mtu && (!least || link->mtu < least))
            least = link->mtu;
    }
    return least;
}

size_t machine_local(struct machine *machine, const struct machine_scope *scope,
                     struct mc_local *out)
{
    mark_near(machine, scope);
    memset(out, 0, sizeof(*out));
    out->mtu = least_mtu(machine);
    return add_addresses(machine, scope, true, out) + add_addresses(machine, scope, false, out) +
           add_ways(machine, scope, true, out) + add_ways(machine, scope, false, out);
}

size_t machine_ports(const struct machine *machine, const struct machine_scope *scope,
                     struct mc_way_port *out)
{
    size_t i, n = 0;

    for (i = 0; i < machine->nlinks && n < MC_WAY_PORTS; i++) {
        const struct machine_link *link = &machine->links[i];

        if (link->master && is_attached(scope, link->master) && !is_attached(scope, link->ifindex))
            out[n++] = (struct mc_way_port){(uint32_t)link->ifindex, (uint32_t)link->master};
    }
    return n;
}
