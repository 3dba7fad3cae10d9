/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/attach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kcache/link.h"
#include "kcache/refusal.h"
#include "kcache/veth.h"

enum { WHY_MAX = 640 };

int attach_find(struct attachment *at, const char *name, char *error, size_t nerror)
{
    unsigned int ifindex = if_nametoindex(name);

    if (!ifindex) {
        snprintf(error, nerror, "bmc: there is no interface %s (see `ip link`)", name);
        return -1;
    }
    /* That may be one of several names, of which the kernel tells the first with its news. */
    if (!if_indextoname(ifindex, at->name))
        snprintf(at->name, sizeof(at->name), "%s", name);
    loader_link_init(&at->link, (int)ifindex);
    return 0;
}

static void say(const struct attachment *at, const char *text)
{
    fprintf(stderr, "bmc: %s: %s\n", at->name, text);
}

/* Whether native XDP would answer rightly; what speaks against it is said in `why`. */
static bool native_serves(const struct link_facts *link, enum veth_peer peer, char *why,
                          size_t nwhy)
{
    if (peer == VETH_DEAF) {
        snprintf(why, nwhy,
                 "the other end of this veth has no XDP program, so native replies would be "
                 "dropped");
        return false;
    }
    if (peer == VETH_HIDDEN) {
        snprintf(why, nwhy,
                 "whether the other end of this veth has an XDP program, without which native "
                 "replies are dropped, cannot be seen from here");
        return false;
    }
    return !refusal_of_native(link, why, nwhy);
}

/* Native XDP where it answers rightly; asked for, also on a veth whose peer will follow. */
static int attach_native(struct loader *loader, struct attachment *at, enum kcache_mode mode,
                         const struct link_facts *link, char *why, size_t nwhy)
{
    enum veth_peer peer = veth_peer(at->link.ifindex);
    bool follows = peer == VETH_DEAF || peer == VETH_HIDDEN;
    int rc;

    if (!native_serves(link, peer, why, nwhy) && (mode == KCACHE_AUTO || !follows))
        return -EDOM;
    rc = loader_attach_xdp(loader, &at->link, false);
    if (rc)
        rc = refusal_explain(loader, link, false, rc, why, nwhy);
    else if (peer == VETH_DEAF)
        say(at, "replies are dropped until the other end of this veth has an XDP program");
    return rc;
}

/* By the mode, native first. 0, or -errno with `why`. */
static int attach_xdp(struct loader *loader, struct attachment *at, enum kcache_mode mode,
                      const struct link_facts *link, char *why, size_t nwhy)
{
    char reason[WHY_MAX / 4];
    int rc = loader_join_dispatcher(loader, &at->link, reason, sizeof(reason));

    if (rc == 0)
        return 0;
    if (rc != -ENOENT) {
        snprintf(why, nwhy, "libxdp's dispatcher is attached, and gives us no place: %s%s%s",
                 reason[0] ? reason : strerror(-rc),
                 strstr(reason, "changes packet data") ? " (libxdp 1.5.5 is needed)" : "",
                 loader_is_chain(loader) ? "" : "; mode=tc answers beside it");
        return rc;
    }
    if (mode != KCACHE_GENERIC) {
        rc = attach_native(loader, at, mode, link, why, nwhy);
        if (!rc || mode == KCACHE_NATIVE || rc == -EBUSY || rc == -EEXIST)
            return rc;
        if (rc != -EOPNOTSUPP)
            say(at, why);
    }
    rc = loader_attach_xdp(loader, &at->link, true);
    return rc ? refusal_explain(loader, link, true, rc, why, nwhy) : 0;
}

static void say_how(const struct attachment *at, enum kcache_mode mode, int tc)
{
    fprintf(stderr, "bmc: %s: %s%s, %sTC %s (%s)%s\n", at->name,
            mode == KCACHE_TC  ? "no XDP"
            : at->link.generic ? "XDP generic"
                               : "XDP native",
            at->link.shared ? " in libxdp's dispatcher" : "", tc ? "no " : "",
            at->link.main == LOADER_EGRESS ? "egress" : "ingress",
            tc                                  ? strerror(-tc)
            : at->link.tc[at->link.main].filter ? "filter"
                                                : "tcx",
            at->tc_waits ? " once a reply finds no room" : "");
}

