/* SPDX-License-Identifier: BSD-3-Clause */
/* self: which of the frames that come by are for this machine and this server. */
#ifndef KCACHE_LOCAL_H
#define KCACHE_LOCAL_H

#include "bpf/shared/layout.h"

/* Shows it to the kernel programs. One thread at a time. */
void local_publish(struct mc_control *control, const struct mc_local *local);

#endif
