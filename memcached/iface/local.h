/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * local: the local addresses, by which the kernel programs know the frames that are for this
 * server.
 */
#ifndef IFACE_LOCAL_H
#define IFACE_LOCAL_H

#include "bpf/shared/layout.h"

/* Passes them to the kernel programs. One thread at a time. */
void local_publish(struct mc_control *control, const struct mc_local *local);

#endif
