/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * restart: the file of -e: the items' memory, which the next server takes over.
 *
 * FILE holds the heap, FILE.meta what a store must know of it (store_save). FILE.meta is there only
 * between a graceful stop and the next start, so that nobody takes over the memory of a server that
 * was killed: while a server runs, FILE.meta.new has the room for it.
 */
#ifndef RESTART_H
#define RESTART_H

#include "base/clock.h"
#include "base/slice.h"

struct provider;
struct restart;
struct store;

/*
 * memory: NULL, or whose extents the items are in; it must live longer. memory_limit: that of the
 * store. Says on stderr whether there is something to take over. NULL: `error` says why the file
 * cannot be used.
 */
struct restart *restart_open(const char *path, struct provider *memory, uint64_t memory_limit,
                             char *error, size_t nerror);
/* Where the store's memory comes from. */
struct provider *restart_provider(struct restart *restart);
/* Extents that it needs no more memory for. */
uint32_t restart_kept(struct restart *restart);
/* The items' image, and its clock continued; empty: a clean cache, the clock left alone. */
struct slice restart_image(const struct restart *restart, struct clock *clock);
/* The store cannot use the image: a clean cache. 0 or -errno. */
int restart_discard(struct restart *restart, const char *why);
/*
 * From here on the items change. Until then nothing is lost by an end of the process: who takes
 * over the same image once more finds the same items.
 */
void restart_consume(struct restart *restart);
/* Keeps the items. The store has no threads any more. */
void restart_save(struct restart *restart, struct store *store, rel_time now);
/* NULL is legal. */
void restart_close(struct restart *restart);

#endif
