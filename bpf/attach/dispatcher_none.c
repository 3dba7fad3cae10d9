/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatcher_none: replaces dispatcher.c in a build without libxdp. */
#include <errno.h>

#include "bpf/attach/dispatcher.h"

bool dispatcher_is_there(int ifindex)
{
    (void)ifindex;
    return false;
}

int dispatcher_join(int ifindex, int prog_array, bool *generic, char *reason, size_t nreason)
{
    (void)ifindex;
    (void)prog_array;
    (void)generic;
    (void)nreason;
    reason[0] = '\0';
    return -EOPNOTSUPP;
}
