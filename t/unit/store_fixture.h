/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_fixture: a store on anonymous memory with the text protocol's format, and verbs on C
 * strings, for the store's tests.
 */
#ifndef T_UNIT_STORE_FIXTURE_H
#define T_UNIT_STORE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/anonymous.h"
#include "store/store.h"
#include "store/store_items.h"
#include "t/lib/tap.h"

struct fixture {
    struct provider *provider;
    struct store *store;
    struct store_local *local;
};

static uint8_t fixture_suffix(char *out, uint32_t client_flags, uint32_t nvalue)
{
    char buffer[STORE_SUFFIX_MAX + 1];
    int n = snprintf(buffer, sizeof(buffer), " %u %u\r\n", client_flags, nvalue);

    memcpy(out, buffer, (size_t)n);
    return (uint8_t)n;
}

static uint32_t fixture_client_flags(const char *suffix, uint8_t nsuffix)
{
    (void)nsuffix;
    return (uint32_t)strtoul(suffix, NULL, 10);
}

static const struct store_format fixture_format = {
    .suffix = fixture_suffix,
    .client_flags = fixture_client_flags,
    .tail = {"\r\n", 2},
};

__attribute__((unused)) static void fixture_defaults(struct store_config *config)
{
    store_config_defaults(config);
    config->format = fixture_format;
    clock_init(&config->clock);
}

/* Ends the test if the store cannot be made. */
__attribute__((unused)) static void fixture_open(struct fixture *f,
                                                 const struct store_config *config)
{
    const char *error = "no provider";

    f->provider = anonymous_new(false);
    f->store = f->provider ? store_new(config, f->provider, &error) : NULL;
    f->local = f->store ? store_local_new(f->store) : NULL;
    if (!f->local) {
        printf("Bail out! %s\n", error);
        exit(1);
    }
}

__attribute__((unused)) static void fixture_close(struct fixture *f)
{
    store_local_free(f->local);
    store_free(f->store);
    anonymous_free(f->provider);
}

/* Runs a test with a store of its own, with the defaults. */
__attribute__((unused)) static void with_fixture(void (*test)(struct fixture *f))
{
    struct store_config config;
    struct fixture f;

    fixture_defaults(&config);
    fixture_open(&f, &config);
    test(&f);
    fixture_close(&f);
}

__attribute__((unused)) static struct slice fixture_slice(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* Writes bytes into a reserved item, piece by piece. */
__attribute__((unused)) static void fixture_fill(struct store_local *local, struct mc_item *item,
                                                 struct slice value)
{
    for (size_t done = 0; done < value.len;) {
        struct slice room = item_at(local, item, done);
        size_t n = room.len < value.len - done ? room.len : value.len - done;

        memcpy((char *)room.ptr, value.ptr + done, n);
        done += n;
    }
}

__attribute__((unused)) static enum store_result
fixture_store(struct store_local *local, enum store_mode mode, struct slice key, struct slice value,
              rel_time expiry, uint64_t cas, rel_time now, uint64_t *cas_out)
{
    enum store_result result;
    struct mc_item *item = store_reserve(local, key, 7, expiry, value.len, now, &result);

    if (!item)
        return result;
    fixture_fill(local, item, value);
    return store_commit(local, item, mode, cas, now, cas_out);
}

__attribute__((unused)) static enum store_result fixture_set(struct fixture *f, const char *key,
                                                             const char *value, rel_time now)
{
    return fixture_store(f->local, STORE_SET, fixture_slice(key), fixture_slice(value), 0, 0, now,
                         NULL);
}

/* Copies a value, without the tail, to a new C string. */
__attribute__((unused)) static char *fixture_value(struct store_local *local,
                                                   const struct mc_item *item)
{
    size_t length = item_nvalue(local, item);
    char *out = malloc(length + 1);

    for (size_t done = 0; done < length;) {
        struct slice piece = item_at(local, item, done);
        size_t n = piece.len < length - done ? piece.len : length - done;

        memcpy(out + done, piece.ptr, n);
        done += n;
    }
    out[length] = '\0';
    return out;
}

/* Whether a get returns exactly `value`; NULL: a miss. */
__attribute__((unused)) static bool fixture_has(struct fixture *f, const char *key,
                                                const char *value, rel_time now)
{
    struct mc_item *item = store_get(f->local, fixture_slice(key), now);
    char *got;
    bool same;

    if (!item)
        return value == NULL;
    got = fixture_value(f->local, item);
    same = value && strcmp(got, value) == 0;
    if (!same)
        diag("%s has \"%.40s\"", key, got);
    free(got);
    store_put(f->local, item);
    return same;
}

/* Marks a slot as the kernel does when it has answered with its item. */
static inline void fixture_kernel_read(struct mc_bucket *bucket, unsigned int slot)
{
    uint8_t bit = (uint8_t)(1u << slot);

    if (bucket->accessed & bit)
        bucket->again |= bit;
    else
        bucket->accessed |= bit;
}

#endif
