/* SPDX-License-Identifier: BSD-3-Clause */
/* Each verb of the store, in one thread, with the time as a parameter. */
#include "store/store_stats.h"
#include "t/unit/store_fixture.h"

enum { NOW = 100 };

static enum store_result put(struct fixture *f, enum store_mode mode, const char *key,
                             const char *value, uint64_t cas, uint64_t *cas_out)
{
    return fixture_store(f->local, mode, fixture_slice(key), fixture_slice(value), 0, cas, NOW,
                         cas_out);
}

static void test_modes(struct fixture *f)
{
    ok(fixture_has(f, "a", NULL, NOW), "a key that was never stored is missing");
    ok(put(f, STORE_SET, "a", "one", 0, NULL) == STORE_DONE && fixture_has(f, "a", "one", NOW),
       "set stores");
    ok(put(f, STORE_SET, "a", "two", 0, NULL) == STORE_DONE && fixture_has(f, "a", "two", NOW),
       "set overwrites");
    ok(put(f, STORE_ADD, "a", "x", 0, NULL) == STORE_NOT_STORED && fixture_has(f, "a", "two", NOW),
       "add leaves an existing key");
    ok(put(f, STORE_ADD, "b", "new", 0, NULL) == STORE_DONE && fixture_has(f, "b", "new", NOW),
       "add stores a missing key");
    ok(put(f, STORE_REPLACE, "c", "x", 0, NULL) == STORE_NOT_STORED &&
           fixture_has(f, "c", NULL, NOW),
       "replace leaves a missing key");
    ok(put(f, STORE_REPLACE, "b", "newer", 0, NULL) == STORE_DONE &&
           fixture_has(f, "b", "newer", NOW),
       "replace overwrites");
    ok(put(f, STORE_APPEND, "b", "++", 0, NULL) == STORE_DONE &&
           fixture_has(f, "b", "newer++", NOW),
       "append adds bytes behind the value");
    ok(put(f, STORE_PREPEND, "b", "--", 0, NULL) == STORE_DONE &&
           fixture_has(f, "b", "--newer++", NOW),
       "prepend adds bytes before the value");
    ok(put(f, STORE_APPEND, "c", "x", 0, NULL) == STORE_NOT_STORED &&
           fixture_has(f, "c", NULL, NOW),
       "append leaves a missing key");
    ok(put(f, STORE_SET, "empty", "", 0, NULL) == STORE_DONE && fixture_has(f, "empty", "", NOW),
       "an empty value can be stored");
}

static void test_wire(struct fixture *f)
{
    struct mc_item *item;

    put(f, STORE_SET, "wire", "value", 0, NULL);
    put(f, STORE_APPEND, "wire", "s", 0, NULL);
    item = store_get(f->local, SLICE("wire"), NOW);
    ok(item &&
           slice_equal((struct slice){item->wire, item->nbytes}, SLICE("wire 7 6\r\nvalues\r\n")),
       "key, suffix, value and tail are contiguous in wire format");
    ok(item && slice_equal(item_at(f->local, item, 0), SLICE("values\r\n")),
       "a small item is one piece, tail included");
    ok(item && item_at(f->local, item, 8).len == 0, "there is no piece behind the tail");
    store_put(f->local, item);
}

