/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets and deletes with conditions, also when an item has nearly the largest number of holders. */
#include <pthread.h>

#include "store/internal.h"
#include "t/unit/store_fixture.h"

enum {
    NOW = 100,
    NHOLDS = 40000,
    NHOLDERS_MAX = 32767, /* and the table: the next one gets a copy */
    NTHREADS = 4,
    NROUNDS = 2000
};

static struct mc_item *fetch(struct fixture *f, const char *key, const struct store_fetch *how,
                             struct store_fetched *out)
{
    enum store_result result;

    return store_fetch(f->local, fixture_slice(key), how, NOW, out, &result);
}

static void many_holders_keep_the_marks(struct fixture *f)
{
    static struct mc_item *held[NHOLDS];
    const struct store_removal stale = {.invalidate = true};
    const struct store_fetch how = {0};
    struct store_fetched fetched;
    unsigned int nwins = 0, nstale = 0;

    fixture_set(f, "k", "v", NOW);
    store_remove(f->local, fixture_slice("k"), &stale, NOW);
    for (int i = 0; i < NHOLDS; i++) {
        held[i] = fetch(f, "k", &how, &fetched);
        nwins += fetched.won;
        nstale += fetched.stale;
    }
    ok(nwins == 1 && nstale == NHOLDS, "of %d holders of a stale item one has won", NHOLDS);
    for (int i = 0; i < NHOLDS; i++)
        store_put(f->local, held[i]);
}

static void a_held_item_stays_when_invalidated(struct fixture *f)
{
    const struct store_removal removal = {.invalidate = true, .touch = true, .expiry = NOW + 5};
    struct store_fetched fetched;
    struct mc_item *item;
    char *value;

    fixture_set(f, "h", "value", NOW);
    item = store_get(f->local, fixture_slice("h"), NOW);
    ok(store_remove(f->local, fixture_slice("h"), &removal, NOW) == STORE_DONE,
       "a held item is invalidated");
    value = fixture_value(f->local, item);
    ok(strcmp(value, "value") == 0, "a held item keeps its bytes when it is invalidated");
    free(value);
    store_put(f->local, item);
    item = store_peek(f->local, fixture_slice("h"), NOW, &fetched);
    ok(item && fetched.stale && fetched.expiry == NOW + 5,
       "an invalidated item is stale, with the given expiry");
    store_put(f->local, item);
    ok(!store_peek(f->local, fixture_slice("h"), NOW + 5, &fetched), "an invalidated item expires");
}

/* Sets the mark that a kernel program sets when it has answered the item. */
static void serve_in_kernel(struct fixture *f, const char *key)
{
    struct slice name = fixture_slice(key);
    struct table_spot spot;

    table_find(&f->store->table, hash_key(f->store->control, name), name, &spot);
    fixture_kernel_read(spot.bucket, spot.slot);
}

/* How often the counter of the key's bucket moves on by two: so many states the kernel can see. */
static unsigned int nchanges(struct fixture *f, const char *key, const struct store_fetch *how,
                             struct store_fetched *out)
{
    const struct mc_bucket *head =
        table_head(&f->store->table, hash_key(f->store->control, fixture_slice(key)));
    uint32_t before = head->seq;

    store_put(f->local, fetch(f, key, how, out));
    return (head->seq - before) / 2;
}

static void a_get_changes_an_item_at_once(struct fixture *f)
{
    const struct store_fetch vivify = {.vivify = true, .vivify_expiry = NOW + 50};
    const struct store_fetch recache = {
        .touch = true, .expiry = NOW + 20, .recache = true, .recache_before = NOW + 60};
    struct store_fetched fetched;

    ok(nchanges(f, "absent", &vivify, &fetched) == 1 && fetched.won && !fetched.was_won,
       "an item that a get creates is marked as won from the start");
    ok(nchanges(f, "absent", &vivify, &fetched) == 0 && !fetched.won && fetched.was_won,
       "the next get changes nothing, and has not won");
    fixture_set(f, "t", "v", NOW);
    ok(nchanges(f, "t", &recache, &fetched) == 1 && fetched.won && fetched.expiry == NOW + 20,
       "a new expiry and the mark of who has won come at one moment");
}

