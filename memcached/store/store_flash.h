/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_flash: values on flash: the threads that write them out and compact the pages, the rules
 * that they follow, and their counters.
 */
#ifndef STORE_STORE_FLASH_H
#define STORE_STORE_FLASH_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared/layout.h"
#include "flash/flash.h"

struct store;

/* Starts the threads, if the store has flash storage. 0 or -errno. Stopped before store_free. */
int store_flash_start(struct store *store);
void store_flash_stop(struct store *store);

/* When values go to flash and when they are moved there. They can be changed at any time. */
struct store_flash_rules {
    uint32_t item_size;     /* bytes; smaller items stay in memory */
    uint32_t item_age;      /* seconds without use; UINT32_MAX: only when memory is low */
    uint32_t low_ttl;       /* seconds; items that expire sooner have pages of their own */
    uint32_t recache_rate;  /* every so many reads one goes back to memory; 0: none */
    uint32_t compact_under; /* free pages */
    uint32_t drop_under;    /* free pages; compaction then drops cold values */
    double max_frag;        /* used part of a page below which it is compacted: flash.h */
    double free_ratio;      /* part of a class's chunks to keep free for new items */
    bool drop_unread;       /* compaction drops values not read since they were written */
    uint32_t free_chunks[MC_CLASSES]; /* to keep free in a class instead; 0: by the ratio */
};
void store_flash_defaults(struct store_flash_rules *rules);
void store_flash_rules(struct store *store, struct store_flash_rules *out);
void store_set_flash_rules(struct store *store, const struct store_flash_rules *rules);

struct store_flash_stats {
    uint64_t compact_lost, compact_rescues, compact_skipped;
    struct flash_stats files;
};
/* Only for a store with flash storage. */
void store_flash_stats(struct store *store, struct store_flash_stats *out);
/* 0 without flash storage. */
uint32_t store_flash_npages(const struct store *store);
void store_flash_page(struct store *store, uint32_t page, struct flash_page_stats *out);

#endif
