/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limited: a provider that takes memory from another provider while the cgroups have room for it.
 * When they have none, the store keeps the memory it has and tries again later; the log says so
 * once.
 */
#ifndef BASE_LIMITED_H
#define BASE_LIMITED_H

#include <stdint.h>

#include "base/provider.h"

struct cgroup;

/*
 * nkept: heap extents that need no further memory. NULL with errno. `inner` and `room` must outlive
 * it.
 */
struct provider *limited_new(struct provider *inner, const struct cgroup *cgroup, uint32_t nkept);
/* NULL is legal. */
void limited_free(struct provider *limited);

#endif
