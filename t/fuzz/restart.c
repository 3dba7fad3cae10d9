/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store takes over a heap and an image in which the input has changed bytes: four bytes of place,
 * one of value each. What must hold: it refuses them, or serves, stores, evicts and flushes without
 * touching other memory.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "t/unit/store_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    NOW = 100,
    NKEYS = 400,
    CHANGE = 5,        /* bytes of input for one change */
    IN_IMAGE = 1 << 7, /* in the first byte of a place: of the image, else of the heap */
    LARGE_BYTES = 700000,
};

/* Ordinary memory with the contents of another's. */
struct memory {
    struct provider provider;
    struct provider *anonymous;
    const char *contents; /* of the first extent, or NULL */
    char *extent;         /* the first */
};

static int map_extent(struct provider *provider, uint32_t index, void *addr)
{
    struct memory *memory = (struct memory *)provider;
    int error = memory->anonymous->extent(memory->anonymous, index, addr);

    if (!error && index == 0) {
        memory->extent = addr;
        if (memory->contents)
            memcpy(addr, memory->contents, MC_EXTENT_BYTES);
    }
    return error;
}

static int map_table(struct provider *provider, uint32_t index, void *addr)
{
    struct memory *memory = (struct memory *)provider;

    return memory->anonymous->table(memory->anonymous, index, addr);
}

static struct mc_control *get_control(struct provider *provider)
{
    struct memory *memory = (struct memory *)provider;

    return memory->anonymous->control(memory->anonymous);
}

static void memory_open(struct memory *memory, const char *contents)
{
    *memory = (struct memory){.provider = {map_extent, map_table, get_control, NULL},
                              .anonymous = anonymous_new(false),
                              .contents = contents};
    if (!memory->anonymous)
        abort();
}

static void config_of(struct store_config *config, struct slice image)
{
    fixture_defaults(config);
    config->memory_limit = 8 << 20;
    config->hashpower = 12;
    config->image = image;
}

static void key_of(char *key, int i)
{
    snprintf(key, 32, "key%d", i);
}

static void set_all(struct fixture *f, size_t step)
{
    static char value[LARGE_BYTES + 1];
    char key[32];

    memset(value, 'v', LARGE_BYTES);
    for (int i = 0; i < NKEYS; i++) {
        size_t n = i % 100 == 99 ? LARGE_BYTES : (size_t)i * step;

        key_of(key, i);
        fixture_store(f->local, STORE_SET, fixture_slice(key), (struct slice){value, n},
                      i % 7 ? 0 : NOW + 1, 0, NOW, NULL);
    }
}

static void read_all(struct fixture *f)
{
    char key[32];

    for (int i = 0; i < NKEYS; i++) {
        struct mc_item *item;

        key_of(key, i);
        item = store_get(f->local, fixture_slice(key), NOW);
        if (item) {
            free(fixture_value(f->local, item));
            store_put(f->local, item);
        }
    }
}

/* The sound heap and image, made once. */
static char *heap, *image;
static size_t nimage;

static void make_sound(void)
{
    const char *error = NULL;
    struct store_config config;
    struct memory memory;
    struct fixture f;
    void *made;

    config_of(&config, (struct slice){NULL, 0});
    memory_open(&memory, NULL);
    f.store = store_new(&config, &memory.provider, &error);
    f.local = store_local_new(f.store);
    set_all(&f, 9);
    store_local_free(f.local);
    if (store_save(f.store, NOW, &made, &nimage) != 0 || !(heap = malloc(MC_EXTENT_BYTES)))
        abort();
    image = made;
    memcpy(heap, memory.extent, MC_EXTENT_BYTES);
    store_free(f.store);
    anonymous_free(memory.anonymous);
}

static uint64_t checksum(const char *bytes, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (uint8_t)bytes[i]) * 0x100000001b3ull;
    return sum;
}

static void change(char *to, size_t nto, const uint8_t *data)
{
    uint32_t place = (uint32_t)(data[0] & ~IN_IMAGE) << 16 | (uint32_t)data[1] << 8 | data[2];

    /* Places count chunks of 96 bytes, whose headers are what matters, and bytes in them. */
    to[(place * 96ull + data[3] % 64) % nto] ^= (char)data[4];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *error = NULL;
    struct store_config config;
    struct memory memory;
    struct fixture f;
    char *new_heap, *new_image;
    uint64_t sum;

    if (!heap)
        make_sound();
    new_heap = malloc(MC_EXTENT_BYTES);
    new_image = malloc(nimage);
    memcpy(new_heap, heap, MC_EXTENT_BYTES);
    memcpy(new_image, image, nimage);
    for (; size >= CHANGE; data += CHANGE, size -= CHANGE)
        if (data[0] & IN_IMAGE)
            change(new_image, nimage - sizeof(sum), data);
        else
            change(new_heap, MC_EXTENT_BYTES, data);
    sum = checksum(new_image, nimage - sizeof(sum));
    memcpy(new_image + nimage - sizeof(sum), &sum, sizeof(sum));
    config_of(&config, (struct slice){new_image, nimage});
    memory_open(&memory, new_heap);
    f.store = store_new(&config, &memory.provider, &error);
    if (f.store) {
        f.local = store_local_new(f.store);
        read_all(&f);
        set_all(&f, 11);
        set_all(&f, 50);
        store_flush(f.local, 0, NOW);
        store_local_free(f.local);
        store_free(f.store);
    }
    anonymous_free(memory.anonymous);
    free(new_heap);
    free(new_image);
    return 0;
}
