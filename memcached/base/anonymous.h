/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * anonymous: a provider of ordinary memory, for a server that the kernel does not answer for.
 */
#ifndef BASE_ANONYMOUS_H
#define BASE_ANONYMOUS_H

#include <stdbool.h>

#include "base/provider.h"

/* huge: ask for transparent huge pages (-L). NULL with errno. */
struct provider *anonymous_new(bool huge);
/* What it has mapped elsewhere stays; the store unmaps it. NULL is legal. */
void anonymous_free(struct provider *provider);

#endif
