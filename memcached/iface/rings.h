/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rings: sockets of AF_XDP on the receive queues of the attached interfaces, which XDP fills with
 * the requests that it passes (bpf/udp/ring.bpf.h). The server's workers empty them.
 *
 * A ring lasts as long as its interface. What comes by an interface that is created again goes up
 * the stack.
 */
#ifndef IFACE_RINGS_H
#define IFACE_RINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/xsk.h"
#include "iface/attach.h"

struct rings {
    struct loader *loader;
    struct xsk *xsk; /* NULL: none */
    size_t n;
    unsigned int nports;
};

/*
 * Opens the rings of an interface to which native XDP is attached, and logs them in a line. Needs
 * CAP_NET_RAW. 0, or -1 with `error`.
 */
int rings_add(struct rings *rings, const struct attachment *at, char *error, size_t nerror);
void rings_fini(struct rings *rings);
/* Frames that were sent. Any thread. */
uint64_t rings_sent(const struct rings *rings);

#endif
