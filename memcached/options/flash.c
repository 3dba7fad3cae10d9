/* SPDX-License-Identifier: BSD-3-Clause */
/* options_flash: the option ext_path, and checks of the flash options against each other. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/path.h"
#include "options/set.h"

static const char *const buckets[FLASH_BUCKETS] = {
    [FLASH_DEFAULT] = "default",
    [FLASH_COMPACT] = "compact",
    [FLASH_LOWTTL] = "lowttl",
    [FLASH_CHUNKED] = "chunked",
};

/* A size in bytes; 0: not a size. */
static uint64_t read_size(const char *text)
{
    static const char units[] = "kmgtp";
    char *end;
    unsigned long long size = strtoull(text, &end, 10);
    const char *unit;

    if (!isdigit((unsigned char)*text) || (*end && end[1]))
        return 0;
    unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (*end && !unit)
        return 0;
    for (const char *u = units; unit && u <= unit; u++)
        if (__builtin_mul_overflow(size, 1024ull, &size))
            return 0;
    return size;
}

static int refuse(FILE *err, const char *text, const char *word)
{
    fprintf(err, "%s%s\nfailed to parse ext_path argument\n", text, word);
    return 1;
}

static bool find_bucket(const char *name, enum flash_bucket *bucket)
{
    for (int i = 0; i < FLASH_BUCKETS; i++) {
        if (strcmp(name, buckets[i]) == 0) {
            *bucket = (enum flash_bucket)i;
            return true;
        }
    }
    return false;
}

/* FILE:SIZE[:BUCKET]; cuts the pieces out of `word`; the path keeps a pointer to the first. */
static int parse_path(const struct option_input *input, char *word, struct flash_path *path)
{
    char *size = strchr(word, ':');
    char *bucket = size ? strchr(size + 1, ':') : NULL;
    uint64_t npages;

    if (!size || size == word || !size[1]) {
        return refuse(input->err, "must supply size to ext_path, ie: ",
                      "ext_path=/f/e:64m (M|G|T|P supported)");
    }
    *size++ = '\0';
    if (bucket)
        *bucket++ = '\0';
    *path = (struct flash_path){.name = word};
    if (bucket && !find_bucket(bucket, &path->bucket))
        return refuse(input->err, "Unknown extstore bucket: ", bucket);
    npages = read_size(size) / input->options->flash.page_bytes;
    if (npages == 0 || npages > UINT32_MAX / OPTIONS_MAX_PATHS) {
        return refuse(input->err,
                      "ext_path takes a size of one page (ext_page_size) or more: ", size);
    }
    path->npages = (uint32_t)npages;
    return OPTIONS_RUN;
}

int set_ext_path(struct option_input *input)
{
    struct options *options = input->options;
    char *word;
    int status;

    if (!*input->value)
        return refuse(input->err, "missing argument to ext_path, ie: ", "ext_path=/d/file:5G");
    if (options->flash.npaths == OPTIONS_MAX_PATHS)
        return refuse(input->err, "too many files: ", input->value);
    word = *input->value == ':' ? strdup(input->value) : path_absolute(input->value);
    if (!word)
        return refuse(input->err, "out of memory", "");
    status = parse_path(input, word, &options->paths[options->flash.npaths]);
    if (status == OPTIONS_RUN)
        options->flash.npaths++;
    else
        free(word);
    return status;
}

int check_ext_page_size(struct option_input *input)
{
    if (input->options->flash.npaths > 0) {
        fprintf(input->err, "Must specify ext_page_size before any ext_path arguments\n");
        return 1;
    }
    return OPTIONS_RUN;
}

void options_flash_init(struct options *options)
{
    options->ext.item_age = UINT32_MAX;
    options->flash.paths = options->paths;
}

void options_flash_fini(struct options *options)
{
    for (unsigned int i = 0; i < options->flash.npaths; i++)
        free((char *)(uintptr_t)options->paths[i].name);
}

/* Defaults that were not given: a quarter of all pages. */
static void count_pages(struct options *o)
{
    uint32_t npages = 0;

    for (unsigned int i = 0; i < o->flash.npaths; i++)
        npages += o->paths[i].npages;
    if (o->ext.compact_under == 0 && o->ext.drop_under == 0)
        o->ext.drop_under = npages / 4;
    if (o->ext.compact_under == 0)
        o->ext.compact_under = npages / 4;
}

int options_flash_check(struct options *o, FILE *err)
{
    if (o->flash.npaths == 0)
        return OPTIONS_RUN;
    if (o->net.udp_port != 0) {
        fprintf(err, "Cannot use UDP with extstore enabled (-U 0 to disable)\n");
        return EXIT_USAGE_ERROR;
    }
    if (o->memory_file) {
        fprintf(err, "Cannot use -e with extstore enabled: what is on flash is not kept\n");
        return EXIT_USAGE_ERROR;
    }
    if (o->store.item_max > o->flash.buffer_bytes) {
        fprintf(err, "-I (item_size_max: %llu) cannot be larger than ext_wbuf_size: %u\n",
                (unsigned long long)o->store.item_max, o->flash.buffer_bytes);
        return EXIT_USAGE_ERROR;
    }
    if (o->flash.page_bytes % o->flash.buffer_bytes != 0) {
        fprintf(err, "Failed to initialize external storage: "
                     "page_size must be divisible by wbuf_size\n");
        return 1;
    }
    count_pages(o);
    return OPTIONS_RUN;
}
