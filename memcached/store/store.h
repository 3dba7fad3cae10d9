/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store: items by key, in memory that the kernel programs can read.
 *
 * It knows no protocol: an item's wire bytes are key, suffix, value and tail, where suffix and tail
 * come from functions that the owner hands over (struct store_format). It reads no clock: `now` is
 * a parameter. It knows no kernel: memory comes from a provider and the layout is
 * bpf/shared/layout.h.
 *
 * Threads. Any number of threads call at once, each with a struct store_local of its own. Lock
 * order: stripe of the key, LRU of the class, slabs; the LRU takes stripes by trylock. No call
 * blocks for I/O.
 *
 * Holding. An item returned by a get or a reserve is held by the caller until store_put,
 * store_commit or store_discard: its bytes stay as they are, also after the key was overwritten,
 * deleted or evicted.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/provider.h"
#include "base/slice.h"
#include "bpf/shared/layout.h"
#include "flash/flash.h"

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

/* How the owner writes the bytes around a value. All functions are pure. */
struct store_format {
    /* Writes the bytes between key and value to out, returns how many (at most STORE_SUFFIX_MAX).
     */
    uint8_t (*suffix)(char *out, uint32_t client_flags, uint32_t nvalue);
    /* The client flags in a suffix that was written so. */
    uint32_t (*client_flags)(const char *suffix, uint8_t nsuffix);
    struct slice tail; /* follows every value; at most 8 bytes */
};

enum { STORE_SUFFIX_MAX = 32 };
enum { STORE_HASHPOWER_MAX = 31 };

struct store_config {
    uint64_t memory_limit;          /* bytes of slab pages (-m) */
    uint64_t allocated_before;      /* bytes of them that are taken from the start */
    uint32_t item_max;              /* largest item, bytes (-I) */
    uint32_t chunk_max;             /* largest chunk, bytes; above it values are chained */
    uint32_t chunk_min;             /* least room for key, value and flags (-n) */
    double growth_factor;           /* of slab classes (-f) */
    const uint32_t *slab_sizes;     /* 0-terminated chunk sizes instead of a factor, or NULL */
    unsigned int hashpower;         /* log2 of the slots at start */
    bool expand;                    /* let the table grow */
    bool evict;                     /* false: -M */
    bool maintained;                /* a maintainer will run; false: who stores frees the dead */
    bool track_sizes;               /* count items by size, for store_size_count */
    bool cas;                       /* false: -C, every CAS id is 0 to the outside */
    bool sums;                      /* keep items' sums for the kernel (MC_ITEM_SUMMED) */
    bool prealloc;                  /* -L: take all memory at start */
    bool segmented;                 /* hot, warm, cold, temp; false: one LRU for each class */
    unsigned int hot_pct, warm_pct; /* of a class's memory */
    double hot_max_factor, warm_max_factor; /* of the age of cold's tail */
    bool temp;                              /* the temp LRU is on */
    unsigned int automove;                  /* slab_automove: 0, 1 or 2 */
    unsigned int automove_window;           /* seconds */
    double automove_ratio;                  /* of ages that calls for a page */
    uint32_t tail_repair_time;              /* seconds, 0: never */
    uint32_t temporary_ttl;                 /* seconds */
    struct flash *flash;                    /* NULL: values stay in memory. Outlives the store */
    uint32_t crawler_sleep_us;              /* between a thousand items */
    uint32_t crawler_tocrawl;               /* items of a class in one crawl, 0: all */
    struct store_format format;
    struct clock clock;
    /*
     * What store_save said of the heap segments that the provider gives again; empty: they are new.
     * The clock must be the one of then, continued.
     */
    struct slice image;
};

/* memcached's defaults. */
void store_config_defaults(struct store_config *config);

/* NULL with errno; `error` then says what and is static text. ESTALE: the image is of no use. */
struct store *store_new(const struct store_config *config, struct provider *provider,
                        const char **error);
/* All locals freed and the maintainer stopped before. */
void store_free(struct store *store);
/*
 * Describes what the heap segments hold, for a later store_new; free(*image) when it is kept. All
 * locals freed and the maintainer stopped before. 0 or -ENOMEM.
 */
int store_save(struct store *store, rel_time now, void **image, size_t *nimage);
/* How long an image may be, of a store whose limit has not been raised. */
size_t store_image_bytes(uint64_t memory_limit);
/*
 * The clock that an image's times are of: Unix time at its second 0, and where it stood. False: the
 * image is damaged.
 */
