/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "kcache/parse.h"
#include "kcache/prefix.h"

enum {
    LIST_MAX = 4 << 20, /* bytes of a list, up to Linux 6.1 */
    /* For which a list that may be reloaded has room. Addresses that differ late take many nodes.
     */
    ROOM_PREFIXES = 4096,
    ROOM_NODES = 16384,
};

/* --- the prefixes of allow= ------------------------------------------------ */

struct sources {
    struct prefix *prefixes;
    size_t n, room;
    bool local;        /* not a prefix: it depends on the destination, too */
    bool other;        /* prefixes are given besides local */
    bool files, again; /* files were read; they are read again */
    struct kcache_limits limits;
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

/* Adds a prefix or a keyword. False: a wrong word, or no memory. */
static bool add_word(struct sources *sources, const char *word)
{
    static const struct prefix all[] = {{.six = false}, {.six = true}};
    struct prefix prefix;

    if (strcmp(word, "local") == 0) {
        sources->local = true;
        return true;
    }
    sources->other = true;
    if (strcmp(word, "all") == 0)
        return add_prefix(sources, &all[0]) && add_prefix(sources, &all[1]);
    return prefix_parse(word, &prefix) && add_prefix(sources, &prefix);
}

/* Adds a word of a file. NULL, or what is wrong with it. */
static const char *add_file_word(struct sources *sources, const char *word)
{
    const char *error = NULL;

    if (parse_limit(&sources->limits, word, &error))
        return error;
    return add_word(sources, word) ? NULL
                                   : "no address, prefix, local, all, rate= or amplification=";
}

/*
 * Adds words separated by blanks and commas, up to the end of the line or '#'. NULL, or what is
 * wrong with `*wrong`.
 */
static const char *add_line(struct sources *sources, char *line, const char **wrong)
{
    const char *error = NULL;
    char *rest = line, *word;

    line[strcspn(line, "#")] = '\0';
    while (!error && (word = strsep(&rest, " \t\r\n,")) != NULL) {
        *wrong = word;
        error = *word ? add_file_word(sources, word) : NULL;
    }
    return error;
}

/* The server must not wait for the writer of a FIFO. NULL with errno. */
static FILE *open_file(const char *path, bool again)
{
    struct stat is;

    if (again && stat(path, &is) == 0 && !S_ISREG(is.st_mode)) {
        errno = EINVAL;
        return NULL;
    }
    return fopen(path, "re");
}

/* 0, or -1 with `error`. */
static int add_file(struct sources *sources, const char *path, char *error, size_t nerror)
{
    const char *wrong = NULL, *why = NULL;
    FILE *file = open_file(path, sources->again);
    size_t room = 0, number = 0;
    char *line = NULL;
    bool failed;

    sources->other = sources->files = true;
    if (!file) {
        snprintf(error, nerror, "bmc: allow=@%s: %s%s", path, strerror(errno),
                 sources->again && errno == EACCES ? " for the user that the server has now" : "");
        return -1;
    }
    while (!why && getline(&line, &room, file) >= 0) {
        number++;
        why = add_line(sources, line, &wrong);
    }
    failed = why || ferror(file);
    if (why)
        snprintf(error, nerror, "bmc: allow=@%s:%zu: \"%.64s\": %s", path, number, wrong, why);
    else if (failed)
        snprintf(error, nerror, "bmc: allow=@%s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return failed ? -1 : 0;
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

/*
 * Chooses for how many nodes and prefixes the list has room, unless that was chosen before: for
 * twice as many as there are if there may be others later. False: there is too little room.
 */
static bool choose_room(struct loader_guard *out, size_t nnodes, size_t nprefixes)
{
    if (out->nnodes)
        return nnodes <= out->nnodes && nprefixes <= out->nprefixes;
    if (out->reloads) {
        out->nnodes = power_above(nnodes > ROOM_NODES / 2 ? 2 * nnodes : ROOM_NODES);
        out->nprefixes = power_above(nprefixes > ROOM_PREFIXES / 2 ? 2 * nprefixes : ROOM_PREFIXES);
    }
    if (!out->reloads || loader_list_bytes(out) > LIST_MAX) {
        out->nnodes = power_above(nnodes);
        out->nprefixes = power_above(nprefixes);
    }
    return true;
}

/* Writes cells, nodes and prefixes where layout.h says. Allocated, or NULL. */
static void *make_list(const struct loader_guard *guard, const uint32_t *cells,
                       const struct trie *trie, size_t n)
{
    char *list = calloc(1, loader_list_bytes(guard)), *nodes = list + MC_ALLOW_NODES_AT;
    size_t node = MC_ALLOW_FAN * sizeof(uint32_t);

    if (!list)
        return NULL;
    memcpy(list, cells, MC_ALLOW_NODES_AT);
    if (trie->nodes)
        memcpy(nodes, trie->nodes, trie->nnodes * node);
    put_prefixes((void *)(nodes + guard->nnodes * node), trie->prefixes, n);
    return list;
}

int guard_list(struct guard *guard, struct prefix *prefixes, size_t n)
{
    struct trie trie = {.prefixes = prefixes, .nnodes = 2};
    uint32_t *cells = calloc(1, MC_ALLOW_NODES_AT);
    int rc = -ENOMEM;

    n = prefix_reduce(prefixes, n);
    if (cells)
        make_cells(&trie, n, cells);
    if (cells && !trie.failed) {
        rc = choose_room(&guard->loader, trie.nnodes, n) ? 0 : -ENOSPC;
        guard->list = rc ? NULL : make_list(&guard->loader, cells, &trie, n);
        if (!rc && !guard->list)
            rc = -ENOMEM;
    }
    free(cells);
    free(trie.nodes);
    guard->nallowed = n;
    guard->loader.list = guard->list;
    return rc;
}

/* --- all of it ------------------------------------------------------------------ */

static bool holds_everything(const struct prefix *prefixes, size_t n)
{
    return n == 2 && prefixes[0].bits == 0 && prefixes[1].bits == 0;
}

/* 0, or -1 with `error`. */
static int choose(struct guard *guard, struct sources *sources, char *error, size_t nerror)
{
    struct loader_guard *out = &guard->loader;
    int rc = 0;

    if (!sources->other)
        return 0;
    sources->n = prefix_reduce(sources->prefixes, sources->n);
    out->local = sources->local;
    out->reloads = sources->files;
    guard->shown = holds_everything(sources->prefixes, sources->n) ? MC_ALLOW_ALL : MC_ALLOW_LIST;
    /* A list that is reloaded may name everybody today. */
    out->allow = out->reloads ? MC_ALLOW_LIST : guard->shown;
    if (out->allow == MC_ALLOW_LIST)
        rc = guard_list(guard, sources->prefixes, sources->n);
    if (rc == -ENOSPC)
        snprintf(error, nerror,
                 "bmc: allow=: %zu prefixes need more room than the server has made at its start: "
                 "restart it",
                 sources->n);
    else if (rc)
        snprintf(error, nerror, "bmc: allow=: out of memory");
    return rc ? -1 : 0;
}

/* Reads allow= and its files. 0, or -1 with `error`. */
static int take(struct guard *guard, const struct kcache_options *options, bool again, char *error,
                size_t nerror)
{
    struct sources sources = {.limits = options->limits, .again = again};
    int rc = 0;

    for (unsigned int i = 0; i < options->nallow && rc == 0; i++)
        rc = add_words(&sources, &options->allow[i], error, nerror);
    if (rc == 0)
        rc = choose(guard, &sources, error, nerror);
    free(sources.prefixes);
    guard->loader.rate = sources.limits.rate;
    guard->loader.burst = sources.limits.burst;
    guard->loader.amplification = sources.limits.amplification;
    return rc;
}

int guard_init(struct guard *guard, const struct kcache_options *options, char *error,
               size_t nerror)
{
    *guard = (struct guard){0};
    return take(guard, options, false, error, nerror);
}

int guard_init_again(struct guard *guard, const struct guard *before,
                     const struct kcache_options *options, char *error, size_t nerror)
{
    *guard = (struct guard){
        .loader = {.nnodes = before->loader.nnodes, .nprefixes = before->loader.nprefixes}};
    return take(guard, options, true, error, nerror);
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

    out->allow = names[guard->shown];
    out->nallowed = guard->nallowed;
    out->limits = (struct kcache_limits){guard->loader.rate, guard->loader.burst,
                                         guard->loader.amplification};
}

static void describe_number(char *out, size_t nout, const char *name, uint32_t number)
{
    if (number)
        snprintf(out, nout, "%s=%u", name, number);
    else
        snprintf(out, nout, "no %s=", name);
}

/* Which sources allow= names. */
static void describe_sources(char *out, size_t nout, const struct guard *guard)
{
    const char *local = guard->loader.local ? "local" : "";

    if (guard->loader.local && !guard->nallowed)
        snprintf(out, nout, "%s", local);
    else
        snprintf(out, nout, "%s%s%zu prefix%s", local, local[0] ? " and " : "", guard->nallowed,
                 guard->nallowed == 1 ? "" : "es");
}

void guard_log(const struct guard *guard)
{
    const struct loader_guard *loader = &guard->loader;
    char sources[64], rate[48], burst[16] = "", amplification[48];

    describe_sources(sources, sizeof(sources), guard);
    describe_number(rate, sizeof(rate), "rate", loader->rate);
    describe_number(amplification, sizeof(amplification), "amplification", loader->amplification);
    if (loader->rate)
        snprintf(burst, sizeof(burst), "/%u", loader->burst);
    log_write("bmc: read again: allow= has %s, %s%s, %s", sources, rate, burst, amplification);
}
