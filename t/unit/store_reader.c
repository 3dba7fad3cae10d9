/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Readers that know only bpf/shared/layout.h, as the kernel programs do, beside writers that store,
 * grow the table and free: no torn value, no stale one, no miss of a key that is stored. Each value
 * is "VERSION " and letters that follow from key and version. STORE_STRESS=N does N times as much.
 */
#include <pthread.h>

#include "t/unit/store_fixture.h"

enum {
    NREADERS = 2,
    NKEYS = 512,   /* that are stored from beginning to end */
    NFILL = 60000, /* that make the table grow, and are deleted again */
    MAX_WIRE = 2048,
    NOW = 100,
};

/*
 * The readers race on purpose, and the bucket's counter says when to repeat a read, which
 * ThreadSanitizer cannot know.
 */
#define RACY __attribute__((no_sanitize("thread")))

/* A provider that records where the store has its memory. */
struct view {
    struct provider provider;
    struct provider *memory;
    const char *heap;
    struct mc_bucket *buckets, *overflow;
};

struct run {
    struct view view;
    struct store *store;
    _Atomic uint64_t acked[NKEYS];
    _Atomic bool stop;
    _Atomic uint64_t nread, nretried, torn, stale, missed;
};

static int view_extent(struct provider *provider, uint32_t index, void *addr)
{
    struct view *view = (struct view *)provider;

    if (index == 0)
        view->heap = addr;
    return view->memory->extent(view->memory, index, addr);
}

static int view_table(struct provider *provider, uint32_t index, void *addr)
{
    struct view *view = (struct view *)provider;

    if (index == 0)
        view->buckets = addr;
    if (index == MC_OVERFLOW_TABLE)
        view->overflow = addr;
    return view->memory->table(view->memory, index, addr);
}

static struct mc_control *view_control(struct provider *provider)
{
    struct view *view = (struct view *)provider;

    return view->memory->control(view->memory);
}

/* --- the reader ------------------------------------------------------------ */

struct copy {
    char wire[MAX_WIRE];
    size_t nwire, nhead; /* key and suffix */
};

RACY static uint64_t key_hash(const struct mc_control *control, const char *name, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;

        for (size_t j = 0; j < 8 && i + j < n; j++)
            word |= (uint64_t)(uint8_t)name[i + j] << (8 * j);
        sum += mc_hash_word(word, control->seed[i / 8]);
    }
    return mc_hash_end(sum, n);
}

/* Copies the item if it has the key. */
RACY static bool copy_item(const volatile struct mc_item *item, const char *name, size_t n,
                           struct copy *copy)
{
    copy->nwire = item->nbytes;
    copy->nhead = n + item->nsuffix;
    if (item->nkey != n || copy->nwire > MAX_WIRE || copy->nhead > copy->nwire)
        return false;
    for (size_t i = 0; i < n; i++)
        if (item->wire[i] != name[i])
            return false;
    for (size_t i = 0; i < copy->nwire; i++)
        copy->wire[i] = item->wire[i];
    return true;
}

RACY static bool copy_from_chain(struct view *view, volatile struct mc_bucket *bucket,
                                 uint64_t hash, const char *name, size_t n, struct copy *copy)
{
    unsigned int shift = view->memory->control(view->memory)->ref_shift;

    for (int hops = 0; hops < 16; hops++) {
        uint64_t tags = bucket->tags;

        for (int slot = 0; slot < MC_SLOTS; slot++) {
            uint64_t at = (uint64_t)bucket->refs[slot] << shift;

            if ((uint8_t)(tags >> (8 * slot)) != mc_hash_tag(hash) ||
                !copy_item((const volatile void *)(view->heap + at), name, n, copy))
                continue;
            if (!(bucket->accessed >> slot & 1))
                bucket->accessed |= (uint8_t)(1u << slot);
            else if (!(bucket->again >> slot & 1))
                bucket->again |= (uint8_t)(1u << slot);
            return true;
        }
        if (bucket->next == 0)
            return false;
        bucket = &view->overflow[bucket->next];
    }
    return false;
}

enum look { LOOK_FOUND, LOOK_MISS, LOOK_MOVED };

RACY static enum look look(struct view *view, const char *name, size_t n, struct copy *copy)
{
    struct mc_control *control = view->memory->control(view->memory);
    uint64_t hash = key_hash(control, name, n);
    uint32_t nbuckets = __atomic_load_n(&control->nbuckets, __ATOMIC_ACQUIRE);
    uint32_t index = mc_bucket_of(hash, nbuckets);
    struct mc_bucket *head = &view->buckets[index];
    uint32_t seq = __atomic_load_n(&head->seq, __ATOMIC_ACQUIRE);
    bool found;

    while (((uint32_t)hash & *(volatile uint32_t *)&head->mask) != index) {
        index = (uint32_t)hash & *(volatile uint32_t *)&head->mask;
        head = &view->buckets[index];
        seq = __atomic_load_n(&head->seq, __ATOMIC_ACQUIRE);
    }
    if (seq & 1)
        return LOOK_MOVED;
    found = copy_from_chain(view, head, hash, name, n, copy);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&head->seq, __ATOMIC_RELAXED) != seq)
        return LOOK_MOVED;
    return found ? LOOK_FOUND : LOOK_MISS;
}