bool store_image_clock(struct slice image, int64_t *base_unix, rel_time *last);
struct mc_control *store_control(struct store *store);
/* False: -C, ids are 0 to the outside. */
bool store_has_cas(const struct store *store);

/* A thread's handle: its statistics. NULL with errno. */
struct store_local *store_local_new(struct store *store);
/* Its statistics stay counted. */
void store_local_free(struct store_local *local);

/*
 * The maintainer: a thread that keeps the LRU segments in proportion and reclaims what has expired
 * at their tails. 0 or -errno.
 */
int store_maintainer_start(struct store *store);
void store_maintainer_stop(struct store *store);
/*
 * The supplier: a thread that maps memory before it is needed. Started before other threads use the
 * store and stopped after them. 0 or -errno.
 */
int store_supplier_start(struct store *store);
void store_supplier_stop(struct store *store);

/*
 * What happens in the store beside the verbs, for those who watch. *wanted says which of it
 * somebody wants: a set of store_event_kind, atomic. The functions are called from any thread and
 * also under the store's locks, so they neither wait nor allocate.
 */
enum store_event_kind {
    STORE_EVENT_ITEM = 1 << 0,   /* an item leaves: evicted, written to flash */
    STORE_EVENT_SYSTEM = 1 << 1, /* what the maintenance threads do */
};
struct store_item_event {
    const char *type; /* "eviction", "extwrite" */
    struct slice key;
    bool fetched;
    int64_t ttl;   /* seconds left, -1: it never expires */
    rel_time idle; /* seconds since the last use */
    unsigned int clsid;
    int bucket; /* of extwrite, -1: none */
};
struct store_events {
    void *context;
    const uint32_t *wanted;
    void (*item)(void *context, const struct store_item_event *event);
    /* The words of a line, "type=slab_move src=1 dst=2". */
    void (*say)(void *context, struct slice text);
};
/* Before the first thread, or behind the last. NULL: nobody watches. */
void store_set_events(struct store *store, const struct store_events *events);

/*
 * Flash storage, if the store has it: threads that write values out and compact the pages. 0 or
 * -errno. Stopped before store_free.
 */
int store_spiller_start(struct store *store);
void store_spiller_stop(struct store *store);

/* --- reading ------------------------------------------------------------ */

/* The live item of the key, held; NULL: a miss, counted. */
struct mc_item *store_get(struct store_local *local, struct slice key, rel_time now);
/* The same, and its expiry becomes `expiry`. */
struct mc_item *store_get_touch(struct store_local *local, struct slice key, rel_time expiry,
                                rel_time now);
void store_put(struct store_local *local, struct mc_item *item);
/* Why this thread's last get, touch, peek or fetch that found nothing did not. */
enum store_absence { STORE_ABSENT, STORE_EXPIRED, STORE_FLUSHED };
enum store_absence store_absence(const struct store_local *local);

/* A get with conditions. */
struct store_fetch {
    bool unseen; /* does not count as a use of the item */
    bool touch;  /* the expiry becomes this one */
    rel_time expiry;
    bool vivify; /* a miss stores an empty value, which expires then, and wins */
    rel_time vivify_expiry;
    bool binary_key;  /* of a value so stored: see store_mark_binary_key */
    uint64_t new_cas; /* of a value so stored, 0: the next */
    bool recache;     /* wins if it expires before `recache_before` */
    rel_time recache_before;
    bool recache_old; /* of the time before the touch */
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
    bool won, was_won; /* this one, an earlier one: one at most */
};

/*
 * Of several that get a value which is stale, new by vivify or about to expire, one wins: who is to
 * store a new one. The item is held. NULL: *result says STORE_MISS or STORE_NO_MEMORY.
 */
struct mc_item *store_fetch(struct store_local *local, struct slice key,
                            const struct store_fetch *how, rel_time now, struct store_fetched *out,
                            enum store_result *result);
/* Looks at an item without using it, uncounted. It is held; NULL: a miss. */
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
 * The contiguous bytes at `offset` of value and tail together; empty behind its end. Of a whole
 * small item all of it at offset 0. To fill a reserved item cast the const away: that is what it is
 * for.
 */
struct slice item_at(const struct store_local *local, const struct mc_item *item, size_t offset);
/* Whether the value is not in memory: then item_at is not to be asked, see store_load. */
static inline bool item_is_on_flash(const struct mc_item *item)
{
    return __builtin_expect(__atomic_load_n(&item->flags, __ATOMIC_RELAXED) & MC_ITEM_EXTERN, 0);
}
/* What `gets` shows: 0 under -C. */
uint64_t item_cas(const struct store_local *local, const struct mc_item *item);

