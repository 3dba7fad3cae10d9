/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each instruction of a change, seen by readers that know only bpf/shared/layout.h: they find the
 * state before the change or the state behind it, never a miss of a key that is stored all the
 * time, and never the old state after the new one.
 */
#include "store/store_mover.h"
#include "t/unit/steps.h"

enum {
    NOW = 100,
    NBUCKETS = 512, /* of the table at the start */
    FILMED = 4,     /* buckets from 0 and from NBUCKETS on */
    NKEYS = 20,     /* which hash into bucket 0: a chain of three */
    CHUNK = 16000,  /* so that a page has few chunks */
    NSAMPLES = 200000,
};

struct bed {
    struct shared shared;
    struct fixture f;
    struct film film;
    char names[NKEYS][16];
    rel_time now; /* of the change and of its readers */
};

/* The next key, from `*number` on, that lies in bucket 0 of NBUCKETS. */
static void name_key(struct bed *bed, char out[16], unsigned int *number)
{
    do
        snprintf(out, 16, "key-%u", (*number)++);
    while (hash_key(bed->shared.control, fixture_slice(out)) % NBUCKETS != 0);
}

static struct slice key_at(struct bed *bed, unsigned int i)
{
    return fixture_slice(bed->names[i]);
}

static void set_key(struct bed *bed, unsigned int i, const char *value, rel_time expiry)
{
    fixture_store(bed->f.local, STORE_SET, key_at(bed, i), fixture_slice(value), expiry, 0, NOW,
                  NULL);
}

static void open_bed(struct bed *bed)
{
    struct store_config config;
    const char *error = "";
    unsigned int number = 0;

    memset(bed, 0, sizeof(*bed));
    shared_init(&bed->shared);
    fixture_defaults(&config);
    config.hashpower = TABLE_MIN_POWER;
    config.expand = false;
    config.tuning.lru_segmented = false;
    config.chunk_min = CHUNK;
    config.memory_limit = 16 << 20;
    bed->f.provider = &bed->shared.provider;
    bed->f.store = store_new(&config, bed->f.provider, &error);
    bed->f.local = bed->f.store ? store_local_new(bed->f.store) : NULL;
    if (!bed->f.local) {
        printf("Bail out! %s\n", error);
        exit(1);
    }
    bed->now = NOW;
    for (unsigned int i = 0; i < NKEYS; i++)
        name_key(bed, bed->names[i], &number);
}

/* The first `n` keys, each with a value and an expiry of its own. */
static void fill(struct bed *bed, unsigned int n)
{
    char value[32];

    for (unsigned int i = 0; i < n; i++) {
        snprintf(value, sizeof(value), "value-%u", i);
        set_key(bed, i, value, i % 2 ? 1000 + i : 0);
    }
}

static void open_filled(struct bed *bed, unsigned int n)
{
    open_bed(bed);
    fill(bed, n);
}

static void close_bed(struct bed *bed)
{
    free(bed->film.frames);
    store_local_free(bed->f.local);
    store_free(bed->f.store);
    munmap(bed->shared.control, sizeof(*bed->shared.control));
}

/* Selects the recorded memory: the buckets, and the beginning of each chunk of the first pages. */
static void set_windows(struct bed *bed)
{
    struct shared *shared = &bed->shared;
    struct store *store = bed->f.store;
    struct slab_class *class = &store->slabs.classes[1];

    film_window(&bed->film, shared->control, 64, 64, 1);
    film_window(&bed->film, shared->buckets, sizeof(struct mc_bucket), sizeof(struct mc_bucket),
                FILMED);
    film_window(&bed->film, shared->buckets + NBUCKETS, sizeof(struct mc_bucket),
                sizeof(struct mc_bucket), FILMED);
    film_window(&bed->film, shared->overflow, sizeof(struct mc_bucket), sizeof(struct mc_bucket),
                8);
    for (unsigned int page = 0; page < 4; page++)
        film_window(&bed->film, shared->heap + page * MC_PAGE_BYTES, 128, class->size,
                    class->per_page);
}

