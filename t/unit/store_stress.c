/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole store under many threads, with eviction, expiry, flushes, growth, the maintainer, and
 * the mover moving pages between classes all the time. A value is "KEY VERSION LENGTH " and filler
 * that follows from all three. A key is written by one thread only, which counts its writes as
 * versions; a version is acknowledged when the call has returned. A reader notes the acknowledged
 * version before it reads: an older one in the value is a stale answer. Deletes and flushes use up
 * versions, too, so that removed values must not return. STORE_STRESS=N does N times as much.
 */
#include <pthread.h>
#include <unistd.h>

#include "store/store_mover.h"
#include "store/store_stats.h"
#include "t/unit/store_fixture.h"

enum {
    NWRITERS = 4,
    NKEYS = 32768, /* of each run, divided among the writers */
    NCOUNTERS = 8, /* keys that all threads increment */
    LONGEST = 3000,
    CHUNK_MAX = 2048, /* so that the longest have parts */
    NOPS = 250000,    /* of each writer, times STORE_STRESS */
    READS_BETWEEN =
        3000, /* flushes and seconds, so that runs on any machine also have times without them */
    NOW = 100,
};

struct run {
    struct fixture f;
    bool evicts; /* so a miss is always correct */
    unsigned int scale;
    _Atomic uint64_t acked[NKEYS]; /* the newest version that the writer knows of */
    _Atomic uint64_t dead[NKEYS];  /* versions up to this one were flushed */
    _Atomic rel_time now;
    _Atomic bool stop;
    _Atomic uint64_t stale, wrong, lost, nread, nflushes, counted[NCOUNTERS];
};

struct thread {
    struct run *run;
    struct store_local *local;
    unsigned int number;
    uint64_t random;
    pthread_t id;
};

static uint64_t draw(struct thread *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random;
}

static int key_name(char out[32], unsigned int key)
{
    return snprintf(out, 32, "key-%u", key);
}

static int make_value(char *out, unsigned int key, uint64_t version, size_t length)
{
    int n = snprintf(out, LONGEST + 64, "%u %lu %zu ", key, version, length);

    for (size_t i = 0; i < length; i++)
        out[n++] = (char)('a' + (key + version + i) % 26);
    return n;
}

/* The version of a value; 0: the bytes are not those that were stored. */
static uint64_t check_value(const char *value, size_t nvalue, unsigned int key)
{
    char want[LONGEST + 128], head[64] = "";
    unsigned int its_key;
    uint64_t version;
    size_t length;
    int n;

    memcpy(head, value, nvalue < 63 ? nvalue : 63);
    if (sscanf(head, "%u %lu %zu ", &its_key, &version, &length) != 3 || its_key != key ||
        length > LONGEST)
        return 0;
    n = make_value(want, key, version, length);
    /* A prepended value has the older one behind it. */
    if (nvalue < (size_t)n || memcmp(value, want, (size_t)n) != 0)
        return 0;
    return version;
}

static void read_key(struct thread *t, unsigned int key)
{
    struct run *run = t->run;
    uint64_t acked = run->acked[key], dead = run->dead[key], version;
    struct mc_item *item;
    char name[32], *value;

    item = store_get(t->local, (struct slice){name, (size_t)key_name(name, key)}, run->now);
    if (!item)
        return;
    value = fixture_value(t->local, item);
    version = check_value(value, item_nvalue(t->local, item), key);
    if (version == 0) {
        run->wrong++;
        diag("key %u has %.60s", key, value);
    } else if (version < acked || version <= dead) {
        run->stale++;
        diag("key %u: version %lu, acknowledged %lu, flushed %lu", key, version, acked, dead);
    }
    run->nread++;
    free(value);
    store_put(t->local, item);
}