static void the_kernels_answers_are_uses(struct fixture *f)
{
    const struct store_fetch how = {.unseen = true};
    struct store_fetched fetched;

    fixture_set(f, "served", "v", NOW);
    store_put(f->local, fetch(f, "served", &how, &fetched));
    ok(!fetched.used, "a new item counts as not read");
    serve_in_kernel(f, "served");
    store_put(f->local, fetch(f, "served", &how, &fetched));
    ok(fetched.used, "an item that the kernel served counts as read");
}

/* A key that is only fit to be printed as base64 stays so, whatever becomes of its value. */
static void a_binary_key_stays_one(struct fixture *f)
{
    const struct store_delta grow = {.delta = 1};
    struct store_number number;
    enum store_result result;
    struct mc_item *item = store_reserve(f->local, SLICE("a\nb"), 0, 0, 1, NOW, &result);
    bool binary;

    store_mark_binary_key(item);
    fixture_fill(f->local, item, SLICE("9"));
    store_commit(f->local, item, STORE_SET, 0, NOW, NULL);
    store_meta_arith(f->local, SLICE("a\nb"), &grow, NOW, &number);
    item = store_get(f->local, SLICE("a\nb"), NOW);
    binary = item_has_binary_key(item);
    store_put(f->local, item);
    ok(number.value == 10 && binary, "a binary key is one when its number has become longer");
    fixture_store(f->local, STORE_APPEND, SLICE("a\nb"), SLICE("x"), 0, 0, NOW, NULL);
    item = store_get(f->local, SLICE("a\nb"), NOW);
    ok(item_nvalue(f->local, item) == 3 && item_has_binary_key(item),
       "and when it was appended to");
    store_put(f->local, item);
}

struct player {
    struct fixture *f;
    pthread_t thread;
    unsigned int nwins;
};

/* Each round has a key of its own; the winner removes nothing, so that there is one win in all. */
static void *play(void *argument)
{
    const struct store_fetch how = {.vivify = true, .vivify_expiry = NOW + 1000};
    struct player *player = argument;
    struct store_local *local = store_local_new(player->f->store);

    for (int i = 0; local && i < NROUNDS; i++) {
        struct store_fetched fetched;
        enum store_result result;
        struct mc_item *item;
        char key[32];

        snprintf(key, sizeof(key), "round%d", i);
        item = store_fetch(local, fixture_slice(key), &how, NOW, &fetched, &result);
        if (item) {
            player->nwins += fetched.won;
            store_put(local, item);
        }
    }
    store_local_free(local);
    return NULL;
}

static void one_thread_wins(struct fixture *f)
{
    struct player players[NTHREADS] = {{0}};
    unsigned int nwins = 0;

    for (int i = 0; i < NTHREADS; i++) {
        players[i].f = f;
        pthread_create(&players[i].thread, NULL, play, &players[i]);
    }
    for (int i = 0; i < NTHREADS; i++) {
        pthread_join(players[i].thread, NULL);
        nwins += players[i].nwins;
    }
    ok(nwins == NROUNDS, "of %d threads one wins each of %d keys: %u", NTHREADS, NROUNDS, nwins);
}

/* Invalidates, gets and increments one key as fast as it can. */
static void *disturb(void *argument)
{
    const struct store_removal stale = {.invalidate = true, .touch = true, .expiry = NOW + 500};
    const struct store_fetch touch = {.touch = true, .expiry = NOW + 1000};
    const struct store_delta delta = {.delta = 1, .touch = true, .new_expiry = NOW + 700};
    struct player *player = argument;
    struct store_local *local = store_local_new(player->f->store);
    struct slice key = fixture_slice("counter");

    for (int i = 0; local && i < NROUNDS; i++) {
        struct store_fetched fetched;
        struct store_number number;
        enum store_result result;
        struct mc_item *item = store_fetch(local, key, &touch, NOW, &fetched, &result);

        if (item) {
            item_cas(local, item);
            store_put(local, item);
        }
        store_remove(local, key, &stale, NOW);
        player->nwins += store_meta_arith(local, key, &delta, NOW, &number) == STORE_DONE;
    }
    store_local_free(local);
    return NULL;
}

