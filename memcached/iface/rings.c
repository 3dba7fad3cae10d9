/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/rings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bpf/load/load.h"
#include "iface/link.h"

/* What an error of xsk_open means, and what to do. */
static const struct {
    int rc;
    const char *text;
} reasons[] = {
    {-EPERM, "this needs CAP_NET_RAW: in a systemd unit add CapabilityBoundingSet=CAP_NET_RAW, to "
             "a container --cap-add=NET_RAW"},
    {-EAFNOSUPPORT, "this kernel has no AF_XDP, or a filter forbids it: in a systemd unit add "
                    "RestrictAddressFamilies=AF_XDP"},
    {-ENOBUFS, "this needs 8 MB of locked memory for each queue: raise LimitMEMLOCK= (ulimit -l)"},
    {-EBUSY, "another process has the queue: end it"},
    {-ENODEV, "the interface was removed"},
    {-EPIPE, "the interface sends nothing from it"},
};

static const char *reason_of(int rc)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].rc == rc)
            return reasons[i].text;
    return strerror(-rc);
}

/* Opens the next ring. 0 or -errno. */
static int add_ring(struct rings *rings, unsigned int ifindex, unsigned int queue)
{
    struct xsk *xsk = &rings->xsk[rings->n];
    int rc = xsk_open(xsk, ifindex, queue, MC_RING_SIZE);

    if (rc)
        return rc;
    xsk->ntaken = loader_set_ring(rings->loader, (uint32_t)rings->n, xsk->fd);
    if (!xsk->ntaken) {
        rc = -errno;
        xsk_close(xsk);
        return rc;
    }
    rings->n++;
    return 0;
}

int rings_add(struct rings *rings, const struct attachment *at, char *error, size_t nerror)
{
    struct mc_ring_port port = {(uint32_t)at->link.ifindex, (uint32_t)rings->n, 0};
    unsigned int nqueues = link_nqueues(at->name);
    char all[16] = "";
    int rc;

    if (at->link.xdp < 0 || at->link.generic || at->link.shared) {
        snprintf(error, nerror,
                 "bmc: %s: xsk=on needs native XDP on each interface%s: leave out xsk=on, or this "
                 "one (name the others instead of auto)",
                 at->name, at->link.shared ? ", and not in libxdp's dispatcher" : "");
        return -1;
    }
    if (!rings->xsk)
        rings->xsk = calloc(MC_RINGS, sizeof(*rings->xsk));
    if (!rings->xsk || rings->nports == MC_RING_PORTS || nqueues > MC_RINGS - rings->n) {
        snprintf(error, nerror,
                 "bmc: %s: xsk=on has at most %d queues of %d interfaces, and this one has %u: "
                 "`ethtool -L %s` makes them fewer",
                 at->name, MC_RINGS, MC_RING_PORTS, nqueues, at->name);
        return -1;
    }
    for (; port.n < nqueues; port.n++) {
        rc = add_ring(rings, port.ifindex, port.n);
        if (rc == -EPIPE && port.n > 0)
            break; /* what comes by this one and the next goes up the stack */
        if (rc) {
            snprintf(error, nerror, "bmc: %s: xsk=on: queue %u: %s", at->name, port.n,
                     reason_of(rc));
            return -1;
        }
    }
    if (!rings->xsk[port.first].zero_copy && link_veth_peer(at->link.ifindex) == VETH_NOT) {
        snprintf(error, nerror,
                 "bmc: %s: xsk=on needs a driver with zero-copy, or veth: leave out xsk=on",
                 at->name);
        return -1;
    }
    loader_add_ring_port(rings->loader, &port);
    rings->nports++;
    if (port.n < nqueues)
        snprintf(all, sizeof(all), " of %u", nqueues);
    log_write("bmc: %s: AF_XDP on %u%s queue%s, %s (experimental)", at->name, port.n, all,
              nqueues == 1 ? "" : "s", rings->xsk[port.first].zero_copy ? "zero-copy" : "copied");
    return 0;
}

void rings_fini(struct rings *rings)
{
    for (size_t i = 0; i < rings->n; i++)
        xsk_close(&rings->xsk[i]);
    free(rings->xsk);
    *rings = (struct rings){0};
}

uint64_t rings_sent(const struct rings *rings)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < rings->n; i++)
        sum += __atomic_load_n(&rings->xsk[i].nsent, __ATOMIC_RELAXED);
    return sum;
}
