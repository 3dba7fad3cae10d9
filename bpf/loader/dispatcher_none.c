/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatcher_none: what stands in for libxdp in a build without it. */
#include <errno.h>

#include "bpf/loader/dispatcher.h"

bool dispatcher_is_there(int ifindex)
{
    (void)ifindex;
    return false;
}

int dispatcher_join(int ifindex, int alive, bool *generic, char *reason, size_t nreason)
{
    (void)ifindex;
    (void)alive;
    (void)generic;
    (void)nreason;
    reason[0] = '\0';
    return -EOPNOTSUPP;
}
