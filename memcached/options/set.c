/* SPDX-License-Identifier: BSD-3-Clause */
#include "options/set.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config.h"
#include "options/license.h"

enum {
    PAGE = MC_PAGE_BYTES,
    ITEM_MIN = 1024,
    ITEM_MAX = 1 << 30,
    HASHPOWER_MIN = 12,
    HASHPOWER_MAX = 32,
    CHUNK_ALIGN = 8,
    CHUNK_MAX_KILOBYTES = 1024, /* the largest number that is not bytes */
};

__attribute__((format(printf, 3, 4))) static int refuse(FILE *err, int status, const char *format,
                                                        ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(err, format, args);
    va_end(args);
    fputc('\n', err);
    return status;
}

int set_access_mask(struct option_input *input)
{
    char *end;
    unsigned long mask = strtoul(input->value, &end, 8);

    if (end == input->value || mask > 0777)
        return refuse(input->err, EXIT_USAGE_ERROR, "Invalid access mask \"%s\"", input->value);
    input->options->net.access_mask = (uint32_t)mask;
    return OPTIONS_RUN;
}

/* Whether the words are in the list, one behind the other; strchr also finds the list's end. */
static bool has_words(const char *list, const char *words)
{
    const size_t len = strlen(words);

    for (; *list; list += strspn(list, ",;")) {
        if (strncmp(list, words, len) == 0 && strchr(",;", list[len]))
            return true;
        list += strcspn(list, ",;");
    }
    return false;
}

/* Joins repeated -l; what an earlier one names is not opened twice. */
int set_listen(struct option_input *input)
{
    const char **list = &input->options->net.addresses;
    char *joined;

    if (*list && has_words(*list, input->value))
        return OPTIONS_RUN;
    if (asprintf(&joined, "%s%s%s", *list ? *list : "", *list ? "," : "", input->value) < 0)
        return refuse(input->err, 1, "out of memory");
    free((char *)(uintptr_t)*list);
    *list = joined;
    return OPTIONS_RUN;
}

int set_memory(struct option_input *input)
{
    char *end;
    long long megabytes = strtoll(input->value, &end, 10);

    if (end == input->value || megabytes < 0 || megabytes > INT64_MAX / PAGE)
        return refuse(input->err, EXIT_USAGE_ERROR, "Invalid memory limit \"%s\"", input->value);
    input->options->store.memory_limit = (uint64_t)megabytes * PAGE;
    return OPTIONS_RUN;
}

int set_delimiter(struct option_input *input)
{
    if (!input->value[0])
        return refuse(input->err, 1, "No delimiter specified");
    input->options->commands.prefix_delimiter = input->value[0];
    input->options->commands.detail_enabled = true;
    return OPTIONS_RUN;
}

static const char *const bindings[] = {
    [PROTOCOL_ANY] = "auto",
    [PROTOCOL_TEXT] = "ascii",
    [PROTOCOL_BINARY] = "binary",
};

const char *binding_text(enum protocol protocol)
{
    return protocol == PROTOCOL_ANY ? "auto-negotiate" : bindings[protocol];
}

int set_binding(struct option_input *input)
{
    for (enum protocol i = PROTOCOL_ANY; i <= PROTOCOL_BINARY; i++) {
        if (strcmp(input->value, bindings[i]) == 0) {
            input->options->net.protocol = i;
            input->options->binding_given = true;
            return OPTIONS_RUN;
        }
    }
    return refuse(input->err, EXIT_USAGE_ERROR,
                  "Invalid value for binding protocol: %s\n"
                  " -- should be one of auto, binary, or ascii",
                  input->value);
}

int set_item_max(struct option_input *input)
{
    long long size = strtoll(input->value, NULL, 10);
    char last = input->value[0] ? input->value[strlen(input->value) - 1] : '0';
    long long unit = last == 'k' || last == 'K'   ? 1024
                     : last == 'm' || last == 'M' ? 1024 * 1024
                                                  : 1;

    if (size < 0 || __builtin_mul_overflow(size, unit, &size))
        size = size < 0 ? 0 : INT64_MAX;
    input->options->store.item_max = (uint64_t)size;
    return OPTIONS_RUN;
}

int set_hash_algorithm(struct option_input *input)
{
    static const char *const names[] = {"murmur3", "jenkins", "xxh3"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(input->value, names[i]) == 0) {
            input->options->hash_algorithm = names[i];
            return OPTIONS_RUN;
        }
    }
    return refuse(input->err, 1, "Unknown hash_algorithm option (jenkins, murmur3)");
}

