/* SPDX-License-Identifier: BSD-3-Clause */
#include "options/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "command/command.h"
#include "options/env.h"
#include "options/set.h"
#include "options/table.h"

static const char kernel_prefix[] = "bmc=";

static void *field_of(struct options *options, size_t offset)
{
    return (char *)options + offset;
}

/*
 * Exits with memcached's statuses: a wrong port is a usage error, other values out of range end
 * with status 1.
 */
static int out_of_range(const struct option_input *input)
{
    const struct option_row *row = input->row;
    bool usage = !row->wrong || row->kind == OPTION_I32;

    fprintf(input->err, row->wrong ? row->wrong : "Invalid value \"%s\"", input->value);
    if (!row->wrong)
        fprintf(input->err, " for %s%s", row->letter ? "--" : "", row->name);
    fputc('\n', input->err);
    return usage ? EXIT_USAGE_ERROR : 1;
}

/* Like atoi, ignores what follows the digits; without digits it is an error. */
static int store_integer(const struct option_input *input)
{
    const struct option_row *row = input->row;
    uint32_t scale = row->scale ? row->scale : 1;
    void *field = field_of(input->options, row->field);
    char *end;
    long long value = strtoll(input->value, &end, 10);

    if (row->letter && row->kind == OPTION_U32 && value > 0 && (double)value > row->maximum) {
        fprintf(input->err, "--%s must be between %.0f and %.0f\n", row->name, row->minimum,
                row->maximum);
        return 1;
    }
    if (end == input->value || (row->strict && *end) || (double)value < row->minimum ||
        (double)value > row->maximum)
        return out_of_range(input);
    if (row->kind == OPTION_I32)
        *(int32_t *)field = (int32_t)value;
    else if (row->kind == OPTION_U64)
        *(uint64_t *)field = (uint64_t)value * scale;
    else
        *(uint32_t *)field = (uint32_t)value * scale;
    return OPTIONS_RUN;
}

static int store_real(const struct option_input *input)
{
    char *end;
    double value = strtod(input->value, &end);

    if ((input->row->strict && end == input->value) ||
        !(value > input->row->minimum && value <= input->row->maximum))
        return out_of_range(input);
    *(double *)field_of(input->options, input->row->field) = value;
    return OPTIONS_RUN;
}

/* Copies the value of a suboption, which is part of a list. NULL: failed and reported. */
static char *keep_word(const struct option_input *input)
{
    struct options *options = input->options;
    char *kept = options->nwords < OPTIONS_MAX_WORDS ? strdup(input->value) : NULL;

    if (kept)
        options->words[options->nwords++] = kept;
    else
        fprintf(input->err, "no room for another %s\n", input->row->name);
    return kept;
}

/* Stores the value of one option and calls its setter. */
static int apply(struct option_input *input, bool on)
{
    const struct option_row *row = input->row;
    void *field = field_of(input->options, row->field);
    int status = OPTIONS_RUN;

    if (row->lacks) {
        fprintf(input->err, "This server is not built with %s support.\n", row->lacks);
        return EXIT_USAGE_ERROR;
    }
    switch (row->kind) {
    case OPTION_SWITCH:
        *(bool *)field = on;
        break;
    case OPTION_ON:
        *(bool *)field = true;
        break;
    case OPTION_OFF:
        *(bool *)field = false;
        break;
    case OPTION_COUNT:
        ++*(uint32_t *)field;
        break;
    case OPTION_U32:
    case OPTION_U64:
    case OPTION_I32:
        status = store_integer(input);
        break;
    case OPTION_REAL:
        status = store_real(input);
        break;
    case OPTION_TEXT:
        *(char **)field = row->letter ? input->value : keep_word(input);
        status = *(char **)field ? OPTIONS_RUN : 1;
        break;
    case OPTION_NONE:
    case OPTION_IGNORE:
    case OPTION_ACTION:
        break;
    }
    return status == OPTIONS_RUN && row->set ? row->set(input) : status;
}

/* Parses the table's defaults as if they were given. */
void options_init(struct options *options)
{
    *options = (struct options){.commands.prefix_delimiter = ':'};
    store_config_defaults(&options->store);
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];
        char value[32];
        struct option_input input = {options, row, value, stderr, stderr};

        if (!row->fallback || row->lacks)
            continue;
        if (row->kind == OPTION_OFF) {
            *(bool *)field_of(options, row->field) = true;
            continue;
        }
        snprintf(value, sizeof(value), "%s", row->fallback);
        apply(&input, true);
    }
    options->store.tuning.temp = false;
    options->binding_given = false;
    options->chunk_max_given = 0;
    options_flash_init(options);
}

void options_fini(struct options *options)
{
    for (unsigned int i = 0; i < options->nwords; i++)
        free(options->words[i]);
    free((char *)(uintptr_t)options->net.addresses);
    options_flash_fini(options);
    *options = (struct options){0};
}

