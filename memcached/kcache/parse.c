/* SPDX-License-Identifier: BSD-3-Clause */
/* parse: parses the options of bmc=, the same in builds with and without the kernel path. */
#include <net/if.h>
#include <stddef.h>
#include <string.h>

#include "base/num.h"
#include "kcache/kcache.h"
#include "kcache/parse.h"
#include "kmem/prefix.h"

enum { SECONDS_MAX = 86400 };

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
    if (options->ninterfaces == IFACE_MAX)
        return "bmc=: at most 16 interfaces";
    options->interfaces[options->ninterfaces++] = name;
    return NULL;
}

static const char *parse_mode(struct kcache_options *options, const char *name)
{
    static const struct {
        const char *name;
        enum iface_mode mode;
    } modes[] = {
        {"auto", IFACE_AUTO}, {"native", IFACE_NATIVE}, {"skb", IFACE_GENERIC}, {"tc", IFACE_TC}};
    size_t i;

    if (strcmp(name, "chain") == 0) {
        options->chain.wanted = true;
        return NULL;
    }
    for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(modes[i].name, name) == 0) {
            options->mode = modes[i].mode;
            return NULL;
        }
    }
    return "mode is one of auto, native, skb, tc, or chain";
}

/* on or off. */
static const char *parse_switch(enum kcache_switch *out, const char *value, const char *error)
{
    if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
        return error;
    *out = value[1] == 'n' ? KCACHE_ON : KCACHE_OFF;
    return NULL;
}

/* Parses digits, a number from low to high. Returns what follows them, or NULL. */
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

/* --- the chain ---------------------------------------------------------------- */

/* entries=N[/MEDIUM[/LARGE]]: buckets, and blocks for texts that do not fit these. */
static const char *parse_entries(struct kcache_chain *chain, const char *text)
{
    const char *rest = parse_number(text, 1, KCACHE_ENTRIES_MAX, &chain->entries);

    if (rest && *rest == '/')
        rest = parse_number(rest + 1, 1, KCACHE_ENTRIES_MAX, &chain->medium);
    if (rest && *rest == '/')
        rest = parse_number(rest + 1, 1, KCACHE_ENTRIES_MAX, &chain->large);
    return rest && !*rest ? NULL
                          : "entries= takes a number from 1 to 16777216, optionally followed by "
                            "/MEDIUM/LARGE, the numbers of blocks for longer items";
}

/* The options of the chain that take one number. */
static const struct chain_word {
    const char *name;
    size_t field;
    unsigned long low, high;
    const char *error;
} chain_words[] = {
    {"keymax=", offsetof(struct kcache_chain, key_max), 1, 250,
     "keymax= takes bytes from 1 to 250"},
    {"valuemax=", offsetof(struct kcache_chain, value_max), 1, KCACHE_VALUE_MAX,
     "valuemax= takes bytes from 1 to 1300"},
    {"maxage=", offsetof(struct kcache_chain, max_age_ms), 1, 86400000,
     "maxage= takes milliseconds from 1 to 86400000"},
    {"settle=", offsetof(struct kcache_chain, settle_ms), 10, 60000,
     "settle= takes milliseconds from 10 to 60000"},
    {"connections=", offsetof(struct kcache_chain, connections), 1, 1 << 22,
     "connections= takes a number from 1 to 4194304"},
};

/* Whether the word is an option of the chain; then *error is NULL or an error text. */
static bool parse_chain(struct kcache_chain *chain, const char *word, const char **error)
{
    const struct chain_word *each = chain_words;
    const char *rest;
    size_t i;

    if (strncmp(word, "entries=", 8) == 0) {
        *error = parse_entries(chain, word + 8);
        chain->given = true;
        return true;
    }
    for (i = 0; i < sizeof(chain_words) / sizeof(chain_words[0]); i++, each++) {
        if (strncmp(word, each->name, strlen(each->name)) != 0)
            continue;
        rest = parse_number(word + strlen(each->name), each->low, each->high,
                            (uint32_t *)((char *)chain + each->field));
        *error = rest && !*rest ? NULL : each->error;
        chain->given = true;
        return true;
    }
    return false;
}

const char *kcache_check(const struct kcache_options *options)
{
    if (options->chain.wanted && options->mode == IFACE_TC)
        return "the chain answers in XDP: mode=chain cannot go with mode=tc";
    if (options->chain.given && !options->chain.wanted)
        return "entries=, keymax=, valuemax=, maxage=, settle= and connections= need "
               "mode=chain";
    if (options->chain.wanted && (options->tcp || options->udp || options->xsk || options->refresh))
        return "the chain answers UDP: mode=chain cannot go with tcp=, udp=, xsk= or refresh=";
    if (options->xsk == KCACHE_ON && (options->mode == IFACE_GENERIC || options->mode == IFACE_TC))
        return "xsk=on needs native XDP: it cannot go with mode=skb or mode=tc";
    if (options->xsk == KCACHE_ON && options->udp == KCACHE_OFF)
        return "xsk=on is for UDP: it cannot go with udp=off";
    if (options->unstamped == KCACHE_ON && options->tcp != KCACHE_ON)
        return "unstamped=on is for TCP: it needs tcp=on";
    if (options->udp == KCACHE_OFF && options->tcp != KCACHE_ON)
        return "udp=off leaves nothing to answer without tcp=on";
    return NULL;
}

