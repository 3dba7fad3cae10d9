/* SPDX-License-Identifier: BSD-3-Clause */
/* Listing a class: which items, in which order, and how many. */
#include <pthread.h>

#include "store/store_list.h"
#include "store/store_stats.h"
#include "t/unit/store_fixture.h"

static char records[1 << 16];

/* The keys of a listing, with a space behind each. */
static const char *keys(struct fixture *f, unsigned int clsid, uint64_t limit, size_t size,
                        rel_time now)
{
    static char text[1 << 16];
    struct slice left = {records, store_list(f->store, clsid, limit, now, records, size)};
    struct store_listed item;
    size_t n = 0;

    while (store_list_next(&left, &item))
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s ", (int)item.key.len, item.key.ptr);
    text[n] = '\0';
    return text;
}

static bool lists(struct fixture *f, unsigned int clsid, uint64_t limit, rel_time now,
                  const char *want)
{
    const char *got = keys(f, clsid, limit, sizeof(records), now);

    if (strcmp(got, want) != 0)
        diag("lists \"%.200s\"", got);
    return strcmp(got, want) == 0;
}

static void test_order(struct fixture *f)
{
    ok(lists(f, 1, 0, 100, ""), "an empty class has no items to list");
    fixture_set(f, "a", "1", 100);
    fixture_set(f, "b", "22", 100);
    fixture_set(f, "c", "333", 100);
    ok(lists(f, 1, 0, 100, "c b a "), "the newest item is first");
    ok(lists(f, 1, 2, 100, "c b "), "at most `limit` items are listed");
    ok(lists(f, 1, UINT64_MAX, 100, "c b a "), "a limit may be large");
    ok(lists(f, 0, 0, 100, "") && lists(f, 2, 0, 100, "") && lists(f, MC_CLASSES - 1, 0, 100, ""),
       "other classes do not list the item");
    ok(strcmp(keys(f, 1, 0, 2 * 10, 100), "c b ") == 0, "a listing ends at the end of the buffer");
    ok(strcmp(keys(f, 1, 0, 0, 100), "") == 0, "an empty buffer gets no items");
}

static void test_what(struct fixture *f)
{
    struct slice left;
    struct store_listed item = {0};

    fixture_store(f->local, STORE_SET, SLICE("e"), SLICE("12345"), 200, 0, 100, NULL);
    left = (struct slice){records, store_list(f->store, 1, 1, 100, records, sizeof(records))};
    ok(store_list_next(&left, &item) && slice_equal(item.key, SLICE("e")) && item.nvalue == 5 &&
           item.exptime == 200,
       "an item is listed with its length and its expiry");
    ok(lists(f, 1, 0, 199, "e c b a "), "an item is listed until it expires");
    ok(lists(f, 1, 0, 200, "c b a "), "an expired item is not listed");
    store_delete(f->local, SLICE("b"), 0, 200);
    ok(lists(f, 1, 0, 200, "c a "), "a deleted item is not listed");
    store_flush(f->local, 300, 200);
    ok(lists(f, 1, 0, 299, "c a ") && lists(f, 1, 0, 300, ""), "a flushed item is not listed");
}

static void test_binary_keys(struct fixture *f)
{
    enum store_result result;
    struct mc_item *item = store_reserve(f->local, SLICE("\1\2"), 0, 0, 1, 400, &result);

    fixture_fill(f->local, item, SLICE("x"));
    store_mark_binary_key(item);
    store_commit(f->local, item, STORE_SET, 0, 400, NULL);
    fixture_set(f, "text", "1", 400);
    ok(lists(f, 1, 0, 400, "text "), "a binary key is not listed");
}

static void test_lru_segments(struct fixture *f)
{
    char key[16];
    size_t n = 0;

    for (int i = 0; i < 400; i++) {
        snprintf(key, sizeof(key), "s%d", i);
        fixture_set(f, key, "1", 400);
    }
    /* Read items and unread ones go to different segments. */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 400; i += 3) {
            snprintf(key, sizeof(key), "s%d", i);
            fixture_has(f, key, "1", 400 + (rel_time)round);
        }
        store_maintainer_start(f->store);
        store_maintainer_stop(f->store);
    }
    for (const char *at = keys(f, 1, 0, sizeof(records), 500); *at; at++)
        n += *at == ' ';
    ok(n == 401, "items of all LRU segments are listed (%zu)", n);
}

static void test_large(struct fixture *f)
{
    static char value[600000];
    struct slice left;
    struct store_listed item = {0};

    memset(value, 'v', sizeof(value));
    fixture_store(f->local, STORE_SET, SLICE("large"), (struct slice){value, sizeof(value)}, 0, 0,
                  500, NULL);
    for (unsigned int clsid = store_nclasses(f->store); clsid > 1; clsid--) {
        left = (struct slice){records, store_list(f->store, clsid, 0, 500, records, 1024)};
        if (store_list_next(&left, &item))
            break;
    }
    ok(slice_equal(item.key, SLICE("large")) && item.nvalue == sizeof(value),
       "a value in chunks is listed once, with its whole length");
}

struct writer {
    struct store *store;
    int number;
    bool *stop; /* atomic */
};

/* Sets, touches, deletes and expires its own keys. */
static void *write_on(void *context)
{
    struct writer *writer = context;
    struct store_local *local = store_local_new(writer->store);
    char key[32];

    for (unsigned int i = 0; !__atomic_load_n(writer->stop, __ATOMIC_RELAXED); i++) {
        struct slice name = {
            key, (size_t)snprintf(key, sizeof(key), "w%d_%u", writer->number, i * 7 % 300)};

        switch (i % 4) {
        case 0:
        case 1:
            fixture_store(local, STORE_SET, name, SLICE("abc"), i % 8 ? 0 : 600, 0, 600, NULL);
            break;
        case 2:
            store_touch(local, name, i % 3 ? 0 : 700, 600);
            break;
        case 3:
            store_delete(local, name, 0, 600);
            break;
        }
        if (i % 1000 == 0)
            store_track_sizes(writer->store, i % 2000 == 0);
    }
    store_local_free(local);
    return NULL;
}

static bool is_written(const struct store_listed *item)
{
    return item->key.ptr[0] == 'w' && item->nvalue == 3 &&
           (item->exptime == 0 || item->exptime == 700);
}

static void test_writers(struct fixture *f)
{
    struct store_listed item;
    struct writer writers[2];
    pthread_t threads[2];
    unsigned int wrong = 0;
    uint64_t seen = 0;
    bool stop = false;

    store_maintainer_start(f->store);
    for (int i = 0; i < 2; i++) {
        writers[i] = (struct writer){f->store, i, &stop};
        pthread_create(&threads[i], NULL, write_on, &writers[i]);
    }
    for (int round = 0; round < 2000 || seen == 0; round++) {
        struct slice left = {records, store_list(f->store, 1, 0, 600, records, sizeof(records))};

        for (; store_list_next(&left, &item); seen++)
            wrong += !is_written(&item);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    store_maintainer_stop(f->store);
    ok(wrong == 0, "beside writers every record is of an item");
}

int main(void)
{
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    fixture_open(&f, &config);
    test_order(&f);
    test_what(&f);
    test_binary_keys(&f);
    test_lru_segments(&f);
    test_large(&f);
    fixture_close(&f);
    with_fixture(test_writers);
    return done();
}