/*
 * A copy of a held item on flash, for its bytes to be shown: its value comes between
 * store_load_start and store_load_end, everything else is there. Held, and takes over the hold on
 * the item. get: it was counted as one, and becomes a miss if nothing comes. NULL: no memory,
 * counted; the hold stays with the caller.
 */
struct mc_item *store_load(struct store_local *local, struct mc_item *item, bool get, rel_time now);
/* Whether `copy` is one, of this item. */
bool store_load_shares(const struct mc_item *copy, const struct mc_item *item);
/* Reads the value at once if that needs no waiting; else `wait` is told when it has ended. */
void store_load_start(struct store_local *local, struct mc_item *copy, struct countdown *wait);
/* Whether the value has come. False: the key no longer has it. May be asked again. */
bool store_load_end(struct store_local *local, struct mc_item *copy, rel_time now);
/* So many values are not to be shown after all; they count as if they had been. */
void store_load_abort(struct store_local *local, size_t n);

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
/* The same where the value turned out to be bad: it counts as a set of the class. */
void store_refuse(struct store_local *local, struct mc_item *item);
/*
 * Makes a reserved item the value of its key, or for append and prepend a new item of both values.
 * Takes over the hold. cas is compared for STORE_CAS, and for the other modes where it is not 0.
 * *cas_out, if not NULL, is the new id.
 */
enum store_result store_commit(struct store_local *local, struct mc_item *item,
                               enum store_mode mode, uint64_t cas, rel_time now, uint64_t *cas_out);
/* On which terms a value is stored. */
struct store_terms {
    enum store_mode mode;
    uint64_t cas;     /* as above */
    bool invalidate;  /* STORE_CAS: with an older id it is stored as stale, with the old expiry */
    uint64_t new_cas; /* its id, 0: the next */
};
enum store_result store_commit_on(struct store_local *local, struct mc_item *item,
                                  const struct store_terms *terms, rel_time now, uint64_t *cas_out);
/* Of a reserved item: whoever shows its key should know that it is not text. */
static inline void store_mark_binary_key(struct mc_item *item)
{
    __atomic_store_n(&item->flags, (__u16)(item->flags | MC_ITEM_BINKEY), __ATOMIC_RELAXED);
}
/* Atomic: the other flags of a held item change beside its holder. */
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
    bool invalidate;  /* it stays, as stale, under another id */
    uint64_t new_cas; /* that id, 0: the next */
    bool touch;       /* what stays expires then */
    rel_time expiry;
};
enum store_result store_remove(struct store_local *local, struct slice key,
                               const struct store_removal *how, rel_time now);
/* Removes without counting: what a failed set leaves must not be served. */
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
    bool binary_key; /* of what is so stored */
    bool touch;      /* if there, it expires at new_expiry from now on */
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
/* The same; *out is written on STORE_DONE. */
enum store_result store_count(struct store_local *local, struct slice key,
                              const struct store_delta *delta, rel_time now,
                              struct store_number *out);
/*
 * Everything stored until the second `at` is gone from then on; at <= now: from this call on. A
 * later call replaces a delay that has not run out.
 */
void store_flush(struct store_local *local, rel_time at, rel_time now);
/* Once a second at least: lets a delayed flush take effect. */
void store_tick(struct store *store, rel_time now);
/*
 * 0, -EINVAL too small, -ERANGE more than references can name, -EPERM all of it was taken at the
 * start. What is over a lower limit is given back by the mover.
 */
int store_set_memory_limit(struct store *store, uint64_t bytes);

/* --- tuning at run time --------------------------------------------------- */

/* What the fields of struct store_config are now. */
struct store_tuning {
    bool segmented, temp;
    unsigned int hot_pct, warm_pct;
    double hot_max_factor, warm_max_factor;
    uint32_t temporary_ttl;
    uint32_t crawler_sleep_us, crawler_tocrawl;
};
void store_tuning(struct store *store, struct store_tuning *out);
void store_tune_segments(struct store *store, unsigned int hot_pct, unsigned int warm_pct,
                         double hot_max_factor, double warm_max_factor);
/* false: from now on all go to cold, where the maintainer brings the others. */
void store_set_segmented(struct store *store, bool segmented);
/* Of what is stored from now on. */
void store_set_temporary(struct store *store, bool temp, uint32_t ttl);
void store_set_crawler_sleep(struct store *store, uint32_t us);
void store_set_crawler_tocrawl(struct store *store, uint32_t nitems);

/* --- the crawler ---------------------------------------------------------- */