/*
 * Whether TC behind XDP may be left out until a reply finds no room in a frame. It is a thirtieth
 * of what the kernel does to receive any packet. A veth has little room; to attach a filter later
 * there may be no right.
 */
static bool tc_may_wait(const struct loader *loader, const struct attachment *at,
                        const struct link_facts *link)
{
    return !at->tc_wanted && at->link.xdp >= 0 && !at->link.generic && !attach_outlives(at) &&
           !loader_is_chain(loader) && strcmp(link->kind, "veth") != 0;
}

int attach_waiting_tc(struct loader *loader, struct attachment *at)
{
    at->tc_wanted = true;
    if (!at->tc_waits)
        return 0;
    at->tc_waits = false;
    return loader_attach_tc(loader, &at->link);
}

bool attach_has_tc(const struct attachment *at)
{
    return loader_has_tc(&at->link, at->link.main);
}

bool attach_learns(const struct attachment *at)
{
    return loader_has_tc(&at->link, LOADER_EGRESS);
}

bool attach_outlives(const struct attachment *at)
{
    return at->link.tc[LOADER_INGRESS].filter || at->link.tc[LOADER_EGRESS].filter;
}

bool attach_follows(const struct attachment *at)
{
    return loader_has_tc(&at->link, LOADER_INGRESS);
}

/*
 * What learns from the server's replies, before what needs it: where it is refused, as a filter is
 * to whom has no CAP_NET_ADMIN, nothing else is tried. If another server has the filter's place XDP
 * says so better, or loader_attach_tc refuses. The chain's comes with its XDP program. 0, or -errno
 * with `why`.
 */
static int attach_learner(struct loader *loader, struct attachment *at, char *why, size_t nwhy)
{
    int rc = 0;

    if (!loader_is_chain(loader))
        rc = loader_attach_hook(loader, &at->link, LOADER_EGRESS);
    if (rc == -EBUSY)
        return 0;
    if (rc)
        snprintf(why, nwhy, "TC egress refuses the program: %s", strerror(-rc));
    return rc;
}

int attach_interface(struct loader *loader, struct attachment *at, enum kcache_mode mode,
                     char *error, size_t nerror)
{
    bool learned = attach_learns(at);
    struct link_facts link;
    char why[WHY_MAX];
    int rc = link_read(at->link.ifindex, &link);

    if (rc)
        snprintf(why, sizeof(why), "the interface is gone (see `ip link`)");
    else if (refusal_foreseen(&link, why, sizeof(why)))
        rc = -EOPNOTSUPP;
    else
        rc = attach_learner(loader, at, why, sizeof(why));
    if (!rc && mode != KCACHE_TC && at->link.xdp < 0)
        rc = attach_xdp(loader, at, mode, &link, why, sizeof(why));
    if (rc) {
        if (!learned)
            loader_detach_hook(&at->link, LOADER_EGRESS);
        snprintf(error, nerror, "bmc: %s: %s", at->name, why);
        return -1;
    }
    at->hides_tags = link.hides_tags;
    rc = loader_attach_tc(loader, &at->link);
    if (rc && (mode == KCACHE_TC || !attach_learns(at))) {
        snprintf(error, nerror, "bmc: %s: TC %s refuses the program: %s", at->name,
                 attach_learns(at) ? "ingress" : "egress", strerror(-rc));
        attach_remove(at);
        return -1;
    }
    if (loader_is_chain(loader))
        loader_put_xdp_last(&at->link);
    /* That it can be attached is tried in any case: whether it can is said at the start. */
    at->tc_waits = !rc && tc_may_wait(loader, at, &link);
    if (at->tc_waits)
        loader_detach_hook(&at->link, LOADER_INGRESS);
    say_how(at, mode, rc);
    if (!(link.flags & IFF_UP))
        say(at, "the interface is down, and answers nothing until it is up");
    return 0;
}

bool attach_is_unfit(const struct attachment *at, char *why, size_t nwhy)
{
    struct link_facts link;

    return at->link.xdp >= 0 && !at->link.generic && link_read(at->link.ifindex, &link) == 0 &&
           refusal_of_native(&link, why, nwhy);
}

void attach_remove_xdp(struct attachment *at)
{
    loader_detach_xdp(&at->link);
}

int attach_remove(struct attachment *at)
{
    at->tc_waits = false;
    return loader_detach(&at->link);
}