int warn_ignored(struct option_input *input)
{
    fprintf(input->err, "%s is accepted, and has no effect\n", input->row->name);
    return OPTIONS_RUN;
}

int set_no_automove(struct option_input *input)
{
    input->options->store.tuning.automove = 0;
    return OPTIONS_RUN;
}

int set_slab_sizes(struct option_input *input)
{
    uint32_t *sizes = input->options->slab_sizes;
    char *next = input->value;
    uint32_t last = 0;
    size_t n = 0;

    while (*next) {
        char *end;
        unsigned long size = strtoul(next, &end, 10);

        if (end == next || (*end && *end != '-') || size < input->options->store.chunk_min ||
            size > input->options->store.chunk_max) {
            return refuse(input->err, EXIT_USAGE_ERROR, "slab size %lu is out of valid range",
                          end == next ? 0 : size);
        }
        if (size <= last) {
            return refuse(input->err, EXIT_USAGE_ERROR,
                          "slab size %lu cannot be lower than or equal to a previous class size",
                          size);
        }
        if (n > 0 && size - last < CHUNK_ALIGN) {
            return refuse(input->err, EXIT_USAGE_ERROR,
                          "slab size %lu must be at least %d bytes larger than previous class",
                          size, CHUNK_ALIGN);
        }
        if (n == OPTIONS_MAX_SLAB_SIZES - 1)
            return refuse(input->err, EXIT_USAGE_ERROR, "too many slab sizes specified");
        last = (uint32_t)size;
        sizes[n++] = last;
        next = *end ? end + 1 : end;
    }
    sizes[n] = 0;
    input->options->store.slab_sizes = sizes;
    if (n == 0)
        return refuse(input->err, EXIT_USAGE_ERROR, "slab_sizes needs at least one size");
    return OPTIONS_RUN;
}

int set_chunk_max(struct option_input *input)
{
    char *end;
    long long size = strtoll(input->value, &end, 10);

    if (end == input->value || *end || size <= 0)
        return refuse(input->err, 1, "could not parse argument to slab_chunk_max");
    input->options->chunk_max_given = (uint64_t)size;
    input->options->store.chunk_max = (uint64_t)size * (size <= CHUNK_MAX_KILOBYTES ? 1024 : 1);
    return OPTIONS_RUN;
}

/* memcached changed the unit with 1.6.24. */
static void tell_chunk_max(const struct options *o, FILE *err)
{
    unsigned long long given = o->chunk_max_given;

    if (given > CHUNK_MAX_KILOBYTES) {
        fprintf(err,
                "slab_chunk_max=%llu was taken for bytes, as until memcached 1.6.23 (up to %d: for "
                "kilobytes)\n",
                given, CHUNK_MAX_KILOBYTES);
    } else if (given > 0) {
        fprintf(err,
                "slab_chunk_max=%llu was taken for kilobytes, as from memcached 1.6.24 on (above "
                "%d: for bytes)\n",
                given, CHUNK_MAX_KILOBYTES);
    }
}

int set_no_chunked_items(struct option_input *input)
{
    input->options->chunk_max_given = 0;
    input->options->store.chunk_max = PAGE;
    return OPTIONS_RUN;
}

/* The defaults of memcached 1.4. */
int set_no_modern(struct option_input *input)
{
    struct options *options = input->options;

    set_no_chunked_items(input);
    options->commands.slab_reassign = false;
    options->store.tuning.automove = 0;
    options->lru_crawler = false;
    options->store.maintained = false;
    options->store.tuning.lru_segmented = false;
    options->net.maxconns_fast = false;
    options->hash_algorithm = "jenkins";
    return OPTIONS_RUN;
}

/* Parses a number up to the row's maximum. */
int set_ssl_level(struct option_input *input)
{
    const struct option_row *row = input->row;
    char *end;
    long level = strtol(input->value, &end, 10);

    if (end == input->value || *end)
        return refuse(input->err, 1, "could not parse argument to %s", row->name);
    if (level < 0 || (double)level > row->maximum)
        return refuse(input->err, 1, "Invalid %s. Use help to see valid options.", row->name);
    *(uint32_t *)(void *)((char *)input->options + row->field) = (uint32_t)level;
    return OPTIONS_RUN;
}

int check_threads(struct option_input *input)
{
    if (input->options->net.nthreads > 64) {
        fprintf(input->err, "WARNING: Setting a high number of worker threads is not recommended.\n"
                            " Set this value to the number of cores in your machine or less.\n");
    }
    return OPTIONS_RUN;
}

