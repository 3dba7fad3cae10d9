/* SPDX-License-Identifier: BSD-3-Clause */
/* The events that a store reports, and that it first asks whether anybody wants them. */
#include "store/store_events.h"
#include "store/store_stats.h"
#include "t/unit/store_fixture.h"

enum { NSETS = 200, VALUE_BYTES = 100000 };

struct heard {
    uint32_t wanted;
    unsigned int nevictions;
    bool good; /* the evictions had the expected fields */
    char first[32];
};

static void hear_item(void *context, const struct store_item_event *event)
{
    struct heard *heard = context;

    if (heard->nevictions++ == 0)
        snprintf(heard->first, sizeof(heard->first), "%.*s", (int)event->key.len, event->key.ptr);
    heard->good &= strcmp(event->type, "eviction") == 0 && !event->fetched && event->ttl == 400 &&
                   event->idle == 500 && event->clsid > 0 && event->bucket == -1;
}

static void hear_words(void *context, struct slice text)
{
    (void)context;
    (void)text;
}

/* Stores more than there is memory for; all of it expires in 500 seconds, and is 100 old. */
static void overfill(struct fixture *f)
{
    static char value[VALUE_BYTES];
    char key[32];

    for (int i = 0; i < NSETS; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        fixture_store(f->local, STORE_SET, fixture_slice(key), (struct slice){value, sizeof(value)},
                      1000, 0, i < NSETS / 2 ? 100 : 600, NULL);
    }
}

static void test_evictions(uint32_t wanted)
{
    struct heard heard = {.wanted = wanted, .good = true};
    const struct store_events events = {&heard, &heard.wanted, hear_item, hear_words};
    struct store_config config;
    struct store_stats stats;
    struct fixture f;

    fixture_defaults(&config);
    config.memory_limit = 10 << 20;
    config.tuning.lru_segmented = false;
    fixture_open(&f, &config);
    store_set_events(f.store, &events);
    overfill(&f);
    store_stats(f.store, &stats);
    ok(stats.evictions > 0, "the store evicts");
    if (wanted & STORE_EVENT_ITEM) {
        ok(heard.nevictions == stats.evictions, "each eviction is reported");
        ok(strcmp(heard.first, "key0") == 0, "the first reported eviction is of the oldest key");
    } else {
        ok(heard.nevictions == 0, "events that are not wanted are not reported");
    }
    fixture_close(&f);
}

static void test_ages(void)
{
    struct heard heard = {.wanted = STORE_EVENT_ITEM, .good = true};
    const struct store_events events = {&heard, &heard.wanted, hear_item, hear_words};
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    config.memory_limit = 15 << 20;
    config.tuning.lru_segmented = false;
    fixture_open(&f, &config);
    store_set_events(f.store, &events);
    overfill(&f);
    ok(heard.nevictions > 0 && heard.nevictions < NSETS / 2 && heard.good,
       "an eviction's event has the item's state, its time left and its last use");
    fixture_close(&f);
}

static void test_absence(struct fixture *f)
{
    ok(fixture_has(f, "k", NULL, 100) && store_absence(f->local) == STORE_ABSENT,
       "a key that was never stored is absent");
    fixture_store(f->local, STORE_SET, SLICE("k"), SLICE("v"), 150, 0, 100, NULL);
    ok(fixture_has(f, "k", NULL, 200) && store_absence(f->local) == STORE_EXPIRED,
       "an expired key is distinguished from an absent one");
    ok(fixture_has(f, "k", NULL, 200) && store_absence(f->local) == STORE_ABSENT,
       "the second get of an expired key finds it absent");
    fixture_set(f, "k", "v", 200);
    store_flush(f->local, 201, 201);
    ok(fixture_has(f, "k", NULL, 202) && store_absence(f->local) == STORE_FLUSHED,
       "a flushed key is distinguished from an absent one");
}

int main(void)
{
    test_evictions(STORE_EVENT_ITEM | STORE_EVENT_SYSTEM);
    test_evictions(STORE_EVENT_SYSTEM);
    test_ages();
    with_fixture(test_absence);
    return done();
}
