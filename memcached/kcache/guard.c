/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcache/prefix.h"

/* --- the prefixes of allow= ------------------------------------------------ */

struct sources {
    struct prefix *prefixes;
    size_t n, room;
    bool local; /* not a prefix: it depends on the destination, too */
    bool other; /* prefixes are given besides local */
};

static bool add_prefix(struct sources *sources, const struct prefix *prefix)
{
    size_t room = sources->room ? 2 * sources->room : 64;
    struct prefix *more = sources->prefixes;

    if (sources->n == sources->room) {
        more = realloc(more, room * sizeof(*more));
        if (!more)
            return false;
        sources->prefixes = more;
        sources->room = room;
    }
    more[sources->n++] = *prefix;
    return true;
}

/* Adds a prefix or a keyword for several. False: a wrong word, or no memory. */
static bool add_word(struct sources *sources, const char *word)
{
    static const struct {
        const char *word, *prefix;
    } known[] = {
        {"all", "0.0.0.0/0"},
        {"all", "::/0"},
    };
    bool found = false, right = true;
    struct prefix prefix;

    if (strcmp(word, "local") == 0) {
        sources->local = true;
        return true;
    }
    sources->other = true;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].word, word) == 0) {
            found = true;
            right &= prefix_parse(known[i].prefix, &prefix) && add_prefix(sources, &prefix);
        }
    }
    return found ? right : prefix_parse(word, &prefix) && add_prefix(sources, &prefix);
}

/* Adds words separated by blanks and commas, up to the end of the line or '#'. */
static bool add_line(struct sources *sources, char *line, const char **wrong)
{
    char *rest = line, *word;

    line[strcspn(line, "#")] = '\0';
    while ((word = strsep(&rest, " \t\r\n,")) != NULL) {
        *wrong = word;
        if (*word && !add_word(sources, word))
            return false;
    }
    return true;
}

static int add_file(struct sources *sources, const char *path, char *error, size_t nerror)
{
    FILE *file = fopen(path, "re");
    const char *wrong = NULL;
    char *line = NULL;
    size_t room = 0, number = 0;
    bool right = true;

    sources->other = true;
    if (!file) {
        snprintf(error, nerror, "bmc: allow=@%s: %s", path, strerror(errno));
        return -1;
    }
    while (right && getline(&line, &room, file) >= 0) {
        number++;
        right = add_line(sources, line, &wrong);
    }
    if (!right)
        snprintf(error, nerror, "bmc: allow=@%s:%zu: \"%.64s\" is no address and no prefix", path,
                 number, wrong);
    else if (ferror(file))
        snprintf(error, nerror, "bmc: allow=@%s: %s", path, strerror(errno));
    right &= !ferror(file);
    free(line);
    fclose(file);
    return right ? 0 : -1;
}

static int add_words(struct sources *sources, const struct kcache_words *words, char *error,
                     size_t nerror)
{
    const char *word = words->first;

    for (unsigned int i = 0; i < words->n; i++, word += strlen(word) + 1) {
        if (word[0] == '@') {
            if (add_file(sources, word + 1, error, nerror))
                return -1;
        } else if (!add_word(sources, word)) {
            snprintf(error, nerror, "bmc: allow=%.64s: no address, or out of memory", word);
            return -1;
        }
    }
    return 0;
}

/* --- the trie ----------------------------------------------------------------- */

struct trie {
    const struct prefix *prefixes; /* sorted, none holds another */
    uint32_t *nodes;               /* MC_ALLOW_FAN fields each */
    size_t nnodes, room;
    bool failed; /* no memory */
};

/* Four bits of an address. */
static unsigned int field(const struct prefix *prefix, unsigned int at)
{
    uint64_t word = at < 64 ? prefix->high : prefix->low;

    return (unsigned int)(word >> (60 - at % 64)) & (MC_ALLOW_FAN - 1);
}

/* Creates a node whose fields all refuse; returns its number. */
static size_t new_node(struct trie *trie)
{
    size_t room = trie->room ? 2 * trie->room : 64;
    uint32_t *more = trie->nodes;

    if (trie->nnodes >= trie->room) {
        more = room < MC_ALLOW_PREFIX ? realloc(more, room * MC_ALLOW_FAN * sizeof(*more)) : NULL;
        if (!more) {
            trie->failed = true;
            return 0;
        }
        memset(more + trie->room * MC_ALLOW_FAN, 0,
               (room - trie->room) * MC_ALLOW_FAN * sizeof(*more));
        trie->nodes = more;
        trie->room = room;
    }
    return trie->nnodes++;
}

static uint32_t make_node(struct trie *trie, size_t first, size_t end, unsigned int depth);

/*
 * The entry of a field whose addresses share `depth` bits and are covered by prefixes first to end.
 */
static uint32_t make_entry(struct trie *trie, size_t first, size_t end, unsigned int depth)
{
    if (first == end)
        return MC_ALLOW_OUT;
    if (trie->prefixes[first].bits <= depth)
        return MC_ALLOW_IN;
    if (end - first == 1)
        return MC_ALLOW_PREFIX | (uint32_t)first;
    return make_node(trie, first, end, depth);
}