static void test_cas(struct fixture *f)
{
    uint64_t first = 0, second = 0;
    struct mc_item *item;

    put(f, STORE_SET, "cas", "1", 0, &first);
    item = store_get(f->local, SLICE("cas"), NOW);
    ok(first != 0 && item_cas(f->local, item) == first, "the id that set returned is the item's");
    store_put(f->local, item);
    ok(put(f, STORE_CAS, "cas", "2", first + 99, NULL) == STORE_EXISTS &&
           fixture_has(f, "cas", "1", NOW),
       "cas with another id stores nothing");
    ok(put(f, STORE_CAS, "cas", "2", first, &second) == STORE_DONE && second != first &&
           fixture_has(f, "cas", "2", NOW),
       "cas with its id stores under a new id");
    ok(put(f, STORE_CAS, "cas", "3", first, NULL) == STORE_EXISTS, "an id is valid for one cas");
    ok(put(f, STORE_CAS, "nocas", "3", first, NULL) == STORE_MISS, "cas of a missing key misses");
    ok(put(f, STORE_SET, "cas", "4", first, NULL) == STORE_EXISTS &&
           put(f, STORE_REPLACE, "cas", "4", first, NULL) == STORE_EXISTS,
       "set and replace with an id compare it");
    ok(put(f, STORE_SET, "nocas", "4", first, NULL) == STORE_MISS &&
           put(f, STORE_REPLACE, "nocas", "4", first, NULL) == STORE_NOT_STORED &&
           put(f, STORE_APPEND, "nocas", "4", first, NULL) == STORE_NOT_STORED,
       "set and replace with an id store nothing under a missing key");
    ok(put(f, STORE_APPEND, "cas", "4", first, NULL) == STORE_EXISTS,
       "append with an id compares it");
    ok(store_delete(f->local, SLICE("cas"), first, NOW) == STORE_EXISTS,
       "delete with another id deletes nothing");
    ok(store_delete(f->local, SLICE("cas"), second, NOW) == STORE_DONE,
       "delete with the item's id deletes");
    put(f, STORE_SET, "t", "1", 0, &first);
    store_touch(f->local, SLICE("t"), 0, NOW);
    ok(put(f, STORE_CAS, "t", "2", first, NULL) == STORE_DONE, "touch keeps the id");
}

static void test_delete(struct fixture *f)
{
    struct mc_item *held;
    char *value;

    put(f, STORE_SET, "d", "old", 0, NULL);
    held = store_get(f->local, SLICE("d"), NOW);
    ok(store_delete(f->local, SLICE("d"), 0, NOW) == STORE_DONE && fixture_has(f, "d", NULL, NOW),
       "delete deletes");
    ok(store_delete(f->local, SLICE("d"), 0, NOW) == STORE_MISS, "a second delete misses");
    put(f, STORE_SET, "d", "new", 0, NULL);
    value = fixture_value(f->local, held);
    ok(strcmp(value, "old") == 0, "a held item keeps its bytes after delete and set");
    free(value);
    store_put(f->local, held);
    store_forget(f->local, SLICE("d"), NOW);
    ok(fixture_has(f, "d", NULL, NOW), "forget removes");
}

static void test_expiry(struct fixture *f)
{
    struct mc_item *item;

    fixture_store(f->local, STORE_SET, SLICE("e"), SLICE("x"), NOW + 5, 0, NOW, NULL);
    ok(fixture_has(f, "e", "x", NOW + 4) && fixture_has(f, "e", NULL, NOW + 5),
       "an item is expired from the second of its expiry on");
    fixture_store(f->local, STORE_SET, SLICE("e"), SLICE("x"), 1, 0, NOW, NULL);
    ok(fixture_has(f, "e", NULL, NOW), "an item with an expiry in the past is expired at once");
    ok(put(f, STORE_ADD, "e", "y", 0, NULL) == STORE_DONE, "add replaces an expired item");
    ok(store_touch(f->local, SLICE("e"), NOW + 2, NOW) == STORE_DONE &&
           fixture_has(f, "e", "y", NOW + 1) && fixture_has(f, "e", NULL, NOW + 2),
       "touch changes the expiry");
    ok(store_touch(f->local, SLICE("e"), 0, NOW + 2) == STORE_MISS,
       "touch of an expired key misses");
    fixture_store(f->local, STORE_SET, SLICE("g"), SLICE("x"), NOW + 5, 0, NOW, NULL);
    item = store_get_touch(f->local, SLICE("g"), 0, NOW + 4);
    ok(item != NULL, "get and touch returns the item");
    store_put(f->local, item);
    ok(fixture_has(f, "g", "x", NOW + 1000), "get and touch removes the expiry");
    fixture_store(f->local, STORE_SET, SLICE("k"), SLICE("1"), NOW + 5, 0, NOW, NULL);
    put(f, STORE_APPEND, "k", "2", 0, NULL);
    ok(fixture_has(f, "k", "12", NOW + 4) && fixture_has(f, "k", NULL, NOW + 5),
       "append keeps the expiry");
}

