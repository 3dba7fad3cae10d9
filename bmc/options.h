/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options: the command line of bmc. One table: the parser and --help come from it.
 */
#ifndef BMC_OPTIONS_H
#define BMC_OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>

#include "kcache/kcache.h"

enum { OPTIONS_ADDRESSES = 64, OPTIONS_WORDS = 128, OPTIONS_RUN = -1 };

struct options {
    bool stats; /* `bmc stats`, and of what follows the port alone */
    uint16_t port;
    struct in6_addr addresses[OPTIONS_ADDRESSES]; /* IPv4 mapped into IPv6 */
    size_t naddresses;
    unsigned int interval; /* seconds between lines, 0: none */
    const char *user;
    struct kcache_options kcache;
    char *words[OPTIONS_WORDS]; /* that kcache's texts point into */
    size_t nwords;
};

/*
 * OPTIONS_RUN, or the status to exit with: what there is to say has been said on `out` or `err`.
 * Once in a process: getopt.
 */
int options_parse(struct options *options, int argc, char **argv, FILE *out, FILE *err);
void options_fini(struct options *options);

#endif
