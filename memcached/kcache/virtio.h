/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtio: whether virtio_net shows its packets to native XDP.
 *
 * A device that cannot spread a packet over several buffers, but may hand over more than a frame of
 * 1,500 bytes, is given buffers of many pages. The driver takes a native program there, and never
 * runs it.
 */
#ifndef KCACHE_VIRTIO_H
#define KCACHE_VIRTIO_H

#include <stdbool.h>

#include "kcache/link.h"

bool virtio_is_blind(const struct link_facts *link);

#endif
