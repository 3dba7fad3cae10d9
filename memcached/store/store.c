/* SPDX-License-Identifier: BSD-3-Clause */
/* store: creates and frees a store and its threads' handles, and reads. Writing is in write.c. */
#include "store/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "store/event.h"
#include "store/flash_item.h"
#include "store/image.h"
#include "store/reclaim.h"
#include "store/verbs.h"

enum {
    MIN_LIMIT = 8 << 20, /* what a running server can be shrunk to */
    HOLDERS_MAX = 32768, /* of one item, before readers get a copy of it */
};

void store_config_defaults(struct store_config *config)
{
    *config = (struct store_config){
        .memory_limit = 64ull << 20,
        .item_max = 1 << 20,
        .chunk_max = 512 << 10,
        .chunk_min = 48,
        .growth_factor = 1.25,
        .hashpower = 16,
        .expand = true,
        .evict = true,
        .maintained = true,
        .cas = true,
        .automove_window = 30,
        .tuning =
            {
                .lru_segmented = true,
                .hot_pct = 20,
                .warm_pct = 40,
                .hot_max_factor = 0.2,
                .warm_max_factor = 2.0,
                .temporary_ttl = 61,
                .crawler_sleep_us = 100,
                .automove_ratio = 0.8,
            },
    };
}

/* --- creating and freeing -------------------------------------------------- */

_Static_assert((int)STORE_HASHPOWER_MAX == (int)TABLE_MAX_POWER, "");

/* NULL or what is wrong. */
static const char *check_config(const struct store_config *config)
{
    if (config->hashpower < TABLE_MIN_POWER || config->hashpower > TABLE_MAX_POWER)
        return "hash power out of range";
    if (heap_ref_shift(config->memory_limit) == 0)
        return "-m is at most 262079 megabytes";
    if (!config->format.suffix || !config->format.client_flags || config->format.tail.len > 8)
        return "no item format";
    return NULL;
}

/* How much of a limit is left for pages. */
static uint64_t limit_left(const struct store_config *config, uint64_t limit)
{
    return limit > config->allocated_before ? limit - config->allocated_before : 0;
}

/* Why the image, if there is one, cannot be used. */
static const char *image_error(const struct store *store)
{
    return store->config.image.len > 0 ? image_mismatch(store, store->config.image) : NULL;
}

/* A table that is restored starts as large as it was. */
static unsigned int start_power(const struct store_config *config)
{
    unsigned int power = config->image.len > 0 ? image_hashpower(config->image) : 0;

    return power > config->hashpower ? power : config->hashpower;
}

static int init_memory(struct store *store, struct provider *provider, const char **error)
{
    const struct store_config *config = &store->config;
    const struct slab_config slab_config = {
        .chunk_max = (uint32_t)config->chunk_max,
        .chunk_min = config->chunk_min,
        .growth_factor = config->growth_factor,
        .slab_sizes = config->slab_sizes,
        .memory_limit = limit_left(config, config->memory_limit),
    };
    unsigned int ref_shift = heap_ref_shift(config->memory_limit);
    int result;

    *error = "cannot reserve address space for items";
    result =
        heap_init(&store->heap, provider, ref_shift, heap_reach(ref_shift, config->memory_limit));
    if (result)
        return result;
    *error = "slab sizes make no sense";
    result = slab_init(&store->slabs, &store->heap, &slab_config);
    if (result)
        return result;
    *error = image_error(store);
    if (*error)
        return -ESTALE;
    *error = "no memory for the hash table";
    result = table_init(&store->table, &store->heap, provider, start_power(config), config->expand);
    if (result)
        return result;
    /* Without eviction nothing could make way for it. */
    if (config->evict)
        slab_count_table(&store->slabs, &store->control->nbuckets,
                         (1u << config->hashpower) / MC_SLOTS);
    *error = "no memory for items";
    if (config->image.len > 0)
        result = image_load(store, config->image);
    if (result)
        return result;
    if (config->prealloc)
        return slab_prealloc(&store->slabs);
    result = slab_provide(&store->slabs);
    /* One extent is enough to serve: the server runs as a small cache that is full. */
    return store->heap.nextents > 0 ? 0 : result;
}

static int init_ghost(struct store *store)
{
    return store->config.s3_fifo ? ghost_init(&store->ghost, store->config.memory_limit) : 0;
}

static int init_sizes(struct store *store)
{
    sizes_init(&store->sizes, store->config.item_max);
    for (size_t i = 0; i < MC_CLASSES; i++)
        store->lrus[i].sizes = &store->sizes;
    return store_track_sizes(store, store->config.track_sizes);
}