/* --- what readers find -------------------------------------------------------- */

/* A reader that makes every load before `cut` from frame i, and the others from frame j. */
static struct seen look(struct bed *bed, unsigned int key, const unsigned int frames[CUTS + 1],
                        const unsigned int cuts[CUTS], unsigned int *nloads)
{
    struct reader reader = {.shared = &bed->shared,
                            .film = &bed->film,
                            .ref_shift = bed->f.store->heap.ref_shift,
                            .now = bed->now};
    struct seen seen;

    memcpy(reader.frames, frames, sizeof(reader.frames));
    memcpy(reader.cuts, cuts, sizeof(reader.cuts));
    seen = reader_look(&reader, key_at(bed, key));
    if (nloads)
        *nloads = reader.nloads;
    return seen;
}

static struct seen look_at(struct bed *bed, unsigned int key, unsigned int frame)
{
    return look(bed, key, (unsigned int[]){frame, frame, frame}, (unsigned int[]){0, 0}, NULL);
}

/* What readers of a key may find. */
struct course {
    struct seen before, after;
    unsigned int
        moved; /* the first frame in which a reader has found the state behind the change */
};

static struct course course_of(struct bed *bed, unsigned int key, unsigned int *nwrong)
{
    unsigned int last = bed->film.nframes - 1;
    struct course course = {look_at(bed, key, 0), look_at(bed, key, last), last};

    for (unsigned int i = last; i > 0; i--) {
        struct seen seen = look_at(bed, key, i);

        if (seen.what != SIGHT_PASS && seen_same(&seen, &course.after))
            course.moved = i;
    }
    *nwrong += bed->film.nframes < 2;
    return course;
}

/* Whether a reader that began in `frame` may have found it. */
static bool is_right(const struct course *course, const struct seen *seen, unsigned int frame)
{
    return seen->what == SIGHT_PASS || seen_same(seen, &course->after) ||
           (frame < course->moved && seen_same(seen, &course->before));
}

static void complain(struct bed *bed, unsigned int key, const struct seen *seen,
                     const unsigned int frames[CUTS + 1], const unsigned int cuts[CUTS])
{
    diag("%s: %s %.*s, expires %u: frames %u, %u, %u of %u, from loads %u, %u on", bed->names[key],
         seen->what == SIGHT_MISS ? "a miss" : "a hit",
         seen->what == SIGHT_HIT ? (int)seen->nvalue : 0, seen->value, seen->exptime, frames[0],
         frames[1], frames[2], bed->film.nframes, cuts[0], cuts[1]);
}

static unsigned int judge(struct bed *bed, unsigned int key, const struct course *course,
                          const unsigned int frames[CUTS + 1], const unsigned int cuts[CUTS])
{
    struct seen seen = look(bed, key, frames, cuts, NULL);

    if (is_right(course, &seen, frames[0]))
        return 0;
    complain(bed, key, &seen, frames, cuts);
    return 1;
}

static unsigned int pick(uint64_t *random, unsigned int from, unsigned int to)
{
    *random = *random * 6364136223846793005ull + 1442695040888963407ull;
    return from + (unsigned int)(*random >> 33) % (to - from + 1);
}

/*
 * Readers that stop once: between any two loads, from the frame before the change to any other. And
 * readers that stop twice, a sample of all that there are.
 */
static unsigned int judge_key(struct bed *bed, unsigned int key)
{
    unsigned int last = bed->film.nframes - 1, nwrong = 0, nloads;
    struct course course = course_of(bed, key, &nwrong);
    uint64_t random = key;

    look(bed, key, (unsigned int[]){0, 0, 0}, (unsigned int[]){0, 0}, &nloads);
    for (unsigned int i = 0; i <= last && nwrong == 0; i++) {
        for (unsigned int cut = 0; cut < nloads; cut++)
            nwrong += judge(bed, key, &course, (unsigned int[]){0, i, i},
                            (unsigned int[]){cut, LOADS_MOST});
    }
    for (unsigned int i = 0; i < NSAMPLES / NKEYS && nwrong == 0; i++) {
        unsigned int a = pick(&random, 0, last), b = pick(&random, a, last);
        unsigned int c = pick(&random, b, last), cut = pick(&random, 0, nloads);

        nwrong += judge(bed, key, &course, (unsigned int[]){a, b, c},
                        (unsigned int[]){cut, pick(&random, cut, nloads + 4)});
    }
    return nwrong;
}

