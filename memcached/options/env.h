/* SPDX-License-Identifier: BSD-3-Clause */
/* options_env: the environment variables that the server reads, for the program and its manual. */
#ifndef OPTIONS_ENV_H
#define OPTIONS_ENV_H

#include <stddef.h>

#include "options/options.h"

struct environment_row {
    const char *name;
    const char *help;
    size_t field; /* a uint64_t in struct options that gets the number; 0: read elsewhere or not */
};

extern const struct environment_row environment_table[];
extern const size_t environment_count;

/* Stores the values of the environment. Ignores a value that is not a number. */
void options_environment(struct options *options);

#endif