/* incr or decr; checks the value afterwards, and the result. */
static bool arith(struct fixture *f, const char *before, bool decrement, uint64_t delta,
                  enum store_result want, uint64_t number, const char *after)
{
    struct store_delta change = {.decrement = decrement, .delta = delta};
    enum store_result result;
    uint64_t value = 0;

    put(f, STORE_SET, "n", before, 0, NULL);
    result = store_arith(f->local, SLICE("n"), &change, NOW, &value, NULL);
    return result == want && (want != STORE_DONE || value == number) &&
           fixture_has(f, "n", after, NOW);
}

/* Threads read the clock before they take the stripe: at the end of a second one may be behind. */
static void test_two_clocks(struct fixture *f)
{
    static const enum store_mode modes[] = {STORE_REPLACE, STORE_APPEND, STORE_PREPEND, STORE_CAS};
    static const char *const names[] = {"replace", "append", "prepend", "cas"};
    const struct store_delta one = {.delta = 1};
    uint64_t value;

    for (size_t i = 0; i < COUNT(modes); i++) {
        enum store_result missing = modes[i] == STORE_CAS ? STORE_MISS : STORE_NOT_STORED;

        fixture_store(f->local, STORE_SET, SLICE("c"), SLICE("1"), NOW + 5, 0, NOW, NULL);
        ok(fixture_store(f->local, modes[i], SLICE("c"), SLICE("2"), 0, modes[i] == STORE_CAS,
                         NOW + 5, NULL) == missing &&
               fixture_has(f, "c", NULL, NOW + 4),
           "a key that %s found expired is gone for readers whose clock is behind", names[i]);
    }
    fixture_store(f->local, STORE_SET, SLICE("c"), SLICE("1"), NOW + 5, 0, NOW, NULL);
    ok(store_arith(f->local, SLICE("c"), &one, NOW + 5, &value, NULL) == STORE_MISS &&
           fixture_has(f, "c", NULL, NOW + 4),
       "a key that incr found expired is gone for readers whose clock is behind");
}

/* Reads a number, increments it, and returns whether the result counts as read. */
static bool stays_read(struct fixture *f, const char *number)
{
    const struct store_delta one = {.delta = 1};
    struct store_fetched fetched = {0};
    struct mc_item *item;
    uint64_t value;

    put(f, STORE_SET, "n", number, 0, NULL);
    fixture_has(f, "n", number, NOW);
    store_arith(f->local, SLICE("n"), &one, NOW, &value, NULL);
    item = store_peek(f->local, SLICE("n"), NOW, &fetched);
    if (item)
        store_put(f->local, item);
    return item && fetched.used;
}

static void test_arith(struct fixture *f)
{
    struct store_delta create = {.delta = 1, .create = true, .initial = 41};
    uint64_t value = 0, cas = 0;
    struct mc_item *item;

    ok(arith(f, "10", false, 5, STORE_DONE, 15, "15"), "incr adds");
    ok(arith(f, "99", false, 1, STORE_DONE, 100, "100"), "incr makes the value longer");
    ok(stays_read(f, "10") && !stays_read(f, "99"),
       "a number of the same length is the same item, a longer one is new");
    ok(arith(f, "10", true, 1, STORE_DONE, 9, "9 "), "a shorter number is padded with spaces");
    ok(arith(f, "9 ", false, 1, STORE_DONE, 10, "10"), "a padded number is a number");
    ok(arith(f, "5", true, 6, STORE_DONE, 0, "0"), "decr stops at 0");
    ok(arith(f, "18446744073709551615", false, 1, STORE_DONE, 0, "0                   "),
       "incr wraps at 2^64");
    ok(arith(f, "18446744073709551616", false, 1, STORE_NON_NUMERIC, 0, "18446744073709551616"),
       "2^64 is not a number");
    ok(arith(f, "12 abc", false, 1, STORE_DONE, 13, "13    "), "bytes after a space are ignored");
    ok(arith(f, "12abc", false, 1, STORE_NON_NUMERIC, 0, "12abc"),
       "digits followed by letters are not a number");
    ok(arith(f, "-1", false, 1, STORE_NON_NUMERIC, 0, "-1"), "a negative number is refused");
    ok(arith(f, "", false, 1, STORE_NON_NUMERIC, 0, ""), "an empty value is not a number");
    ok(store_arith(f->local, SLICE("none"), &(struct store_delta){.delta = 1}, NOW, &value, NULL) ==
           STORE_MISS,
       "incr of a missing key misses");
    ok(store_arith(f->local, SLICE("none"), &create, NOW, &value, &cas) == STORE_DONE &&
           value == 41 && cas != 0 && fixture_has(f, "none", "41", NOW),
       "incr of a missing key can create it with the initial value");
    ok(store_arith(f->local, SLICE("none"), &create, NOW, &value, &cas) == STORE_DONE &&
           value == 42,
       "incr of an existing key does not create it again");
    item = store_get(f->local, SLICE("none"), NOW);
    ok(item_cas(f->local, item) == cas, "the id that incr returned is the item's");
    store_put(f->local, item);
    create.cas = cas + 1;
    ok(store_arith(f->local, SLICE("none"), &create, NOW, &value, NULL) == STORE_EXISTS,
       "incr with another id changes nothing");
}

