/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * supplier: the thread that maps memory before somebody needs it: extents of the heap, of the table
 * and of its overflow buckets. To map one may take long (the kernel path's maps wait until no
 * program runs), and a set should not wait for it.
 *
 * Who uses up an extent wakes it. The table grows no further than it is mapped, and goes on when
 * there is more; the heap and the overflow buckets are mapped by whoever finds none left, as
 * without this thread.
 */
#ifndef STORE_SUPPLIER_H
#define STORE_SUPPLIER_H

#include <stdbool.h>

struct store;

/* Maps what is wanted ahead. The thread's body, for tests too. False: there is no more memory. */
bool supplier_round(struct store *store);

#endif