/*
 * A thread that walks over the items: to free those that are dead, for those who ask and, by what
 * it has learned of the items' expiry, for the maintainer; or to show all that are alive. It does
 * one of each at a time, and neither waits for the other. 0 or -errno; -EALREADY.
 */
int store_crawler_start(struct store *store);
/* What it is at is cut short. */
void store_crawler_stop(struct store *store);
bool store_crawler_running(struct store *store);

#define STORE_ALL_CLASSES (~(uint64_t)1) /* as a set of classes: all but 0 */

enum store_crawl {
    STORE_CRAWL_STARTED,
    STORE_CRAWL_OFF,   /* no thread */
    STORE_CRAWL_BUSY,  /* it is at something of the kind that somebody asked for */
    STORE_CRAWL_EMPTY, /* no class */
};

/* An item as it was found: what is to be read of it is copied. */
struct store_shown {
    struct slice key;
    bool binary_key, fetched;
    rel_time exptime, last_use;
    uint64_t cas; /* 0 under -C */
    unsigned int clsid;
    size_t size; /* header, key, suffix, value, tail */
};

enum store_taken {
    STORE_TAKEN,
    STORE_FULL,   /* ask again: there is no room now */
    STORE_ENOUGH, /* nobody wants more */
};

/* Who is shown items. The functions are called by the crawler's thread, under no lock. */
struct store_viewer {
    void *context;
    /* shown is NULL once behind the last item. Never waits. */
    enum store_taken (*take)(void *context, const struct store_shown *shown);
    /* Waits until there may be room, or the time is over. */
    void (*wait)(void *context, unsigned int ms);
    /* The last call. whole: each item that was there all the time was shown, exactly once. */
    void (*end)(void *context, bool whole);
};

/*
 * Has what is dead in the classes (bit n: class n) freed, of each class at most as many items
 * looked at as crawler_tocrawl says.
 */
enum store_crawl store_crawl(struct store *store, uint64_t classes);
/*
 * Shows the live items of the classes. Who takes nothing for half a minute is shown no more, so
 * that others get their turn. The viewer is called only after STORE_CRAWL_STARTED.
 */
enum store_crawl store_show(struct store *store, uint64_t classes,
                            const struct store_viewer *viewer);

/* --- pages between classes ------------------------------------------------ */

/*
 * The mover: a thread that takes pages from slab classes, when it is asked to, when the classes'
 * needs differ (automove), or when the memory limit has gone down. 0 or -errno.
 */
int store_mover_start(struct store *store);
void store_mover_stop(struct store *store);

enum store_reassign {
    STORE_REASSIGN_OK,   /* it is asked for */
    STORE_REASSIGN_OFF,  /* there is no mover */
    STORE_REASSIGN_BUSY, /* with another page */
    STORE_REASSIGN_SAME,
    STORE_REASSIGN_BAD_CLASS,
    STORE_REASSIGN_NO_SPARE, /* the source has no page to give */
};
/* Asks for a page of class `from` (0: the pool, -1: any class) for class `to` (0: the pool). */
enum store_reassign store_reassign(struct store *store, int from, int to);
/* 0 off, 1 by what the classes did in the window, 2 at each eviction. */
void store_set_automove(struct store *store, unsigned int mode);
void store_set_automove_ratio(struct store *store, double ratio);

/* --- statistics --------------------------------------------------------- */

/* Counters of one slab class, as memcached names them. */
struct store_class_counts {
    uint64_t set_cmds, get_hits, touch_hits, delete_hits, incr_hits, decr_hits, cas_hits,
        cas_badval;
};

struct store_counts {
    uint64_t get_cmds, get_misses, get_expired, get_flushed, touch_cmds, touch_misses,
        delete_misses, incr_misses, decr_misses, cas_misses, flush_cmds;
    uint64_t get_extstore, get_aborted_extstore, get_oom_extstore, recache_from_extstore,
        miss_from_extstore, badcrc_from_extstore;
    struct store_class_counts classes[MC_CLASSES]; /* [0]: what met no class */
};