int options_kernel_path(struct options *options, const char *word, size_t len, FILE *err)
{
    const char *wrong;
    char *kept;

    if (options->nwords == OPTIONS_MAX_WORDS) {
        fprintf(err, "too many bmc= words\n");
        return EXIT_USAGE_ERROR;
    }
    kept = strndup(word, len);
    if (!kept) {
        fprintf(err, "out of memory\n");
        return 1;
    }
    options->words[options->nwords++] = kept;
    wrong = kcache_parse(&options->kcache, kept);
    if (wrong) {
        fprintf(err, "bmc: \"%s\": %s\n", options->kcache.last, wrong);
        return EXIT_USAGE_ERROR;
    }
    return OPTIONS_RUN;
}

static bool is_kernel_word(const char *word)
{
    return strncmp(word, kernel_prefix, sizeof(kernel_prefix) - 1) == 0;
}

static bool has_kernel_word(const char *words)
{
    while (words && !is_kernel_word(words)) {
        words = strchr(words, ',');
        words = words ? words + 1 : NULL;
    }
    return words;
}

/* Finds the row of a suboption; *on is false for the "no_" form of a switch. */
static const struct option_row *find_suboption(const char *name, size_t len, bool *on)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];

        if (row->letter || !row->name || row->kind == OPTION_NONE)
            continue;
        *on = true;
        if (strlen(row->name) == len && memcmp(row->name, name, len) == 0)
            return row;
        *on = false;
        if (row->kind == OPTION_SWITCH && len == strlen(row->name) + 3 &&
            memcmp(name, "no_", 3) == 0 && memcmp(row->name, name + 3, len - 3) == 0)
            return row;
    }
    return NULL;
}

static int apply_suboption(const struct option_input *list, char *word)
{
    char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    struct option_input input = *list;
    bool on;

    input.row = find_suboption(word, len, &on);
    input.value = equals ? equals + 1 : NULL;
    if (!input.row) {
        fprintf(list->err, "Illegal suboption \"%s\"\n", word);
        return 1;
    }
    if (!input.value && input.row->argument && input.row->kind != OPTION_IGNORE) {
        if (input.row->argument[0] != '[') {
            fprintf(list->err, input.row->missing ? input.row->missing : "Missing %s argument",
                    input.row->name);
            fputc('\n', list->err);
            return 1;
        }
        input.value = (char *)(uintptr_t)input.row->fallback;
    }
    return apply(&input, on);
}

/* The length of the words from `word` on that are no suboptions: they belong to the kernel path. */
static size_t kernel_words(const char *word)
{
    size_t len = strcspn(word, ",");

    while (word[len] == ',') {
        const char *next = word + len + 1;
        size_t name = strcspn(next, ",=");
        bool on;

        if (!is_kernel_word(next) && (name == 0 || find_suboption(next, name, &on)))
            break;
        len += 1 + strcspn(next, ",");
    }
    return len;
}

int options_extended(struct option_input *input)
{
    char *word = input->value;

    while (*word) {
        size_t len = is_kernel_word(word) ? kernel_words(word) : strcspn(word, ",");
        char *copy;
        int status;

        if (is_kernel_word(word)) {
            status = options_kernel_path(input->options, word, len, input->err);
        } else {
            copy = strndup(word, len);
            status = copy ? apply_suboption(input, copy) : 1;
            free(copy);
        }
        if (status != OPTIONS_RUN)
            return status;
        word += len + (word[len] == ',');
    }
    return OPTIONS_RUN;
}

/* --- the command line -------------------------------------------------- */

struct scanner {
    struct options *options;
    char **argv;
    FILE *out, *err;
    int element;         /* index in argv before getopt returned the last letter */
    unsigned int nplain; /* X seen in that element */
    bool tcp_port_given;
};

/* What follows the X that getopt has just returned, within the same element of argv. */
static char *rest_of_cluster(struct scanner *scanner)
{
    char *p = scanner->argv[optind];

    if (optind != scanner->element)
        return NULL;
    for (unsigned int i = 0; p && i <= scanner->nplain; i++) {
        p = strchr(p, 'X');
        p = p ? p + 1 : NULL;
    }
    return p;
}

/*
 * -X is memcached's flag, unless one of the words in the rest of its element, or in the argument
 * behind it, begins with "bmc=": then it enables the kernel path, and dumping stays enabled. True:
 * it did, and getopt continues behind these words.
 */
static bool take_kernel_word(struct scanner *scanner, int *status)
{
    char *rest = rest_of_cluster(scanner);
    char *word = rest ? rest : scanner->argv[optind];

    if (!has_kernel_word(word) || (!rest && word[0] == '-')) {
        scanner->nplain++;
        return false;
    }
    *status = options_kernel_path(scanner->options, word, strlen(word), scanner->err);
    optind++;
    if (rest)
        *rest = '\0'; /* the cluster ends here for getopt too */
    return true;
}

static const struct option_row *find_letter(int letter)
{
    for (size_t i = 0; i < option_count; i++)
        if (option_table[i].letter && option_table[i].letter == letter)
            return &option_table[i];
    return NULL;
}

