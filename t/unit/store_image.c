/* SPDX-License-Identifier: BSD-3-Clause */
/* One store leaves its items in a file, the next store takes them over; damage costs only the
 * damaged items. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memfile.h"
#include "store/internal.h"
#include "store/store_stats.h"
#include "t/unit/store_fixture.h"

enum { SMALL = 3000, LARGE = 12, LARGE_BYTES = 1200000, MUTATIONS = 60, NOW = 100 };
enum { FORGED_BYTES = 300000 };

struct kept {
    char path[80];
    void *image;
    size_t nimage;
    uint32_t chunk_max;
};

static void config_of(struct store_config *config, const struct kept *kept)
{
    fixture_defaults(config);
    config->memory_limit = 24 << 20;
    config->item_max = 4 << 20;
    config->chunk_max = kept->chunk_max;
    config->image = (struct slice){kept->image, kept->nimage};
}

/* In memory, if there is a tmpfs. */
static const char *directory(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static void bail_out(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

/* Returns NULL, or why the store cannot be made. */
static const char *open_store(struct fixture *f, const struct store_config *config,
                              const struct kept *kept)
{
    const char *error = NULL;

    f->provider = memfile_open(kept->path, NULL);
    if (!f->provider)
        bail_out("no file");
    f->store = store_new(config, f->provider, &error);
    f->local = f->store ? store_local_new(f->store) : NULL;
    return f->store ? NULL : error;
}

static void close_store(struct fixture *f, struct kept *kept)
{
    store_local_free(f->local);
    if (kept) {
        free(kept->image);
        if (store_save(f->store, NOW, &kept->image, &kept->nimage) != 0)
            bail_out("no memory for the image");
    }
    store_free(f->store);
    memfile_close(f->provider);
}

static char *large_value(int i)
{
    char *value = malloc(LARGE_BYTES + 1);

    memset(value, 'a' + i, LARGE_BYTES);
    value[LARGE_BYTES] = '\0';
    return value;
}

static void fill(struct fixture *f)
{
    char key[32], value[64];

    for (int i = 0; i < SMALL; i++) {
        snprintf(key, sizeof(key), "small%d", i);
        snprintf(value, sizeof(value), "value of %d", i);
        fixture_set(f, key, value, NOW);
    }
    for (int i = 0; i < LARGE; i++) {
        char *text = large_value(i);

        snprintf(key, sizeof(key), "large%d", i);
        fixture_set(f, key, text, NOW);
        free(text);
    }
    for (int i = 0; i < SMALL; i += 3) {
        snprintf(key, sizeof(key), "small%d", i);
        store_delete(f->local, fixture_slice(key), 0, NOW);
    }
    store_touch(f->local, fixture_slice("small1"), NOW + 5, NOW);
}

/* Whether each of the keys has its value. */
static bool all_there(struct fixture *f)
{
    char key[32], value[64];
    bool good = true;

    for (int i = 0; i < SMALL && good; i++) {
        snprintf(key, sizeof(key), "small%d", i);
        snprintf(value, sizeof(value), "value of %d", i);
        good = fixture_has(f, key, i % 3 ? value : NULL, NOW);
    }
    for (int i = 0; i < LARGE && good; i++) {
        char *text = large_value(i);

        snprintf(key, sizeof(key), "large%d", i);
        good = fixture_has(f, key, text, NOW);
        free(text);
    }
    return good;
}

static void make(struct kept *kept)
{
    struct store_config config;
    struct fixture f;

    config_of(&config, kept);
    open_store(&f, &config, kept);
    fill(&f);
    close_store(&f, kept);
}

static void test_taken_over(struct kept *kept)
{
    struct store_stats before, after;
    struct store_class_stats class;
    struct store_config config;
    uint64_t cas = 0, number = 0;
    struct fixture f;

    config_of(&config, kept);
    open_store(&f, &config, kept);
    store_stats(f.store, &before);
    ok(before.curr_items == SMALL - SMALL / 3 + LARGE, "all items are counted");
    ok(all_there(&f), "each stored key has its value, and the deleted keys have none");
    for (unsigned int i = 1; i <= store_nclasses(f.store); i++) {
        store_class_stats(f.store, i, NOW, &class);
        number += class.number;
    }
    ok(number == before.curr_items, "the LRU lists have as many items");
    ok(fixture_has(&f, "small1", NULL, NOW + 5) && fixture_has(&f, "small2", "value of 2", NOW + 5),
       "expiries are kept");
    fixture_store(f.local, STORE_SET, fixture_slice("new"), fixture_slice("x"), 0, 0, NOW, &cas);
    ok(cas > SMALL + LARGE, "CAS ids continue");
    fixture_store(f.local, STORE_SET, fixture_slice("small1"), fixture_slice("value of 1"), 0, 0,
                  NOW, NULL);
    store_delete(f.local, fixture_slice("new"), 0, NOW);
    close_store(&f, kept);
    open_store(&f, (config_of(&config, kept), &config), kept);
    store_stats(f.store, &after);
    ok(after.curr_items == before.curr_items && after.bytes == before.bytes && all_there(&f),
       "a second takeover keeps the same items");
    store_flush(f.local, 0, NOW);
    close_store(&f, kept);
    open_store(&f, (config_of(&config, kept), &config), kept);
    ok(fixture_has(&f, "small2", NULL, NOW) && fixture_has(&f, "large2", NULL, NOW),
       "flushed items stay flushed");
    fixture_store(f.local, STORE_SET, SLICE("late"), SLICE("x"), 0, 0, NOW, NULL);
    for (unsigned int i = 0; i < 300; i++)
        store_flush(f.local, 0, NOW);
    fixture_store(f.local, STORE_SET, SLICE("last"), SLICE("y"), 0, 0, NOW, NULL);
    close_store(&f, kept);
    open_store(&f, (config_of(&config, kept), &config), kept);
    ok(fixture_has(&f, "last", "y", NOW) && fixture_has(&f, "late", NULL, NOW) &&
           fixture_has(&f, "small3", NULL, NOW),
       "flushed items stay flushed after many flushes");
    number = 0;
    for (unsigned int i = 0; i < 600; i++) {
        store_flush(f.local, 0, NOW);
        number += !fixture_has(&f, "last", NULL, NOW) || !fixture_has(&f, "small4", NULL, NOW);
    }
    ok(number == 0, "further flushes remove all items");
    close_store(&f, NULL);
}

static void test_mismatch(struct kept *kept)
{
    struct store_config config;
    struct fixture f;
    const char *why;

    config_of(&config, kept);
    config.memory_limit *= 2;
    why = open_store(&f, &config, kept);
    ok(why && errno == ESTALE, "another memory limit is refused: %s", why ? why : "accepted");
    memfile_close(f.provider);
    config_of(&config, kept);
    config.growth_factor = 1.5;
    why = open_store(&f, &config, kept);
    ok(why && errno == ESTALE, "other slab classes are refused: %s", why ? why : "accepted");
    memfile_close(f.provider);
    config_of(&config, kept);
    config.cas = false;
    why = open_store(&f, &config, kept);
    ok(why && errno == ESTALE, "a change of -C is refused: %s", why ? why : "accepted");
    memfile_close(f.provider);
    config_of(&config, kept);
    config.image.len--;
    why = open_store(&f, &config, kept);
    ok(why && errno == ESTALE, "a short image is refused: %s", why ? why : "accepted");
    memfile_close(f.provider);
    ((char *)kept->image)[200] ^= 1;
    config_of(&config, kept);
    why = open_store(&f, &config, kept);
    ok(why && errno == ESTALE, "a damaged image is refused: %s", why ? why : "accepted");
    memfile_close(f.provider);
    ((char *)kept->image)[200] ^= 1;
}

/* --- damage -------------------------------------------------------------- */

static uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

/* Changes bytes of the file, near the start of chunks, where the headers are. */
static void damage(const char *path, uint64_t *state)
{
    int fd = open(path, O_RDWR);
    struct stat stat;

    if (fd < 0 || fstat(fd, &stat) != 0)
        bail_out("no file");
    for (unsigned int n = 1 + (unsigned int)random_next(state) % 64; n > 0; n--) {
        off_t page = 1 + (off_t)(random_next(state) % (uint64_t)(stat.st_size / MC_PAGE_BYTES - 1));
        off_t at = page * MC_PAGE_BYTES + (off_t)(random_next(state) % 100) * 96 +
                   (off_t)(random_next(state) % 56);
        uint64_t bytes = random_next(state) << 16 ^ random_next(state);
        size_t width = (size_t)1 << random_next(state) % 4;

        if (pwrite(fd, &bytes, width, at) != (ssize_t)width)
            bail_out("cannot write");
    }
    close(fd);
}

/* Follows every reference in an item's bytes. */
static void use(struct fixture *f)
{
    char key[32], value[3000];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    for (int i = 0; i < SMALL; i++) {
        struct mc_item *item;

        snprintf(key, sizeof(key), "%s%d", i < LARGE ? "large" : "small", i);
        item = store_get(f->local, fixture_slice(key), NOW);
        if (item) {
            free(fixture_value(f->local, item));
            store_put(f->local, item);
        }
        value[i] = '\0';
        fixture_set(f, key, value, NOW);
        value[i] = 'v';
    }
    for (int i = 0; i < 20; i++) {
        char *text = large_value(i);

        snprintf(key, sizeof(key), "more%d", i);
        fixture_set(f, key, text, NOW);
        free(text);
    }
    store_flush(f->local, 0, NOW);
}

static bool copy_file(const char *from, const char *to)
{
    char command[200];

    snprintf(command, sizeof(command), "cp --sparse=always %s %s", from, to);
    return system(command) == 0;
}

static void test_damage(const struct kept *kept)
{
    struct kept copy = *kept;
    uint64_t state = 20261121, nitems = 0;

    snprintf(copy.path, sizeof(copy.path), "%s/store_image.%d.copy", directory(), (int)getpid());
    for (int i = 0; i < MUTATIONS; i++) {
        struct store_config config;
        struct store_stats stats;
        struct fixture f;

        if (!copy_file(kept->path, copy.path))
            bail_out("cannot copy");
        damage(copy.path, &state);
        config_of(&config, &copy);
        if (open_store(&f, &config, &copy))
            bail_out("a sound image is refused");
        store_stats(f.store, &stats);
        nitems += stats.curr_items;
        use(&f);
        close_store(&f, NULL);
    }
    ok(nitems > (uint64_t)MUTATIONS * SMALL / 3,
       "%d damaged files: the store is made and has most of the items", MUTATIONS);
    unlink(copy.path);
}

/* --- an item that is left out ---------------------------------------------- */

/* Gives an item in the file the key of another, of the same length. */
static void rename_key(const char *path, const char *key, const char *to)
{
    int fd = open(path, O_RDWR);
    struct stat stat;
    char *bytes, *at;

    if (fd < 0 || fstat(fd, &stat) != 0)
        bail_out("no file");
    bytes = malloc((size_t)stat.st_size);
    if (!bytes || pread(fd, bytes, (size_t)stat.st_size, 0) != stat.st_size)
        bail_out("cannot read");
    at = memmem(bytes, (size_t)stat.st_size, key, strlen(key));
    if (!at || pwrite(fd, to, strlen(to), at - bytes) != (ssize_t)strlen(to))
        bail_out("no key");
    free(bytes);
    close(fd);
}

/* Stores two large items; in pages of lower numbers than they have themselves lie their values. */
static void fill_backwards(struct fixture *f)
{
    char key[200], *text = large_value(0);

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        key[0] = (char)('0' + i);
        fixture_set(f, key, text, NOW);
    }
    for (int i = 0; i < 2; i++) {
        key[0] = (char)('0' + i);
        store_delete(f->local, fixture_slice(key), 0, NOW);
    }
    fixture_set(f, "double0", text, NOW);
    fixture_set(f, "double1", text, NOW);
    free(text);
}

static uint64_t used_chunks(struct fixture *f)
{
    struct store_class_stats class;
    uint64_t n = 0;

    for (unsigned int i = 1; i <= store_nclasses(f->store); i++) {
        store_class_stats(f->store, i, NOW, &class);
        n += class.used_chunks;
    }
    return n;
}

/* Two items of one key: as when there is no memory for the bucket of one. */
static void test_left_out(void)
{
    struct kept kept = {.chunk_max = 512 << 10};
    struct store_config config;
    struct fixture f;
    uint64_t before;
    char *text;

    snprintf(kept.path, sizeof(kept.path), "%s/store_image.%d", directory(), (int)getpid());
    config_of(&config, &kept);
    open_store(&f, &config, &kept);
    fill_backwards(&f);
    before = used_chunks(&f);
    close_store(&f, &kept);
    rename_key(kept.path, "double1", "double0");
    config_of(&config, &kept);
    open_store(&f, &config, &kept);
    text = large_value(0);
    ok(fixture_has(&f, "double0", text, NOW), "one of two items with the same key is taken over");
    ok(used_chunks(&f) == before / 2, "the chunks of the other one's value are free, too");
    free(text);
    close_store(&f, NULL);
    unlink(kept.path);
    free(kept.image);
}

/*
 * Stores items that are the first of their page, and in their values, where a smaller class has a
 * chunk, the bytes of an item of another key.
 */
static void fill_forging(struct fixture *f, const struct mc_item *item)
{
    uint32_t size = f->store->slabs.classes[lru_class_of(item)].size;
    size_t nhead = MC_ITEM_HEADER + sizeof("big0 7 300000\r\n") - 1;
    size_t at = (FORGED_BYTES / 2 + size - 1) / size * size - nhead;
    char *value = malloc(FORGED_BYTES), key[] = "big0";

    memset(value, 'v', FORGED_BYTES);
    memcpy(value + at, item, size);
    value[at + offsetof(struct mc_item, wire)] = 'K';
    for (; key[3] < '4'; key[3]++)
        fixture_store(f->local, STORE_SET, fixture_slice(key), (struct slice){value, FORGED_BYTES},
                      0, 0, NOW, NULL);
    free(value);
}

static struct mc_item *item_of(struct fixture *f, const char *key)
{
    struct slice name = fixture_slice(key);
    struct table_spot spot;

    return table_find(&f->store->table, hash_key(f->store->control, name), name, &spot);
}

/* Where a page that was another class's has not given out chunks, it has that one's bytes. */
static void test_unused_chunks(void)
{
    struct kept kept = {.chunk_max = 512 << 10};
    struct store_config config;
    struct mc_item *item;
    struct fixture f;

    snprintf(kept.path, sizeof(kept.path), "%s/store_image.%d", directory(), (int)getpid());
    config_of(&config, &kept);
    open_store(&f, &config, &kept);
    fixture_set(&f, "known", "value", NOW);
    item = item_of(&f, "known");
    fill_forging(&f, item);
    ok(mover_ask(f.store, lru_class_of(item_of(&f, "big0")), lru_class_of(item)),
       "a page of large items is asked for");
    for (int i = 0; i < 10000 && f.store->mover.job; i++)
        mover_step(f.store, NOW);
    ok(f.store->mover.counts.moved == 1, "it goes to a class of small ones");
    ok(fixture_has(&f, "Known", NULL, NOW), "what stands in its values is no item");
    close_store(&f, &kept);
    config_of(&config, &kept);
    open_store(&f, &config, &kept);
    ok(fixture_has(&f, "known", "value", NOW), "the items are taken over");
    ok(fixture_has(&f, "Known", NULL, NOW), "what stood in values that are gone is not");
    close_store(&f, NULL);
    unlink(kept.path);
    free(kept.image);
}

static void test_chunks(uint32_t chunk_max)
{
    struct kept kept = {.image = NULL, .chunk_max = chunk_max};

    diag("chunks of at most %u bytes", chunk_max);
    snprintf(kept.path, sizeof(kept.path), "%s/store_image.%d", directory(), (int)getpid());
    make(&kept);
    test_damage(&kept);
    test_mismatch(&kept);
    test_taken_over(&kept);
    unlink(kept.path);
    free(kept.image);
}

int main(void)
{
    test_chunks(512 << 10);
    test_chunks(1 << 10); /* too small for the references of the large items */
    test_left_out();
    test_unused_chunks();
    return done();
}
