/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/attach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kcache/veth.h"

int attach_find(struct attachment *at, const char *name, char *error, size_t nerror)
{
    unsigned int ifindex = if_nametoindex(name);

    if (!ifindex) {
        snprintf(error, nerror, "bmc: there is no interface %s (see `ip link`)", name);
        return -1;
    }
    snprintf(at->name, sizeof(at->name), "%s", name);
    loader_link_init(&at->link, (int)ifindex);
    return 0;
}

/* Why an interface takes no XDP program, and what helps. */
static void explain_xdp(const struct attachment *at, enum kcache_mode mode, int rc, char *error,
                        size_t nerror)
{
    const char *name = at->name;
    char program[16];
    uint32_t id = loader_xdp_present(at->link.ifindex, program);

    if (id)
        snprintf(error, nerror,
                 "bmc: %s: another XDP program is attached (id %u%s%s); it stays: detach it "
                 "first (`ip link set dev %s xdp off`), use mode=tc or another interface",
                 name, id, program[0] ? ", " : "", program, name);
    else if (rc == -EPERM || rc == -EACCES)
        snprintf(error, nerror, "bmc: %s: attaching needs CAP_NET_ADMIN and CAP_BPF", name);
    else if (mode == KCACHE_NATIVE && rc == -EOPNOTSUPP)
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

static void say(const struct attachment *at, const char *text)
{
    fprintf(stderr, "bmc: %s: %s\n", at->name, text);
}

/* Native XDP if it is wanted and its replies arrive. -EOPNOTSUPP: go on with generic. */
static int attach_native(struct loader *loader, struct attachment *at, enum kcache_mode mode)
{
    enum veth_peer peer = veth_peer(at->link.ifindex);
    char text[160];
    int rc;

    if (peer == VETH_DEAF && mode == KCACHE_AUTO) {
        say(at, "the other end of this veth has no XDP program, so native replies would "
                "be dropped");
        return -EOPNOTSUPP;
    }
    rc = loader_attach_xdp(loader, &at->link, false);
    if (rc == 0 && peer == VETH_DEAF)
        say(at, "replies are dropped until the other end of this veth has an XDP program");
    if (rc == 0 || mode == KCACHE_NATIVE || rc == -EBUSY || rc == -EEXIST)
        return rc;
    if (rc != -EOPNOTSUPP) {
        snprintf(text, sizeof(text), "the driver refuses native XDP (%s): check MTU, LRO, channels",
                 strerror(-rc));
        say(at, text);
    }
    return -EOPNOTSUPP;
}

static int attach_xdp(struct loader *loader, struct attachment *at, enum kcache_mode mode)
{
    int rc = mode == KCACHE_GENERIC ? -EOPNOTSUPP : attach_native(loader, at, mode);

    if (rc != -EOPNOTSUPP || mode == KCACHE_NATIVE)
        return rc;
    return loader_attach_xdp(loader, &at->link, true);
}

int attach_interface(struct loader *loader, struct attachment *at, enum kcache_mode mode,
                     char *error, size_t nerror)
{
    bool xdp = mode != KCACHE_TC;
    int rc = xdp ? attach_xdp(loader, at, mode) : 0;

    if (rc) {
        explain_xdp(at, mode, rc, error, nerror);
        return -1;
    }
    rc = loader_attach_tc(loader, &at->link);
    if (rc && !xdp) {
        snprintf(error, nerror, "bmc: %s: TC ingress refuses the program: %s", at->name,
                 strerror(-rc));
        return -1;
    }
    fprintf(stderr, "bmc: %s: %s, %sTC ingress (%s)\n", at->name,
            !xdp               ? "no XDP"
            : at->link.generic ? "XDP generic"
                               : "XDP native",
            rc ? "no " : "",
            rc                ? strerror(-rc)
            : at->link.filter ? "filter"
                              : "tcx");
    return 0;
}

int attach_remove(struct attachment *at)
{
    return loader_detach(&at->link);
}

bool attach_has_tc(const struct attachment *at)
{
    return at->link.tc >= 0 || at->link.filter;
}