/* Seconds from `least` on, or 0 for no limit, which becomes -1. */
static const char *parse_seconds(int *out, const char *text, uint64_t least, const char *error)
{
    struct slice digits = {text, strlen(text)};
    uint64_t seconds;

    if (strspn(text, "0123456789") != digits.len || !num_parse_u64(digits, &seconds) ||
        (seconds && seconds < least) || seconds > SECONDS_MAX)
        return error;
    *out = seconds ? (int)seconds : -1;
    return NULL;
}

/* The server renews its lease every second, by a clock that may be late: 1 would be too few. */
static const char *parse_stall(struct kcache_options *options, const char *text)
{
    return parse_seconds(&options->stall, text, 2,
                         "stall is a number of seconds from 2 to 86400, or 0 for no limit");
}

static const char *parse_refresh(struct kcache_options *options, const char *text)
{
    return parse_seconds(&options->refresh, text, 1,
                         "refresh is a number of seconds from 1 to 86400, or 0 for no limit");
}

/* --- sources that the kernel answers ----------------------------------------- */

static bool is_source(const char *word)
{
    struct prefix prefix;

    return strcmp(word, "all") == 0 || strcmp(word, "local") == 0 || (word[0] == '@' && word[1]) ||
           prefix_parse(word, &prefix);
}

/* Whether the word continues the list of allow=: no other option looks like an address. */
static bool goes_on(const char *word)
{
    return strcmp(word, "all") == 0 || strcmp(word, "local") == 0 || word[0] == '@' ||
           (strpbrk(word, ".:") && !strchr(word, '='));
}

static const char *add_source(struct kcache_options *options, const char *word, bool first)
{
    if (!is_source(word))
        return "allow= takes ADDRESS, ADDRESS/LENGTH (IPv4 or IPv6), local, all or @FILE, "
               "separated by commas";
    if (first && options->nallow == KCACHE_MAX_ALLOW)
        return "at most 64 times allow=";
    if (first)
        options->allow[options->nallow++].first = word;
    options->allow[options->nallow - 1].n++;
    return NULL;
}

enum { RATE_MAX = 10000000 };

/*
 * The bucket's clock ticks every 1 to 10 ms, so a burst of less than a hundredth of the rate would
 * lower the rate.
 */
static const char *parse_rate(struct kcache_limits *limits, const char *text)
{
    const char *rest = parse_number(text, 1, RATE_MAX, &limits->rate);

    limits->burst = limits->rate;
    if (rest && *rest == '/')
        rest = parse_number(rest + 1, 1, RATE_MAX, &limits->burst);
    if (!rest || *rest)
        return "rate= takes requests a second, optionally followed by /BURST: 1 to 10000000 "
               "each";
    if (limits->burst < (limits->rate + 99) / 100)
        return "rate=: a burst must be at least a hundredth of the rate";
    return NULL;
}

static const char *parse_amplification(struct kcache_limits *limits, const char *text)
{
    const char *rest = parse_number(text, 1, 65535, &limits->amplification);

    return rest && !*rest ? NULL : "amplification= takes a number from 1 to 65535";
}

bool parse_limit(struct kcache_limits *limits, const char *word, const char **error)
{
    if (strncmp(word, "rate=", 5) == 0)
        *error = parse_rate(limits, word + 5);
    else if (strncmp(word, "amplification=", 14) == 0)
        *error = parse_amplification(limits, word + 14);
    else
        return false;
    return true;
}

bool kcache_wants_tcp(const struct kcache_options *options)
{
    return options->tcp == KCACHE_ON;
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
        options->last = part;
        if (sources && goes_on(part)) {
            error = add_source(options, part, false);
            continue;
        }
        sources = strncmp(part, "allow=", 6) == 0;
        if (sources)
            error = add_source(options, part + 6, true);
        else if (strncmp(part, "bmc=", 4) == 0)
            error = add_interface(options, part + 4);
        else if (strncmp(part, "mode=", 5) == 0)
            error = parse_mode(options, part + 5);
        else if (strncmp(part, "stall=", 6) == 0)
            error = parse_stall(options, part + 6);
        else if (strncmp(part, "refresh=", 8) == 0)
            error = parse_refresh(options, part + 8);
        else if (strncmp(part, "udp=", 4) == 0)
            error = parse_switch(&options->udp, part + 4, "udp is on or off");
        else if (strncmp(part, "tcp=", 4) == 0)
            error = parse_switch(&options->tcp, part + 4, "tcp is on or off");
        else if (strncmp(part, "unstamped=", 10) == 0)
            error = parse_switch(&options->unstamped, part + 10, "unstamped is on or off");
        else if (strncmp(part, "xsk=", 4) == 0)
            error = parse_switch(&options->xsk, part + 4, "xsk is on or off");
        else if (strcmp(part, "optional") == 0)
            options->optional = true;
        else if (!parse_limit(&options->limits, part, &error) &&
                 !parse_chain(&options->chain, part, &error))
            error = "the words are bmc=INTERFACE, mode=auto|native|skb|tc|chain, "
                    "udp=on|off, tcp=on|off, unstamped=on|off, xsk=on|off, stall=SECONDS, "
                    "refresh=SECONDS, "
                    "allow=SOURCES, rate=N[/BURST], amplification=N, optional, and of the chain "
                    "entries=N, keymax=N, valuemax=N, maxage=MS, settle=MS, connections=N";
    }
    return error;
}
