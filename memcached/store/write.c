/* SPDX-License-Identifier: BSD-3-Clause */
/* write: the verbs that change what a key has. */
#include "store/flash_item.h"
#include "store/reclaim.h"
#include "store/tuning.h"
#include "store/verbs.h"

void key_open(struct store *store, struct slice name, rel_time now, struct key *key)
{
    key->hash = hash_key(store->control, name);
    key->stripe = table_stripe(&store->table, key->hash);
    verb_begin(store, now);
    lock_take(key->stripe, LOCK_STRIPE);
    key->epoch = flush_epoch(store);
    key->found = table_find(&store->table, key->hash, name, &key->spot);
    if (key->found && flush_is_behind(key->spot.head, key->epoch)) {
        flush_clean(store, key->spot.head, key->epoch, now);
        key->found = NULL;
    }
    key->live = key->found && !flush_is_dead(key->found, key->epoch, now) &&
                !flash_item_is_lost(store, key->found);
}

void key_close(struct store *store, struct key *key)
{
    lock_release(key->stripe, LOCK_STRIPE);
    if (__builtin_expect(table_crowded(&store->table), 0))
        table_grow(&store->table);
}

/*
 * Once a client was told that the key does not exist, no thread may find the item alive, not even
 * one whose `now` is an earlier second.
 */
static void remove_dead(struct store *store, const struct key *key)
{
    if (key->found && !key->live)
        reclaim_unlink(store, key->found, key->hash, &key->spot);
}

/* --- linking ------------------------------------------------------------- */

static enum lru_segment first_lru_segment(const struct store *store, const struct mc_item *item,
                                          rel_time now)
{
    if (!tuned_lru_segmented(store))
        return LRU_COLD;
    if (tuned_temp(store) && lru_is_temporary(item, tuned_temporary_ttl(store), now))
        return LRU_TEMP;
    return LRU_HOT;
}

/* Where an item goes whose key is new. */
static enum lru_segment new_lru_segment(struct store *store, const struct mc_item *item,
                                        uint64_t hash, rel_time now)
{
    enum lru_segment segment = first_lru_segment(store, item, now);

    if (segment == LRU_HOT && tuned_s3_fifo(store) &&
        ghost_take(&store->ghost, hash, table_nbuckets(&store->table)))
        return LRU_COLD;
    return segment;
}

/* Where an item goes that takes the place of another with its key. */
static enum lru_segment next_lru_segment(const struct store *store, const struct mc_item *item,
                                         const struct mc_item *old, rel_time now)
{
    enum lru_segment segment = first_lru_segment(store, item, now);

    return segment == LRU_HOT && tuned_s3_fifo(store) && lru_segment_of(old) == LRU_COLD ? LRU_COLD
                                                                                         : segment;
}

/* Makes an item ready to be reached. */
static void stamp(const struct store *store, struct mc_item *item, uint32_t epoch, rel_time now)
{
    item->epoch = flush_new_epoch(store, epoch, now);
    item_set_time(item, now);
    item_set_flags(item, MC_ITEM_LINKED | item_sum(store, item));
}

static void swap_lru(struct store *store, struct mc_item *item, struct mc_item *old, rel_time now)
{
    struct lru *lru = &store->lrus[lru_class_of(item)];
    struct lru *old_lru = &store->lrus[lru_class_of(old)];

    lock_take(&old_lru->lock, LOCK_LRU);
    lru_unlink(old_lru, &store->heap, old);
    if (old_lru != lru) {
        lock_release(&old_lru->lock, LOCK_LRU);
        lock_take(&lru->lock, LOCK_LRU);
    }
    lru_link(lru, &store->heap, item, next_lru_segment(store, item, old, now));
    lock_release(&lru->lock, LOCK_LRU);
    item_clear_flags(old, MC_ITEM_LINKED);
}

void verb_swap(struct store *store, struct mc_item *item, struct mc_item *old,
               const struct table_spot *spot, uint32_t epoch, rel_time now)
{
    stamp(store, item, epoch, now);
    table_replace(spot, heap_ref(&store->heap, item));
    swap_lru(store, item, old, now);
}

uint64_t verb_next_cas(struct store *store)
{
    return __atomic_add_fetch(&store->last_cas, 1, __ATOMIC_RELAXED);
}

