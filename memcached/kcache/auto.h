/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auto: bmc=auto, the interfaces by which requests for the listening addresses come.
 */
#ifndef KCACHE_AUTO_H
#define KCACHE_AUTO_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The names of the interfaces that carry one of the `n` addresses (as kcache_attach has them); of
 * an address that stands for all, those that are up and have an address, without lo. A VLAN's place
 * takes what it stands on, where the frames of both come by. Returns how many there are, at most
 * `max`. with_lo: beside them lo, by which this machine reaches itself.
 */
size_t auto_interfaces(const struct in6_addr *addresses, size_t n, char (*names)[IF_NAMESIZE],
                       size_t max, bool with_lo);

#endif
