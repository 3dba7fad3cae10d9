/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refusal: why an interface takes no program, in a line that says what is wrong and what to do.
 */
#ifndef KCACHE_REFUSAL_H
#define KCACHE_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

#include "bpf/loader/loader.h"
#include "kcache/link.h"

/*
 * What can be seen before anything is tried: an interface whose frames the programs cannot read.
 * True, and `text` says it.
 */
bool refusal_foreseen(const struct link_facts *link, char *text, size_t ntext);
/* The same of native XDP alone, where generic XDP does well. */
bool refusal_of_native(const struct link_facts *link, char *text, size_t ntext);
/*
 * Why attaching XDP to the interface failed with rc (-errno), without its name. May try again, by a
 * way that gives reasons. Returns what it comes to: -EOPNOTSUPP, the driver has no XDP at all, or
 * -errno.
 */
int refusal_explain(struct loader *loader, const struct link_facts *link, bool generic, int rc,
                    char *text, size_t ntext);

#endif