static void write_key(struct thread *t, unsigned int key, unsigned int verb)
{
    struct run *run = t->run;
    uint64_t version = run->acked[key] + 1;
    rel_time now = run->now, expiry = verb == 1 ? now + 1 : 0;
    char name[32], value[LONGEST + 128];
    struct slice slice = {name, (size_t)key_name(name, key)};
    size_t length = draw(t) % (draw(t) % 16 == 0 ? LONGEST : 100);
    struct slice bytes = {value, (size_t)make_value(value, key, version, length)};
    enum store_result result = STORE_DONE;
    static const enum store_mode modes[] = {STORE_SET, STORE_SET, STORE_REPLACE, STORE_ADD,
                                            STORE_PREPEND};

    if (verb == 5)
        store_delete(t->local, slice, 0, now);
    else if (verb == 6)
        result = store_touch(t->local, slice, 0, now);
    else
        result = fixture_store(t->local, modes[verb], slice, bytes, expiry, 0, now, NULL);
    if (verb == 6)
        return;
    if (result == STORE_DONE)
        run->acked[key] = version;
    else if (result != STORE_NOT_STORED && !(run->evicts && result == STORE_NO_MEMORY))
        run->wrong++;
    /* Reads a value just stored without expiry, which is there unless a flush came between. */
    if (!run->evicts && verb == 0) {
        struct mc_item *item = store_get(t->local, slice, now);

        if (item)
            store_put(t->local, item);
        else if (run->nflushes == 0)
            run->lost++;
    }
}

static void count_up(struct thread *t)
{
    static const struct store_delta up = {.delta = 1, .create = true, .initial = 1};
    unsigned int which = draw(t) % NCOUNTERS;
    char name[32];
    uint64_t value;
    int n = snprintf(name, sizeof(name), "counter-%u", which);

    if (store_arith(t->local, (struct slice){name, (size_t)n}, &up, t->run->now, &value, NULL) ==
        STORE_DONE)
        t->run->counted[which]++;
}

static void *writer(void *context)
{
    struct thread *t = context;
    struct run *run = t->run;

    for (unsigned int i = 0; i < NOPS * run->scale; i++) {
        unsigned int verb = draw(t) % 32;
        unsigned int key = draw(t) % NKEYS;

        if (verb >= 8)
            read_key(t, key);
        else if (verb == 7)
            count_up(t);
        else
            write_key(t, key / NWRITERS * NWRITERS + t->number, verb);
    }
    return NULL;
}

/* Flushes, and advances the clock so that items expire. */
static void *flusher(void *context)
{
    struct thread *t = context;
    struct run *run = t->run;
    static uint64_t before[NKEYS];
    uint64_t next = 0;

    while (!run->stop) {
        usleep(100);
        if (run->nread < next)
            continue;
        next = run->nread + READS_BETWEEN;
        run->now++;
        if (!run->evicts)
            continue;
        for (unsigned int key = 0; key < NKEYS; key++)
            before[key] = run->acked[key];
        run->nflushes++;
        store_flush(t->local, 0, run->now);
        for (unsigned int key = 0; key < NKEYS; key++)
            run->dead[key] = before[key];
    }
    return NULL;
}

/* Moves pages from any class to any class, and changes the memory limit. */
static void *reassigner(void *context)
{
    struct thread *t = context;
    struct store *store = t->run->f.store;
    int n = (int)store_nclasses(store);

    while (!t->run->stop) {
        int from = (int)(draw(t) % (unsigned int)(n + 2)) - 1;
        int to = (int)(draw(t) % (unsigned int)(n + 1));

        /* A page that a class got stays there, so that other classes lack it where nothing is
         * evicted. */
        store_reassign(store, from, t->run->evicts ? to : 0);
        store_set_automove(store, (unsigned int)(draw(t) % 3));
        if (t->run->evicts && draw(t) % 16 == 0)
            store_set_memory_limit(store, (8 + draw(t) % 32) << 20);
        usleep(100);
    }
    return NULL;
}

static void start(struct thread *t, void *(*body)(void *))
{
    t->local = store_local_new(t->run->f.store);
    t->random = 88172645463325252ull + t->number * 7919;
    if (!t->local || pthread_create(&t->id, NULL, body, t) != 0)
        abort();
}

