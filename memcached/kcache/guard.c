/* SPDX-License-Identifier: BSD-3-Clause */
#include "kcache/guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "kcache/parse.h"
#include "kmem/allow.h"
#include "kmem/prefix.h"

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

/* --- all of it ------------------------------------------------------------------ */

int guard_list(struct guard *guard, struct prefix *prefixes, size_t n)
{
    int rc = allow_list(&guard->loader, prefixes, &n, &guard->list);

    guard->nallowed = n;
    guard->loader.list = guard->list;
    return rc;
}

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