/* Records a change and reads all keys; those from `n` on are not stored. */
static void test_change(struct bed *bed, void (*change)(void *), unsigned int n, const char *name)
{
    unsigned int nwrong = 0;
    bool whole;

    set_windows(bed);
    whole = film_shoot(&bed->film, change, bed);
    for (unsigned int i = 0; i < n; i++)
        nwrong += judge_key(bed, i);
    diag("%u steps, %u frames", bed->film.nsteps, bed->film.nframes);
    ok(whole && bed->film.nframes > 1 && nwrong == 0,
       "%s: readers find the old state or the new one", name);
}

/* Whether a key has this value behind the change; NULL: none. */
static bool becomes(struct bed *bed, unsigned int key, const char *value, rel_time expiry)
{
    struct seen seen = look_at(bed, key, bed->film.nframes - 1);

    if (!value)
        return seen.what == SIGHT_MISS;
    return seen.what == SIGHT_HIT && seen.nvalue == strlen(value) + 2 && seen.exptime == expiry &&
           memcmp(seen.value, value, strlen(value)) == 0;
}

/* Whether all keys but `key` have the values of open_filled. */
static bool others_stay(struct bed *bed, unsigned int n, unsigned int key)
{
    char value[32];
    bool same = true;

    for (unsigned int i = 0; i < n; i++) {
        snprintf(value, sizeof(value), "value-%u", i);
        same &= i == key || becomes(bed, i, value, i % 2 ? 1000 + i : 0);
    }
    return same;
}

/* --- changes ---------------------------------------------------------------------- */

static void split(void *context)
{
    struct bed *bed = context;

    table_presize(&bed->f.store->table, NBUCKETS + 1);
}

static void test_split(void)
{
    static const unsigned int counts[] = {3, 8, 9, 17, NKEYS};
    struct bed bed;

    for (size_t i = 0; i < COUNT(counts); i++) {
        unsigned int n = counts[i], nmoved = 0;

        open_filled(&bed, n);
        for (unsigned int k = 0; k < n; k++)
            nmoved += hash_key(bed.shared.control, key_at(&bed, k)) / NBUCKETS % 2;
        test_change(&bed, split, n, "a split");
        ok(others_stay(&bed, n, n) && bed.shared.control->nbuckets == NBUCKETS + 1,
           "all %u keys are found after the split, %u of them in the new bucket", n, nmoved);
        close_bed(&bed);
    }
}

static void insert_first(void *context)
{
    set_key(context, 0, "new", 0);
}

static void insert_in_new_bucket(void *context)
{
    set_key(context, 8, "new", 5000);
}

static void replace_third(void *context)
{
    set_key(context, 3, "another", 3000);
}

static void delete_third(void *context)
{
    struct bed *bed = context;

    store_delete(bed->f.local, key_at(bed, 3), 0, bed->now);
}

static void delete_and_reuse(void *context)
{
    delete_third(context);
    set_key(context, 12, "in the same chunk", 0);
}

static void touch_third(void *context)
{
    struct bed *bed = context;

    store_touch(bed->f.local, key_at(bed, 3), 50000, bed->now);
}

static void append_third(void *context)
{
    struct bed *bed = context;

    fixture_store(bed->f.local, STORE_APPEND, key_at(bed, 3), SLICE("-more"), 0, 0, bed->now, NULL);
}

