/* SPDX-License-Identifier: BSD-3-Clause */
/* The checksum behind an item's wire bytes, which the kernel uses: it is right, or absent. */
#include "store/internal.h"
#include "store/store_mover.h"
#include "t/lib/sum.h"
#include "t/unit/store_fixture.h"

enum { NOW = 100, LONGEST = 1500, HOLDS = UINT16_MAX, MANY_STEPS = 100000 };

/* How many items had a checksum, and how many were too long, or had no room for one. */
struct seen {
    unsigned int with, without;
};

/* Whether an item has the right checksum exactly where it is short, and has room for one. */
static bool is_right(const struct fixture *f, const struct mc_item *item, struct seen *seen)
{
    const char *behind = item->wire + item->nbytes;
    unsigned int size = f->store->slabs.classes[lru_class_of(item)].size;
    bool room =
        MC_ITEM_HEADER + item->nbytes + MC_ITEM_SUM <= size && item->nbytes <= MC_REPLY_MOST;

    if (!(item->flags & MC_ITEM_SUMMED)) {
        seen->without++;
        return !room;
    }
    seen->with++;
    return room &&
           ((unsigned char)behind[0] | (unsigned int)(unsigned char)behind[1] << 8) == sum_of(item);
}

static bool key_is_right(struct fixture *f, const char *key, struct seen *seen)
{
    struct mc_item *item =
        store_peek(f->local, fixture_slice(key), NOW, &(struct store_fetched){0});
    bool right = item && is_right(f, item, seen);

    if (item)
        store_put(f->local, item);
    return right;
}

static void open_with(struct fixture *f, bool sums)
{
    struct store_config config;

    fixture_defaults(&config);
    config.sums = sums;
    config.tuning.lru_segmented = false;
    config.memory_limit = 64 << 20;
    fixture_open(f, &config);
}

static void test_lengths(struct fixture *f)
{
    char value[LONGEST + 1], key[32];
    struct seen seen = {0};
    bool right = true;

    for (unsigned int n = 0; n < LONGEST && right; n++) {
        for (unsigned int i = 0; i < n; i++)
            value[i] = (char)(1 + (n + i * 7) % 255);
        value[n] = '\0';
        snprintf(key, sizeof(key), "%u", n);
        right = fixture_set(f, key, value, NOW) == STORE_DONE && key_is_right(f, key, &seen);
    }
    ok(right && seen.with > seen.without, "values of 0 to %u bytes have the right checksum",
       LONGEST - 1);
    ok(seen.without > LONGEST - MC_REPLY_MOST,
       "values too long for the kernel, or for their chunk with a sum, have no checksum");
    memset(value, 0xff, LONGEST);
    value[LONGEST] = '\0';
    right = fixture_set(f, "ones", value, NOW) == STORE_DONE && key_is_right(f, "ones", &seen);
    ok(right, "a checksum with as many carries as possible is right");
}

static void test_verbs(struct fixture *f)
{
    const struct store_delta one = {.delta = 1, .create = true, .initial = 99};
    struct store_number number;
    struct seen seen = {0};
    struct mc_item *item;
    bool right;

    fixture_set(f, "a", "middle", NOW);
    fixture_store(f->local, STORE_APPEND, SLICE("a"), SLICE(" end"), 0, 0, NOW, NULL);
    right = key_is_right(f, "a", &seen);
    fixture_store(f->local, STORE_PREPEND, SLICE("a"), SLICE("start "), 0, 0, NOW, NULL);
    right &= key_is_right(f, "a", &seen);
    ok(right && fixture_has(f, "a", "start middle end", NOW),
       "append and prepend compute a new checksum");
    right = store_meta_arith(f->local, SLICE("n"), &one, NOW, &number) == STORE_DONE &&
            key_is_right(f, "n", &seen) &&
            store_meta_arith(f->local, SLICE("n"), &one, NOW, &number) == STORE_DONE &&
            key_is_right(f, "n", &seen);
    ok(right && number.value == 100,
       "a number has a checksum when it is created and when it is incremented");
    item = store_get(f->local, SLICE("a"), NOW);
    for (unsigned int i = 0; i < HOLDS + 10u; i++)
        store_get(f->local, SLICE("a"), NOW);
    right = store_get(f->local, SLICE("a"), NOW) != item && key_is_right(f, "a", &seen);
    ok(right, "the copy of an item with too many holders has a checksum");
    ok(seen.without == 0, "each of these items had room for a checksum");
}

/* Every page of the class is moved once, so that each item is moved. */
static void test_moved(struct fixture *f)
{
    const unsigned int n = 3000;
    struct store_stats stats;
    struct seen seen = {0};
    char key[32], value[1000];
    bool right = true;
    int clsid;

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    clsid = (int)slab_class_of_size(&f->store->slabs, sizeof(value) + 70);
    f->store->mover.on = true;
    for (unsigned int i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "moved%u", i);
        fixture_set(f, key, value, NOW);
    }
    for (unsigned int i = 0; i < n; i += 2) {
        snprintf(key, sizeof(key), "moved%u", i);
        store_delete(f->local, fixture_slice(key), 0, NOW);
    }
    ok(store_reassign(f->store, clsid, 0) == STORE_REASSIGN_OK, "a move to the pool is accepted");
    for (unsigned int i = 0; i < MANY_STEPS && f->store->mover.job != 0; i++)
        mover_step(f->store, NOW);
    store_stats(f->store, &stats);
    for (unsigned int i = 1; i < n && right; i += 2) {
        snprintf(key, sizeof(key), "moved%u", i);
        right = key_is_right(f, key, &seen);
    }
    ok(right && stats.slab_reassign_rescues > 0, "items keep their checksums when they move");
}

int main(void)
{
    struct seen seen = {0};
    struct fixture f;

    open_with(&f, true);
    test_lengths(&f);
    test_verbs(&f);
    test_moved(&f);
    fixture_close(&f);
    open_with(&f, false);
    fixture_set(&f, "k", "value", NOW);
    key_is_right(&f, "k", &seen);
    ok(seen.without == 1, "a store without kernel path computes no checksums");
    fixture_close(&f);
    return done();
}
