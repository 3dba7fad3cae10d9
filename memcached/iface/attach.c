/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/attach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "iface/diagnosis.h"
#include "iface/link.h"
#include "iface/order.h"

enum { WHY_MAX = 640 };

int attach_find(struct attachment *at, const char *name, char *error, size_t nerror)
{
    unsigned int ifindex = if_nametoindex(name);
    struct link_info link;

    if (!ifindex) {
        snprintf(error, nerror, "bmc: there is no interface %s (see `ip link`)", name);
        return -1;
    }
    /* The name may be an alternative one; the kernel's events have the primary name. */
    if (!if_indextoname(ifindex, at->name))
        snprintf(at->name, sizeof(at->name), "%s", name);
    loader_link_init(&at->link, (int)ifindex);
    snprintf(at->before, sizeof(at->before), "none");
    at->strips_tags = link_read((int)ifindex, &link) == 0 && link.strips_tags;
    return 0;
}

static void log_interface(const struct attachment *at, const char *text)
{
    log_write("bmc: %s: %s", at->name, text);
}

/* Whether replies of native XDP would arrive; otherwise `why` says why not. */
static bool native_works(const struct link_info *link, enum veth_peer peer, char *why, size_t nwhy)
{
    if (peer == VETH_PEER_WITHOUT_XDP) {
        snprintf(why, nwhy,
                 "the other end of this veth has no XDP program, so native replies would be "
                 "dropped");
        return false;
    }
    return !diagnosis_native_unfit(link, why, nwhy);
}

/*
 * Attaches native XDP where it works; with mode=native also on a veth whose peer has no program
 * yet.
 */
static int attach_native(struct loader *loader, struct attachment *at, enum iface_mode mode,
                         const struct link_info *link, char *why, size_t nwhy)
{
    enum veth_peer peer =
        at->sending.state == SENDING_WORKS ? VETH_PEER_WITH_XDP : link_veth_peer(at->link.ifindex);
    int rc;

    if (at->sending.state == SENDING_NOT) {
        snprintf(why, nwhy, "its driver loses the replies of native XDP");
        return -EDOM;
    }
    if (!native_works(link, peer, why, nwhy) &&
        (mode == IFACE_AUTO || peer != VETH_PEER_WITHOUT_XDP))
        return -EDOM;
    rc = loader_attach_xdp(loader, &at->link, false);
    if (rc)
        return diagnosis_explain(loader, link, false, rc, why, nwhy);
    if (peer == VETH_PEER_WITHOUT_XDP)
        log_interface(at,
                      "replies are dropped until the other end of this veth has an XDP program");
    return 0;
}

/*
 * Joins libxdp's dispatcher, if there is one. Where that has lost replies TC answers beside it. 0;
 * -ENOENT: there is none; or -errno with `why`.
 */
static int join_dispatcher(struct loader *loader, struct attachment *at, char *why, size_t nwhy)
{
    char reason[WHY_MAX / 4];
    int rc;

    if (at->sending.state == SENDING_NOT && at->sending.stays) {
        at->tc_alone = true;
        return 0;
    }
    rc = loader_join_dispatcher(loader, &at->link, reason, sizeof(reason));
    if (rc && rc != -ENOENT)
        snprintf(why, nwhy,
                 "libxdp's dispatcher is attached and does not accept the program: %s%s%s",
                 reason[0] ? reason : strerror(-rc),
                 strstr(reason, "changes packet data") ? " (libxdp 1.5.5 is needed)" : "",
                 loader_is_chain(loader) ? "" : "; mode=tc works beside it");
    return rc;
}

/*
 * Attaches XDP as the mode says, native first. Where native XDP does not work TC alone answers on
 * TCP connections: generic XDP hides the Ethernet header of most frames from TC. 0, or -errno with
 * `why`.
 */
static int attach_xdp(struct loader *loader, struct attachment *at, enum iface_mode mode,
                      const struct link_info *link, char *why, size_t nwhy)
{
    int rc = join_dispatcher(loader, at, why, nwhy);
    bool taken;

    if (rc != -ENOENT)
        return rc;
    if (mode != IFACE_GENERIC) {
        rc = attach_native(loader, at, mode, link, why, nwhy);
        if (!rc || mode == IFACE_NATIVE || rc == -EADDRINUSE)
            return rc;
        taken = rc == -EBUSY || rc == -EEXIST; /* perhaps by servers that share generic XDP */
        if (taken && loader_tcp_slots(loader))
            return rc;
        if (!taken && rc != -EOPNOTSUPP && at->sending.state != SENDING_NOT)
            log_interface(at, why);
        at->tc_alone = loader_tcp_slots(loader) != NULL;
        if (at->tc_alone)
            return 0;
    }
    rc = loader_attach_xdp(loader, &at->link, true);
    return rc ? diagnosis_explain(loader, link, true, rc, why, nwhy) : 0;
}

static void log_mode(const struct attachment *at, int tc)
{
    char servers[48] = "";

    if (at->link.nservers)
        snprintf(servers, sizeof(servers), " shared by %u servers", at->link.nservers);
    log_write("bmc: %s: %s%s%s, %sTC %s (%s)%s", at->name,
              at->tc_alone       ? "no XDP"
              : at->link.generic ? "XDP generic"
                                 : "XDP native",
              at->link.shared ? " in libxdp's dispatcher" : "", servers, tc ? "no " : "",
              at->link.main == LOADER_EGRESS ? "egress" : "ingress",
              tc                                  ? strerror(-tc)
              : at->link.tc[at->link.main].filter ? "filter"
                                                  : "tcx",
              at->tc_deferred ? " once a reply finds no room" : "");
}