static void test_writes(void)
{
    struct bed bed;

    open_filled(&bed, 0);
    test_change(&bed, insert_first, NKEYS, "a first key");
    ok(becomes(&bed, 0, "new", 0), "the key has its value");
    close_bed(&bed);
    open_filled(&bed, 8);
    test_change(&bed, insert_in_new_bucket, NKEYS, "a key in a new overflow bucket");
    ok(becomes(&bed, 8, "new", 5000) && others_stay(&bed, 8, 8),
       "the key and the others have their values");
    close_bed(&bed);
    open_filled(&bed, 12);
    test_change(&bed, replace_third, NKEYS, "a set");
    ok(becomes(&bed, 3, "another", 3000) && others_stay(&bed, 12, 3), "the key has the new value");
    close_bed(&bed);
    open_filled(&bed, 12);
    test_change(&bed, touch_third, NKEYS, "a touch");
    ok(becomes(&bed, 3, "value-3", 50000) && others_stay(&bed, 12, 3),
       "the key has the new expiry");
    close_bed(&bed);
    open_filled(&bed, 12);
    test_change(&bed, append_third, NKEYS, "an append");
    ok(becomes(&bed, 3, "value-3-more", 1003) && others_stay(&bed, 12, 3), "the value is longer");
    close_bed(&bed);
}

static void test_deletes(void)
{
    static const unsigned int counts[] = {4, 8, 9, 12, 17};
    struct bed bed;

    for (size_t i = 0; i < COUNT(counts); i++) {
        open_filled(&bed, counts[i]);
        test_change(&bed, delete_third, NKEYS, "a delete");
        ok(becomes(&bed, 3, NULL, 0) && others_stay(&bed, counts[i], 3),
           "after a delete the others of %u keys are unchanged", counts[i]);
        close_bed(&bed);
    }
    open_filled(&bed, 12);
    test_change(&bed, delete_and_reuse, NKEYS, "a delete, and a set that uses the freed memory");
    ok(becomes(&bed, 3, NULL, 0) && becomes(&bed, 12, "in the same chunk", 0),
       "the deleted key is gone and the new key has its value");
    close_bed(&bed);
}

static void count_up(void *context)
{
    struct bed *bed = context;
    uint64_t value, cas;

    store_arith(bed->f.local, key_at(bed, 3), &(struct store_delta){.delta = 1}, bed->now, &value,
                &cas);
}

static void invalidate_third(void *context)
{
    struct bed *bed = context;
    const struct store_removal how = {.invalidate = true, .touch = true, .expiry = 4000};

    store_remove(bed->f.local, key_at(bed, 3), &how, bed->now);
}

static void fetch_third(void *context)
{
    struct bed *bed = context;
    const struct store_fetch how = {.recache = true, .recache_before = 100000};
    struct store_fetched fetched;
    enum store_result result;

    store_fetch(bed->f.local, key_at(bed, 3), &how, bed->now, &fetched, &result);
}

static void test_marks(void)
{
    struct bed bed;

    open_filled(&bed, 12);
    set_key(&bed, 3, "99", 2000);
    test_change(&bed, count_up, NKEYS, "an incr");
    ok(becomes(&bed, 3, "100", 2000) && others_stay(&bed, 12, 3), "the number is incremented");
    close_bed(&bed);
    open_filled(&bed, 12);
    set_key(&bed, 3, "41", 2000);
    test_change(&bed, count_up, NKEYS, "an incr of as many digits");
    ok(becomes(&bed, 3, "42", 2000) && others_stay(&bed, 12, 3), "the number is incremented");
    close_bed(&bed);
    open_filled(&bed, 12);
    test_change(&bed, invalidate_third, NKEYS, "md with I");
    ok(look_at(&bed, 3, bed.film.nframes - 1).what == SIGHT_PASS && others_stay(&bed, 12, 3),
       "a stale value is left to the server");
    close_bed(&bed);
    open_filled(&bed, 12);
    test_change(&bed, fetch_third, NKEYS, "mg with R");
    ok(look_at(&bed, 3, bed.film.nframes - 1).what == SIGHT_PASS && others_stay(&bed, 12, 3),
       "a value that a client is to store again is left to the server");
    close_bed(&bed);
}

/* --- flushes -------------------------------------------------------------------- */

