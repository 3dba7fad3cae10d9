/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver: what a network driver counts of the frames that an XDP program sends from where they
 * arrived (XDP_TX), in the statistics of `ethtool -S`.
 *
 * Each driver has names of its own. Of veth and virtio_net the counts tell how many frames left; of
 * others only, where they have such a count, how many were lost.
 */
#ifndef IFACE_DRIVER_H
#define IFACE_DRIVER_H

#include <linux/ethtool.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct driver_counts {
    bool is_veth;
    bool counts_sent; /* `sent` is known */
    uint64_t sent, lost;
};

/* Reads an interface's counts, and adds them. Needs no privilege. Whether there are any. */
bool driver_add_counts(const char *interface, struct driver_counts *out);
/* Sums n statistics that were read from a driver. Pure. */
void driver_sum(const char *driver, const char (*names)[ETH_GSTRING_LEN], const uint64_t *values,
                size_t n, struct driver_counts *out);

#endif