static void no_count_is_lost(struct fixture *f)
{
    const struct store_delta nothing = {.delta = 0};
    struct player players[NTHREADS] = {{0}};
    struct store_number number = {0};
    unsigned int ncounts = 0;

    fixture_set(f, "counter", "100000", NOW);
    for (int i = 0; i < NTHREADS; i++) {
        players[i].f = f;
        pthread_create(&players[i].thread, NULL, disturb, &players[i]);
    }
    for (int i = 0; i < NTHREADS; i++) {
        pthread_join(players[i].thread, NULL);
        ncounts += players[i].nwins;
    }
    store_meta_arith(f->local, fixture_slice("counter"), &nothing, NOW, &number);
    ok(ncounts == NTHREADS * NROUNDS && number.value == 100000 + ncounts,
       "a number that is made stale and touched at the same time loses no increment");
}

static void without_memory(void)
{
    const struct store_fetch how = {.vivify = true};
    struct store_config config;
    struct store_fetched fetched;
    enum store_result result = STORE_DONE;
    struct mc_item *item;
    struct fixture f;
    char key[32];

    fixture_defaults(&config);
    config.memory_limit = 1 << 20;
    config.evict = false;
    fixture_open(&f, &config);
    for (int i = 0; i < 1000000 && result == STORE_DONE; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        item = store_fetch(f.local, fixture_slice(key), &how, NOW, &fetched, &result);
        if (item)
            store_put(f.local, item);
    }
    ok(result == STORE_NO_MEMORY, "vivifying a value fails without memory");
    ok(!store_peek(f.local, fixture_slice(key), NOW, &fetched),
       "a value that could not be vivified is missing");
    fixture_close(&f);
}

/* An item that the next reader has to copy, and no memory for that. */
static struct mc_item *hold_without_memory(struct fixture *f)
{
    char value[1000], key[32];
    struct store_config config;
    struct mc_item *item = NULL;

    fixture_defaults(&config);
    config.memory_limit = 1 << 20;
    config.evict = false;
    fixture_open(f, &config);
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    fixture_set(f, "held", value, NOW);
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), "other%d", i);
        if (fixture_set(f, key, value, NOW) != STORE_DONE)
            break;
    }
    for (int i = 0; i < NHOLDERS_MAX; i++)
        item = store_get(f->local, fixture_slice("held"), NOW);
    return item;
}

static void release(struct fixture *f, struct mc_item *item)
{
    for (int i = 0; i < NHOLDERS_MAX; i++)
        store_put(f->local, item);
    fixture_close(f);
}

/* Each way to be told that the key is missing; then the other keys make room. */
static void what_cannot_be_held_does_not_return(void)
{
    const struct store_fetch vivify = {.vivify = true};
    const struct store_removal removal = {0};
    struct store_fetched fetched;
    struct mc_item *item, *empty;
    struct fixture f;

    item = hold_without_memory(&f);
    ok(!store_get(f.local, fixture_slice("held"), NOW), "what can have no more holders is missing");
    store_delete(f.local, fixture_slice("other0"), 0, NOW);
    ok(fixture_has(&f, "held", NULL, NOW), "and does not return when there is memory again");
    release(&f, item);
    item = hold_without_memory(&f);
    ok(store_remove(f.local, fixture_slice("held"), &removal, NOW) == STORE_MISS,
       "for a removal with conditions it is missing, too");
    store_delete(f.local, fixture_slice("other0"), 0, NOW);
    ok(fixture_has(&f, "held", NULL, NOW), "and does not return");
    release(&f, item);
    item = hold_without_memory(&f);
    empty = fetch(&f, "held", &vivify, &fetched);
    ok(empty && fetched.created, "an empty value is put in its place");
    store_put(f.local, empty);
    ok(store_delete(f.local, fixture_slice("held"), 0, NOW) == STORE_DONE &&
           fixture_has(&f, "held", NULL, NOW),
       "the key has no other item behind that");
    release(&f, item);
}

int main(void)
{
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    fixture_open(&f, &config);
    many_holders_keep_the_marks(&f);
    a_held_item_stays_when_invalidated(&f);
    a_get_changes_an_item_at_once(&f);
    the_kernels_answers_are_uses(&f);
    a_binary_key_stays_one(&f);
    one_thread_wins(&f);
    no_count_is_lost(&f);
    fixture_close(&f);
    without_memory();
    what_cannot_be_held_does_not_return();
    return done();
}
