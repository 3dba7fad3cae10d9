/* SPDX-License-Identifier: BSD-3-Clause */
/* arp: for which addresses Linux answers ARP on an interface, by its settings. */
#ifndef IFACE_ARP_H
#define IFACE_ARP_H

#include <stdbool.h>

/* Whether it does for those of other interfaces, as by default. False: that cannot be read. */
bool arp_answers_for_others(const char *interface);

#endif
