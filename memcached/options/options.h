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

#include "flash/flash.h"
#include "kcache/kcache.h"
#include "net/net.h"
#include "store/store_flash.h"

struct stat_sink;

enum {
    OPTIONS_RUN = -1,
    OPTIONS_MAX_SLAB_SIZES = 63,
    OPTIONS_MAX_WORDS = 32,
    OPTIONS_MAX_PATHS = 32,
};

/* In the order of the names in set.c. */
enum binding { BINDING_AUTO, BINDING_ASCII, BINDING_BINARY };

struct options {
    /* network */
    int32_t tcp_port, udp_port; /* 0 off, -1 ephemeral */
    char *listen;               /* all values of -l, joined by commas; NULL: any */
    char *socket_path;
    uint32_t access_mask;
    uint32_t max_connections;
    uint32_t backlog;
    uint32_t idle_timeout;   /* seconds, 0 never */
    uint64_t read_buf_limit; /* bytes, 0 none */
    uint32_t reqs_per_event;
    uint32_t nthreads;
    bool maxconns_fast;
    bool reuseport;
    enum binding binding;
    bool binding_given;
    /* authentication */
    bool sasl;
    char *auth_file; /* NULL: none */
    /* process */
    bool daemonize, coredumps, lock_memory, relaxed_privileges, drop_privileges;
    char *user;
    char *pid_file;
    char *memory_file; /* -e */
    uint32_t verbosity;
    /* commands */
    bool shutdown_command, flush_enabled, dump_enabled, watch_enabled, detail_enabled;
    char prefix_delimiter;
    /* store */
    uint64_t memory_limit, item_max, chunk_max; /* bytes */
    uint64_t chunk_max_given;                   /* as slab_chunk_max has it, 0: not */
    uint64_t allocated_before;                  /* of the limit, from the environment */
    uint32_t chunk_min;
    double growth_factor;
    uint32_t slab_sizes[OPTIONS_MAX_SLAB_SIZES + 1]; /* 0-terminated; empty: by factor */
    uint32_t hashpower;
    const char *hash_algorithm;
    bool expand, evict, cas, large_pages;
    bool lru_maintainer, lru_segmented, s3_fifo, temp_lru, lru_crawler, slab_reassign, track_sizes;
    bool inline_ascii_response;
    uint32_t hot_pct, warm_pct;
    double hot_max_factor, warm_max_factor;
    uint32_t temporary_ttl, tail_repair_time, crawler_sleep, crawler_tocrawl;
    uint32_t automove, automove_window;
    double automove_ratio;
    uint32_t watcher_logbuf, worker_logbuf; /* bytes */
    /* TLS */
    bool ssl_enabled;
    struct tls_config tls;
    /* flash storage: on when there is a file */
    struct flash_path paths[OPTIONS_MAX_PATHS];
    unsigned int npaths;
    uint32_t ext_page_size, ext_wbuf_size; /* bytes */
    uint32_t ext_threads, ext_io_depth;
    uint32_t ignored; /* numbers of options without effect */
    struct store_flash_rules ext;
    /* kernel path: on when there is an interface */
    struct kcache_options kcache;
    char *words[OPTIONS_MAX_WORDS]; /* owned strings, into which texts above and kcache's slices
                                       point */
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
