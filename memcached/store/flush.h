/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flush: flush_all by epoch. An item is stamped with the epoch of the moment when it is linked; one
 * of another epoch is dead, to the server and to the kernel programs, and is freed by the next
 * request for it or by a sweep of the table.
 *
 * Order. A writer reads the epoch once, under the key's stripe, judges the old item and stamps the
 * new one by it. If a flush moves the epoch meanwhile, then the write began before the flush took
 * effect and ends after: it counts as having come before, and its item is dead already. A thread
 * that takes the stripe later reads the same epoch or a newer one. So no item stored before a flush
 * is returned by a read that began after the flush returned.
 *
 * An item keeps the low byte of its epoch, and the table's bucket the epoch in which it was swept.
 * If that is MC_EPOCHS flushes ago or more, all items of the bucket are dead, whatever their bytes
 * say; a writer removes them before it adds one. So a flush is one store, and a sweep in the
 * background frees the items.
 */
#ifndef STORE_FLUSH_H
#define STORE_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "bpf/shared/layout.h"
#include "store/lock.h"

struct store;

struct flush {
    struct lock lock;
    uint32_t oldest; /* no bucket was swept in an earlier epoch */
    /*
     * Under -C a flush also hides what is stored later in the same second, as in memcached, which
     * without CAS ids compares times in seconds.
     */
    rel_time hidden_until; /* atomic */

    /* The sweep in the background; of the maintainer alone. */
    bool sweeping;
    uint32_t sweep_epoch; /* of its start */
    uint32_t sweep_next;  /* bucket */
};

void flush_init(struct store *store);
/* From the return of this call on everything stored before is gone. */
void flush_now(struct store *store, rel_time now);
/* From the second `at` on everything stored before it is gone. */
void flush_later(struct store *store, rel_time at, rel_time now);
/* Applies a delayed flush whose second has come. */
void flush_apply(struct store *store, rel_time now);

uint32_t flush_epoch(const struct store *store);
/* What an item is stamped with that is linked in `epoch`. Under a stripe. */
uint8_t flush_new_epoch(const struct store *store, uint32_t epoch, rel_time now);
/* Removes all that is dead from a chain; then what is of `epoch` may be added. Under its stripe. */
void flush_clean(struct store *store, struct mc_bucket *head, uint32_t epoch, rel_time now);
/* Sweeps the whole table, which no other thread uses, if its buckets are too far behind. */
void flush_settle(struct store *store, rel_time now);

/*
 * After a flush: frees dead items in the next `nbuckets` buckets of the table. Returns how many
 * items it looked at. One thread at a time.
 */
unsigned int flush_sweep(struct store *store, uint32_t nbuckets, rel_time now);

static inline bool flush_expired(const struct mc_item *item, rel_time now)
{
    return item->exptime != 0 && item->exptime <= now;
}

/*
 * Whether an item is expired or flushed. Under its stripe. Where the bucket is MC_EPOCHS flushes
 * behind, this may miss a flush: see flush_is_dead_at.
 */
static inline bool flush_is_dead(const struct mc_item *item, uint32_t epoch, rel_time now)
{
    return item->epoch != (uint8_t)epoch || flush_expired(item, now);
}

static inline bool flush_is_behind(const struct mc_bucket *head, uint32_t epoch)
{
    return __builtin_expect(mc_is_behind(epoch, head->swept), 0);
}

/* Whether an item of the chain was flushed. */
static inline bool flush_took(const struct mc_item *item, const struct mc_bucket *head,
                              uint32_t epoch)
{
    return item->epoch != (uint8_t)epoch || flush_is_behind(head, epoch);
}

/* flush_is_dead for any bucket. */
static inline bool flush_is_dead_at(const struct mc_item *item, const struct mc_bucket *head,
                                    uint32_t epoch, rel_time now)
{
    return flush_took(item, head, epoch) || flush_expired(item, now);
}

#endif
