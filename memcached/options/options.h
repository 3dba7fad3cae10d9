/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options: the command line. One table (table.c) has each option's name, argument, range, default,
 * help text and key in `stats settings`.
 *
 * options_parse fills the struct, which is read-only from then on. Strings point into argv or
 * belong to the struct.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "command/command.h"
#include "flash/flash.h"
#include "kcache/kcache.h"
#include "net/net.h"
#include "store/store.h"
#include "store/store_flash.h"

struct stat_sink;

enum {
    OPTIONS_RUN = -1,
    OPTIONS_MAX_SLAB_SIZES = 63,
    OPTIONS_MAX_WORDS = 32,
    OPTIONS_MAX_PATHS = 32,
};

/*
 * What the server is told: of each module's configuration the part that options say. The server
 * adds the rest, such as clocks and handles.
 */
struct options {
    struct net_config net;
    struct command_config commands;
    struct store_config store;
    struct flash_config flash; /* on when there is a file */
    struct store_flash_rules ext;
    struct tls_config tls;
    struct kcache_options kcache; /* on when there is an interface */
    bool ssl_enabled;
    bool binding_given;
    bool lru_crawler;
    bool inline_ascii_response;
    /* authentication */
    bool sasl;
    char *auth_file; /* NULL: none */
    /* process */
    bool daemonize, coredumps, lock_memory, relaxed_privileges, drop_privileges;
    char *user;
    char *pid_file;
    char *memory_file; /* -e */
    uint32_t verbosity;
    /* as they were given */
    uint64_t chunk_max_given; /* as slab_chunk_max has it, 0: not */
    uint32_t hashpower;       /* 0: not */
    const char *hash_algorithm;
    uint32_t ignored; /* numbers of options without effect */
    /* what the configurations above point to */
    uint32_t slab_sizes[OPTIONS_MAX_SLAB_SIZES + 1]; /* 0-terminated */
    struct flash_path paths[OPTIONS_MAX_PATHS];
    char *words[OPTIONS_MAX_WORDS]; /* owned */
    unsigned int nwords;
};

void options_init(struct options *options);
void options_fini(struct options *options);
/*
 * Returns OPTIONS_RUN, or the exit status, after help was printed on `out` or an error on `err`.
 * Not thread-safe: getopt.
 */
int options_parse(struct options *options, int argc, char **argv, FILE *out, FILE *err);
/*
 * Why the kernel path that is wanted can answer nothing beside the other options; NULL: it can, or
 * none is wanted. Without the word `optional` options_parse refuses that.
 */
const char *options_without_kernel(const struct options *options);
/* The lines of `stats settings`. */
void options_settings(const struct options *options, struct stat_sink *sink);

#endif
