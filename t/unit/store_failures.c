/* SPDX-License-Identifier: BSD-3-Clause */
/* A provider that runs out of memory, at the start and later. */
#include <errno.h>

#include "t/unit/store_fixture.h"

enum { NOW = 100, NKEYS = 40000 };

struct scarce {
    struct provider provider;
    struct provider *memory;
    int nextents, ntables; /* how many extents it still gives */
    unsigned int nasked;   /* and how often it refused */
};

static int refuse(struct scarce *scarce)
{
    scarce->nasked++;
    return -ENOMEM;
}

static int scarce_extent(struct provider *provider, uint32_t index, void *addr)
{
    struct scarce *scarce = (struct scarce *)provider;

    if (scarce->nextents-- <= 0)
        return refuse(scarce);
    return scarce->memory->extent(scarce->memory, index, addr);
}

static int scarce_table(struct provider *provider, uint32_t index, void *addr)
{
    struct scarce *scarce = (struct scarce *)provider;

    if (scarce->ntables-- <= 0)
        return refuse(scarce);
    return scarce->memory->table(scarce->memory, index, addr);
}

static struct mc_control *scarce_control(struct provider *provider)
{
    struct scarce *scarce = (struct scarce *)provider;

    return scarce->memory->control(scarce->memory);
}

static struct scarce make_scarce(int nextents, int ntables)
{
    return (struct scarce){.provider = {scarce_extent, scarce_table, scarce_control, NULL},
                           .memory = anonymous_new(false),
                           .nextents = nextents,
                           .ntables = ntables};
}

static void test_start(int nextents, int ntables, bool prealloc, const char *what)
{
    struct scarce scarce = make_scarce(nextents, ntables);
    struct store_config config;
    const char *error = NULL;
    struct store *store;

    fixture_defaults(&config);
    config.prealloc = prealloc;
    errno = 0;
    store = store_new(&config, &scarce.provider, &error);
    ok(!store && errno == ENOMEM && error, "%s: no store, and a reason (%s)", what, error);
    anonymous_free(scarce.memory);
}

static void expect_refusal(const struct store_config *config)
{
    struct provider *memory = anonymous_new(false);
    const char *error = NULL;
    struct store *store = store_new(config, memory, &error);

    ok(!store && errno == EINVAL && error, "refused: %s", error);
    anonymous_free(memory);
}

static void test_bad_config(void)
{
    struct store_config config;

    fixture_defaults(&config);
    config.hashpower = 64;
    expect_refusal(&config);
    fixture_defaults(&config);
    config.memory_limit = 1ull << 40;
    expect_refusal(&config);
    fixture_defaults(&config);
    config.growth_factor = 0.5;
    expect_refusal(&config);
}

/* Sets keys with values of many sizes; counts the refused ones and those that came back wrong. */
static void set_many(struct fixture *f, unsigned int *refused, unsigned int *wrong)
{
    *refused = *wrong = 0;
    for (unsigned int i = 0; i < NKEYS; i++) {
        char name[32], value[2000];
        size_t n = i % 37 == 0 ? i % 1400 : 40;

        sprintf(name, "key-%u", i);
        memset(value, 'a' + (int)(i % 26), n);
        value[n] = '\0';
        if (fixture_set(f, name, value, NOW) == STORE_DONE)
            *wrong += !fixture_has(f, name, value, NOW);
        else
            *refused += 1;
    }
}

static void open_scarce(struct fixture *f, struct scarce *scarce, bool evict)
{
    struct store_config config;
    const char *error;

    fixture_defaults(&config);
    config.hashpower = 12;
    config.evict = evict;
    f->provider = &scarce->provider;
    f->store = store_new(&config, &scarce->provider, &error);
    f->local = f->store ? store_local_new(f->store) : NULL;
    if (!f->local) {
        printf("Bail out! %s\n", error);
        exit(1);
    }
}

static void close_scarce(struct fixture *f, struct scarce *scarce)
{
    store_local_free(f->local);
    store_free(f->store);
    anonymous_free(scarce->memory);
}

static void test_heap(bool evict)
{
    struct scarce scarce = make_scarce(16 / MC_EXTENT_PAGES, 100);
    unsigned int refused, wrong, asked;
    struct fixture f;

    open_scarce(&f, &scarce, evict);
    set_many(&f, &refused, &wrong);
    for (unsigned int i = 0; i < 200000; i++) {
        char name[32];

        sprintf(name, "more-%u", i);
        refused +=
            fixture_set(&f, name, "0123456789012345678901234567890123456789", NOW) != STORE_DONE;
    }
    asked = scarce.nasked;
    ok(wrong == 0, "values stored while the provider refuses extents are right");
    ok(evict ? refused == 0 : refused > 0,
       evict ? "evictions make room" : "further sets are refused");
    ok(asked > 0 && asked < 10, "a set does not ask the provider again (%u times)", asked);
    scarce.nextents = 100;
    store_tick(f.store, NOW);
    ok(fixture_set(&f, "late", "x", NOW) == STORE_DONE,
       "after the next tick the store asks for memory again");
    close_scarce(&f, &scarce);
}

static void test_table(void)
{
    struct scarce scarce = make_scarce(100, 2);
    unsigned int refused, wrong;
    struct fixture f;

    open_scarce(&f, &scarce, true);
    for (int round = 0; round < 6; round++) {
        set_many(&f, &refused, &wrong);
        ok(refused == 0 && wrong == 0, "a table that cannot grow still stores every key, round %d",
           round);
        store_tick(f.store, NOW);
    }
    close_scarce(&f, &scarce);
}

int main(void)
{
    test_start(100, 0, false, "no table");
    test_start(100, 1, false, "no overflow buckets");
    test_start(0, 100, false, "no extent");
    test_start(3, 100, true, "only a part of a preallocation");
    test_bad_config();
    test_heap(true);
    test_heap(false);
    test_table();
    return done();
}
