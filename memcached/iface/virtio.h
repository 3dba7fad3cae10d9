/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtio: whether virtio_net runs a native XDP program on its packets.
 *
 * For a device that cannot spread a packet over several buffers, but may deliver frames of more
 * than 1,500 bytes, the driver uses buffers of many pages. It accepts a native program there, and
 * never runs it.
 */
#ifndef IFACE_VIRTIO_H
#define IFACE_VIRTIO_H

#include <stdbool.h>

#include "iface/link.h"

bool virtio_skips_xdp(const struct link_info *link);

#endif
