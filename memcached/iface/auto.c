/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/auto.h"

#include <ifaddrs.h>
#include <linux/if_arp.h>
#include <stdbool.h>
#include <string.h>

#include "iface/link.h"

enum { VLAN_DEPTH_MAX = 8 }; /* of VLANs stacked on VLANs */

/* Converts an address to the form of kcache_attach: IPv4 mapped into IPv6. */
static bool read_address(const struct sockaddr *from, struct in6_addr *out)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    if (from && from->sa_family == AF_INET6) {
        memcpy(&v6, from, sizeof(v6));
        *out = v6.sin6_addr;
        return true;
    }
    if (!from || from->sa_family != AF_INET)
        return false;
    memcpy(&v4, from, sizeof(v4));
    memset(out, 0, sizeof(*out));
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &v4.sin_addr, sizeof(v4.sin_addr));
    return true;
}

/* Whether `listen` is the wildcard address of the family of `own`. */
static bool is_any(const struct in6_addr *listen, const struct in6_addr *own)
{
    static const struct in6_addr all_v4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

    return IN6_IS_ADDR_V4MAPPED(own) ? memcmp(listen, &all_v4, sizeof(all_v4)) == 0
                                     : IN6_IS_ADDR_UNSPECIFIED(listen);
}

/* All of 127.0.0.0/8 is lo's, not only its configured address. */
static bool is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127;
}

bool auto_is_loopback_alone(const struct in6_addr *addresses, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!is_loopback(&addresses[i]) && !IN6_IS_ADDR_LOOPBACK(&addresses[i]))
            return false;
    return n > 0;
}

/* Ignores link-local addresses: every interface has one. */
static bool carries(const struct ifaddrs *each, const struct in6_addr *addresses, size_t n,
                    bool with_lo)
{
    struct in6_addr own;
    size_t i;

    if (!(each->ifa_flags & IFF_UP) || !read_address(each->ifa_addr, &own))
        return false;
    if (each->ifa_flags & IFF_LOOPBACK && with_lo)
        return true;
    for (i = 0; i < n; i++)
        if (memcmp(&addresses[i], &own, sizeof(own)) == 0 ||
            (is_loopback(&addresses[i]) && is_loopback(&own)) ||
            (is_any(&addresses[i], &own) && !(each->ifa_flags & IFF_LOOPBACK) &&
             !IN6_IS_ADDR_LINKLOCAL(&own)))
            return true;
    return false;
}

/* Finds the interface itself, or the one below it if it is a VLAN in this network namespace. */
static bool find_lowest(const char *name, struct link_info *out)
{
    struct link_info lower;
    unsigned int storeys;

    if (link_read((int)if_nametoindex(name), out))
        return false;
    for (storeys = 0; storeys < VLAN_DEPTH_MAX; storeys++) {
        if (strcmp(out->kind, "vlan") != 0 || out->lower_elsewhere || link_read_lower(out, &lower))
            break;
        *out = lower;
    }
    return out->type == ARPHRD_ETHER || out->type == ARPHRD_LOOPBACK;
}

static bool is_listed(const char *name, char (*names)[IF_NAMESIZE], size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

size_t auto_interfaces(const struct in6_addr *addresses, size_t n, char (*names)[IF_NAMESIZE],
                       size_t max, bool with_lo)
{
    struct ifaddrs *all, *each;
    struct link_info link;
    size_t found = 0;

    if (getifaddrs(&all))
        return 0;
    for (each = all; each && found < max; each = each->ifa_next) {
        if (!carries(each, addresses, n, with_lo) || !find_lowest(each->ifa_name, &link) ||
            is_listed(link.name, names, found))
            continue;
        memcpy(names[found++], link.name, IF_NAMESIZE);
    }
    freeifaddrs(all);
    return found;
}