static int take_letter(struct scanner *scanner, int letter, bool long_form)
{
    const struct option_row *row = find_letter(letter);
    struct option_input input = {scanner->options, row, optarg, scanner->out, scanner->err};
    int status;

    if (!row) {
        fprintf(scanner->err, "Illegal argument \"%c\"\n", letter);
        return 1;
    }
    if (letter == 'X' && !long_form && take_kernel_word(scanner, &status))
        return status;
    if (letter == 'p')
        scanner->tcp_port_given = true;
    return apply(&input, true);
}

/* Makes getopt's two tables from ours. The leading '-' keeps getopt from permuting argv. */
static void make_tables(char *letters, struct option *longs)
{
    *letters++ = '-';
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];

        if (!row->letter)
            continue;
        *letters++ = row->letter;
        if (row->argument)
            *letters++ = ':';
        if (row->name) {
            /* Codes beyond the letters, to distinguish --disable-dumping from -X. */
            int has = row->argument               ? required_argument
                      : row->kind == OPTION_COUNT ? optional_argument /* ignored */
                                                  : no_argument;

            *longs++ = (struct option){row->name, has, NULL, row->letter + 0x100};
            if (row->alias)
                *longs++ = (struct option){row->alias, has, NULL, row->letter + 0x100};
        }
    }
    *letters = '\0';
    *longs = (struct option){0};
}

static int scan(struct scanner *scanner, int argc)
{
    char letters[2 * 64 + 2];
    struct option longs[64];
    int code;

    make_tables(letters, longs);
    optind = 0; /* glibc: restarts the scan */
    for (;;) {
        int element = optind ? optind : 1;

        if (scanner->element != element) {
            scanner->element = element;
            scanner->nplain = 0;
        }
        code = getopt_long(argc, scanner->argv, letters, longs, NULL);
        if (code == -1)
            return OPTIONS_RUN;
        if (code != 1) { /* 1: an operand, ignored as memcached does */
            int status = take_letter(scanner, code & 0xff, code > 0xff);

            if (status != OPTIONS_RUN)
                return status;
        }
    }
}

int options_parse(struct options *options, int argc, char **argv, FILE *out, FILE *err)
{
    struct scanner scanner = {.options = options, .argv = argv, .out = out, .err = err};
    int status;

    options_environment(options);
    status = scan(&scanner, argc);

    if (status != OPTIONS_RUN)
        return status;
    if (options->net.udp_port != 0 && !scanner.tcp_port_given)
        options->net.tcp_port = options->net.udp_port;
    if (options->net.socket_path)
        options->net.udp_port = 0;
    return options_check(options, err);
}

/* --- stats settings ---------------------------------------------------- */

static void show(const struct options *o, const struct option_row *row, struct stat_sink *sink)
{
    const void *field = (const char *)o + row->field;

    switch (row->show) {
    case SHOW_NUMBER:
        stat_add(sink, row->setting, "%d", *(const int32_t *)field);
        break;
    case SHOW_U32:
        stat_add(sink, row->setting, "%u", *(const uint32_t *)field);
        break;
    case SHOW_MILLI:
        stat_add(sink, row->setting, "%.3f", *(const double *)field);
        break;
    case SHOW_YES_NO:
        stat_add(sink, row->setting, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case SHOW_ON_OFF:
        stat_add(sink, row->setting, "%s", *(const bool *)field ? "on" : "off");
        break;
    case SHOW_U64:
        stat_add(sink, row->setting, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case SHOW_REAL:
        stat_add(sink, row->setting, "%.2f", *(const double *)field);
        break;
    case SHOW_OCTAL:
        stat_add(sink, row->setting, "%o", *(const uint32_t *)field);
        break;
    case SHOW_TEXT:
    case SHOW_TEXT_OR_NO: {
        const char *text = *(const char *const *)field;

        stat_add(sink, row->setting, "%s", text ? text : row->show == SHOW_TEXT ? "NULL" : "no");
        break;
    }
    case SHOW_CHAR:
        stat_add(sink, row->setting, "%c", *(const char *)field);
        break;
    case SHOW_BINDING:
        stat_add(sink, row->setting, "%s", binding_text(*(const enum protocol *)field));
        break;
    case SHOW_VERBOSITY:
        stat_add(sink, row->setting, "%u", log_get_level());
        break;
    case SHOW_TLS_VERSION:
        stat_add(sink, row->setting, "tlsv1.%u", *(const uint32_t *)field);
        break;
    case SHOW_TLS_VERIFY:
        stat_add(sink, row->setting, "%u", (1u << *(const uint32_t *)field) - 1);
        break;
    case SHOW_ZERO:
        stat_add(sink, row->setting, "0");
        break;
    case SHOW_NO:
        stat_add(sink, row->setting, "no");
        break;
    }
}

static const struct option_row *find_setting(unsigned int place)
{
    for (size_t i = 0; i < option_count; i++)
        if (option_table[i].place == place)
            return &option_table[i];
    return NULL;
}

void options_settings(const struct options *options, struct stat_sink *sink)
{
    const struct option_row *row;

    for (unsigned int place = 1; place <= OPTION_PLACES; place++) {
        row = find_setting(place);
        if (row && !row->lacks)
            show(options, row, sink);
    }
}