static void finish(struct thread *t)
{
    pthread_join(t->id, NULL);
    store_local_free(t->local);
}

/* Whether each counter has the sum of all threads' increments. */
static bool counters_agree(struct run *run)
{
    bool agree = true;

    for (unsigned int i = 0; i < NCOUNTERS; i++) {
        char name[32], want[32];

        snprintf(name, sizeof(name), "counter-%u", i);
        snprintf(want, sizeof(want), "%lu", run->counted[i]);
        agree &= run->counted[i] == 0 || fixture_has(&run->f, name, want, run->now);
    }
    return agree;
}

static void report(struct run *run)
{
    struct store_stats stats;

    store_stats(run->f.store, &stats);
    diag(
        "%lu values read, %lu flushes, %lu items, %lu evicted, %lu reclaimed, %lu swept, %lu bytes "
        "of table, %lu pages moved, %lu items and %lu parts with them, %lu busy",
        run->nread, run->nflushes, stats.curr_items, stats.evictions, stats.reclaimed,
        stats.crawler_reclaimed, stats.hash_bytes, stats.slabs_moved, stats.slab_reassign_rescues,
        stats.slab_reassign_chunk_rescues, stats.slab_reassign_busy_items);
}

static void execute(struct run *run, const struct store_config *config)
{
    struct thread writers[NWRITERS], flushes = {.run = run, .number = NWRITERS};
    struct thread pages = {.run = run, .number = NWRITERS + 1};

    fixture_open(&run->f, config);
    run->now = NOW;
    store_maintainer_start(run->f.store);
    store_mover_start(run->f.store);
    start(&flushes, flusher);
    start(&pages, reassigner);
    for (unsigned int i = 0; i < NWRITERS; i++) {
        writers[i] = (struct thread){.run = run, .number = i};
        start(&writers[i], writer);
    }
    for (unsigned int i = 0; i < NWRITERS; i++)
        finish(&writers[i]);
    run->stop = true;
    finish(&flushes);
    finish(&pages);
    store_mover_stop(run->f.store);
    store_maintainer_stop(run->f.store);
    report(run);
}

static void test_roomy(unsigned int scale)
{
    static struct run run;
    struct store_config config;

    run.scale = scale;
    fixture_defaults(&config);
    config.hashpower = 12;
    config.evict = false;
    config.chunk_max = CHUNK_MAX;
    execute(&run, &config);
    ok(run.wrong == 0, "with room for all: every value is as it was stored");
    ok(run.stale == 0, "no value is older than an acknowledged write");
    ok(run.lost == 0, "no stored value is missing");
    ok(counters_agree(&run), "no incr was lost");
    fixture_close(&run.f);
}

enum how { FLAT, SEGMENTED, S3_FIFO };

static void test_tight(unsigned int scale, enum how chosen)
{
    static const char *const names[] = {"flat", "segmented", "S3-FIFO"};
    static struct run runs[3];
    struct run *run = &runs[chosen];
    const char *how = names[chosen];
    struct store_config config;

    run->scale = scale;
    run->evicts = true;
    fixture_defaults(&config);
    config.memory_limit = 1 << 20;
    config.growth_factor = 4;
    config.hashpower = 12;
    config.chunk_max = CHUNK_MAX;
    config.tuning.lru_segmented = config.tuning.temp = chosen != FLAT;
    config.s3_fifo = chosen == S3_FIFO;
    execute(run, &config);
    ok(run->wrong == 0, "%s, evicting and flushing: every value is as it was stored", how);
    ok(run->stale == 0, "%s: no value is older than an acknowledged write or flush", how);
    fixture_close(&run->f);
}

int main(void)
{
    const char *stress = getenv("STORE_STRESS");
    unsigned int scale = stress ? (unsigned int)atoi(stress) : 1;

    test_roomy(scale ? scale : 1);
    for (enum how how = FLAT; how <= S3_FIFO; how++)
        test_tight(scale ? scale : 1, how);
    return done();
}
