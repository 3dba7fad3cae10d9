/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnosis: why a program cannot be attached to an interface, in a line with the cause and the
 * remedy.
 */
#ifndef IFACE_DIAGNOSIS_H
#define IFACE_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>

#include "iface/link.h"

struct loader;

/* Where servers that share an interface meet. */
#define DIAGNOSIS_FOLDER "/run/memcachedsr-share"

/*
 * Whether the programs cannot read the interface's frames, which is known without trying; then
 * `text` says why.
 */
bool diagnosis_unfit(const struct link_info *link, char *text, size_t ntext);
/* diagnosis_unfit for native XDP only, where generic XDP works. */
bool diagnosis_native_unfit(const struct link_info *link, char *text, size_t ntext);
/*
 * Explains why attaching XDP to the interface failed with rc (-errno); the text lacks the
 * interface's name. May try again by netlink, which gives reasons. Returns -EOPNOTSUPP if the
 * driver has no XDP at all, else -errno.
 */
int diagnosis_explain(struct loader *loader, const struct link_info *link, bool generic, int rc,
                      char *text, size_t ntext);
/* Explains why this server has no socket in that folder (-errno). */
void diagnosis_unshared(int rc, char *text, size_t ntext);

#endif
