/* SPDX-License-Identifier: BSD-3-Clause */
/* anonymous: a provider of anonymous memory, for a server without the kernel path. */
#ifndef BASE_ANONYMOUS_H
#define BASE_ANONYMOUS_H

#include <stdbool.h>

#include "base/provider.h"

/* huge: ask for transparent huge pages (-L). NULL with errno. */
struct provider *anonymous_new(bool huge);
/* Mappings in the store's reservation stay; the store unmaps them. NULL is legal. */
void anonymous_free(struct provider *provider);

#endif