/* Every other key is deleted now and then, which uses up a version, too. */
static bool may_go(unsigned int key)
{
    return key % 2 == 1;
}

static int make_value(char *out, unsigned int key, uint64_t version)
{
    int n = sprintf(out, "%lu ", version);

    for (unsigned int i = 0; i < (key * 7 + version * 13) % 900; i++)
        out[n++] = (char)('a' + (key + version + i) % 26);
    return n;
}

static void check(struct run *run, const struct copy *copy, unsigned int key, uint64_t acked)
{
    char want[MAX_WIRE];
    uint64_t version = strtoul(copy->wire + copy->nhead, NULL, 10);
    size_t n = (size_t)make_value(want, key, version);

    run->nread++;
    if (copy->nwire - copy->nhead != n + 2 || memcmp(copy->wire + copy->nhead, want, n) != 0)
        run->torn++;
    else if (version < acked)
        run->stale++;
}

static void *reader(void *context)
{
    struct run *run = context;

    for (unsigned int i = 0; !run->stop; i++) {
        unsigned int key = i * 2654435761u % NKEYS;
        uint64_t acked = run->acked[key];
        struct copy copy;
        char name[32];
        size_t n = (size_t)sprintf(name, "key-%u", key);

        switch (look(&run->view, name, n, &copy)) {
        case LOOK_FOUND:
            check(run, &copy, key, acked);
            break;
        case LOOK_MISS:
            run->missed += !may_go(key);
            break;
        case LOOK_MOVED:
            run->nretried++;
            break;
        }
    }
    return NULL;
}

/* --- the writers ------------------------------------------------------------ */

static void set_key(struct run *run, struct store_local *local, unsigned int key)
{
    uint64_t version = run->acked[key] + 1;
    char name[32], value[MAX_WIRE];
    struct slice slice = {name, (size_t)sprintf(name, "key-%u", key)};
    struct slice bytes = {value, (size_t)make_value(value, key, version)};

    if (may_go(key) && version % 4 == 0) {
        store_delete(local, slice, 0, NOW);
        run->acked[key] = version;
    } else if (fixture_store(local, STORE_SET, slice, bytes, 0, 0, NOW, NULL) == STORE_DONE) {
        run->acked[key] = version;
    }
}

/* Stores the keys that make the table grow, or deletes them. */
static void fill(struct run *run, struct store_local *local, bool store)
{
    for (unsigned int i = 0; i < NFILL; i++) {
        char name[32];
        struct slice slice = {name, (size_t)sprintf(name, "fill-%u", i)};

        if (store)
            fixture_store(local, STORE_SET, slice, SLICE("x"), 0, 0, NOW, NULL);
        else
            store_delete(local, slice, 0, NOW);
        set_key(run, local, i % NKEYS);
    }
}

int main(void)
{
    static struct run run = {
        .view.provider = {.extent = view_extent, .table = view_table, .control = view_control}};
    const char *stress = getenv("STORE_STRESS"), *error;
    int rounds = 2 * (stress && atoi(stress) > 0 ? atoi(stress) : 1);
    struct store_config config;
    struct store_local *local;
    pthread_t readers[NREADERS];

    fixture_defaults(&config);
    config.hashpower = 12;
    run.view.memory = anonymous_new(false);
    run.store = store_new(&config, &run.view.provider, &error);
    local = store_local_new(run.store);
    for (unsigned int key = 0; key < NKEYS; key++)
        set_key(&run, local, key);
    for (int i = 0; i < NREADERS; i++)
        pthread_create(&readers[i], NULL, reader, &run);
    for (int i = 0; i < rounds; i++)
        fill(&run, local, i % 2 == 0);
    run.stop = true;
    for (int i = 0; i < NREADERS; i++)
        pthread_join(readers[i], NULL);
    diag("%lu read, %lu to be repeated, %u buckets", run.nread, run.nretried,
         store_control(run.store)->nbuckets);
    ok(run.nread > 0 && run.torn == 0, "no value is torn");
    ok(run.stale == 0, "no value is older than an acknowledged set or delete");
    ok(run.missed == 0, "no stored key is missed while the table grows or is rearranged");
    ok(store_control(run.store)->nbuckets > 10000, "the table has grown");
    store_local_free(local);
    store_free(run.store);
    anonymous_free(run.view.memory);
    return done();
}
