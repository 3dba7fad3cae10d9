/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of every size up to and above the largest chunk. */
#include "store/store_stats.h"
#include "t/unit/store_fixture.h"

enum { NOW = 100 };

static char *pattern(size_t n, unsigned int seed)
{
    char *out = malloc(n + 1);

    for (size_t i = 0; i < n; i++)
        out[i] = (char)('a' + (i * 7 + i / 251 + seed) % 26);
    out[n] = '\0';
    return out;
}

static enum store_result put(struct fixture *f, enum store_mode mode, const char *key,
                             const char *value, size_t n)
{
    return fixture_store(f->local, mode, fixture_slice(key), (struct slice){value, n}, 0, 0, NOW,
                         NULL);
}

/* The tail of the key's item, over pieces. */
static bool has_tail(struct fixture *f, const char *key)
{
    struct mc_item *item = store_get(f->local, fixture_slice(key), NOW);
    size_t n;
    bool fine;

    if (!item)
        return false;
    n = item_nvalue(f->local, item);
    fine = item_at(f->local, item, n).ptr[0] == '\r' &&
           item_at(f->local, item, n + 1).ptr[0] == '\n' && item_at(f->local, item, n + 2).len == 0;
    store_put(f->local, item);
    return fine;
}

static bool round_trip(struct fixture *f, size_t n)
{
    char *value = pattern(n, (unsigned int)n);
    bool fine = put(f, STORE_SET, "k", value, n) == STORE_DONE && fixture_has(f, "k", value, NOW) &&
                has_tail(f, "k");

    if (!fine)
        diag("%zu bytes", n);
    free(value);
    return fine;
}

/* Chunks in use, over all classes. */
static uint64_t used_chunks(struct fixture *f)
{
    uint64_t used = 0;

    for (unsigned int clsid = 1; clsid <= store_nclasses(f->store); clsid++) {
        struct store_class_stats stats;

        store_class_stats(f->store, clsid, NOW, &stats);
        used += stats.used_chunks;
    }
    return used;
}

static unsigned int class_in_use(struct fixture *f, const char *key, size_t n)
{
    char *value = pattern(n, 0);
    struct mc_item *item;
    unsigned int clsid;

    put(f, STORE_SET, key, value, n);
    free(value);
    item = store_get(f->local, fixture_slice(key), NOW);
    clsid = item ? item->clsid & (MC_CLASSES - 1) : 0;
    if (item)
        store_put(f->local, item);
    return clsid;
}

static void test_sizes(struct fixture *f)
{
    bool fine = true;

    for (size_t n = 0; n < 2000; n++)
        fine &= round_trip(f, n);
    ok(fine, "values of 0 to 3,000 bytes are stored and returned");
    for (size_t n = 524200; n < 524300; n++)
        fine &= round_trip(f, n);
    ok(fine, "values around the largest chunk are stored and returned");
    for (size_t n = 1048400; n < 1048520; n += 3)
        fine &= round_trip(f, n);
    ok(fine, "values around two of the largest chunks are stored and returned");
    ok(class_in_use(f, "0123456789abcdef", 32) == 40, "16 and 32 bytes go to the class of 96");
    ok(class_in_use(f, "0123456789abcdef", 20) == 1, "16 and 20 bytes go to that of 88");
    ok(class_in_use(f, "foo1", 20000) == 25 && class_in_use(f, "foo1", 66560) == 31 &&
           class_in_use(f, "foo1", 70000) == 31 && class_in_use(f, "foo1", 600000) == 39,
       "known sizes go to memcached's classes");
    ok(put(f, STORE_SET, "k", "", 1 << 20) == STORE_TOO_LARGE, "a value of -I bytes is too large");
    store_delete(f->local, SLICE("k"), 0, NOW);
    store_delete(f->local, SLICE("foo1"), 0, NOW);
    store_delete(f->local, SLICE("0123456789abcdef"), 0, NOW);
    ok(used_chunks(f) == 0, "all chunks are free afterwards");
}

/* Whether a copy is a slow one: its destination is a few bytes behind its source, modulo a page. */
static bool is_slow(size_t to, size_t from)
{
    size_t behind = (to - from) % 4096;

    return behind >= 1 && behind <= 31;
}

/* From a request at the start of a page to the item, and from the item to a reply at such a one. */
static void test_copies(struct fixture *f)
{
    enum { LINE_LEAST = 17, LINE_MOST = 300, LARGE = 1000000 };
    enum store_result result;
    struct mc_item *item;
    unsigned int slow = 0, npieces = 0;

    item = store_reserve(f->local, SLICE("k"), 0, 0, LARGE, NOW, &result);
    for (size_t at = 0; item && at < LARGE; npieces++) {
        struct slice piece = item_at(f->local, item, at);

        for (size_t line = LINE_LEAST; line <= LINE_MOST; line++)
            slow += is_slow((size_t)piece.ptr, line + at) + is_slow(line + at, (size_t)piece.ptr);
        at += piece.len;
    }
    ok(npieces == 2 && slow == 0, "a large value is nowhere that Linux's copies are slow (%u)",
       slow);
    if (item)
        store_discard(f->local, item);
}

