/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover: the thread that takes pages from slab classes, for other classes, for the pool, or because
 * the memory limit went down. It empties one page at a time: what is alive in it gets another chunk
 * of the same class, for which the oldest of the class is evicted if there is none.
 *
 * How it finds what a chunk holds. Under the lock of a slab class no chunk of it is freed that is
 * not marked MC_ITEM_SLABBED, and none is given out. So an item that is marked MC_ITEM_LINKED then
 * has its key for as long as that lock is held: the writer set the mark, with release, after the
 * key. A part (MC_ITEM_CHUNK) names its item, which is freed after its parts. The key leads to the
 * stripe, which is only tried, as it comes before the lock in the order; once it is held the table
 * says whether the item is still the one that its key has.
 *
 * Who may have the old chunk. Holders of a small item go on with it: it is out of the table, as if
 * it had been overwritten, and its page waits until the last one lets go. Parts and the references
 * to them are changed in place, so that the mover moves an item with parts only while it has no
 * holder; later readers need the stripe. One that is held for too many rounds is deleted, and the
 * page waits for its holders. A value that a client is still sending is in no table: the page waits
 * a while and then is left to its class.
 *
 * Why a kernel program is never misled. It takes references only from buckets. The new reference
 * comes into the bucket by table_replace, between an odd and an even sequence counter, after the
 * copy is complete (release in table_begin), so a reader that sees the new reference and an
 * unchanged counter has the whole copy. One that got the old reference before may be reading the
 * old chunk for as long as it likes: nothing is unmapped, every offset is checked against the
 * extent's bounds, not against the item's or the page's, and lengths that it reads are checked
 * before they are used (bpf/answer/lookup.bpf.h), so bytes of another class are at worst a wrong
 * copy. That copy does not leave: before it answers, or marks the bucket as accessed, the reader
 * looks at the counter again. The old chunk is written to again only after slab_free and slab_alloc
 * (or page_enter and a carve), both behind table_end in this order: counter moved, release fence of
 * slab_alloc, new bytes. A reader that has read a new byte and then, after an acquire fence, reads
 * the counter, finds it moved. A page that changes its class adds nothing to this: the argument is
 * about bytes, not about chunks. And who comes to an overflow bucket or to the bucket of a split is
 * covered as before: the mover changes no bucket but the slot of the item.
 *
 * Nothing is done for long under a lock: one item of at most a chunk is copied under a stripe, and
 * after a slice of work the thread sleeps, so that on a busy machine it is a small share.
 */
#ifndef STORE_MOVER_H
#define STORE_MOVER_H

#include "store/automove.h"
#include "store/background.h"

struct store;

struct mover_counts {
    uint64_t rescues, chunk_rescues, evictions_nomem, inline_reclaim, busy_items, busy_deletes,
        moved;
};

struct mover {
    struct background background;
    /*
     * 0, or which page is asked for: the source class above the lowest byte, and the destination
     * plus 1. The thread that turns it from 0 to that has the mover; the mover turns it back.
     * Atomic.
     */
    uint32_t job;
    uint32_t next_source;       /* where "any class" begins to look. Atomic */
    bool on;                    /* there is a thread. Atomic */
    struct mover_counts counts; /* atomic */

    /* The mover's own. */
    struct automove automove;
    uint32_t page;              /* that is being emptied, 0: none */
    uint32_t avoid;             /* the one that was given up last */
    uint32_t spare;             /* a chunk to move to, 0: none */
    unsigned int from, to;      /* classes of the job */
    unsigned int ncarved, next; /* chunks of the page, and the one to look at */
    unsigned int nrounds;
};

int mover_init(struct store *store);
void mover_fini(struct store *store);
/*
 * A slice of work: part of a page, or the decision which page to move. Returns for how many
 * microseconds there is nothing to do. The thread's body, for tests too.
 */
uint64_t mover_step(struct store *store, rel_time now);
/* Asks for a page of class `from` (0: of the pool) for `to`. False: the mover has another one. */
bool mover_ask(struct store *store, unsigned int from, unsigned int to);
/* A class with two pages or more which is not `to`, each in turn; 0: there is none. */
unsigned int mover_any_source(struct store *store, unsigned int to);
/* Pages that `slabs reassign 0 CLASS` can give, and statistics show. */
uint32_t mover_pool(struct store *store);
/* The class evicts; slab_automove=2. */
void mover_evicted(struct store *store, unsigned int clsid);

#endif