static int init_control(struct store *store)
{
    struct mc_control *control = store->control;
    size_t done = 0;

    while (done < sizeof(control->seed)) {
        ssize_t n = getrandom((char *)control->seed + done, sizeof(control->seed) - done, 0);

        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    control->base_ns = store->config.clock.base_ns;
    control->ref_shift = (uint8_t)heap_ref_shift(store->config.memory_limit);
    control->without_cas = !store->config.cas;
    return 0;
}

static int init_threads(struct store *store)
{
    int result = background_init(&store->maintainer.background);

    if (result)
        return result;
    result = background_init(&store->prefault);
    if (result)
        goto no_prefault;
    result = mover_init(store);
    if (result)
        goto no_mover;
    result = crawler_init(store);
    if (result)
        goto no_crawler;
    result = flash_threads_init(&store->flash_threads);
    if (result)
        goto no_flash_threads;
    return 0;
no_flash_threads:
    crawler_fini(store);
no_crawler:
    mover_fini(store);
no_mover:
    background_fini(&store->prefault);
no_prefault:
    background_fini(&store->maintainer.background);
    return result;
}

struct store *store_new(const struct store_config *config, struct provider *provider,
                        const char **error)
{
    struct store *store;
    int result;

    *error = check_config(config);
    if (*error) {
        errno = EINVAL;
        return NULL;
    }
    *error = "no memory for the store";
    store = aligned_alloc(64, sizeof(*store));
    if (!store)
        return NULL;
    memset(store, 0, sizeof(*store));
    store->config = *config;
    store->segmented_at_start = config->tuning.lru_segmented;
    store->control = provider->control(provider);
    event_init(store);
    flush_init(store);
    store_flash_defaults(&store->flash_rules);
    store->recache_rate = store->flash_rules.recache_rate;
    result = init_threads(store);
    if (result) {
        free(store);
        errno = -result;
        return NULL;
    }
    result = init_control(store);
    if (!result)
        result = init_sizes(store);
    if (!result)
        result = init_ghost(store);
    if (!result)
        result = init_memory(store, provider, error);
    if (result) {
        store_free(store);
        errno = -result;
        return NULL;
    }
    *error = NULL;
    return store;
}

void store_free(struct store *store)
{
    if (!store)
        return;
    assert(!store->locals);
    flash_threads_fini(&store->flash_threads);
    crawler_fini(store);
    mover_fini(store);
    background_fini(&store->prefault);
    background_fini(&store->maintainer.background);
    table_fini(&store->table);
    slab_fini(&store->slabs);
    sizes_fini(&store->sizes);
    ghost_fini(&store->ghost);
    heap_fini(&store->heap);
    free(store);
}

struct mc_control *store_control(struct store *store)
{
    return store->control;
}

void store_tick(struct store *store, rel_time now)
{
    verb_begin(store, now);
    table_retry(&store->table);
    slab_retry(&store->slabs);
}

int store_set_memory_limit(struct store *store, uint64_t bytes)
{
    /* Each class may have a page more, and page 0 is not used. */
    uint64_t most = bytes + (MC_CLASSES + 1ull) * MC_PAGE_BYTES;

    if (bytes < MIN_LIMIT)
        return -EINVAL;
    if (store->config.prealloc)
        return -EPERM;
    if (most > (uint64_t)store->heap.max_extents * MC_EXTENT_BYTES)
        return -ERANGE;
    slab_set_limit(&store->slabs, limit_left(&store->config, bytes));
    background_wake(&store->mover.background);
    return 0;
}

bool store_has_cas(const struct store *store)
{
    return store->config.cas;
}

/* --- handles ------------------------------------------------------------- */

struct store_local *store_local_new(struct store *store)
{
    struct store_local *local = aligned_alloc(64, sizeof(*local));

    if (!local)
        return NULL;
    memset(local, 0, sizeof(*local));
    local->store = store;
    lock_take(&store->locals_lock, LOCK_LOCALS);
    local->next = store->locals;
    store->locals = local;
    lock_release(&store->locals_lock, LOCK_LOCALS);
    return local;
}

void store_local_free(struct store_local *local)
{
    struct store *store;
    struct store_local **at;

    if (!local)
        return;
    store = local->store;
    lock_take(&store->locals_lock, LOCK_LOCALS);
    for (at = &store->locals; *at != local;)
        at = &(*at)->next;
    *at = local->next;
    stats_add(&store->retired, &local->counts);
    lock_release(&store->locals_lock, LOCK_LOCALS);
    free(local);
}

/* --- reading ------------------------------------------------------------- */

void verb_hold(struct mc_item *item)
{
    __atomic_fetch_add(&item->refcount, 1, __ATOMIC_RELAXED);
}

/*
 * The holders of an item are counted in 16 bits, and one request can ask for a key many thousand
 * times. Before the count runs over, readers go on with a copy, in the table in the item's place.
 * Under the stripe. NULL: no memory; the item is removed, since the key counts as missing from now
 * on.
 */
static struct mc_item *replace_by_copy(struct store *store, struct mc_item *item, struct key *key,
                                       rel_time now)
{
    enum store_result result;
    struct mc_item *copy = item_is_on_flash(item)
                               ? flash_item_share(store, item, now)
                               : item_new(store, item_key(item), item_client_flags(store, item),
                                          item->exptime, item_length(store, item), now, &result);

    if (!copy) {
        reclaim_unlink(store, item, key->hash, &key->spot);
        return NULL;
    }
    if (!item_is_on_flash(item))
        item_copy(store, copy, 0, item);
    copy->cas = item->cas;
    item_set_flags(copy, item->flags & ITEM_MARKS);
    verb_swap(store, copy, item, &key->spot, item->epoch, now);
    item_put(store, item);
    return copy;
}

void verb_hit(struct mc_item *item, rel_time now)
{
    item_mark_reads(item, 1);
    if (item->time != now)
        item_set_time(item, now);
    verb_hold(item);
}

/* The live item of the key; a dead one is removed and counted. Under the stripe. */
static struct mc_item *find_live(struct store_local *local, struct slice name, rel_time now,
                                 struct key *key)
{
    struct store *store = local->store;
    struct mc_item *item = table_find(&store->table, key->hash, name, &key->spot);

    if (!item) {
        local->absence = STORE_ABSENT;
        return NULL;
    }
    if (flush_is_dead_at(item, key->spot.head, key->epoch, now)) {
        bool flushed = flush_took(item, key->spot.head, key->epoch);

        count(flushed ? &local->counts.counts.get_flushed : &local->counts.counts.get_expired);
        local->absence = flushed ? STORE_FLUSHED : STORE_EXPIRED;
        reclaim_unlink(store, item, key->hash, &key->spot);
        return NULL;
    }
    if (flash_item_is_lost(store, item)) {
        count(&local->counts.counts.miss_from_extstore);
        reclaim_unlink(store, item, key->hash, &key->spot);
        return NULL;
    }
    if (__atomic_load_n(&item->refcount, __ATOMIC_RELAXED) >= HOLDERS_MAX)
        return replace_by_copy(store, item, key, now);
    return item;
}

void key_open_live(struct store_local *local, struct slice name, rel_time now, struct key *key)
{
    struct store *store = local->store;

    key->hash = hash_key(store->control, name);
    key->stripe = table_stripe(&store->table, key->hash);
    verb_begin(store, now);
    lock_take(key->stripe, LOCK_STRIPE);
    key->epoch = flush_epoch(store);
    key->found = find_live(local, name, now, key);
    key->live = key->found != NULL;
}

void verb_set_expiry(struct mc_item *item, const struct table_spot *spot, rel_time expiry)
{
    table_begin(spot->head);
    __atomic_store_n(&item->exptime, expiry, __ATOMIC_RELAXED);
    table_end(spot->head);
}

struct mc_item *store_get(struct store_local *local, struct slice name, rel_time now)
{
    struct key key;

    key_open_live(local, name, now, &key);
    if (key.found) {
        verb_hit(key.found, now);
        count(&local->counts.lru_hits[key.found->clsid]);
    }
    key_leave(&key);
    count(&local->counts.counts.get_cmds);
    if (!key.found)
        count(&local->counts.counts.get_misses);
    return key.found;
}

/* The item with its new expiry, held; counts as a touch. */
static struct mc_item *touch(struct store_local *local, struct slice name, rel_time expiry,
                             rel_time now)
{
    struct store_counts *counts = &local->counts.counts;
    struct key key;

    key_open_live(local, name, now, &key);
    if (key.found) {
        verb_hit(key.found, now);
        verb_set_expiry(key.found, &key.spot, expiry);
        count(&counts->classes[lru_class_of(key.found)].touch_hits);
    }
    key_leave(&key);
    count(&counts->touch_cmds);
    if (!key.found)
        count(&counts->touch_misses);
    return key.found;
}

struct mc_item *store_get_touch(struct store_local *local, struct slice key, rel_time expiry,
                                rel_time now)
{
    return touch(local, key, expiry, now);
}

enum store_result store_touch(struct store_local *local, struct slice key, rel_time expiry,
                              rel_time now)
{
    struct mc_item *item = touch(local, key, expiry, now);

    if (!item)
        return STORE_MISS;
    item_put(local->store, item);
    return STORE_DONE;
}

void store_put(struct store_local *local, struct mc_item *item)
{
    item_put(local->store, item);
}

enum store_absence store_absence(const struct store_local *local)
{
    return local->absence;
}

unsigned int item_class(const struct store_local *local, const struct mc_item *item)
{
    const struct slabs *slabs = &local->store->slabs;
    unsigned int clsid = slab_class_of_size(slabs, item_bytes(item));

    return clsid ? clsid : slabs->largest;
}

uint32_t item_nvalue(const struct store_local *local, const struct mc_item *item)
{
    return item_length(local->store, item);
}

struct slice item_at(const struct store_local *local, const struct mc_item *item, size_t offset)
{
    return item_piece(local->store, item, offset);
}

uint64_t item_cas(const struct store_local *local, const struct mc_item *item)
{
    return local->store->config.cas ? __atomic_load_n(&item->cas, __ATOMIC_RELAXED) : 0;
}
