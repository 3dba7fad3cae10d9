/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is taken as a command line, a word a line. What must hold: the parser reads and writes
 * nothing outside of the words (each ends where its allocation ends), answers with one of
 * memcached's statuses, reports the reason of a refusal, accepts nothing that the server cannot
 * start with, and frees what it allocated. What it accepts can be shown by `stats settings`.
 */
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "command/stat.h"
#include "options/options.h"
#include "store/slab.h"
#include "store/store.h"

enum { MAX_WORDS = 64, PAGE = MC_PAGE_BYTES };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* A copy that ends with its NUL. */
static char *new_word(const char *text, size_t len)
{
    char *word = malloc(len + 1);

    must(word != NULL);
    memcpy(word, text, len);
    word[len] = '\0';
    return word;
}

/* The words behind the program's name; returns how many there are in all. */
static int split(const uint8_t *data, size_t size, char **argv)
{
    const char *text = (const char *)data;
    int argc = 0;

    argv[argc++] = new_word("memcached", 9);
    while (size > 0 && argc < MAX_WORDS) {
        const char *newline = memchr(text, '\n', size);
        size_t len = newline ? (size_t)(newline - text) : size;

        argv[argc++] = new_word(text, strnlen(text, len));
        len += newline != NULL;
        text += len;
        size -= len;
    }
    argv[argc] = NULL;
    return argc;
}

static void check_numbers(const struct options *o)
{
    must(o->net.tcp_port >= -1 && o->net.tcp_port <= UINT16_MAX);
    must(o->net.udp_port >= -1 && o->net.udp_port <= UINT16_MAX);
    must(o->net.nthreads >= 1 && o->net.max_connections >= 1 && o->net.reqs_per_event >= 1);
    must(o->net.access_mask <= 0777);
    must(o->hashpower == 0 || (o->hashpower >= 12 && o->hashpower <= 32));
    must(o->store.tuning.hot_pct >= 1 && o->store.tuning.warm_pct >= 1 &&
         o->store.tuning.hot_pct + o->store.tuning.warm_pct <= 80);
    must(o->store.tuning.hot_max_factor > 0 && o->store.tuning.warm_max_factor > 0);
    must(o->store.tuning.automove <= 2 && o->store.automove_window >= 3);
    must(o->store.tuning.automove_ratio > 0 && o->store.tuning.automove_ratio <= 1);
    must(o->store.tail_repair_time == 0 || o->store.tail_repair_time >= 10);
    must(o->store.tuning.crawler_sleep_us <= 1000000);
    must(o->commands.watcher_logbuf >= 1024 && o->commands.worker_logbuf >= 1024);
    must(!o->store.tuning.temp || o->store.maintained);
    must(!o->net.socket_path || o->net.udp_port == 0);
    must(o->kcache.optional || !options_without_kernel(o));
}

/* As server.c passes them to the store. */
static void check_sizes(const struct options *o)
{
    const struct slab_config config = {
        .chunk_max = (uint32_t)o->store.chunk_max,
        .chunk_min = o->store.chunk_min,
        .growth_factor = o->store.growth_factor,
        .slab_sizes = o->store.slab_sizes,
        .memory_limit = o->store.memory_limit,
    };
    struct heap heap = {.ref_shift = heap_ref_shift(o->store.memory_limit), .max_extents = 1};
    struct slabs slabs;

    must(o->store.item_max >= 1024 && o->store.item_max <= 1u << 30 &&
         o->store.item_max <= o->store.memory_limit / 2);
    must(o->store.chunk_max <= o->store.item_max && o->store.item_max % o->store.chunk_max == 0);
    must(PAGE % o->store.chunk_max == 0 && o->store.growth_factor > 1);
    if (heap.ref_shift == 0)
        return; /* more memory than the store can use: it reports it */
    must(slab_init(&slabs, &heap, &config) == 0);
    slab_fini(&slabs);
}

static void check_settings(const struct options *options)
{
    struct reply reply;
    struct stat_sink sink = {.reply = &reply};

    reply_init(&reply);
    options_settings(options, &sink);
    reply_fini(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[MAX_WORDS + 1];
    int argc = split(data, size, argv);
    struct options options;
    char *output = NULL;
    size_t noutput = 0;
    FILE *out = open_memstream(&output, &noutput);
    int status;

    must(out != NULL);
    opterr = 0; /* getopt's own line about a letter that it does not know */
    options_init(&options);
    status = options_parse(&options, argc, argv, out, out);
    fclose(out);
    if (status == OPTIONS_RUN) {
        check_numbers(&options);
        check_sizes(&options);
        check_settings(&options);
    } else {
        must(status == 0 || status == 1 || status == 64);
        must(noutput > 1 && output[noutput - 1] == '\n');
    }
    options_fini(&options);
    free(output);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return 0;
}
