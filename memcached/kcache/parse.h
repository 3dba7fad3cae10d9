/* SPDX-License-Identifier: BSD-3-Clause */
/* parse: what of the options of bmc= may also stand in a file of allow=@FILE. Pure. */
#ifndef KCACHE_PARSE_H
#define KCACHE_PARSE_H

#include <stdbool.h>

#include "kcache/kcache.h"

/* Whether the word is rate= or amplification=; then *error is NULL or a static error text. */
bool parse_limit(struct kcache_limits *limits, const char *word, const char **error);

#endif