bool key_link(struct store_local *local, struct key *key, struct mc_item *item, uint64_t cas,
              rel_time now, struct mc_item **old)
{
    struct store *store = local->store;

    *old = key->found;
    item->cas = cas ? cas : verb_next_cas(store);
    if (*old) {
        verb_swap(store, item, *old, &key->spot, key->epoch, now);
    } else {
        struct lru *lru = &store->lrus[lru_class_of(item)];
        struct mc_bucket *head = table_head(&store->table, key->hash);

        if (flush_is_behind(head, key->epoch))
            flush_clean(store, head, key->epoch, now);
        stamp(store, item, key->epoch, now);
        if (!table_insert(&store->table, key->hash, heap_ref(&store->heap, item))) {
            item_clear_flags(item, MC_ITEM_LINKED);
            return false;
        }
        lock_take(&lru->lock, LOCK_LRU);
        lru_link(lru, &store->heap, item, new_lru_segment(store, item, key->hash, now));
        lock_release(&lru->lock, LOCK_LRU);
    }
    return true;
}

/* --- reserve and commit --------------------------------------------------- */

struct mc_item *store_reserve(struct store_local *local, struct slice key, uint32_t client_flags,
                              rel_time expiry, size_t nvalue, rel_time now,
                              enum store_result *result)
{
    return item_new(local->store, key, client_flags, expiry, nvalue, now, result);
}

void store_discard(struct store_local *local, struct mc_item *item)
{
    item_put(local->store, item);
}

/* Under -C every id is 0 to clients, and any other one differs. */
bool verb_cas_differs(const struct store *store, const struct mc_item *item, uint64_t cas)
{
    return cas != (store->config.cas ? item->cas : 0);
}

static bool is_outdated(const struct store_terms *terms, const struct mc_item *old)
{
    return terms->invalidate && terms->mode == STORE_CAS && terms->cas != 0 &&
           terms->cas < old->cas;
}

static enum store_result judge_cas(struct store_local *local, const struct mc_item *old,
                                   const struct store_terms *terms)
{
    struct store_class_counts *class = &local->counts.counts.classes[lru_class_of(old)];

    if (local->store->config.cas && verb_cas_differs(local->store, old, terms->cas) &&
        !is_outdated(terms, old)) {
        count(&class->cas_badval);
        return STORE_EXISTS;
    }
    count(&class->cas_hits);
    return STORE_DONE;
}

/* append and prepend compare the CAS id without counting it, and do not read values from flash. */
static enum store_result judge_join(const struct store *store, const struct mc_item *old,
                                    uint64_t cas)
{
    if (cas != 0 && store->config.cas && verb_cas_differs(store, old, cas))
        return STORE_EXISTS;
    return item_is_on_flash(old) ? STORE_NOT_STORED : STORE_DONE;
}

/* Whether a mode may store, from what there is. */
static enum store_result judge_mode(struct store_local *local, const struct key *key,
                                    const struct store_terms *terms)
{
    bool compare = terms->mode == STORE_CAS || terms->cas != 0;

    switch (terms->mode) {
    case STORE_APPEND:
    case STORE_PREPEND:
        return key->live ? judge_join(local->store, key->found, terms->cas) : STORE_NOT_STORED;
    case STORE_ADD:
        return key->live ? STORE_NOT_STORED : STORE_DONE;
    case STORE_REPLACE:
        if (!key->live)
            return STORE_NOT_STORED;
        break;
    case STORE_SET:
    case STORE_CAS:
        if (!key->live && compare) {
            count(&local->counts.counts.cas_misses);
            return STORE_MISS;
        }
        break;
    }
    return compare && key->live ? judge_cas(local, key->found, terms) : STORE_DONE;
}

/* A new item with the values of two, the client flags and the expiry of the first. */
static struct mc_item *join(struct store *store, const struct mc_item *old,
                            const struct mc_item *more, bool append, rel_time now,
                            enum store_result *result)
{
    size_t nold = item_length(store, old), nmore = item_length(store, more);
    struct mc_item *item = item_new(store, item_key(old), item_client_flags(store, old),
                                    old->exptime, nold + nmore, now, result);

    if (!item)
        return NULL;
    item_copy(store, item, append ? 0 : nmore, old);
    item_copy(store, item, append ? nold : 0, more);
    item_set_flags(item, (old->flags | more->flags) & MC_ITEM_BINKEY);
    return item;
}

/* A value stored with an outdated id is stale from the start, and is not won a second time. */
static void make_stale(struct mc_item *item, const struct mc_item *old)
{
    item->exptime = old->exptime;
    item_set_flags(item, MC_ITEM_STALE | (old->flags & MC_ITEM_WON));
}

