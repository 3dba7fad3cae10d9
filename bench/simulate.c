/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulate: says which gets a cache answers, at sizes that do not fit the machine.
 *
 * All keys are stored in turn. Behind stands a server that keeps --items of them, the least
 * recently used leaves first; before it, with --places, a chain: a table in which each key has one
 * place, as its hash says, and which keeps what the server has last answered there. What the chain
 * answers the server does not see, so that it does not count as used. Without a chain the kernel
 * answers what the server has. A miss stores nothing, or, with --refill, the key.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/keys.h"
#include "bench/options.h"
#include "bench/pick.h"

struct options {
    uint64_t keys, items, places, draws, warm, gets;
    const char *dist;
    double theta;
    bool refill;
};

static const struct option_row rows[] = {
    ROW("keys", OPTION_NUMBER, keys, "N", "how many there are (1m)"),
    ROW("items", OPTION_NUMBER, items, "N", "that the server keeps (all)"),
    ROW("places", OPTION_NUMBER, places, "N", "of the chain's table, 0: none (0)"),
    ROW("dist", OPTION_WORD, dist, "NAME", "which key: uniform, zipf (zipf)"),
    ROW("theta", OPTION_REAL, theta, "X", "skew of zipf (0.99)"),
    ROW("draws", OPTION_NUMBER, draws, "N", "so many, over and over, as live does (never twice)"),
    ROW("warm", OPTION_NUMBER, warm, "N", "gets that do not count (10m)"),
    ROW("gets", OPTION_NUMBER, gets, "N", "gets that count (10m)"),
    ROW("refill", OPTION_FLAG, refill, NULL, "store what was missed"),
};

static const struct option_table table = {
    "usage: simulate [options]\n"
    "Simulates gets; prints the shares that are hits, and that the kernel answers, as JSON.",
    rows, sizeof(rows) / sizeof(rows[0])};

/* A ring of all kept keys, the most recently used behind the head; a link to itself: not kept. */
struct lru {
    uint32_t *next, *previous, head, kept, room;
};

struct cache {
    struct lru lru;
    uint32_t *places, nplaces;
};

static void *allocate(uint64_t n)
{
    uint32_t *words = malloc(n * sizeof(*words));

    if (!words)
        fail("out of memory");
    return words;
}

static void lru_init(struct lru *lru, uint32_t nkeys, uint32_t room)
{
    *lru = (struct lru){.next = allocate((uint64_t)nkeys + 1),
                        .previous = allocate((uint64_t)nkeys + 1),
                        .head = nkeys,
                        .room = room};
    for (uint32_t i = 0; i <= nkeys; i++)
        lru->next[i] = lru->previous[i] = i;
}

static bool lru_has(const struct lru *lru, uint32_t key)
{
    return lru->next[key] != key;
}

static void lru_remove(struct lru *lru, uint32_t key)
{
    lru->next[lru->previous[key]] = lru->next[key];
    lru->previous[lru->next[key]] = lru->previous[key];
    lru->next[key] = lru->previous[key] = key;
    lru->kept--;
}

/* To the front; another one leaves where there is no room. */
static void lru_use(struct lru *lru, uint32_t key)
{
    uint32_t first;

    if (lru_has(lru, key))
        lru_remove(lru, key);
    else if (lru->kept == lru->room)
        lru_remove(lru, lru->previous[lru->head]);
    first = lru->next[lru->head];
    lru->next[key] = first;
    lru->previous[key] = lru->head;
    lru->next[lru->head] = lru->previous[first] = key;
    lru->kept++;
}

static void cache_init(struct cache *cache, const struct options *options)
{
    lru_init(&cache->lru, (uint32_t)options->keys, (uint32_t)options->items);
    for (uint32_t key = 0; key < options->keys; key++)
        lru_use(&cache->lru, key);
    cache->nplaces = (uint32_t)options->places;
    cache->places = allocate(options->places);
    memset(cache->places, 0xff,
           options->places * sizeof(*cache->places)); /* no place has an owner */
}

static void cache_fini(struct cache *cache)
{
    free(cache->lru.next);
    free(cache->lru.previous);
    free(cache->places);
}

/* By a hash in which each bit depends on all of the key (the finalizer of MurmurHash3). */
static uint32_t *place_of(const struct cache *cache, uint32_t key)
{
    uint64_t hash = key + 1;

    hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53ull;
    return &cache->places[bench_below(hash ^ hash >> 33, cache->nplaces)];
}

struct counts {
    uint64_t hits, kernel;
};

static void get(struct cache *cache, uint32_t key, bool refill, struct counts *counts)
{
    uint32_t *place = cache->nplaces ? place_of(cache, key) : NULL;
    bool kept = lru_has(&cache->lru, key);

    if (place && *place == key) {
        counts->hits++;
        counts->kernel++;
        return;
    }
    counts->hits += kept;
    counts->kernel += kept && !place;
    if (kept || refill)
        lru_use(&cache->lru, key);
    if (place && kept)
        *place = key;
}

/* Which key comes next: drawn now, or drawn before. */
struct source {
    const struct options *options;
    struct pick pick;
    uint32_t *drawn;
    uint64_t turn;
};

/* As with live, popular keys are spread over all indices. */
static uint32_t draw(struct source *source)
{
    const uint64_t spread = 2654435761u; /* a prime: none is drawn for two */

    return (uint32_t)(pick_next(&source->pick) * spread % source->options->keys);
}

static void source_init(struct source *source, const struct options *options)
{
    *source = (struct source){.options = options, .drawn = allocate(options->draws)};
    pick_init(&source->pick, (enum pick_kind)pick_kind(options->dist), (uint32_t)options->keys,
              options->theta, 1);
    for (uint64_t i = 0; i < options->draws; i++)
        source->drawn[i] = draw(source);
}

static struct counts ask(struct cache *cache, struct source *source, uint64_t n)
{
    const struct options *options = source->options;
    struct counts counts = {0};

    for (uint64_t i = 0; i < n; i++) {
        uint32_t key =
            options->draws ? source->drawn[source->turn++ % options->draws] : draw(source);

        get(cache, key, options->refill, &counts);
    }
    return counts;
}

static void check_options(struct options *options)
{
    if (!options->keys || options->keys >= BENCH_LARGE)
        usage_error("--keys: 1 to %u", BENCH_LARGE - 1);
    if (!options->items || options->items > options->keys)
        options->items = options->keys;
    if (options->places > UINT32_MAX)
        usage_error("--places: at most %u", UINT32_MAX);
    if (pick_kind(options->dist) < 0)
        usage_error("--dist: uniform or zipf");
    if (!options->gets)
        usage_error("--gets: at least 1");
}

int main(int argc, char **argv)
{
    struct options options = {
        .keys = 1000000, .warm = 10000000, .gets = 10000000, .dist = "zipf", .theta = 0.99};
    struct cache cache;
    struct counts counts;
    struct source source;

    if (options_parse(&table, &options, argc, argv) != argc)
        usage_error("%s", table.usage);
    check_options(&options);
    cache_init(&cache, &options);
    source_init(&source, &options);
    ask(&cache, &source, options.warm);
    counts = ask(&cache, &source, options.gets);
    printf("{\"gets\": %" PRIu64 ", \"hits\": %.4f, \"kernel\": %.4f}\n", options.gets,
           (double)counts.hits / (double)options.gets,
           (double)counts.kernel / (double)options.gets);
    cache_fini(&cache);
    free(source.drawn);
    return 0;
}
