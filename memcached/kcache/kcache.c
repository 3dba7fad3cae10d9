/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/kcache.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/loader.h"
#include "kcache/veth.h"

struct kcache {
    struct provider provider;
    struct loader *loader;
    struct loader_link links[KCACHE_MAX_INTERFACES];
    const char *names[KCACHE_MAX_INTERFACES];
    unsigned int ninterfaces;
    enum kcache_mode mode;
    pthread_mutex_t lock;      /* of baseline */
    struct mc_counts baseline; /* what was counted before the last reset */
};

/* --- memory ---------------------------------------------------------------- */

static struct kcache *of_provider(struct provider *provider)
{
    return (struct kcache *)((char *)provider - offsetof(struct kcache, provider));
}

static int provide_segment(struct provider *provider, uint32_t index, void *addr)
{
    return loader_map_segment(of_provider(provider)->loader, index, addr);
}

static int provide_table(struct provider *provider, uint32_t index, void *addr)
{
    return loader_map_table(of_provider(provider)->loader, index, addr);
}

static struct mc_control *provide_control(struct provider *provider)
{
    return loader_control(of_provider(provider)->loader);
}

struct provider *kcache_provider(struct kcache *kcache)
{
    return &kcache->provider;
}

static int find_interfaces(struct kcache *kcache, const struct kcache_options *options, char *error,
                           size_t nerror)
{
    unsigned int i, ifindex;

    for (i = 0; i < options->ninterfaces; i++) {
        ifindex = if_nametoindex(options->interfaces[i]);
        if (!ifindex) {
            snprintf(error, nerror, "bmc: there is no interface %s (see `ip link`)",
                     options->interfaces[i]);
            return -1;
        }
        loader_link_init(&kcache->links[i], (int)ifindex);
        kcache->names[i] = options->interfaces[i];
    }
    kcache->ninterfaces = options->ninterfaces;
    return 0;
}

struct kcache *kcache_open(const struct kcache_options *options, uint64_t reach, char *error,
                           size_t nerror)
{
    struct kcache *kcache;
    char why[640];

    if (reach > (uint64_t)MC_MAX_SEGMENTS * MC_SEGMENT_BYTES) {
        snprintf(error, nerror, "bmc: the kernel path reaches 256 GiB of memory at most");
        return NULL;
    }
    kcache = calloc(1, sizeof(*kcache));
    if (!kcache) {
        snprintf(error, nerror, "bmc: out of memory");
        return NULL;
    }
    kcache->provider = (struct provider){
        .segment = provide_segment, .table = provide_table, .control = provide_control};
    kcache->mode = options->mode;
    if (find_interfaces(kcache, options, error, nerror)) {
        free(kcache);
        return NULL;
    }
    kcache->loader = loader_open(why, sizeof(why));
    if (!kcache->loader) {
        snprintf(error, nerror, "bmc: %s", why);
        free(kcache);
        return NULL;
    }
    pthread_mutex_init(&kcache->lock, NULL);
    return kcache;
}

static void detach(struct kcache *kcache)
{
    bool stays = false;
    unsigned int i;

    for (i = 0; i < kcache->ninterfaces; i++)
        stays |= loader_detach(&kcache->links[i]) != 0;
    if (stays)
        loader_forget(kcache->loader);
}

void kcache_close(struct kcache *kcache)
{
    if (!kcache)
        return;
    loader_control(kcache->loader)->port = 0;
    detach(kcache);
    loader_close(kcache->loader);
    pthread_mutex_destroy(&kcache->lock);
    free(kcache);
}

/* --- attaching --------------------------------------------------------------- */

/* False: there is no room for it. */
static bool add_address(struct mc_control *control, struct in_addr address)
{
    uint32_t i;

    for (i = 0; i < control->naddresses; i++)
        if (control->addresses[i] == address.s_addr)
            return true;
    if (control->naddresses == MC_MAX_ADDRESSES)
        return false;
    control->addresses[control->naddresses++] = address.s_addr;
    return true;
}

