/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * headroom: memory for what stays in memory of items on flash. As values leave, their items
 * become small ones of other classes, and those classes need the pages that the large ones leave.
 */
#ifndef STORE_HEADROOM_H
#define STORE_HEADROOM_H

struct store;
struct store_flash_rules;

/*
 * Looks whether a class that holds such items will soon need a page, and asks the mover for one of
 * another class when that has a page's worth of free chunks. Returns the class that is to be
 * emptied so far, 0: none.
 */
unsigned int headroom_round(struct store *store, const struct store_flash_rules *rules);

#endif
