/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_mover: the mover: a thread that takes pages from slab classes, when it is asked to, when
 * the classes' needs differ (automove), or when the memory limit has gone down.
 */
#ifndef STORE_STORE_MOVER_H
#define STORE_STORE_MOVER_H

#include <stdbool.h>

struct store;

/* 0 or -errno. */
int store_mover_start(struct store *store);
void store_mover_stop(struct store *store);

enum store_reassign {
    STORE_REASSIGN_OK,   /* the mover has the job */
    STORE_REASSIGN_OFF,  /* there is no mover */
    STORE_REASSIGN_BUSY, /* it is moving another page */
    STORE_REASSIGN_SAME,
    STORE_REASSIGN_BAD_CLASS,
    STORE_REASSIGN_NO_SPARE, /* the source has no page to give */
};
/* Asks for a page of class `from` (0: the pool, -1: any class) for class `to` (0: the pool). */
enum store_reassign store_reassign(struct store *store, int from, int to);

#endif