static enum store_result commit(struct store_local *local, struct mc_item *item,
                                const struct store_terms *terms, rel_time now, uint64_t *cas_out)
{
    bool append = terms->mode == STORE_APPEND;
    bool joins = append || terms->mode == STORE_PREPEND;
    struct store *store = local->store;
    struct mc_item *stored = item, *old = NULL;
    enum store_result result;
    struct key key;

    key_open(store, item_key(item), now, &key);
    result = judge_mode(local, &key, terms);
    if (result == STORE_DONE && joins)
        stored = join(store, key.found, item, append, now, &result);
    if (stored && result == STORE_DONE) {
        if (key.live && is_outdated(terms, key.found))
            make_stale(stored, key.found);
        if (!key_link(local, &key, stored, terms->new_cas, now, &old))
            result = STORE_NO_MEMORY;
        else
            count(&local->counts.total_items);
        if (result == STORE_DONE && cas_out)
            *cas_out = item_cas(local, stored);
    }
    if (result == STORE_MISS || result == STORE_NOT_STORED)
        remove_dead(store, &key);
    key_close(store, &key);
    if (old)
        item_put(store, old);
    /* An item that was not linked is still ours: the caller's, or the joined one. */
    if (stored && result != STORE_DONE)
        item_put(store, stored);
    if (stored != item)
        item_put(store, item);
    return result;
}

enum store_result store_commit_on(struct store_local *local, struct mc_item *item,
                                  const struct store_terms *terms, rel_time now, uint64_t *cas_out)
{
    count(&local->counts.counts.classes[lru_class_of(item)].set_cmds);
    return commit(local, item, terms, now, cas_out);
}

void store_refuse(struct store_local *local, struct mc_item *item)
{
    count(&local->counts.counts.classes[lru_class_of(item)].set_cmds);
    store_discard(local, item);
}

enum store_result store_commit(struct store_local *local, struct mc_item *item,
                               enum store_mode mode, uint64_t cas, rel_time now, uint64_t *cas_out)
{
    const struct store_terms terms = {.mode = mode, .cas = cas};

    return store_commit_on(local, item, &terms, now, cas_out);
}

/* --- delete --------------------------------------------------------------- */

enum store_result store_delete(struct store_local *local, struct slice name, uint64_t cas,
                               rel_time now)
{
    struct store_counts *counts = &local->counts.counts;
    enum store_result result = STORE_MISS;
    struct key key;

    key_open(local->store, name, now, &key);
    if (key.live && cas != 0 && verb_cas_differs(local->store, key.found, cas)) {
        result = STORE_EXISTS;
    } else if (key.found) {
        if (key.live) {
            count(&counts->classes[lru_class_of(key.found)].delete_hits);
            result = STORE_DONE;
        }
        reclaim_unlink(local->store, key.found, key.hash, &key.spot);
    }
    key_close(local->store, &key);
    if (result == STORE_MISS)
        count(&counts->delete_misses);
    return result;
}

void store_forget(struct store_local *local, struct slice name, rel_time now)
{
    struct key key;

    key_open(local->store, name, now, &key);
    if (key.found)
        reclaim_unlink(local->store, key.found, key.hash, &key.spot);
    key_close(local->store, &key);
}

/* --- numbers -------------------------------------------------------------- */

enum { DIGITS_MAX = 20 }; /* of a 64-bit number */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * The number in a value, as strtoull would read it but without a minus sign: memcached's clients
 * rely on that much. What follows a space or a NUL is not looked at.
 */
static bool read_number(struct slice value, uint64_t *number)
{
    const char *at = value.ptr, *end = value.ptr + value.len, *digits;

    while (at < end && is_space(*at))
        at++;
    if (at < end && *at == '+')
        at++;
    *number = 0;
    for (digits = at; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(*at - '0'), number))
            return false;
    return at > digits && (at == end || is_space(*at) || *at == '\0');
}

/* Writes the digits to the end of `out` and returns them. */
static struct slice write_number(char out[DIGITS_MAX], uint64_t number)
{
    char *at = out + DIGITS_MAX;

    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return (struct slice){at, (size_t)(out + DIGITS_MAX - at)};
}

static uint64_t apply_delta(uint64_t number, const struct store_delta *delta)
{
    if (!delta->decrement)
        return number + delta->delta;
    return number > delta->delta ? number - delta->delta : 0;
}

/* A new item with the number as its value, at least `width` wide. */
static struct mc_item *number_item(struct store *store, struct slice key, uint32_t client_flags,
                                   rel_time exptime, uint64_t number, size_t width, rel_time now,
                                   enum store_result *result)
{
    char buffer[DIGITS_MAX];
    struct slice digits = write_number(buffer, number);
    size_t nvalue = digits.len > width ? digits.len : width;
    struct mc_item *item = item_new(store, key, client_flags, exptime, nvalue, now, result);

