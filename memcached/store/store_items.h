/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_items: the verbs: reading, writing and removing the items of a store.
 *
 * Which thread may call, and how long an item is held: see store.h.
 */
#ifndef STORE_STORE_ITEMS_H
#define STORE_STORE_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/slice.h"
#include "bpf/shared/layout.h"

struct countdown;
struct store;
struct store_local;

enum store_result {
    STORE_DONE, /* stored, touched, deleted, counted */
    STORE_NOT_STORED,
    STORE_EXISTS, /* the CAS id has changed */
    STORE_MISS,
    STORE_TOO_LARGE,
    STORE_NO_MEMORY,
    STORE_NON_NUMERIC,
};

enum store_mode {
    STORE_SET,
    STORE_ADD,
    STORE_REPLACE,
    STORE_APPEND,
    STORE_PREPEND,
    STORE_CAS,
};

/* --- reading ------------------------------------------------------------ */

/* The live item of the key, held; NULL: a miss, counted. */
struct mc_item *store_get(struct store_local *local, struct slice key, rel_time now);
/* store_get, and the item expires at `expiry` from now on. */
struct mc_item *store_get_touch(struct store_local *local, struct slice key, rel_time expiry,
                                rel_time now);
void store_put(struct store_local *local, struct mc_item *item);
/* Why this thread's last get, touch, peek or fetch found nothing. */
enum store_absence { STORE_ABSENT, STORE_EXPIRED, STORE_FLUSHED };
enum store_absence store_absence(const struct store_local *local);

/* A get with conditions. */
struct store_fetch {
    bool unseen; /* does not count as a use of the item */
    bool touch;  /* the expiry becomes this one */
    rel_time expiry;
    bool vivify; /* a miss stores an empty value, which expires at vivify_expiry, and wins */
    rel_time vivify_expiry;
    bool binary_key;  /* of the value stored by vivify: see store_mark_binary_key */
    uint64_t new_cas; /* of the value stored by vivify, 0: the next */
    bool recache;     /* wins if it expires before `recache_before` */
    rel_time recache_before;
    bool recache_old; /* judge by the expiry before the touch */
};

/* What was found, at the moment of the get. */
struct store_fetched {
    uint64_t cas;
    rel_time old_expiry, expiry; /* before and after the touch */
    rel_time last_use;           /* before this one */
    unsigned int clsid;          /* slab class */
    bool used;                   /* before this one */
    bool created;
    bool stale;
    bool won, was_won; /* this get won, an earlier one had: at most one is set */
};

/*
 * A get that elects: of several clients that get a value which is stale, stored by vivify or about
 * to expire, one wins, and should store a new value. The item is held. NULL: *result says
 * STORE_MISS or STORE_NO_MEMORY.
 */
struct mc_item *store_fetch(struct store_local *local, struct slice key,
                            const struct store_fetch *how, rel_time now, struct store_fetched *out,
                            enum store_result *result);
/* Returns an item, held, without marking it as used or counting a get. NULL: a miss. */
struct mc_item *store_peek(struct store_local *local, struct slice key, rel_time now,
                           struct store_fetched *out);

/* Parts of an item. */
static inline struct slice item_key(const struct mc_item *item)
{
    return (struct slice){item->wire, item->nkey};
}
static inline struct slice item_suffix(const struct mc_item *item)
{
    return (struct slice){item->wire + item->nkey, item->nsuffix};
}
/* Bytes of header, key, suffix, value and tail. */
static inline size_t item_size(const struct mc_item *item)
{
    return MC_ITEM_HEADER + (size_t)item->nbytes;
}
/* Length of the value, without the tail. */
uint32_t item_nvalue(const struct store_local *local, const struct mc_item *item);
/* Its slab class; of an item in chunks the largest. */
unsigned int item_class(const struct store_local *local, const struct mc_item *item);
/*
 * The contiguous bytes from `offset` of value and tail on, as far as one chunk has them; empty past
 * the end. Offset 0 of an item in one chunk gives all of it. To fill a reserved item, cast the
 * const away.
 */
struct slice item_at(const struct store_local *local, const struct mc_item *item, size_t offset);
/* Whether the value is on flash only: then item_at must not be called, see store_flash_load. */
static inline bool item_is_on_flash(const struct mc_item *item)
{
    return __builtin_expect(__atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_FLASH, 0);
}
/* The CAS id as clients see it: 0 under -C. */
uint64_t item_cas(const struct store_local *local, const struct mc_item *item);

/*
 * A copy in memory of a held item on flash, for a reply. It has everything but the value, which is
 * read between store_flash_load_start and store_flash_load_end. The copy is held and takes over the
 * hold on the item. get: the request was counted as a hit, which becomes a miss if the value cannot
 * be read. NULL: no memory, counted; the hold stays with the caller.
 */
struct mc_item *store_flash_load(struct store_local *local, struct mc_item *item, bool get,
                                 rel_time now);