static void test_flush(struct fixture *f)
{
    put(f, STORE_SET, "f", "1", 0, NULL);
    store_flush(f->local, 0, NOW);
    ok(fixture_has(f, "f", NULL, NOW), "a flush removes everything");
    put(f, STORE_SET, "f", "2", 0, NULL);
    ok(fixture_has(f, "f", "2", NOW), "an item stored after a flush in the same second is found");
    store_flush(f->local, NOW + 10, NOW);
    ok(fixture_has(f, "f", "2", NOW + 9), "a delayed flush does nothing before its time");
    ok(fixture_has(f, "f", NULL, NOW + 10), "a delayed flush takes effect in its second");
    put(f, STORE_SET, "f", "3", 0, NULL);
    store_flush(f->local, NOW + 10, NOW);
    store_flush(f->local, NOW + 20, NOW);
    ok(fixture_has(f, "f", "3", NOW + 10), "a later delayed flush replaces an earlier one");
    store_flush(f->local, NOW + 30, NOW + 20);
    ok(fixture_has(f, "f", NULL, NOW + 20), "a delayed flush that is due is not replaced");
    store_tick(f->store, NOW + 30);
    put(f, STORE_SET, "f", "4", 0, NULL);
    store_flush(f->local, NOW + 40, NOW);
    store_tick(f->store, NOW + 40);
    ok(store_control(f->store)->flush_at == 0 && fixture_has(f, "f", NULL, NOW + 40),
       "the tick applies a delayed flush");
    ok(put(f, STORE_APPEND, "f", "x", 0, NULL) == STORE_NOT_STORED,
       "append of a flushed key misses");
}

static void test_flush_storm(struct fixture *f)
{
    int wrong = 0;

    put(f, STORE_SET, "old", "1", 0, NULL);
    for (int i = 0; i < 600; i++) {
        store_flush(f->local, 0, NOW);
        wrong += !fixture_has(f, "old", NULL, NOW);
        put(f, STORE_SET, "young", "1", 0, NULL);
        wrong += !fixture_has(f, "young", "1", NOW);
    }
    ok(wrong == 0, "600 flushes in a row make no flushed item reappear");
    for (int i = 0; i < 256; i++) {
        store_flush(f->local, 0, NOW);
        put(f, STORE_SET, "other", "1", 0, NULL);
    }
    ok(fixture_has(f, "young", NULL, NOW), "an item not accessed during 256 flushes stays flushed");
}

enum { STORM_KEYS = 20000 };

/* How many keys of the storm have a value; asks for each. */
static unsigned int count_storm(struct fixture *f, unsigned int from, unsigned int to, rel_time now)
{
    unsigned int found = 0;
    char key[16];

    for (unsigned int i = from; i < to; i++) {
        snprintf(key, sizeof(key), "storm%u", i);
        found += fixture_has(f, key, "1", now);
    }
    return found;
}

