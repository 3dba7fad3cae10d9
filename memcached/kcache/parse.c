/* SPDX-License-Identifier: BSD-3-Clause */
/* parse: the words behind bmc=, the same in builds with and without the kernel path. */
#include <net/if.h>
#include <string.h>

#include "base/num.h"
#include "kcache/kcache.h"
#include "kcache/prefix.h"

enum { STALL_MAX = 86400 };

static const char *add_interface(struct kcache_options *options, const char *name)
{
    unsigned int i;

    if (!*name)
        return "bmc= needs the name of an interface, like bmc=eth0, or bmc=auto";
    if (strcmp(name, "auto") == 0) {
        options->automatic = true;
        return NULL;
    }
    if (strlen(name) >= IF_NAMESIZE)
        return "bmc=: the name of the interface is too long";
    for (i = 0; i < options->ninterfaces; i++)
        if (strcmp(options->interfaces[i], name) == 0)
            return NULL;
    if (options->ninterfaces == KCACHE_MAX_INTERFACES)
        return "bmc=: at most 16 interfaces";
    options->interfaces[options->ninterfaces++] = name;
    return NULL;
}

static const char *parse_mode(struct kcache_options *options, const char *name)
{
    static const struct {
        const char *name;
        enum kcache_mode mode;
    } modes[] = {{"auto", KCACHE_AUTO},
                 {"native", KCACHE_NATIVE},
                 {"skb", KCACHE_GENERIC},
                 {"tc", KCACHE_TC}};
    size_t i;

    for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(modes[i].name, name) == 0) {
            options->mode = modes[i].mode;
            return NULL;
        }
    }
    return "bmc: mode is one of auto, native, skb, tc";
}

/* The server says every second that it runs, by a clock that may be late: 1 would be too few. */
static const char *parse_stall(struct kcache_options *options, const char *text)
{
    struct slice digits = {text, strlen(text)};
    uint64_t seconds;

    if (strspn(text, "0123456789") != digits.len || !num_parse_u64(digits, &seconds) ||
        seconds == 1 || seconds > STALL_MAX)
        return "bmc: stall is a number of seconds from 2 to 86400, or 0: for ever";
    options->stall = seconds ? (int)seconds : -1;
    return NULL;
}

/* --- whom the kernel answers ------------------------------------------------ */

static bool is_source(const char *word)
{
    struct prefix prefix;

    return strcmp(word, "all") == 0 || strcmp(word, "local") == 0 || (word[0] == '@' && word[1]) ||
           prefix_parse(word, &prefix);
}

/* No other option has a word that could be one of an address. */
static bool goes_on(const char *word)
{
    return strcmp(word, "all") == 0 || strcmp(word, "local") == 0 || word[0] == '@' ||
           (strpbrk(word, ".:") && !strchr(word, '='));
}

static const char *add_source(struct kcache_options *options, const char *word, bool first)
{
    if (!is_source(word))
        return "bmc: allow= takes ADDRESS, ADDRESS/LENGTH (IPv4 or IPv6), local, all or @FILE, "
               "separated by commas";
    if (first && options->nallow == KCACHE_MAX_ALLOW)
        return "bmc: at most 64 times allow=";
    if (first)
        options->allow[options->nallow++].first = word;
    options->allow[options->nallow - 1].n++;
    return NULL;
}

/* Digits alone, from low to high. Returns what is behind them, or NULL. */
static const char *parse_number(const char *text, unsigned long low, unsigned long high,
                                uint32_t *out)
{
    unsigned long number = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9' && at < text + 10; at++)
        number = number * 10 + (unsigned long)(*at - '0');
    if (at == text || number < low || number > high)
        return NULL;
    *out = (uint32_t)number;
    return at;
}

enum { RATE_MAX = 10000000 };

/*
 * The bucket's clock ticks every 1 to 10 ms, so a burst of less than a hundredth of the rate
 * would lower the rate.
 */
static const char *parse_rate(struct kcache_options *options, const char *text)
{
    const char *rest = parse_number(text, 1, RATE_MAX, &options->rate);

    options->burst = options->rate;
    if (rest && *rest == '/')
        rest = parse_number(rest + 1, 1, RATE_MAX, &options->burst);
    if (!rest || *rest)
        return "bmc: rate= takes requests a second, and /BURST behind them: 1 to 10000000 each";
    if (options->burst < (options->rate + 99) / 100)
        return "bmc: rate=: a burst must be at least a hundredth of the rate";
    return NULL;
}

static const char *parse_amplification(struct kcache_options *options, const char *text)
{
    const char *rest = parse_number(text, 1, 65535, &options->amplification);

    return rest && !*rest ? NULL : "bmc: amplification= takes a number from 1 to 65535";
}

bool kcache_wanted(const struct kcache_options *options)
{
    return options->ninterfaces > 0 || options->automatic;
}

const char *kcache_parse(struct kcache_options *options, char *word)
{
    const char *error = NULL;
    bool sources = false;
    char *part;

    while (!error && (part = strsep(&word, ",")) != NULL) {
        if (sources && goes_on(part)) {
            error = add_source(options, part, false);
            continue;
        }
        sources = strncmp(part, "allow=", 6) == 0;
        if (sources)
            error = add_source(options, part + 6, true);
        else if (strncmp(part, "rate=", 5) == 0)
            error = parse_rate(options, part + 5);
        else if (strncmp(part, "amplification=", 14) == 0)
            error = parse_amplification(options, part + 14);
        else if (strncmp(part, "bmc=", 4) == 0)
            error = add_interface(options, part + 4);
        else if (strncmp(part, "mode=", 5) == 0)
            error = parse_mode(options, part + 5);
        else if (strncmp(part, "stall=", 6) == 0)
            error = parse_stall(options, part + 6);
        else if (strcmp(part, "optional") == 0)
            options->optional = true;
        else
            error = "bmc: the options are bmc=INTERFACE, mode=auto|native|skb|tc, stall=SECONDS, "
                    "allow=SOURCES, rate=N[/BURST], amplification=N, optional";
    }
    return error;
}
