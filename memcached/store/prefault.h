/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefault: the thread that maps memory before it is needed: extents of the heap, of the table and
 * of its overflow buckets. To map one may take long (the kernel path's maps wait until no program
 * runs), and a set should not wait for it.
 *
 * The thread that begins to use an extent wakes it. The table grows no further than it is mapped,
 * and goes on when there is more; an extent of the heap or of overflow buckets is mapped by the
 * thread that finds none left, as it is without this thread.
 */
#ifndef STORE_PREFAULT_H
#define STORE_PREFAULT_H

#include <stdbool.h>

struct store;

/*
 * Maps what will be needed next. One round of the thread, for tests too. False: there is no more
 * memory.
 */
bool prefault_round(struct store *store);

#endif