int set_hashpower(struct option_input *input)
{
    long power = strtol(input->value, NULL, 10);

    if (power < HASHPOWER_MIN)
        return refuse(input->err, 1, "Initial hashtable multiplier of %ld is too low", power);
    if (power > HASHPOWER_MAX) {
        return refuse(input->err, 1,
                      "Initial hashtable multiplier of %ld is too high\n"
                      "Choose a value based on \"STAT hash_power_level\" from a running instance",
                      power);
    }
    input->options->hashpower = (uint32_t)power;
    /* memcached accepts one more, for a larger table. */
    input->options->store.hashpower =
        power < STORE_HASHPOWER_MAX ? (unsigned int)power : STORE_HASHPOWER_MAX;
    return OPTIONS_RUN;
}

int set_lru_maintainer(struct option_input *input)
{
    input->options->store.tuning.lru_segmented = input->options->store.maintained;
    return OPTIONS_RUN;
}

int enable_temp_lru(struct option_input *input)
{
    input->options->store.tuning.temp = true;
    return OPTIONS_RUN;
}

int show_version(struct option_input *input)
{
    fprintf(input->out, "memcached %s\n", PACKAGE_VERSION);
    return 0;
}

int show_license(struct option_input *input)
{
    fprintf(input->out, "memcached %s\n\n%s", PACKAGE_VERSION, LICENSE_TEXT);
    return 0;
}

/* Prints a row of help; further lines of the text are aligned with the first. */
static void print_row(FILE *out, const char *left, const struct option_row *row)
{
    const char *text = row->help ? row->help : row->help_off;

    fprintf(out, "%-25s ", left);
    for (const char *p = text; *p; p++) {
        fputc(*p, out);
        if (*p == '\n')
            fprintf(out, "%26s", "");
    }
    if (row->fallback && row->argument)
        fprintf(out, " (default: %s)", row->fallback);
    fputc('\n', out);
}

int show_help(struct option_input *input)
{
    show_version(input);
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];
        const char *argument = row->argument ? row->argument : "";
        char left[80];

        if ((!row->help && !row->help_off) || row->lacks)
            continue;
        if (row->letter && row->name) {
            snprintf(left, sizeof(left), "-%c, --%s%s%s", row->letter, row->name,
                     row->argument ? "=" : "", argument);
        } else if (row->letter) {
            snprintf(left, sizeof(left), "-%c %s", row->letter, argument);
        } else if (row->kind == OPTION_NONE) {
            snprintf(left, sizeof(left), "-%s", row->name);
        } else {
            snprintf(left, sizeof(left), "   - %s%s:", row->help_off ? "no_" : "", row->name);
        }
        print_row(input->out, left, row);
    }
    return 0;
}

/* Checks the item and chunk sizes against each other. */
static int check_sizes(struct options *o, FILE *err)
{
    if (o->store.item_max < ITEM_MIN)
        return refuse(err, EXIT_USAGE_ERROR, "Item max size cannot be less than 1024 bytes.");
    if (o->store.item_max > o->store.memory_limit / 2) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "Cannot set item size limit higher than 1/2 of memory max.");
    }
    if (o->store.item_max > ITEM_MAX)
        return refuse(err, EXIT_USAGE_ERROR, "Cannot set item size limit higher than a gigabyte.");
    if (o->store.chunk_max > o->store.item_max) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "slab_chunk_max (bytes: %llu) cannot be larger than -I (item_size_max %llu)",
                      (unsigned long long)o->store.chunk_max,
                      (unsigned long long)o->store.item_max);
    }
    if (o->store.item_max % o->store.chunk_max != 0) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "-I (item_size_max: %llu) must be evenly divisible by slab_chunk_max "
                      "(bytes: %llu)",
                      (unsigned long long)o->store.item_max,
                      (unsigned long long)o->store.chunk_max);
    }
    if (PAGE % o->store.chunk_max != 0) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "slab_chunk_max (bytes: %llu) must divide evenly into %d (slab_page_size)",
                      (unsigned long long)o->store.chunk_max, PAGE);
    }
    return OPTIONS_RUN;
}

/* Each kind of authentication works with one protocol only, and over connections only. */
static int check_auth(struct options *o, FILE *err)
{
    if (o->sasl && o->binding_given && o->net.protocol != PROTOCOL_BINARY) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "ERROR: You cannot allow the ASCII protocol while using SASL.");
    }
    if (o->auth_file && (o->sasl || (o->binding_given && o->net.protocol != PROTOCOL_TEXT))) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "ERROR: You cannot allow the BINARY protocol while using ascii "
                      "authentication tokens.");
    }
    if (o->auth_file && o->net.udp_port != 0) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "Cannot use UDP with ascii authentication enabled (-U 0 to disable)");
    }
    if (o->sasl || o->auth_file)
        o->net.protocol = o->sasl ? PROTOCOL_BINARY : PROTOCOL_TEXT;
    return OPTIONS_RUN;
}