struct store_stats {
    struct store_counts counts;              /* of all threads */
    uint64_t curr_items, total_items, bytes; /* bytes: header, key, suffix, value, tail */
    uint64_t evictions, reclaimed, expired_unfetched, evicted_unfetched, evicted_active,
        crawler_reclaimed, crawler_items_checked, lrutail_reflocked;
    uint64_t moves_to_cold, moves_to_warm, moves_within_lru, direct_reclaims, lru_bumps_dropped,
        lru_maintainer_juggles;
    uint64_t slab_global_page_pool, malloc_fails;
    uint64_t lru_crawler_starts;
    bool lru_crawler_running;
    uint64_t slab_reassign_rescues, slab_reassign_chunk_rescues, slab_reassign_evictions_nomem,
        slab_reassign_inline_reclaim, slab_reassign_busy_items, slab_reassign_busy_deletes,
        slabs_moved;
    bool slab_reassign_running;
    unsigned int automove;
    double automove_ratio;
    uint32_t hash_power_level;
    uint64_t hash_bytes;
    bool hash_is_expanding;
    uint64_t memory_limit;
};
void store_stats(struct store *store, struct store_stats *out);

struct store_class_stats {
    /* slabs */
    uint32_t chunk_size, chunks_per_page;
    uint64_t total_pages, total_chunks, used_chunks, free_chunks;
    /* items */
    uint64_t number, number_hot, number_warm, number_cold, number_temp;
    rel_time age, age_hot, age_warm; /* of the tail of each segment */
    uint64_t mem_requested, evicted, evicted_nonzero, evicted_time, outofmemory, tailrepairs,
        reclaimed, expired_unfetched, evicted_unfetched, evicted_active, crawler_reclaimed,
        crawler_items_checked, lrutail_reflocked, moves_to_cold, moves_to_warm, moves_within_lru,
        direct_reclaims, hits_to_hot, hits_to_warm, hits_to_cold, hits_to_temp;
};
/* Classes are 1 to the returned number. */
unsigned int store_nclasses(const struct store *store);
void store_class_stats(struct store *store, unsigned int clsid, rel_time now,
                       struct store_class_stats *out);
/* Pages malloced, bytes ("total_malloced"), and classes with a page. */
void store_slab_totals(struct store *store, uint64_t *total_malloced, uint32_t *active_slabs);
bool store_tracks_sizes(const struct store *store);
/* From now on counts what is stored by size, or does not; what has been counted stays so while
 * it is stored. 0 or -ENOMEM. */
int store_track_sizes(struct store *store, bool on);
/*
 * Items by size in steps of 32 bytes: the next step above *size that items have. False: there is
 * none. For all of them begin with 0.
 */
bool store_size_count(const struct store *store, uint64_t *size, uint64_t *count);
void store_reset_stats(struct store *store);

/* --- flash storage ------------------------------------------------------- */

/* When values go to flash and when they are moved there. They can be changed at any time. */
struct store_flash_rules {
    uint32_t item_size;               /* bytes; smaller items stay in memory */
    uint32_t item_age;                /* seconds without use; UINT32_MAX: memory alone decides */
    uint32_t low_ttl;                 /* seconds; what lives shorter has pages of its own */
    uint32_t recache_rate;            /* every so many reads one goes back to memory; 0: none */
    uint32_t compact_under;           /* free pages */
    uint32_t drop_under;              /* free pages; cold values are then not moved but dropped */
    double max_frag;                  /* of a page in use, below which it is compacted: flash.h */
    double free_ratio;                /* part of the memory to keep free for what comes */
    bool drop_unread;                 /* moving: what was not read since is dropped */
    uint32_t free_chunks[MC_CLASSES]; /* to keep free in a class instead; 0: by the ratio */
};
void store_flash_defaults(struct store_flash_rules *rules);
void store_flash_rules(struct store *store, struct store_flash_rules *out);
void store_set_flash_rules(struct store *store, const struct store_flash_rules *rules);

struct store_flash_stats {
    uint64_t compact_lost, compact_rescues, compact_skipped;
    struct flash_stats files;
};
/* Of a store that has it. */
void store_flash_stats(struct store *store, struct store_flash_stats *out);
/* 0 without it. */
uint32_t store_flash_npages(const struct store *store);
void store_flash_page(struct store *store, uint32_t page, struct flash_page_stats *out);

/* --- what is stored ------------------------------------------------------ */

struct store_listed {
    struct slice key;
    uint32_t nvalue; /* without the tail */
    rel_time exptime;
};
/*
 * Lists up to `limit` (0: any number) live items of a class with text keys: records of at most
 * `size` bytes, returned in `out` for store_list_next. Of each segment the newest first, hot before
 * warm, cold and temp. The class waits meanwhile, so the number of items looked at is bounded; a
 * record is shorter than its key and 10 bytes.
 */
size_t store_list(struct store *store, unsigned int clsid, uint64_t limit, rel_time now, char *out,
                  size_t size);
/* Takes the next item off; its key is good as long as `out`. False: no more. */
bool store_list_next(struct slice *records, struct store_listed *out);

#endif