/* Whether `copy` was made by store_flash_load from this item. */
bool store_flash_load_shares(const struct mc_item *copy, const struct mc_item *item);
/* Reads the value at once if the disk is not needed; else a thread reads it and ends `wait`. */
void store_flash_load_start(struct store_local *local, struct mc_item *copy,
                            struct countdown *wait);
/* Whether the value was read. False: the item is lost and removed. May be called again. */
bool store_flash_load_end(struct store_local *local, struct mc_item *copy, rel_time now);
/* Counts n values on flash that were asked for and will not be read, as the request failed. */
void store_flash_load_abort(struct store_local *local, size_t n);

/* --- writing ------------------------------------------------------------ */

/*
 * A new item, held, not reachable yet, its value for the caller to fill (tail included: it is
 * written by this call). NULL: *result says STORE_TOO_LARGE or STORE_NO_MEMORY, and the older value
 * is still there.
 */
struct mc_item *store_reserve(struct store_local *local, struct slice key, uint32_t client_flags,
                              rel_time expiry, size_t nvalue, rel_time now,
                              enum store_result *result);
void store_discard(struct store_local *local, struct mc_item *item);
/* store_discard for a value that the client sent malformed: it counts as a set of the class. */
void store_refuse(struct store_local *local, struct mc_item *item);
/*
 * Makes a reserved item the value of its key, or for append and prepend a new item of both values.
 * Takes over the hold. cas is compared for STORE_CAS, and for the other modes where it is not 0.
 * *cas_out, if not NULL, is the new id.
 */
enum store_result store_commit(struct store_local *local, struct mc_item *item,
                               enum store_mode mode, uint64_t cas, rel_time now, uint64_t *cas_out);
/* The conditions on which a value is stored. */
struct store_terms {
    enum store_mode mode;
    uint64_t cas;     /* as above */
    bool invalidate;  /* STORE_CAS: an older id stores the value as stale, with the old expiry */
    uint64_t new_cas; /* its id, 0: the next */
};
enum store_result store_commit_on(struct store_local *local, struct mc_item *item,
                                  const struct store_terms *terms, rel_time now, uint64_t *cas_out);
/* Marks a reserved item whose key is binary: it must be encoded where keys are printed. */
static inline void store_mark_binary_key(struct mc_item *item)
{
    __atomic_store_n(&item->flags, (__u16)(item->flags | MC_ITEM_BINKEY), __ATOMIC_RELAXED);
}
/* Atomic: other threads change the other flags of a held item. */
static inline bool item_has_binary_key(const struct mc_item *item)
{
    return __atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_BINKEY;
}

/* cas 0: any. */
enum store_result store_delete(struct store_local *local, struct slice key, uint64_t cas,
                               rel_time now);
/* A delete with conditions. */
struct store_removal {
    bool compare; /* the id is this one */
    uint64_t cas;
    bool invalidate;  /* the item stays, as stale, under another id */
    uint64_t new_cas; /* that id, 0: the next */
    bool touch;       /* an item that stays expires at `expiry` */
    rel_time expiry;
};
enum store_result store_remove(struct store_local *local, struct slice key,
                               const struct store_removal *how, rel_time now);
/* Removes without counting: after a failed set the old value must not be served. */
void store_forget(struct store_local *local, struct slice key, rel_time now);
enum store_result store_touch(struct store_local *local, struct slice key, rel_time expiry,
                              rel_time now);

struct store_delta {
    bool decrement; /* stops at 0; an increment wraps at 2^64 */
    uint64_t delta;
    uint64_t cas; /* 0: any */
    bool create;  /* if missing store `initial` with `expiry` */
    uint64_t initial;
    rel_time expiry;
    bool binary_key; /* of the item that `create` stores */
    bool touch;      /* an existing item expires at new_expiry from now on */
    rel_time new_expiry;
    uint64_t new_cas; /* its id, 0: the next */
};
/*
 * On STORE_DONE *value is the new number and *cas_out its id. A number that has become shorter is
 * padded with spaces to the length it had.
 */
enum store_result store_arith(struct store_local *local, struct slice key,
                              const struct store_delta *delta, rel_time now, uint64_t *value,
                              uint64_t *cas_out);
struct store_number {
    uint64_t value, cas;
    rel_time old_expiry, expiry; /* before (0 if it was created) and after the touch */
    bool created;
};
/* Adds to a number or subtracts from it; *out is written on STORE_DONE. */
enum store_result store_meta_arith(struct store_local *local, struct slice key,
                                   const struct store_delta *delta, rel_time now,
                                   struct store_number *out);
/*
 * From the second `at` on, everything that was stored before it is gone; at <= now: from this call
 * on. A later call replaces a delay that has not ended.
 */
void store_flush(struct store_local *local, rel_time at, rel_time now);
/* Once a second at least: lets a delayed flush take effect. */
void store_tick(struct store *store, rel_time now);

#endif
