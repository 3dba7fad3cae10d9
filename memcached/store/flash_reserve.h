/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flash_reserve: free memory for what stays in memory of items on flash. When its value is written
 * out a large item becomes an item on flash of a class with smaller chunks, so those classes need
 * the pages that the classes of the large items no longer use.
 */
#ifndef STORE_FLASH_RESERVE_H
#define STORE_FLASH_RESERVE_H

#include <stdbool.h>

struct store;
struct store_flash_rules;

/*
 * If a class of items on flash will soon need a page, chooses a class to take one from, and asks
 * the mover for it once that class has a page's worth of free chunks. Returns the class that is to
 * write out values until then, 0: none.
 */
unsigned int flash_reserve_round(struct store *store, const struct store_flash_rules *rules);

/*
 * Whether automove may move a page between two classes (0: the pool). With flash storage the age of
 * items tells little of their classes' needs: pages may only go from classes whose values can be
 * written to flash to those whose values stay in memory.
 */
bool flash_reserve_allows(struct store *store, int from, int to);

#endif
