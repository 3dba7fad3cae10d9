/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stub_reserve: free memory for stubs, which is what stays in memory of items on flash. When its
 * value is written out a large item becomes a stub of a class with smaller chunks, so those classes
 * need the pages that the classes of the large items no longer use.
 */
#ifndef STORE_STUB_RESERVE_H
#define STORE_STUB_RESERVE_H

#include <stdbool.h>

struct store;
struct store_flash_rules;

/*
 * Looks whether a class that holds such items will soon need a page, and asks the mover for one of
 * another class when that has a page's worth of free chunks. Returns the class that is to be
 * emptied so far, 0: none.
 */
unsigned int stub_reserve_round(struct store *store, const struct store_flash_rules *rules);

/*
 * Whether automove may take a page from a class for another one (0: the pool). With flash storage
 * the age of items tells little of their classes' needs: it only counts for items that stay in
 * memory, at the cost of those that need not.
 */
bool stub_reserve_allows(struct store *store, int from, int to);

#endif
