/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order: where a program stands among those of its hook of TC. A program before it that ends the
 * chain (TC_ACT_OK), as those of Cilium do, hides every packet from it. Used by the loader only;
 * its public function is loader_look_before in attach.h.
 */
#ifndef BPF_ORDER_H
#define BPF_ORDER_H

#include "bpf/attach/attach.h"

/* BPF_TCX_* of Linux 6.6, which older headers lack. */
enum { ORDER_TCX_INGRESS = 46 };
#define ORDER_TCX(at) (ORDER_TCX_INGRESS + (int)(at))

/*
 * Attaches a program by TCX as the first one, or behind other servers' programs that are first:
 * those pass what is not theirs. A link, or -errno.
 */
int order_attach(const struct loader *loader, int program, int ifindex, enum loader_hook at);
/*
 * What stands before a program. seen: when egress has last seen a reply of the server's: where
 * CAP_NET_ADMIN is missing, a hook that has changed is known to be in order by the next one.
 */
void order_look(const struct loader *loader, int program, int ifindex, enum loader_hook at,
                uint32_t seen, struct loader_tc *tc);

#endif