/* What the kernel answers: UDP unless there is none or udp=off says so, and with tcp=on TCP. */
static void complete_kernel_path(struct options *o)
{
    struct kcache_options *kernel = &o->kcache;

    if (!kcache_wanted(kernel))
        return;
    kernel->connections = o->net.max_connections;
    if (kernel->udp == KCACHE_UNSAID)
        kernel->udp = o->net.udp_port != 0 || !kcache_wants_tcp(kernel) ? KCACHE_ON : KCACHE_OFF;
}

/* The kernel path knows which connections have authenticated, but not which datagrams. */
static const char *check_kernel_auth(const struct options *o)
{
    if (!kcache_wanted(&o->kcache) || !(o->sasl || o->auth_file) || o->kcache.udp != KCACHE_ON)
        return NULL;
    return kcache_wants_tcp(&o->kcache)
               ? "-X bmc= answers UDP from whoever asks: with authentication (-S, -Y) it needs "
                 "udp=off"
               : "-X bmc= answers UDP from whoever asks: with authentication (-S, -Y) it can "
                 "answer TCP alone (without -U, with the word tcp=on)";
}

const char *options_without_kernel(const struct options *o)
{
    const struct kcache_options *kernel = &o->kcache;
    const bool tcp = kcache_wants_tcp(kernel);

    if (!kcache_wanted(kernel))
        return NULL;
    if (o->net.socket_path)
        return "-X bmc= answers what comes by an interface: it cannot go with a unix socket (-s)";
    if (kernel->udp == KCACHE_ON && o->net.udp_port == 0)
        return "-X bmc= finds nothing to answer: add a UDP port (-U 11211), or the word tcp=on for "
               "GETs over TCP";
    if (kernel->xsk == KCACHE_ON && o->net.udp_port == 0)
        return "bmc: xsk=on needs a UDP port (-U)";
    return tcp && o->net.tcp_port == 0 ? "bmc: tcp=on needs a TCP port (-p)" : NULL;
}

/* Descriptors that -c has to leave beside those of the workers, as memcached counts them. */
enum { OWN_FDS = 2 };

int options_check(struct options *o, FILE *err)
{
    const char *wrong = kcache_check(&o->kcache);
    int status = check_sizes(o, err);

    if (status == OPTIONS_RUN && wrong)
        return refuse(err, EXIT_USAGE_ERROR, "bmc: %s", wrong);
    complete_kernel_path(o);
    wrong = check_kernel_auth(o);
    if (!wrong && !o->kcache.optional)
        wrong = options_without_kernel(o);
    if (status == OPTIONS_RUN && wrong)
        return refuse(err, EXIT_USAGE_ERROR, "%s", wrong);
    if (status == OPTIONS_RUN)
        status = check_auth(o, err);
    if (status != OPTIONS_RUN)
        return status;
    if (o->store.tuning.hot_pct + o->store.tuning.warm_pct > 80) {
        return refuse(err, EXIT_USAGE_ERROR,
                      "hot_lru_pct + warm_lru_pct cannot be more than 80%% combined");
    }
    if (o->store.tuning.temp && !o->store.maintained)
        return refuse(err, EXIT_USAGE_ERROR, "temporary_ttl requires lru_maintainer to be enabled");
    if (o->store.s3_fifo && !o->store.maintained)
        return refuse(err, EXIT_USAGE_ERROR, "s3_fifo requires lru_maintainer to be enabled");
    if (o->store.s3_fifo && o->flash.npaths > 0)
        return refuse(err, EXIT_USAGE_ERROR, "s3_fifo cannot be used with ext_path");
    if (o->ssl_enabled && o->net.tcp_port == 0)
        return refuse(err, EXIT_USAGE_ERROR, "ERROR: You cannot enable SSL without a TCP port.");
    if (NET_FDS_PER_WORKER * o->net.nthreads + OWN_FDS >= o->net.max_connections)
        return refuse(err, 1, "Maxconns setting is too low, use -c to increase.");
    status = options_flash_check(o, err);
    if (status == OPTIONS_RUN)
        tell_chunk_max(o, err);
    return status;
}