/* All IPv4 addresses that this machine has now, those of the interfaces that we answer on first. */
static bool add_local_addresses(const struct kcache *kcache, struct mc_control *control)
{
    struct ifaddrs *all, *each;
    unsigned int pass, i;
    bool ours, room = true;

    if (getifaddrs(&all))
        return true;
    for (pass = 0; pass < 2; pass++) {
        for (each = all; each; each = each->ifa_next) {
            if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET)
                continue;
            ours = false;
            for (i = 0; i < kcache->ninterfaces; i++)
                ours |= strcmp(kcache->names[i], each->ifa_name) == 0;
            if (ours || pass)
                room &=
                    add_address(control, ((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr);
        }
    }
    freeifaddrs(all);
    return room;
}

static void set_addresses(struct kcache *kcache, const struct in_addr *addresses, size_t n)
{
    struct mc_control *control = loader_control(kcache->loader);
    bool room = true;
    size_t i;

    control->naddresses = 0;
    for (i = 0; i < n; i++)
        room &= addresses[i].s_addr == INADDR_ANY ? add_local_addresses(kcache, control)
                                                  : add_address(control, addresses[i]);
    if (!room)
        fprintf(stderr, "bmc: the kernel answers for the first %d addresses of this machine\n",
                MC_MAX_ADDRESSES);
}

/* Why an interface takes no XDP program, and what helps. */
static void explain_xdp(const struct kcache *kcache, unsigned int i, int rc, char *error,
                        size_t nerror)
{
    const char *name = kcache->names[i];
    char program[16];
    uint32_t id = loader_xdp_present(kcache->links[i].ifindex, program);

    if (id)
        snprintf(error, nerror,
                 "bmc: %s: another XDP program is attached (id %u%s%s); it stays: detach it "
                 "first (`ip link set dev %s xdp off`), use mode=tc or another interface",
                 name, id, program[0] ? ", " : "", program, name);
    else if (rc == -EPERM || rc == -EACCES)
        snprintf(error, nerror, "bmc: %s: attaching needs CAP_NET_ADMIN and CAP_BPF", name);
    else if (kcache->mode == KCACHE_NATIVE && rc == -EOPNOTSUPP)
        snprintf(error, nerror,
                 "bmc: %s: its driver has no XDP; leave out mode=native to use the generic one",
                 name);
    else
        snprintf(error, nerror,
                 "bmc: %s refuses the XDP program: %s (often the MTU is over the driver's limit "
                 "for XDP, LRO or hardware GRO is on, or there are too many channels: see "
                 "`ip -d link show %s`, `ethtool -k %s`, `ethtool -l %s`)",
                 name, strerror(-rc), name, name, name);
}

static void say(const struct kcache *kcache, unsigned int i, const char *text)
{
    fprintf(stderr, "bmc: %s: %s\n", kcache->names[i], text);
}

/* Native XDP if it is wanted and its replies arrive. -EOPNOTSUPP: go on with generic. */
static int attach_native(struct kcache *kcache, unsigned int i)
{
    struct loader_link *link = &kcache->links[i];
    enum veth_peer peer = veth_peer(link->ifindex);
    char text[160];
    int rc;

    if (peer == VETH_DEAF && kcache->mode == KCACHE_AUTO) {
        say(kcache, i,
            "the other end of this veth has no XDP program, so native replies would "
            "be dropped");
        return -EOPNOTSUPP;
    }
    rc = loader_attach_xdp(kcache->loader, link, false);
    if (rc == 0 && peer == VETH_DEAF)
        say(kcache, i, "replies are dropped until the other end of this veth has an XDP program");
    if (rc == 0 || kcache->mode == KCACHE_NATIVE || rc == -EBUSY || rc == -EEXIST)
        return rc;
    if (rc != -EOPNOTSUPP) {
        snprintf(text, sizeof(text), "the driver refuses native XDP (%s): check MTU, LRO, channels",
                 strerror(-rc));
        say(kcache, i, text);
    }
    return -EOPNOTSUPP;
}

static int attach_xdp(struct kcache *kcache, unsigned int i)
{
    int rc = kcache->mode == KCACHE_GENERIC ? -EOPNOTSUPP : attach_native(kcache, i);

    if (rc != -EOPNOTSUPP || kcache->mode == KCACHE_NATIVE)
        return rc;
    return loader_attach_xdp(kcache->loader, &kcache->links[i], true);
}

/* Attaches to one interface, and says how. *tc_follows becomes false where XDP stands alone. */
static int attach(struct kcache *kcache, unsigned int i, bool *tc_follows, char *error,
                  size_t nerror)
{
    struct loader_link *link = &kcache->links[i];
    bool xdp = kcache->mode != KCACHE_TC;
    int rc = xdp ? attach_xdp(kcache, i) : 0;
    const char *how;

    if (rc) {
        explain_xdp(kcache, i, rc, error, nerror);
        return -1;
    }
    rc = loader_attach_tc(kcache->loader, link);
    if (rc && !xdp) {
        snprintf(error, nerror, "bmc: %s: TC ingress refuses the program: %s", kcache->names[i],
                 strerror(-rc));
        return -1;
    }
    how = rc ? strerror(-rc) : link->filter ? "filter" : "tcx";
    fprintf(stderr, "bmc: %s: %s, %sTC ingress (%s)\n", kcache->names[i],
            !xdp            ? "no XDP"
            : link->generic ? "XDP generic"
                            : "XDP native",
            rc ? "no " : "", how);
    *tc_follows &= rc == 0;
    return 0;
}

int kcache_attach(struct kcache *kcache, uint16_t port, const struct in_addr *addresses, size_t n,
                  char *error, size_t nerror)
{
    struct mc_control *control = loader_control(kcache->loader);
    bool tc_follows = true;
    unsigned int i;

    set_addresses(kcache, addresses, n);
    __atomic_store_n(&control->port, htons(port), __ATOMIC_RELEASE);
    for (i = 0; i < kcache->ninterfaces; i++) {
        if (attach(kcache, i, &tc_follows, error, nerror)) {
            control->port = 0;
            detach(kcache);
            return -1;
        }
    }
    loader_set_tc(kcache->loader, tc_follows, kcache->mode == KCACHE_TC);
    return 0;
}

/* --- statistics -------------------------------------------------------------- */

static void subtract(struct mc_counts *counts, const struct mc_counts *baseline)
{
    size_t i;

    for (i = 0; i < sizeof(counts->count) / sizeof(counts->count[0]); i++)
        counts->count[i] -= baseline->count[i];
    for (i = 0; i < MC_CLASSES; i++)
        counts->class_hits[i] -= baseline->class_hits[i];
}

void kcache_stats(struct kcache *kcache, struct kcache_stats *out)
{
    unsigned int i;

    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&kcache->lock);
    loader_counts(kcache->loader, &out->counts);
    subtract(&out->counts, &kcache->baseline);
    pthread_mutex_unlock(&kcache->lock);
    out->ninterfaces = kcache->ninterfaces;
    for (i = 0; i < kcache->ninterfaces; i++) {
        const struct loader_link *link = &kcache->links[i];

        snprintf(out->interfaces[i].name, sizeof(out->interfaces[i].name), "%s", kcache->names[i]);
        out->interfaces[i].xdp_native = link->xdp >= 0 && !link->generic;
        out->interfaces[i].xdp_generic = link->xdp >= 0 && link->generic;
        out->interfaces[i].tc = link->tc >= 0 || link->filter;
    }
}

void kcache_reset_stats(struct kcache *kcache)
{
    pthread_mutex_lock(&kcache->lock);
    loader_counts(kcache->loader, &kcache->baseline);
    pthread_mutex_unlock(&kcache->lock);
}
