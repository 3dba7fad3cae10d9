/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/self.h"

#include <ifaddrs.h>
#include <linux/if_arp.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>

/* False: there is no room for it. */
static bool add_v4(struct mc_self *self, const void *address)
{
    uint32_t i, v4;

    memcpy(&v4, address, sizeof(v4));
    for (i = 0; i < self->n4; i++)
        if (self->v4[i] == v4)
            return true;
    if (self->n4 == MC_MAX_ADDRESSES)
        return false;
    self->v4[self->n4++] = v4;
    return true;
}

/* The address of a link may be another machine's on another link: it is left to the stack. */
static bool add_v6(struct mc_self *self, const struct in6_addr *address)
{
    uint32_t i;

    if (IN6_IS_ADDR_LINKLOCAL(address))
        return true;
    for (i = 0; i < self->n6; i++)
        if (memcmp(self->v6[i], address, sizeof(*address)) == 0)
            return true;
    if (self->n6 == MC_MAX_ADDRESSES)
        return false;
    memcpy(self->v6[self->n6++], address, sizeof(*address));
    return true;
}

static bool add_station(struct mc_self *self, const struct sockaddr_ll *link)
{
    uint64_t station = 0;
    uint32_t i;

    if (link->sll_hatype != ARPHRD_ETHER || link->sll_halen != 6)
        return true;
    memcpy(&station, link->sll_addr, 6);
    for (i = 0; i < self->nstations; i++)
        if (self->stations[i] == station)
            return true;
    if (self->nstations == MC_MAX_STATIONS)
        return false;
    self->stations[self->nstations++] = station;
    return true;
}

/* Which families all of whose addresses are wanted. */
struct wanted {
    bool v4, v6;
};

/* What one entry of getifaddrs says: an address, or an interface. */
static bool add_entry(struct mc_self *self, const struct ifaddrs *entry,
                      const struct wanted *wanted)
{
    const struct sockaddr *address = entry->ifa_addr;

    if (!address)
        return true;
    if (address->sa_family == AF_PACKET)
        return add_station(self, (const void *)address);
    if (address->sa_family == AF_INET && wanted->v4)
        return add_v4(self, &((const struct sockaddr_in *)(const void *)address)->sin_addr);
    if (address->sa_family == AF_INET6 && wanted->v6)
        return add_v6(self, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    return true;
}

static bool is_among(const char *name, const char *const *names, unsigned int n)
{
    unsigned int i;

    for (i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* What the server names, and which families it wants all of. */
static bool add_listening(struct mc_self *self, const struct in6_addr *listen, size_t n,
                          struct wanted *wanted)
{
    bool room = true;
    size_t i;

    for (i = 0; i < n; i++) {
        const struct in6_addr *each = &listen[i];
        bool mapped = IN6_IS_ADDR_V4MAPPED(each);

        if (IN6_IS_ADDR_UNSPECIFIED(each))
            wanted->v6 = true;
        else if (mapped && each->s6_addr32[3] == 0)
            wanted->v4 = true;
        else
            room &= mapped ? add_v4(self, &each->s6_addr[12]) : add_v6(self, each);
    }
    return room;
}

bool self_find(struct mc_self *self, const struct in6_addr *listen, size_t n,
               const char *const *first, unsigned int nfirst)
{
    struct wanted wanted = {false, false};
    struct ifaddrs *all, *each;
    unsigned int pass;
    bool room;

    memset(self, 0, sizeof(*self));
    room = add_listening(self, listen, n, &wanted);
    if (getifaddrs(&all))
        return room;
    for (pass = 0; pass < 2; pass++)
        for (each = all; each; each = each->ifa_next)
            if (pass || is_among(each->ifa_name, first, nfirst))
                room &= add_entry(self, each, &wanted);
    freeifaddrs(all);
    return room;
}

void self_publish(struct mc_control *control, const struct mc_self *self)
{
    uint32_t next = !control->self_now;

    control->self[next] = *self;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&control->v4, self->n4 ? self->v4[0] : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&control->station,
                     self->nstations && !self->tags_hidden ? self->stations[0] : MC_NO_STATION,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&control->self_now, next, __ATOMIC_RELEASE);
}
