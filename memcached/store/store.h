/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store: items by key, in memory that the kernel programs can read.
 *
 * It knows no protocol: an item's wire bytes are key, suffix, value and tail, where suffix and tail
 * come from functions that the creator passes in (struct store_format). It reads no clock: `now` is
 * a parameter. It knows nothing of the kernel programs: memory comes from a provider and its layout
 * is bpf/shared/layout.h.
 *
 * Threads. Any number of threads call at once, each with a struct store_local of its own. Lock
 * order: stripe of the key, LRU of the class, slabs; the LRU takes stripes by trylock. No call
 * blocks for I/O.
 *
 * Holding. An item returned by a get or a reserve is held by the caller until store_put,
 * store_commit or store_discard: its bytes stay as they are, also after the key was overwritten,
 * deleted or evicted.
 *
 * This header creates and configures a store; store_*.h beside it are public as well, one for each
 * subject: items (reading and writing), crawler, mover, flash, stats, list, events, tuning.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/provider.h"
#include "base/slice.h"
#include "bpf/shared/layout.h"
#include "store/store_tuning.h"

struct flash;
struct store;
struct store_local;

/* How the owner writes the bytes around a value. All functions are pure. */
struct store_format {
    /* Writes the bytes between key and value to out, returns how many (at most STORE_SUFFIX_MAX).
     */
    uint8_t (*suffix)(char *out, uint32_t client_flags, uint32_t nvalue);
    /* The client flags in a suffix that was written so. */
    uint32_t (*client_flags)(const char *suffix, uint8_t nsuffix);
    struct slice tail; /* follows every value; at most 8 bytes */
};

enum { STORE_SUFFIX_MAX = 32 };
enum { STORE_HASHPOWER_MAX = 31 };

struct store_config {
    uint64_t memory_limit;        /* bytes of slab pages (-m) */
    uint64_t allocated_before;    /* bytes of them that are taken from the start */
    uint64_t item_max;            /* largest item, bytes (-I) */
    uint64_t chunk_max;           /* largest chunk, bytes; above it values are chained */
    uint32_t chunk_min;           /* least room for key, value and flags (-n) */
    double growth_factor;         /* of slab classes (-f) */
    const uint32_t *slab_sizes;   /* 0-terminated chunk sizes instead of a factor, or NULL */
    unsigned int hashpower;       /* log2 of the slots at start */
    bool expand;                  /* let the table grow */
    bool evict;                   /* false: -M */
    bool maintained;              /* a maintainer will run; false: each set frees dead items */
    bool track_sizes;             /* count items by size, for store_size_count */
    bool cas;                     /* false: -C, clients see 0 for every CAS id */
    bool sums;                    /* keep items' sums for the kernel (MC_ITEM_SUMMED) */
    bool prealloc;                /* -L: take all memory at start */
    bool s3_fifo;                 /* hot and cold are the two queues of S3-FIFO (ghost.h) */
    unsigned int automove_window; /* seconds */
    uint32_t tail_repair_time;    /* seconds, 0: never */
    struct flash *flash;          /* NULL: values stay in memory. Outlives the store */
    struct store_tuning tuning;
    struct store_format format;
    struct clock clock;
    /*
     * What store_save wrote about the heap extents that the provider maps again; empty: they are
     * new. The clock must continue the one that was saved.
     */
    struct slice image;
};

/* memcached's defaults. */
void store_config_defaults(struct store_config *config);

/* NULL with errno; `error` is then static text that says why. ESTALE: the image cannot be used. */
struct store *store_new(const struct store_config *config, struct provider *provider,
                        const char **error);
/* Before this the caller frees all locals and stops the threads. */
void store_free(struct store *store);
/*
 * Describes what the heap extents hold, for a later store_new; the caller frees *image. Before this
 * it frees all locals and stops the threads. 0 or -ENOMEM.
 */
int store_save(struct store *store, rel_time now, void **image, size_t *nimage);
/* The most bytes that an image can have, if the memory limit has not been raised. */
size_t store_image_bytes(uint64_t memory_limit);
/*
 * The clock of an image's times: Unix time at its second 0, and its value when it was saved. False:
 * the image is damaged.
 */
bool store_image_clock(struct slice image, int64_t *base_unix, rel_time *last);
struct mc_control *store_control(struct store *store);
/* False: -C, clients see 0 for every CAS id. */
bool store_has_cas(const struct store *store);

/* The handle of one thread, with its counters. NULL with errno. */
struct store_local *store_local_new(struct store *store);
/* What it has counted stays in the statistics. */
void store_local_free(struct store_local *local);

/*
 * The maintainer: a thread that keeps the LRU segments in proportion and reclaims what has expired
 * at their tails. 0 or -errno.
 */
int store_maintainer_start(struct store *store);
void store_maintainer_stop(struct store *store);
/*
 * The prefault thread: it maps memory before it is needed. Started before other threads use the
 * store and stopped after them. 0 or -errno.
 */
int store_prefault_start(struct store *store);
void store_prefault_stop(struct store *store);

/*
 * 0, -EINVAL too small, -ERANGE more than references can name, -EPERM all of it was taken at the
 * start. After the limit is lowered the mover frees the pages above it.
 */
int store_set_memory_limit(struct store *store, uint64_t bytes);

#endif
