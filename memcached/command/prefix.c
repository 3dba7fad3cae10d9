/* SPDX-License-Identifier: BSD-3-Clause */
#include "command/prefix.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    NPARTS = 16,
    PART_SLOTS = 2048, /* a power of 2, twice as many as prefixes */
    PART_MAX = PREFIX_MAX / NPARTS,
};

/* Open addressing, linear probing; nothing is removed but all at once. */
struct part {
    pthread_mutex_t lock; /* a leaf */
    size_t n;
    struct prefix *slots[PART_SLOTS];
};

struct prefixes {
    char delimiter;
    bool full;     /* one was refused; atomic */
    size_t nready; /* parts whose lock was made */
    uint64_t seed[MC_HASH_WORDS];
    struct part parts[NPARTS];
};

/* The hash of bpf/shared/layout.h: clients choose the prefixes, and so must not foresee their
 * places. */
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
    /* So few bytes come whole once the kernel's generator is ready, and it waits for that. */
    if (getrandom(prefixes->seed, sizeof(prefixes->seed), 0) != sizeof(prefixes->seed)) {
        free(prefixes);
        return NULL;
    }
    for (; prefixes->nready < NPARTS; prefixes->nready++) {
        errno = pthread_mutex_init(&prefixes->parts[prefixes->nready].lock, NULL);
        if (errno) {
            prefixes_free(prefixes);
            return NULL;
        }
    }
    return prefixes;
}

static void clear_part(struct part *part)
{
    size_t i;

    for (i = 0; i < PART_SLOTS; i++) {
        free(part->slots[i]);
        part->slots[i] = NULL;
    }
    part->n = 0;
}

void prefixes_free(struct prefixes *prefixes)
{
    size_t i;

    if (!prefixes)
        return;
    for (i = 0; i < prefixes->nready; i++) {
        clear_part(&prefixes->parts[i]);
        pthread_mutex_destroy(&prefixes->parts[i].lock);
    }
    free(prefixes);
}

void prefixes_clear(struct prefixes *prefixes)
{
    size_t i;

    for (i = 0; i < NPARTS; i++) {
        pthread_mutex_lock(&prefixes->parts[i].lock);
        clear_part(&prefixes->parts[i]);
        pthread_mutex_unlock(&prefixes->parts[i].lock);
    }
    __atomic_store_n(&prefixes->full, false, __ATOMIC_RELAXED);
}

/* Where the text is or would be. There is always a free slot. */
static struct prefix **find_slot(struct part *part, uint64_t hash, struct slice text)
{
    size_t at = (size_t)(hash / NPARTS) % PART_SLOTS;

    while (part->slots[at] &&
           !slice_equal(text, (struct slice){part->slots[at]->text, part->slots[at]->len}))
        at = (at + 1) % PART_SLOTS;
    return &part->slots[at];
}

/* NULL: there are enough, or no memory. */
static struct prefix *get_prefix(struct part *part, uint64_t hash, struct slice text)
{
    struct prefix **slot = find_slot(part, hash, text);

    if (!*slot && part->n < PART_MAX) {
        *slot = calloc(1, sizeof(**slot));
        if (*slot) {
            (*slot)->len = (uint8_t)text.len;
            memcpy((*slot)->text, text.ptr, text.len);
            part->n++;
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
    struct part *part;
    uint64_t hash;

    assert(key.len <= MC_KEY_MAX);
    if (!end)
        return true;
    hash = hash_of(prefixes, text);
    part = &prefixes->parts[hash % NPARTS];
    pthread_mutex_lock(&part->lock);
    prefix = get_prefix(part, hash, text);
    if (prefix)
        add_event(prefix, event);
    pthread_mutex_unlock(&part->lock);
    return prefix || __atomic_exchange_n(&prefixes->full, true, __ATOMIC_RELAXED);
}

/* The first prefix of the part from slot *at on; *at then is behind it. */
static bool copy_next(struct part *part, size_t *at, struct prefix *out)
{
    bool found = false;

    pthread_mutex_lock(&part->lock);
    while (!found && *at < PART_SLOTS) {
        const struct prefix *prefix = part->slots[(*at)++];

        if (prefix) {
            *out = *prefix;
            found = true;
        }
    }
    pthread_mutex_unlock(&part->lock);
    return found;
}

bool prefixes_next(struct prefixes *prefixes, size_t *cursor, struct prefix *out)
{
    while (*cursor / PART_SLOTS < NPARTS) {
        size_t number = *cursor / PART_SLOTS;
        size_t at = *cursor % PART_SLOTS;
        bool found = copy_next(&prefixes->parts[number], &at, out);

        *cursor = number * PART_SLOTS + at;
        if (found)
            return true;
    }
    return false;
}
