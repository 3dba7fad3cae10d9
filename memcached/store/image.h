/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * image: what a store must know to take over heap extents that another process filled: which pages
 * belong to which class, the ends of the LRU lists, the epoch and the clock. The table is built
 * anew from the items, by several threads, since its hash has other seeds.
 *
 * Nothing in the extents but keys and values is trusted: an item that does not fit its chunk, whose
 * parts belong to another one, or around whose value stands something else than its flags and its
 * length, is dropped, and an LRU list whose links do not agree is rebuilt.
 *
 * Layout: struct image_head, a byte for each page (its class), a checksum.
 */
#ifndef STORE_IMAGE_H
#define STORE_IMAGE_H

#include "base/slice.h"

struct store;

/* log2 of the slots that the image's table had, as a table may start with; 0: it is none. */
unsigned int image_hashpower(struct slice image);
/* NULL, or why the store cannot take over what the image describes. Changes nothing. */
const char *image_mismatch(const struct store *store, struct slice image);
/* Takes it over; image_mismatch said NULL. Before any other thread knows the store. 0 or -errno. */
int image_load(struct store *store, struct slice image);

#endif
