/* SPDX-License-Identifier: BSD-3-Clause */
/* auto: bmc=auto: finds the interfaces by which requests for the listening addresses arrive. */
#ifndef IFACE_AUTO_H
#define IFACE_AUTO_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Finds the names of the interfaces that carry one of the `n` addresses (in the form of
 * kcache_attach); for a wildcard address, those that are up and have an address, without lo. A VLAN
 * is replaced by the interface below it, which sees the frames of both. Returns how many there are,
 * at most `max`. with_lo: adds lo, by which this machine reaches itself.
 */
size_t auto_interfaces(const struct in6_addr *addresses, size_t n, char (*names)[IF_NAMESIZE],
                       size_t max, bool with_lo);

/* Whether all addresses are loopback's, which no other machine can reach. */
bool auto_is_loopback_alone(const struct in6_addr *addresses, size_t n);

#endif
