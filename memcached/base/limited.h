/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limited: a provider that takes its memory from another one as long as the cgroups have room for
 * it. Where they have none the store goes on with what it has, and asks again later; that it does
 * is said once.
 */
#ifndef BASE_LIMITED_H
#define BASE_LIMITED_H

#include <stdint.h>

#include "base/provider.h"

struct room;

/*
 * nkept: segments for which nothing is needed. NULL with errno. The other two must live as long.
 */
struct provider *limited_new(struct provider *inner, const struct room *room, uint32_t nkept);
/* NULL is legal. */
void limited_free(struct provider *limited);

#endif