/*
 * Whether attaching TC behind XDP may be deferred until a reply finds no room in a frame. TC costs
 * a thirtieth of what the kernel does to receive any packet. Not on a veth, whose frames have
 * little room, not with filters, which the process may lack the privilege to attach later, and not
 * with TCP, whose segments TC translates.
 */
static bool tc_may_be_deferred(struct loader *loader, const struct attachment *at,
                               const struct link_info *link)
{
    return !at->tc_wanted && at->link.xdp >= 0 && !at->link.generic && !attach_has_filter(at) &&
           !loader_is_chain(loader) && !loader_tcp_slots(loader) && strcmp(link->kind, "veth") != 0;
}

int attach_deferred_tc(struct loader *loader, struct attachment *at)
{
    at->tc_wanted = true;
    if (!at->tc_deferred)
        return 0;
    at->tc_deferred = false;
    return loader_attach_tc(loader, &at->link);
}

bool attach_has_filter(const struct attachment *at)
{
    return at->link.tc[LOADER_INGRESS].filter || at->link.tc[LOADER_EGRESS].filter;
}

/*
 * Attaches TC egress, which learns from the server's replies, before the programs that need it:
 * where it is refused, as a filter is without CAP_NET_ADMIN, nothing else is tried. If another
 * server has the filter's handle, attaching XDP gives the better error, or loader_attach_tc
 * refuses. The chain attaches it with its XDP program. 0, or -errno with `why`.
 */
static int attach_egress(struct loader *loader, struct attachment *at, char *why, size_t nwhy)
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

void attach_early(struct loader *loader, struct attachment *at, enum loader_hook hook)
{
    struct link_info link;
    char why[WHY_MAX];

    if (loader_is_chain(loader) || loader_wait_hook(loader, hook))
        return;
    if (hook == LOADER_INGRESS && loader_has_tc(&at->link, LOADER_EGRESS))
        loader_attach_hook(loader, &at->link, hook);
    if (hook == LOADER_EGRESS && link_read(at->link.ifindex, &link) == 0 &&
        !diagnosis_unfit(&link, why, sizeof(why)))
        attach_egress(loader, at, why, sizeof(why));
}

int attach_interface(struct loader *loader, struct attachment *at, enum iface_mode mode,
                     char *error, size_t nerror)
{
    bool learned = loader_has_tc(&at->link, LOADER_EGRESS);
    struct link_info link;
    char why[WHY_MAX];
    int rc = link_read(at->link.ifindex, &link);

    if (rc)
        snprintf(why, sizeof(why), "the interface was removed (see `ip link`)");
    else if (diagnosis_unfit(&link, why, sizeof(why)))
        rc = -EOPNOTSUPP;
    else
        rc = attach_egress(loader, at, why, sizeof(why));
    at->tc_alone = mode == IFACE_TC;
    if (!rc && mode != IFACE_TC && at->link.xdp < 0)
        rc = attach_xdp(loader, at, mode, &link, why, sizeof(why));
    if (rc) {
        if (!learned)
            loader_detach_hook(&at->link, LOADER_EGRESS);
        snprintf(error, nerror, "bmc: %s: %s", at->name, why);
        return -1;
    }
    at->strips_tags = link.strips_tags;
    rc = loader_attach_tc(loader, &at->link);
    if (rc &&
        (at->tc_alone || loader_tcp_slots(loader) || !loader_has_tc(&at->link, LOADER_EGRESS))) {
        snprintf(error, nerror, "bmc: %s: TC %s refuses the program: %s", at->name,
                 loader_has_tc(&at->link, LOADER_EGRESS) ? "ingress" : "egress", strerror(-rc));
        attach_remove(at);
        return -1;
    }
    /* Attached once in any case, so that a failure is reported at the start. */
    at->tc_deferred = !rc && tc_may_be_deferred(loader, at, &link);
    if (at->tc_deferred)
        loader_detach_hook(&at->link, LOADER_INGRESS);
    log_mode(at, rc);
    order_say(at);
    if (!(link.flags & IFF_UP))
        log_interface(at, "the interface is down; the kernel answers nothing there until it is up");
    return 0;
}

void attach_order(const struct loader *loader, struct attachment *attachments, size_t n)
{
    int highest = -1, fd;
    size_t i;

    if (!loader_is_chain(loader))
        return;
    for (i = 0; i < n; i++) {
        fd = loader_highest_tc(loader, &attachments[i].link);
        highest = fd > highest ? fd : highest;
    }
    for (i = 0; i < n; i++)
        loader_put_xdp_above(&attachments[i].link, highest);
}

bool attach_is_unfit(const struct attachment *at, char *why, size_t nwhy)
{
    struct link_info link;

    return at->link.xdp >= 0 && !at->link.generic && link_read(at->link.ifindex, &link) == 0 &&
           diagnosis_native_unfit(&link, why, nwhy);
}

int attach_remove(struct attachment *at)
{
    at->tc_deferred = false;
    return loader_detach(&at->link);
}
