/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sum: what follows the wire bytes of an item (bpf/shared/layout.h), added up byte by byte.
 */
#ifndef T_LIB_SUM_H
#define T_LIB_SUM_H

#include "bpf/shared/layout.h"

static inline unsigned int sum_of(const struct mc_item *item)
{
    unsigned int sum = 0, i;

    for (i = 0; i < item->nbytes; i++)
        sum += (unsigned int)(unsigned char)item->wire[i] << 8 * (i & 1);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

#endif
