/* SPDX-License-Identifier: BSD-3-Clause */
/* allow: the list of prefixes in which the programs look up a source, as bpf/shared/layout.h says.
 */
#ifndef KMEM_ALLOW_H
#define KMEM_ALLOW_H

#include <stddef.h>

struct loader_guard;
struct prefix;

/*
 * Makes the list of *n prefixes, and sorts and reduces them; *n becomes how many are left. *list is
 * allocated. Chooses how many nodes and prefixes it has room for, unless the guard says that. 0,
 * -ENOMEM, or -ENOSPC: there is too little room; then *list is NULL.
 */
int allow_list(struct loader_guard *guard, struct prefix *prefixes, size_t *n, void **list);

#endif