static void flush(void *context)
{
    struct bed *bed = context;

    store_flush(bed->f.local, 0, bed->now);
}

static void flush_in_a_while(void *context)
{
    struct bed *bed = context;

    store_flush(bed->f.local, NOW + 50, bed->now);
}

static void tick(void *context)
{
    struct bed *bed = context;

    store_tick(bed->f.store, bed->now);
}

static unsigned int count_hits(struct bed *bed, unsigned int frame)
{
    unsigned int n = 0;

    for (unsigned int i = 0; i < NKEYS; i++)
        n += look_at(bed, i, frame).what == SIGHT_HIT;
    return n;
}

static void test_flushes(void)
{
    struct bed bed;
    struct seen seen;
    unsigned int nhits = 0;

    open_filled(&bed, 12);
    test_change(&bed, flush, NKEYS, "a flush");
    ok(count_hits(&bed, 0) == 12 && count_hits(&bed, bed.film.nframes - 1) == 0,
       "after a flush no key is found");
    close_bed(&bed);
    open_filled(&bed, 12);
    test_change(&bed, flush_in_a_while, NKEYS, "a flush in the future");
    ok(count_hits(&bed, bed.film.nframes - 1) == 12, "before a delayed flush all keys are found");
    close_bed(&bed);
    open_filled(&bed, 12);
    store_flush(bed.f.local, NOW + 50, NOW);
    bed.now = NOW + 50;
    test_change(&bed, tick, NKEYS, "a flush whose time has come");
    for (unsigned int i = 0; i < bed.film.nframes; i++) {
        for (unsigned int j = i; j < bed.film.nframes; j++) {
            for (unsigned int cut = 0; cut < 20; cut++) {
                seen = look(&bed, 0, (unsigned int[]){i, j, j}, (unsigned int[]){cut, LOADS_MOST},
                            NULL);
                nhits += seen.what == SIGHT_HIT;
            }
        }
    }
    ok(nhits == 0, "from the second of a delayed flush on no reader finds a key");
    close_bed(&bed);
}

/* --- a page that moves ------------------------------------------------------------ */

enum { NMOVED = 6, MANY_STEPS = 10000 };

static void move_page(void *context)
{
    struct bed *bed = context;
    struct mover *mover = &bed->f.store->mover;

    for (int i = 0; i < MANY_STEPS && mover->job != 0; i++)
        mover_step(bed->f.store, bed->now);
}

/* A page with the first keys and nothing else, and a fuller one. */
static void open_pages(struct bed *bed)
{
    unsigned int npage;
    char name[32];

    open_bed(bed);
    store_flush(bed->f.local, 0, NOW); /* so that the epoch differs from that of zeroed memory */
    fill(bed, NMOVED);
    npage = bed->f.store->slabs.classes[1].per_page;
    for (unsigned int i = 0; i < npage + NMOVED; i++) {
        snprintf(name, sizeof(name), "more-%u", i);
        fixture_set(&bed->f, name, "x", NOW);
    }
    for (unsigned int i = 0; i < npage - NMOVED; i++) {
        snprintf(name, sizeof(name), "more-%u", i);
        store_delete(bed->f.local, fixture_slice(name), 0, NOW);
    }
}

static void test_move(void)
{
    unsigned int nmoved = 0;
    struct bed bed;

    open_pages(&bed);
    bed.f.store->mover.on = true;
    store_reassign(bed.f.store, 1, 0);
    test_change(&bed, move_page, NKEYS, "a page that moves");
    ok(others_stay(&bed, NMOVED, NMOVED), "values and expiries are unchanged after the move");
    for (unsigned int i = 0; i < NMOVED; i++) {
        struct seen before = look_at(&bed, i, 0), after = look_at(&bed, i, bed.film.nframes - 1);

        nmoved += seen_same(&before, &after) && before.at != after.at;
    }
    ok(nmoved == NMOVED, "the items have moved to other addresses");
    close_bed(&bed);
}

int main(void)
{
    test_split();
    test_writes();
    test_deletes();
    test_marks();
    test_flushes();
    test_move();
    return done();
}
