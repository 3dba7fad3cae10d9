/* SPDX-License-Identifier: BSD-3-Clause */
/* options: the command line of bmc. The parser and --help are generated from one table. */
#ifndef BMC_OPTIONS_H
#define BMC_OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>

#include "bpf/trace/event.h"
#include "kcache/kcache.h"

enum { OPTIONS_ADDRESSES = 64, OPTIONS_WORDS = 128, OPTIONS_RUN = -1 };

struct options {
    bool stats; /* `bmc stats`, which uses only the port of what follows */
    bool trace; /* `bmc trace`, which uses only this: */
    struct trace_end traced;
    uint16_t port;
    struct in6_addr addresses[OPTIONS_ADDRESSES]; /* IPv4 mapped into IPv6 */
    size_t naddresses;
    unsigned int interval; /* seconds between lines, 0: none */
    const char *user;
    bool until_eof; /* ends when standard input does, and begins when an earlier bmc has ended */
    struct kcache_options kcache;
    char *words[OPTIONS_WORDS]; /* owned strings, into which kcache's slices point */
    size_t nwords;
};

/*
 * OPTIONS_RUN, or the exit status, after help was printed on `out` or an error on `err`. To be
 * called once in a process: getopt.
 */
int options_parse(struct options *options, int argc, char **argv, FILE *out, FILE *err);
void options_fini(struct options *options);

#endif
