/* SPDX-License-Identifier: BSD-3-Clause */
/* Which values the flash writer writes to flash, and which of them compaction keeps. */
#include <unistd.h>

#include "store/flash_item.h"
#include "t/unit/store_fixture.h"

enum { NOW = 100, AGE = 10, LATER = NOW + 100, PAGE = 64 << 10, NVALUES = 150 };

struct lab {
    char file[64];
    struct flash *flash;
    struct fixture f;
};

/* A store whose values go to flash when they have not been read for AGE seconds. */
static void open_lab(struct lab *lab)
{
    struct flash_path path = {.name = lab->file, .npages = 8};
    const struct flash_config flash = {&path, 1, PAGE, PAGE, 1, 1};
    struct store_flash_rules rules;
    struct store_config config;
    char error[256];

    snprintf(lab->file, sizeof(lab->file), "/tmp/store-flash-write-%d", getpid());
    lab->flash = flash_open(&flash, error, sizeof(error));
    if (!lab->flash || flash_start(lab->flash) != 0) {
        printf("Bail out! no flash store: %s\n", error);
        exit(1);
    }
    fixture_defaults(&config);
    config.flash = lab->flash;
    config.tuning.lru_segmented = false;
    fixture_open(&lab->f, &config);
    store_flash_rules(lab->f.store, &rules);
    rules.item_age = AGE;
    store_set_flash_rules(lab->f.store, &rules);
}

static void close_lab(struct lab *lab)
{
    fixture_close(&lab->f);
    flash_close(lab->flash);
    unlink(lab->file);
}

static void put(struct lab *lab, const char *key)
{
    char value[1000];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    if (fixture_set(&lab->f, key, value, NOW) != STORE_DONE)
        ok(false, "%s is stored", key);
}

static struct mc_item *find(struct lab *lab, const char *key, struct table_spot *spot)
{
    struct store *store = lab->f.store;
    struct slice name = fixture_slice(key);

    return table_find(&store->table, hash_key(store->control, name), name, spot);
}

/* Sets the mark of a kernel program that has answered the item. */
static void serve_in_kernel(struct lab *lab, const char *key)
{
    struct table_spot spot;

    find(lab, key, &spot);
    fixture_kernel_read(spot.bucket, spot.slot);
}

static bool is_on_flash(struct lab *lab, const char *key)
{
    struct table_spot spot;

    return item_is_on_flash(find(lab, key, &spot));
}

/* --- compaction ------------------------------------------------------------ */

/* Compacts whenever it may, by these rules. */
static void set_compaction(struct lab *lab, double max_frag, bool drop_unread, uint32_t drop_under)
{
    struct store_flash_rules rules;

    store_flash_rules(lab->f.store, &rules);
    rules.max_frag = max_frag;
    rules.drop_unread = drop_unread;
    rules.drop_under = drop_under;
    rules.compact_under = UINT32_MAX;
    store_set_flash_rules(lab->f.store, &rules);
}

static const char *name_of(int i)
{
    static char key[16];

    snprintf(key, sizeof(key), "key%d", i);
    return key;
}

/* Values on flash in two full pages and more. */
static void fill(struct lab *lab)
{
    open_lab(lab);
    for (int i = 0; i < NVALUES; i++)
        put(lab, name_of(i));
    while (flash_write_round(lab->f.store, LATER) > 0)
        continue;
}

static void read_value(struct lab *lab, const char *key)
{
    struct mc_item *item = store_get(lab->f.local, fixture_slice(key), LATER);

    if (item)
        store_put(lab->f.local, item);
}

static void delete_value(struct lab *lab, const char *key)
{
    store_delete(lab->f.local, fixture_slice(key), 0, LATER);
}

static int count_there(struct lab *lab)
{
    struct table_spot spot;
    int n = 0;

    for (int i = 0; i < NVALUES; i++)
        n += find(lab, name_of(i), &spot) != NULL;
    return n;
}

static struct store_flash_stats stats_of(struct lab *lab)
{
    struct store_flash_stats stats;

    store_flash_stats(lab->f.store, &stats);
    return stats;
}

static void only_drop_unread_drops(void)
{
    struct lab lab;

    fill(&lab);
    set_compaction(&lab, 0, false, UINT32_MAX);
    ok(flash_compact_round(lab.f.store, LATER) == 0 && count_there(&lab) == NVALUES,
       "without drop_unread no page is compacted for unread values");
    set_compaction(&lab, 0, true, 0);
    ok(flash_compact_round(lab.f.store, LATER) == 0 && count_there(&lab) == NVALUES,
       "nor with it while drop_under pages are free");
    close_lab(&lab);
}

