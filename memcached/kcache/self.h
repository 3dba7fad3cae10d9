/* SPDX-License-Identifier: BSD-3-Clause */
/* self: which of the frames that come by are for this machine and this server. */
#ifndef KCACHE_SELF_H
#define KCACHE_SELF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "bpf/layout.h"

/*
 * What is ours as of now, if the server listens on `n` addresses as kcache_attach has them. The
 * addresses and stations of the interfaces `first` come first. False: there is no room for all.
 */
bool self_find(struct mc_self *self, const struct in6_addr *listen, size_t n,
               const char *const *first, unsigned int nfirst);
/* Shows it to the kernel programs. One thread at a time. */
void self_publish(struct mc_control *control, const struct mc_self *self);

#endif
