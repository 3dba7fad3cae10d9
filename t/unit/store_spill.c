/* SPDX-License-Identifier: BSD-3-Clause */
/* Which values the spill thread writes to flash. */
#include <unistd.h>

#include "store/external.h"
#include "t/unit/store_fixture.h"

enum { NOW = 100, AGE = 10, LATER = NOW + 100, PAGE = 4 << 20 };

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

    snprintf(lab->file, sizeof(lab->file), "/tmp/store-spill-%d", getpid());
    lab->flash = flash_open(&flash, error, sizeof(error));
    if (!lab->flash || flash_start(lab->flash) != 0) {
        printf("Bail out! no flash store: %s\n", error);
        exit(1);
    }
    fixture_defaults(&config);
    config.flash = lab->flash;
    config.lru_segmented = false;
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

    return item_is_external(find(lab, key, &spot));
}

int main(void)
{
    struct lab lab;

    open_lab(&lab);
    put(&lab, "idle");
    put(&lab, "served");
    spill_round(lab.f.store, NOW + AGE - 1);
    ok(!is_on_flash(&lab, "idle"), "a value stays in memory until it is old");
    serve_in_kernel(&lab, "served");
    spill_round(lab.f.store, LATER);
    ok(is_on_flash(&lab, "idle"), "an old value that nobody reads goes to flash");
    ok(!is_on_flash(&lab, "served"), "one that the kernel serves stays in memory");
    close_lab(&lab);
    return done();
}
