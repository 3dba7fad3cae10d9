/* SPDX-License-Identifier: BSD-3-Clause */
#include "bmc/options.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "bmc/trace.h"
#include "config.h"

enum { PORT = 11211, INTERVAL_MAX = 86400 };

static const char start_of_help[] =
    "usage: bmc INTERFACE[,INTERFACE]... [OPTION]...\n"
    "       bmc stats [--port N]\n"
    "       bmc trace [ADDRESS[:PORT]]\n"
    "\n"
    "Caches in the kernel what this machine's memcached answers to gets over UDP, and answers\n"
    "the same gets there until the item is written.  `bmc stats` shows the counters of the\n"
    "running bmc.  Interfaces: all those by which clients reach that memcached.\n"
    "`bmc trace` prints what the kernel programs of any server here do with each packet\n"
    "(of this client, for example), and why.\n"
    "\n";

/* The setter of an option that is not a word of kcache_parse. */
typedef bool option_set(struct options *options, const char *value);

static bool number(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    struct slice digits = {text, strlen(text)};

    return digits.len && strspn(text, "0123456789") == digits.len && num_parse_u64(digits, out) &&
           *out >= low && *out <= high;
}

static bool set_port(struct options *options, const char *value)
{
    uint64_t port;

    if (!number(value, 1, 65535, &port))
        return false;
    options->port = (uint16_t)port;
    return true;
}

static bool set_interval(struct options *options, const char *value)
{
    uint64_t seconds;

    if (!number(value, 1, INTERVAL_MAX, &seconds))
        return false;
    options->interval = (unsigned int)seconds;
    return true;
}

static bool set_address(struct options *options, const char *value)
{
    struct in6_addr *out = &options->addresses[options->naddresses];

    if (options->naddresses == OPTIONS_ADDRESSES)
        return false;
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, value, &out->s6_addr[12]) == 1)
        out->s6_addr[10] = out->s6_addr[11] = 0xff;
    else if (inet_pton(AF_INET6, value, out) != 1)
        return false;
    options->naddresses++;
    return true;
}

static bool set_user(struct options *options, const char *value)
{
    options->user = value;
    return *value != '\0';
}

static bool set_until_eof(struct options *options, const char *value)
{
    options->until_eof = true;
    return value == NULL;
}

static const struct row {
    const char *name, *argument;
    const char *word; /* of kcache_parse, or NULL: */
    option_set *set;
    const char *wants; /* the values that set accepts, for its error */
    const char *help;
} rows[] = {
    {"port", "N", NULL, set_port, "a port, 1 to 65535", "memcached's UDP and TCP port (11211)"},
    {"address", "A", NULL, set_address, "an IPv4 or IPv6 address, 64 of them at most",
     "answer gets to this address of the machine; may be repeated (all)"},
    {"entries", "N[/M[/L]]", "entries=", NULL, NULL,
     "cached items, a power of two (131072), of which at most M may be of\n"
     "medium size (N/4) and L of large size (N/16)"},
    {"key-max", "N", "keymax=", NULL, NULL, "bytes of the longest key (250)"},
    {"value-max", "N", "valuemax=", NULL, NULL, "bytes of the longest value (1300)"},
    {"max-age", "MS", "maxage=", NULL, NULL,
     "milliseconds after which an item is dropped in any case (1000)"},
    {"settle", "MS", "settle=", NULL, NULL, "milliseconds that a write may be in flight (1000)"},
    {"connections", "N", "connections=", NULL, NULL, "TCP connections that are tracked (16384)"},
    {"mode", "MODE", "mode=", NULL, NULL,
     "XDP mode: native, skb, or auto, which tries both (auto)"},
    {"allow", "SOURCE,...", "allow=", NULL, NULL,
     "sources to answer: addresses, prefixes, local, all, @FILE (local);\n"
     "SIGHUP reads FILE again"},
    {"rate", "N[/BURST]", "rate=", NULL, NULL, "answer at most N requests a second of each source"},
    {"amplification", "N", "amplification=", NULL, NULL,
     "send no reply larger than N times its request"},
    {"interval", "SECONDS", NULL, set_interval, "seconds, 1 to 86400",
     "print a line of statistics every SECONDS"},
    {"user", "NAME", NULL, set_user, "a user", "run as this user after the start (nobody)"},
    {"until-eof", NULL, NULL, set_until_eof, NULL,
     "end when standard input does: with the program that has the\n"
     "other end of a pipe, however that ends"},
    {"help", NULL, NULL, NULL, NULL, "print this"},
    {"version", NULL, NULL, NULL, NULL, "print the version"},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), COLUMN = 27 };

static void print_help(FILE *out)
{
    const char *line, *end;
    size_t i;
    int n;

    fputs(start_of_help, out);
    for (i = 0; i < ROWS; i++) {
        n = fprintf(out, "  --%s%s%s", rows[i].name, rows[i].argument ? " " : "",
                    rows[i].argument ? rows[i].argument : "");
        for (line = rows[i].help; line; line = end ? end + 1 : NULL) {
            end = strchr(line, '\n');
            fprintf(out, "%*s%.*s\n", n < COLUMN ? COLUMN - n : 1, "",
                    end ? (int)(end - line) : (int)strlen(line), line);
            n = 0;
        }
    }
}