static void test_joins(struct fixture *f)
{
    char *all = pattern(900000, 3);
    size_t n = 100;
    bool fine;

    fine = put(f, STORE_SET, "j", all, n) == STORE_DONE;
    for (size_t step = 1000; n + step < 900000; step += 7777) {
        fine &= put(f, STORE_APPEND, "j", all + n, step) == STORE_DONE;
        n += step;
    }
    fine &= put(f, STORE_APPEND, "j", all + n, 900000 - n) == STORE_DONE;
    ok(fine && fixture_has(f, "j", all, NOW), "append extends a value over many chunks");
    put(f, STORE_SET, "j", all + 600000, 300000);
    put(f, STORE_PREPEND, "j", all, 600000);
    ok(fixture_has(f, "j", all, NOW), "prepend extends a value over many chunks");
    ok(put(f, STORE_APPEND, "j", all, 200000) == STORE_TOO_LARGE && fixture_has(f, "j", all, NOW),
       "an append beyond -I keeps the value");
    ok(store_arith(f->local, SLICE("j"), &(struct store_delta){.delta = 1}, NOW, &(uint64_t){0},
                   NULL) == STORE_NON_NUMERIC,
       "a chunked value is not a number");
    store_delete(f->local, SLICE("j"), 0, NOW);
    ok(used_chunks(f) == 0, "all chunks are free afterwards");
    free(all);
}

static void test_small_chunks(uint32_t chunk_max, uint32_t item_max)
{
    struct store_config config;
    struct fixture f;
    bool fine = true;

    fixture_defaults(&config);
    config.memory_limit = 256 << 20;
    config.chunk_max = chunk_max;
    config.item_max = item_max;
    fixture_open(&f, &config);
    for (size_t n = chunk_max - 400; n < item_max - 400; n = n * 9 / 8)
        fine &= round_trip(&f, n);
    fine &= round_trip(&f, item_max - 400);
    ok(fine, "chunks of at most %u bytes hold values up to %u", chunk_max, item_max);
    ok(put(&f, STORE_SET, "k", "", item_max) == STORE_TOO_LARGE,
       "values above the limit are refused");
    store_delete(f.local, SLICE("k"), 0, NOW);
    ok(used_chunks(&f) == 0, "all chunks are free afterwards");
    fixture_close(&f);
}

static void test_huge(void)
{
    enum { HUGE = 100 << 20 };
    struct store_config config;
    struct fixture f;
    enum store_result result;
    struct mc_item *item;
    unsigned int wrong = 0;

    fixture_defaults(&config);
    config.memory_limit = 256 << 20;
    config.item_max = 128 << 20;
    fixture_open(&f, &config);
    for (int round = 0; round < 3; round++) {
        item = store_reserve(f.local, SLICE("huge"), 0, 0, HUGE, NOW, &result);
        for (size_t at = 0; item && at < HUGE; at += 4096)
            *(size_t *)(uintptr_t)item_at(f.local, item, at & ~(size_t)7).ptr = at;
        if (item)
            store_commit(f.local, item, STORE_SET, 0, NOW, NULL);
    }
    item = store_get(f.local, SLICE("huge"), NOW);
    for (size_t at = 0; item && at < HUGE; at += 4096)
        wrong += *(const size_t *)(const void *)item_at(f.local, item, at).ptr != at;
    ok(item && wrong == 0, "100 megabytes are written and read in small steps");
    if (item)
        store_put(f.local, item);
    fixture_close(&f);
}

/* Large values that evict each other, and small ones. */
static void test_pressure(void)
{
    struct store_config config;
    struct store_stats stats;
    struct fixture f;
    unsigned int failed = 0, wrong = 0;

    fixture_defaults(&config);
    config.memory_limit = 16 << 20;
    fixture_open(&f, &config);
    for (unsigned int i = 0; i < 400; i++) {
        size_t n = (i * 7919u) % 1000000;
        char name[32], *value = pattern(n, i);

        sprintf(name, "p-%u", i % 50);
        if (put(&f, STORE_SET, name, value, n) != STORE_DONE)
            failed++;
        else
            wrong += !fixture_has(&f, name, value, NOW);
        free(value);
    }
    store_stats(f.store, &stats);
    diag("%u failed, %lu evictions", failed, stats.evictions);
    ok(wrong == 0 && stats.evictions > 0, "large values evict each other");
    ok(failed == 0, "each set of a large value succeeds");
    for (unsigned int i = 0; i < 50; i++) {
        char name[32];

        store_delete(f.local, (struct slice){name, (size_t)sprintf(name, "p-%u", i)}, 0, NOW);
    }
    ok(used_chunks(&f) == 0, "all chunks are free afterwards");
    fixture_close(&f);
}

int main(void)
{
    with_fixture(test_sizes);
    with_fixture(test_copies);
    with_fixture(test_joins);
    test_small_chunks(16384, 1 << 20);
    test_small_chunks(16384, 100 << 20);
    test_small_chunks(1024, 100 << 20);
    test_small_chunks(128, 1 << 20);
    test_huge();
    test_pressure();
    return done();
}
