/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/prefix.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    NSHARDS = 16,
    SHARD_SLOTS = 2048, /* a power of 2, twice as many as prefixes */
    SHARD_MAX = PREFIX_MAX / NSHARDS,
};

/* Open addressing, linear probing; prefixes are removed only all at once. */
struct shard {
    pthread_mutex_t lock; /* a leaf */
    size_t n;
    struct prefix *slots[SHARD_SLOTS];
};

struct prefixes {
    char delimiter;
    bool full;     /* a prefix was refused; atomic */
    size_t nready; /* shards whose lock is initialized */
    uint64_t seed[MC_HASH_WORDS];
    struct shard shards[NSHARDS];
};

/*
 * The keyed hash of bpf/shared/layout.h: clients choose the prefixes, and must not predict their
 * slots.
 */
static uint64_t hash_of(const struct prefixes *prefixes, struct slice text)
{
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < text.len; i += sizeof(uint64_t)) {
        size_t left = text.len - i;
        uint64_t word = 0;

        memcpy(&word, text.ptr + i, left < sizeof(word) ? left : sizeof(word));
        sum += mc_hash_word(word, prefixes->seed[i / sizeof(word)]);
    }
    return mc_hash_end(sum, text.len);
}

struct prefixes *prefixes_new(char delimiter)
{
    struct prefixes *prefixes = calloc(1, sizeof(*prefixes));

    if (!prefixes)
        return NULL;
    prefixes->delimiter = delimiter;
    /*
     * getrandom waits until the kernel's generator is ready and then returns this few bytes at
     * once.
     */
    if (getrandom(prefixes->seed, sizeof(prefixes->seed), 0) != sizeof(prefixes->seed)) {
        free(prefixes);
        return NULL;
    }
    for (; prefixes->nready < NSHARDS; prefixes->nready++) {
        errno = pthread_mutex_init(&prefixes->shards[prefixes->nready].lock, NULL);
        if (errno) {
            prefixes_free(prefixes);
            return NULL;
        }
    }
    return prefixes;
}

static void clear_shard(struct shard *shard)
{
    size_t i;

    for (i = 0; shard->n > 0; i++) {
        shard->n -= shard->slots[i] != NULL;
        free(shard->slots[i]);
        shard->slots[i] = NULL;
    }
}

void prefixes_free(struct prefixes *prefixes)
{
    size_t i;

    if (!prefixes)
        return;
    for (i = 0; i < prefixes->nready; i++) {
        clear_shard(&prefixes->shards[i]);
        pthread_mutex_destroy(&prefixes->shards[i].lock);
    }
    free(prefixes);
}

void prefixes_clear(struct prefixes *prefixes)
{
    size_t i;

    for (i = 0; i < NSHARDS; i++) {
        pthread_mutex_lock(&prefixes->shards[i].lock);
        clear_shard(&prefixes->shards[i]);
        pthread_mutex_unlock(&prefixes->shards[i].lock);
    }
    __atomic_store_n(&prefixes->full, false, __ATOMIC_RELAXED);
}

/* The slot where the text is or belongs. There is always a free slot. */
static struct prefix **find_slot(struct shard *shard, uint64_t hash, struct slice text)
{
    size_t at = (size_t)(hash / NSHARDS) % SHARD_SLOTS;

    while (shard->slots[at] &&
           !slice_equal(text, (struct slice){shard->slots[at]->text, shard->slots[at]->len}))
        at = (at + 1) % SHARD_SLOTS;
    return &shard->slots[at];
}

/* NULL: the shard is full, or no memory. */
static struct prefix *get_prefix(struct shard *shard, uint64_t hash, struct slice text)
{
    struct prefix **slot = find_slot(shard, hash, text);

    if (!*slot && shard->n < SHARD_MAX) {
        *slot = calloc(1, sizeof(**slot));
        if (*slot) {
            (*slot)->len = (uint8_t)text.len;
            memcpy((*slot)->text, text.ptr, text.len);
            shard->n++;
        }
    }
    return *slot;
}

static void add_event(struct prefix *prefix, enum prefix_event event)
{
    switch (event) {
    case PREFIX_HIT:
        prefix->hits++;
        prefix->gets++;
        break;
    case PREFIX_GET:
        prefix->gets++;
        break;
    case PREFIX_SET:
        prefix->sets++;
        break;
    case PREFIX_DELETE:
        prefix->deletes++;
        break;
    }
}

bool prefixes_count(struct prefixes *prefixes, struct slice key, enum prefix_event event)
{
    const char *end = memchr(key.ptr, prefixes->delimiter, key.len);
    struct slice text = {key.ptr, end ? (size_t)(end - key.ptr) : 0};
    struct prefix *prefix;
    struct shard *shard;
    uint64_t hash;

    assert(key.len <= MC_KEY_MAX);
    if (!end)
        return true;
    hash = hash_of(prefixes, text);
    shard = &prefixes->shards[hash % NSHARDS];
    pthread_mutex_lock(&shard->lock);
    prefix = get_prefix(shard, hash, text);
    if (prefix)
        add_event(prefix, event);
    pthread_mutex_unlock(&shard->lock);
    return prefix || __atomic_exchange_n(&prefixes->full, true, __ATOMIC_RELAXED);
}

/* Copies the first prefix of the shard from slot *at on, and advances *at behind it. */
static bool copy_next(struct shard *shard, size_t *at, struct prefix *out)
{
    bool found = false;

    pthread_mutex_lock(&shard->lock);
    if (shard->n == 0)
        *at = SHARD_SLOTS;
    while (!found && *at < SHARD_SLOTS) {
        const struct prefix *prefix = shard->slots[(*at)++];

        if (prefix) {
            *out = *prefix;
            found = true;
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return found;
}

bool prefixes_next(struct prefixes *prefixes, size_t *cursor, struct prefix *out)
{
    while (*cursor / SHARD_SLOTS < NSHARDS) {
        size_t number = *cursor / SHARD_SLOTS;
        size_t at = *cursor % SHARD_SLOTS;
        bool found = copy_next(&prefixes->shards[number], &at, out);

        *cursor = number * SHARD_SLOTS + at;
        if (found)
            return true;
    }
    return false;
}