    if (!item)
        return NULL;
    item_write(store, item, 0, digits);
    for (size_t i = digits.len; i < nvalue; i++)
        item_write(store, item, i, SLICE(" "));
    return item;
}

/*
 * Changes the number in the existing item of the key. A number that is as long as before counts as
 * the same item, as in memcached. Under the stripe.
 */
static enum store_result change_number(struct store_local *local, struct key *key,
                                       const struct store_delta *delta, rel_time now,
                                       struct store_number *out, struct mc_item **old)
{
    struct store *store = local->store;
    struct mc_item *found = key->found, *item;
    struct store_class_counts *class = &local->counts.counts.classes[lru_class_of(found)];
    rel_time expiry = delta->touch ? delta->new_expiry : found->exptime;
    enum store_result result;
    struct slice text;
    uint64_t number;

    if (found->flags & ITEM_COMPOUND || item_length(store, found) == 0)
        return STORE_NON_NUMERIC;
    text = (struct slice){item_piece(store, found, 0).ptr, item_length(store, found)};
    if (delta->cas != 0 && verb_cas_differs(store, found, delta->cas))
        return STORE_EXISTS;
    if (!read_number(text, &number))
        return STORE_NON_NUMERIC;
    number = apply_delta(number, delta);
    item = number_item(store, item_key(found), item_client_flags(store, found), expiry, number,
                       text.len, now, &result);
    if (!item)
        return result;
    item_set_flags(item,
                   found->flags & (item->nbytes == found->nbytes ? ITEM_MARKS : MC_ITEM_BINKEY));
    if (item->nbytes != found->nbytes)
        count(&local->counts.total_items);
    count(delta->decrement ? &class->decr_hits : &class->incr_hits);
    *out = (struct store_number){.value = number, .old_expiry = found->exptime, .expiry = expiry};
    /* An insertion in the place of another item does not fail. */
    key_link(local, key, item, delta->new_cas, now, old);
    out->cas = item_cas(local, item);
    return STORE_DONE;
}

/* Stores the initial number of a missing key; counted neither as a miss nor as a set. */
static enum store_result create_number(struct store_local *local, struct slice name,
                                       const struct store_delta *delta, rel_time now,
                                       struct store_number *out)
{
    const struct store_terms terms = {.mode = STORE_ADD, .new_cas = delta->new_cas};
    enum store_result result;
    struct mc_item *item =
        number_item(local->store, name, 0, delta->expiry, delta->initial, 0, now, &result);

    if (!item)
        return result;
    if (delta->binary_key)
        store_mark_binary_key(item);
    *out = (struct store_number){
        .value = delta->initial,
        .expiry = delta->expiry,
        .created = true,
    };
    return commit(local, item, &terms, now, &out->cas);
}

enum store_result store_meta_arith(struct store_local *local, struct slice name,
                                   const struct store_delta *delta, rel_time now,
                                   struct store_number *out)
{
    struct store_counts *counts = &local->counts.counts;
    struct mc_item *old = NULL;
    struct store_number number;
    enum store_result result;
    struct key key;

    do {
        key_open(local->store, name, now, &key);
        result = key.live ? change_number(local, &key, delta, now, &number, &old) : STORE_MISS;
        remove_dead(local->store, &key);
        key_close(local->store, &key);
        if (key.live)
            break;
        if (delta->create)
            result = create_number(local, name, delta, now, &number);
        else
            count(delta->decrement ? &counts->decr_misses : &counts->incr_misses);
        /* Not stored: another thread created it meanwhile, so that one is changed. */
    } while (result == STORE_NOT_STORED);
    if (old)
        item_put(local->store, old);
    if (result == STORE_DONE)
        *out = number;
    return result;
}

enum store_result store_arith(struct store_local *local, struct slice name,
                              const struct store_delta *delta, rel_time now, uint64_t *value,
                              uint64_t *cas_out)
{
    struct store_number number;
    enum store_result result = store_meta_arith(local, name, delta, now, &number);

    if (result == STORE_DONE) {
        *value = number.value;
        if (cas_out)
            *cas_out = number.cas;
    }
    return result;
}

/* --- flush ---------------------------------------------------------------- */

void store_flush(struct store_local *local, rel_time at, rel_time now)
{
    count(&local->counts.counts.flush_cmds);
    flush_later(local->store, at, now);
}