static void put_storm(struct fixture *f, unsigned int from, unsigned int to, rel_time now)
{
    char key[16];

    for (unsigned int i = from; i < to; i++) {
        snprintf(key, sizeof(key), "storm%u", i);
        fixture_store(f->local, STORE_SET, fixture_slice(key), SLICE("1"), 0, 0, now, NULL);
    }
}

static uint64_t items_of(struct fixture *f)
{
    struct store_stats stats;

    store_stats(f->store, &stats);
    return stats.curr_items;
}

/* Flushes so often that an 8-bit epoch takes every value, and reads items stored at different
 * times. */
static void test_flush_rounds(bool cas)
{
    struct store_config config;
    unsigned int nflushes[] = {1, 100, 155, 1, 255, 1, 256, 257, 300, 511, 1, 512, 1024};
    unsigned int dead = 0, live = 0, wanted = 0, n = 0;
    rel_time now = NOW;
    struct fixture f;

    fixture_defaults(&config);
    config.cas = cas;
    config.hashpower = 12;
    fixture_open(&f, &config);
    for (size_t i = 0; i < COUNT(nflushes); i++) {
        /* The table grows meanwhile. Under -C a second hides items stored in it. */
        now += 2;
        put_storm(&f, n, n + 3000, now);
        live += count_storm(&f, n, n + 3000, now);
        wanted += 3000;
        n += 3000;
        for (unsigned int j = 0; j < nflushes[i]; j++)
            store_flush(f.local, 0, now);
        for (unsigned int j = i % 3; j < n; j += 3) {
            char key[16];

            snprintf(key, sizeof(key), "storm%u", j);
            dead += fixture_has(&f, key, "1", now);
        }
    }
    /* The table grows by a large factor. */
    now += 2;
    put_storm(&f, n, n + STORM_KEYS, now);
    live += count_storm(&f, n, n + STORM_KEYS, now);
    wanted += STORM_KEYS;
    ok(live == wanted, "%s: between many flushes all stored items are found", cas ? "CAS" : "-C");
    ok(dead == 0, "each of 1 to 1024 flushes removes all items, accessed or not");
    fixture_close(&f);
}

/* Under -C items stored in the second of a flush stay hidden. */
static void test_hidden_in_a_storm(void)
{
    struct store_config config;
    unsigned int found = 0;
    struct fixture f;

    fixture_defaults(&config);
    config.cas = false;
    fixture_open(&f, &config);
    for (rel_time now = NOW; now < NOW + 20; now += 2) {
        for (unsigned int i = 0; i < 300; i++)
            store_flush(f.local, 0, now);
        fixture_store(f.local, STORE_SET, SLICE("k"), SLICE("1"), 0, 0, now, NULL);
        for (unsigned int i = 0; i < 250 + (now - NOW) / 2; i++)
            store_flush(f.local, 0, now + 1);
        found += !fixture_has(&f, "k", NULL, now + 1);
    }
    ok(found == 0, "-C: items that a flush hides are not shown by later flushes");
    fixture_close(&f);
}

static void test_flush_is_no_sweep(struct fixture *f)
{
    put_storm(f, 0, STORM_KEYS, NOW);
    for (int i = 0; i < 1000; i++)
        store_flush(f->local, 0, NOW);
    ok(items_of(f) == STORM_KEYS, "1,000 flushes free no items themselves");
    ok(count_storm(f, 0, STORM_KEYS / 2, NOW) == 0, "after 1,000 flushes no item is found");
    put_storm(f, 0, STORM_KEYS, NOW);
    ok(count_storm(f, 0, STORM_KEYS, NOW) == STORM_KEYS && items_of(f) == STORM_KEYS,
       "items stored after them are found, and no others");
}