/* Passes a word to kcache_parse, which keeps slices of it. NULL, or an error text. */
static const char *take_word(struct options *options, const char *prefix, const char *value)
{
    char *word;

    if (options->nwords == OPTIONS_WORDS)
        return "there are too many options";
    if (asprintf(&word, "%s%s", prefix, value) < 0)
        return "out of memory";
    options->words[options->nwords++] = word;
    return kcache_parse(&options->kcache, word);
}

static int complain(FILE *err, const char *what)
{
    fprintf(err, "bmc: %s\n", what);
    return EXIT_USAGE_ERROR;
}

static int take_option(struct options *options, const struct row *row, const char *value, FILE *out,
                       FILE *err)
{
    const char *error;

    if (strcmp(row->name, "help") == 0) {
        print_help(out);
        return EXIT_SUCCESS;
    }
    if (strcmp(row->name, "version") == 0) {
        fprintf(out, "bmc %s\n", PACKAGE_VERSION);
        return EXIT_SUCCESS;
    }
    if (row->set) {
        if (row->set(options, value))
            return OPTIONS_RUN;
        fprintf(err, "bmc: --%s %s: it takes %s\n", row->name, value, row->wants);
        return EXIT_USAGE_ERROR;
    }
    error = take_word(options, row->word, value);
    if (!error)
        return OPTIONS_RUN;
    fprintf(err, "bmc: --%s %s: %s\n", row->name, value, error);
    return EXIT_USAGE_ERROR;
}

/* Names separated by commas. */
static int take_interfaces(struct options *options, const char *names, FILE *err)
{
    char *copy = strdup(names), *rest = copy, *name;
    const char *error = copy ? NULL : "out of memory";

    while (!error && (name = strsep(&rest, ",")) != NULL)
        error = take_word(options, "bmc=", name);
    if (error)
        fprintf(err, "bmc: %s: %s\n", names, error);
    free(copy);
    return error ? EXIT_USAGE_ERROR : OPTIONS_RUN;
}

/* The first word that is no option: a command. Whether it is one. */
static bool take_command(struct options *options, const char *word)
{
    if (options->stats || options->trace || options->nwords)
        return false;
    options->stats = strcmp(word, "stats") == 0;
    options->trace = strcmp(word, "trace") == 0;
    return options->stats || options->trace;
}

/* Names of interfaces; of `bmc trace` an address. */
static int take_operand(struct options *options, const char *word, FILE *err)
{
    if (!options->trace)
        return take_interfaces(options, word, err);
    if (trace_parse(word, &options->traced))
        return OPTIONS_RUN;
    fprintf(err, "bmc: trace %s: it takes ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT\n", word);
    return EXIT_USAGE_ERROR;
}

static int check(struct options *options, FILE *err)
{
    const char *error;

    if (options->stats && kcache_wanted(&options->kcache))
        return complain(err, "`bmc stats` takes no interface, but --port (see bmc --help)");
    if (options->stats || options->trace)
        return OPTIONS_RUN;
    if (!kcache_wanted(&options->kcache))
        return complain(err, "which interface? `bmc eth0` (see bmc --help)");
    options->kcache.chain.wanted = true;
    error = kcache_check(&options->kcache);
    if (error)
        return complain(err, error);
    if (!options->naddresses) {
        set_address(options, "::");
        set_address(options, "0.0.0.0");
    }
    return OPTIONS_RUN;
}

int options_parse(struct options *options, int argc, char **argv, FILE *out, FILE *err)
{
    struct option known[ROWS + 1] = {{0}};
    int status = OPTIONS_RUN, at = 0, found, i;

    *options = (struct options){.port = PORT, .user = "nobody"};
    for (i = 0; i < ROWS; i++)
        known[i] = (struct option){rows[i].name, rows[i].argument ? required_argument : no_argument,
                                   NULL, 0};
    opterr = 0;
    while (status == OPTIONS_RUN && (found = getopt_long(argc, argv, "-:h", known, &at)) != -1) {
        if (found == 1 && take_command(options, optarg))
            continue;
        if (found == 1)
            status = take_operand(options, optarg, err);
        else if (found == 'h')
            status = take_option(options, &rows[ROWS - 2], NULL, out, err);
        else if (found == 0)
            status = take_option(options, &rows[at], optarg, out, err);
        else {
            fprintf(err, "bmc: %s: %s (see bmc --help)\n", argv[optind - 1],
                    found == ':' ? "a value is missing" : "there is no such option");
            status = EXIT_USAGE_ERROR;
        }
    }
    for (; status == OPTIONS_RUN && optind < argc; optind++) /* behind "--" */
        status = take_operand(options, argv[optind], err);
    return status == OPTIONS_RUN ? check(options, err) : status;
}

void options_fini(struct options *options)
{
    while (options->nwords > 0)
        free(options->words[--options->nwords]);
}