static void read_once_is_kept(void)
{
    struct store_flash_stats stats;
    struct table_spot spot;
    struct lab lab;
    int n;

    fill(&lab);
    read_value(&lab, "key0");
    set_compaction(&lab, 0, true, UINT32_MAX);
    ok(flash_compact_round(lab.f.store, LATER) == 1, "drop_unread: the oldest page is compacted");
    stats = stats_of(&lab);
    n = count_there(&lab);
    ok(stats.compact_rescues == 1 && is_on_flash(&lab, "key0"),
       "a value that was read once since it went to flash is moved");
    ok(!(find(&lab, "key0", &spot)->flags & MC_ITEM_READ), "and from then on counts as unread");
    ok(stats.compact_skipped > 10 && n == NVALUES - (int)stats.compact_skipped &&
           !find(&lab, "key1", &spot),
       "the unread ones of that page are dropped");
    ok(stats.files.page_reclaims == 1, "the page is free");
    set_compaction(&lab, 0.9, true, UINT32_MAX);
    while (flash_compact_round(lab.f.store, LATER) > 0)
        continue;
    ok(!find(&lab, name_of(n - 1), &spot), "so are those of the next pages");
    close_lab(&lab);
}

static void holes_go_first(void)
{
    struct store_flash_stats stats;
    struct lab lab;

    fill(&lab);
    for (int i = 1; i < 60; i++)
        delete_value(&lab, name_of(i));
    set_compaction(&lab, 0.9, true, UINT32_MAX);
    ok(flash_compact_round(lab.f.store, LATER) == 1, "a page with holes is compacted");
    stats = stats_of(&lab);
    ok(stats.compact_skipped == 0 && stats.compact_rescues > 0 && count_there(&lab) == NVALUES - 59,
       "nothing of it is dropped, read or not");
    ok(stats.compact_lost == 0 && is_on_flash(&lab, "key0"), "its values are moved");
    close_lab(&lab);
}

/* While somebody holds an item its place does not change under him. */
static void a_held_item_keeps_its_place(void)
{
    struct flash_at before, after;
    struct mc_item *held;
    struct table_spot spot;
    struct lab lab;

    fill(&lab);
    held = store_get(lab.f.local, fixture_slice("key0"), LATER);
    before = *flash_item_place(held);
    set_compaction(&lab, 0, true, UINT32_MAX);
    flash_compact_round(lab.f.store, LATER);
    after = *flash_item_place(held);
    ok(memcmp(&before, &after, sizeof(before)) == 0 && find(&lab, "key0", &spot) != held,
       "an item that is held while its value is moved is replaced");
    ok(is_on_flash(&lab, "key0"), "its key has the value at the new place");
    store_put(lab.f.local, held);
    close_lab(&lab);
}

/* Overwriting moves the number of a class's free chunks to and fro across one that wakes it. */
static void sets_wake_no_thread_while_there_is_room(void)
{
    enum { SETS = 800 };
    struct lab lab;
    struct store *store;
    int i;

    open_lab(&lab);
    store = lab.f.store;
    put(&lab, "first");
    flash_write_round(store, NOW);
    store->slabs.flash_writer = &store->flash_threads.write;
    for (i = 0; i < SETS && !store->flash_threads.write.woken; i++)
        put(&lab, name_of(i));
    ok(i == SETS, "while classes can get pages, no set into a page wakes the flash writer (%d)", i);
    close_lab(&lab);
}

int main(void)
{
    struct lab lab;

    open_lab(&lab);
    put(&lab, "idle");
    put(&lab, "served");
    flash_write_round(lab.f.store, NOW + AGE - 1);
    ok(!is_on_flash(&lab, "idle"), "a value stays in memory until it is old");
    serve_in_kernel(&lab, "served");
    flash_write_round(lab.f.store, LATER);
    ok(is_on_flash(&lab, "idle"), "an old value that nobody reads goes to flash");
    ok(!is_on_flash(&lab, "served"), "one that the kernel serves stays in memory");
    close_lab(&lab);
    only_drop_unread_drops();
    read_once_is_kept();
    holes_go_first();
    a_held_item_keeps_its_place();
    sets_wake_no_thread_while_there_is_room();
    return done();
}