/* Recurses at most as deep as an address has fields. */
static uint32_t make_node(struct trie *trie, size_t first, size_t end, unsigned int depth)
{
    size_t number = new_node(trie), stop;
    uint32_t entry;

    for (unsigned int value = 0; value < MC_ALLOW_FAN && !trie->failed; value++) {
        /* A short prefix covers several values of the field. */
        while (first < end) {
            const struct prefix *prefix = &trie->prefixes[first];
            unsigned int rest = prefix->bits < depth + 4 ? depth + 4 - prefix->bits : 0;

            if (field(prefix, depth) + (1u << rest) > value)
                break;
            first++;
        }
        for (stop = first; stop < end && field(&trie->prefixes[stop], depth) <= value;)
            stop++;
        entry = make_entry(trie, first, stop, depth + 4);
        if (!trie->failed)
            trie->nodes[number * MC_ALLOW_FAN + value] = entry;
    }
    return (uint32_t)number;
}

static void make_cells(struct trie *trie, size_t n, uint32_t *cells)
{
    const struct prefix *prefixes = trie->prefixes;
    size_t first, end, cell, i;

    for (first = 0; first < n && !trie->failed; first = end) {
        cell = prefixes[first].high >> 48 | (size_t)prefixes[first].six << 16;
        end = first + 1;
        if (prefixes[first].bits <= 16) {
            for (i = 0; i < (size_t)1 << (16 - prefixes[first].bits); i++)
                cells[cell + i] = MC_ALLOW_IN;
            continue;
        }
        while (end < n && prefixes[end].six == prefixes[first].six &&
               prefixes[end].high >> 48 == prefixes[first].high >> 48)
            end++;
        cells[cell] = make_entry(trie, first, end, 16);
    }
}

static uint32_t power_above(size_t n)
{
    uint32_t power = 1;

    while (power < n)
        power *= 2;
    return power;
}

static void put_prefixes(struct mc_allow_prefix *out, const struct prefix *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (struct mc_allow_prefix){prefixes[i].high, prefixes[i].low,
                                          prefix_mask_high(prefixes[i].bits),
                                          prefix_mask_low(prefixes[i].bits)};
}

bool guard_list(struct guard *guard, struct prefix *prefixes, size_t n)
{
    struct trie trie = {.prefixes = prefixes, .nnodes = 2};
    struct loader_guard *out = &guard->loader;
    uint32_t *cells = calloc(1, MC_ALLOW_NODES_AT);
    size_t nnodes, size;
    char *list = NULL;

    n = prefix_reduce(prefixes, n);
    if (cells)
        make_cells(&trie, n, cells);
    out->nnodes = power_above(trie.nnodes);
    out->nprefixes = power_above(n);
    nnodes = (size_t)out->nnodes * MC_ALLOW_FAN * sizeof(uint32_t);
    size = MC_ALLOW_NODES_AT + nnodes + out->nprefixes * sizeof(struct mc_allow_prefix);
    if (cells && !trie.failed)
        list = calloc(1, size);
    if (list) {
        memcpy(list, cells, MC_ALLOW_NODES_AT);
        if (trie.nodes)
            memcpy(list + MC_ALLOW_NODES_AT, trie.nodes,
                   trie.nnodes * MC_ALLOW_FAN * sizeof(uint32_t));
        put_prefixes((void *)(list + MC_ALLOW_NODES_AT + nnodes), prefixes, n);
    }
    free(cells);
    free(trie.nodes);
    guard->nallowed = n;
    guard->list = list;
    out->list = list;
    return list != NULL;
}

/* --- all of it ------------------------------------------------------------------ */

static bool holds_everything(const struct prefix *prefixes, size_t n)
{
    return n == 2 && prefixes[0].bits == 0 && prefixes[1].bits == 0;
}

static int choose(struct guard *guard, struct sources *sources, char *error, size_t nerror)
{
    if (!sources->other)
        return 0;
    sources->n = prefix_reduce(sources->prefixes, sources->n);
    guard->loader.local = sources->local;
    guard->loader.allow =
        holds_everything(sources->prefixes, sources->n) ? MC_ALLOW_ALL : MC_ALLOW_LIST;
    if (guard->loader.allow == MC_ALLOW_LIST && !guard_list(guard, sources->prefixes, sources->n)) {
        snprintf(error, nerror, "bmc: allow=: out of memory");
        return -1;
    }
    return 0;
}

int guard_init(struct guard *guard, const struct kcache_options *options, char *error,
               size_t nerror)
{
    struct sources sources = {0};
    int rc = 0;

    *guard = (struct guard){.loader = {.rate = options->rate,
                                       .burst = options->burst,
                                       .amplification = options->amplification}};
    for (unsigned int i = 0; i < options->nallow && rc == 0; i++)
        rc = add_words(&sources, &options->allow[i], error, nerror);
    if (rc == 0)
        rc = choose(guard, &sources, error, nerror);
    free(sources.prefixes);
    return rc;
}

void guard_fini(struct guard *guard)
{
    free(guard->list);
    guard->list = NULL;
    guard->loader.list = NULL;
}

void guard_stats(const struct guard *guard, struct kcache_stats *out)
{
    static const char *const names[] = {
        [MC_ALLOW_LOCAL] = "local", [MC_ALLOW_ALL] = "all", [MC_ALLOW_LIST] = "list"};

    out->allow = names[guard->loader.allow];
    out->nallowed = guard->nallowed;
    out->rate = guard->loader.rate;
    out->burst = guard->loader.burst;
    out->amplification = guard->loader.amplification;
}
