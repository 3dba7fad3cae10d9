/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restart: the file of -e: the items' memory, which the next server takes over.
 *
 * FILE holds the heap, FILE.meta the store's metadata (store_save). FILE.meta exists only between a
 * graceful shutdown and the next start, so that no server takes over the memory of one that was
 * killed; while a server runs, FILE.meta.new reserves the room for it.
 */
#ifndef RESTART_H
#define RESTART_H

#include "base/clock.h"
#include "base/slice.h"

struct provider;
struct restart;
struct store;

/*
 * memory: NULL, or the provider of the extents that hold the items; it must outlive this one.
 * memory_limit: the store's. Logs whether there is an image to take over. NULL: `error` says why
 * the file cannot be used.
 */
struct restart *restart_open(const char *path, struct provider *memory, uint64_t memory_limit,
                             char *error, size_t nerror);
/* The provider of the store's memory. */
struct provider *restart_provider(struct restart *restart);
/* Heap extents that need no further memory. */
uint32_t restart_kept(struct restart *restart);
/* The items' image; continues its clock. Empty: a clean cache, and the clock is unchanged. */
struct slice restart_image(const struct restart *restart, struct clock *clock);
/* Discards an image that the store cannot use, for a clean cache. 0 or -errno. */
int restart_discard(struct restart *restart, const char *why);
/*
 * Consumes the image, to be called before items change. If the process ends before, nothing is
 * lost: the next server takes over the same image.
 */
void restart_consume(struct restart *restart);
/* Saves the items, after the store's threads have ended. */
void restart_save(struct restart *restart, struct store *store, rel_time now);
/* NULL is legal. */
void restart_close(struct restart *restart);

#endif