static void test_counts(struct fixture *f)
{
    const struct store_delta create = {.create = true};
    struct store_stats stats;
    uint64_t value;

    put(f, STORE_SET, "a", "1", 0, NULL);
    put(f, STORE_CAS, "a", "1", 999, NULL);
    put(f, STORE_CAS, "zz", "1", 999, NULL);
    fixture_has(f, "a", "1", NOW);
    fixture_has(f, "zz", NULL, NOW);
    fixture_store(f->local, STORE_SET, SLICE("e"), SLICE("x"), NOW + 1, 0, NOW, NULL);
    fixture_has(f, "e", NULL, NOW + 1);
    store_touch(f->local, SLICE("a"), 0, NOW);
    store_touch(f->local, SLICE("zz"), 0, NOW);
    store_arith(f->local, SLICE("n"), &create, NOW, &value, NULL);
    store_delete(f->local, SLICE("n"), 0, NOW);
    store_delete(f->local, SLICE("zz"), 0, NOW);
    store_stats(f->store, &stats);
    ok(stats.counts.get_cmds == 3 && stats.counts.get_misses == 2 &&
           stats.counts.get_expired == 1 && stats.counts.classes[1].get_hits == 1,
       "gets are counted: hits by class, misses, expired");
    ok(stats.counts.classes[1].set_cmds == 4 && stats.counts.cas_misses == 1 &&
           stats.counts.classes[1].cas_badval == 1 && stats.counts.touch_cmds == 2 &&
           stats.counts.touch_misses == 1 && stats.counts.delete_misses == 1,
       "sets, cas, touches and deletes are counted");
    ok(stats.counts.incr_misses == 0,
       "a number that is created counts neither as a set nor as a miss");
    ok(stats.curr_items == 1 && stats.total_items == 3 && stats.bytes == 36 + 1 + 6 + 1 + 2,
       "curr_items and bytes are those of the stored items");
    store_reset_stats(f->store);
    store_stats(f->store, &stats);
    ok(stats.counts.get_cmds == 0 && stats.counts.classes[1].get_hits == 0 &&
           stats.total_items == 0 && stats.curr_items == 1,
       "a reset keeps only the counts of stored items");
}

static void test_no_cas(void)
{
    struct store_config config;
    struct fixture f;
    uint64_t cas = 5;

    fixture_defaults(&config);
    config.cas = false;
    fixture_open(&f, &config);
    put(&f, STORE_SET, "a", "1", 0, &cas);
    ok(cas == 0, "without CAS reported ids are 0");
    ok(!store_has_cas(f.store) && put(&f, STORE_SET, "a", "1", 99, NULL) == STORE_DONE &&
           put(&f, STORE_APPEND, "a", "1", 99, NULL) == STORE_DONE,
       "without CAS storage commands ignore a given id");
    ok(store_delete(f.local, SLICE("a"), 99, NOW) == STORE_EXISTS,
       "without CAS delete with an id fails");
    store_flush(f.local, 0, NOW);
    put(&f, STORE_SET, "a", "2", 0, NULL);
    ok(fixture_has(&f, "a", NULL, NOW),
       "without CAS items stored in the second of a flush are hidden");
    fixture_store(f.local, STORE_SET, SLICE("a"), SLICE("3"), 0, 0, NOW + 1, NULL);
    ok(fixture_has(&f, "a", "3", NOW + 1), "without CAS items stored in the next second are found");
    fixture_close(&f);
}

static void test_many_holders(struct fixture *f)
{
    enum { HOLDS = 70000 };
    struct mc_item **held = calloc(HOLDS, sizeof(*held));
    int wrong = 0;

    put(f, STORE_SET, "hot", "value", 0, NULL);
    for (int i = 0; i < HOLDS; i++) {
        held[i] = store_get(f->local, SLICE("hot"), NOW);
        wrong += !held[i] || !slice_equal(item_at(f->local, held[i], 0), SLICE("value\r\n"));
    }
    for (int i = 0; i < HOLDS; i++)
        store_put(f->local, held[i]);
    ok(wrong == 0 && fixture_has(f, "hot", "value", NOW),
       "70,000 holders of one key all get its value");
    free(held);
}

int main(void)
{
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    fixture_open(&f, &config);
    test_modes(&f);
    test_wire(&f);
    test_cas(&f);
    test_delete(&f);
    test_expiry(&f);
    test_two_clocks(&f);
    test_arith(&f);
    test_many_holders(&f);
    test_flush(&f);
    test_flush_storm(&f);
    test_flush_rounds(true);
    test_flush_rounds(false);
    test_hidden_in_a_storm();
    with_fixture(test_flush_is_no_sweep);
    fixture_close(&f);
    with_fixture(test_counts);
    test_no_cas();
    return done();
}
