/* SPDX-License-Identifier: BSD-3-Clause */
/* parse: the words behind bmc=, the same in builds with and without the kernel path. */
#include <net/if.h>
#include <string.h>

#include "base/num.h"
#include "kcache/kcache.h"

enum { STALL_MAX = 86400 };

static const char *add_interface(struct kcache_options *options, const char *name)
{
    unsigned int i;

    if (!*name)
        return "bmc= needs the name of an interface, like bmc=eth0";
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

const char *kcache_parse(struct kcache_options *options, char *word)
{
    const char *error = NULL;
    char *part;

    while (!error && (part = strsep(&word, ",")) != NULL) {
        if (strncmp(part, "bmc=", 4) == 0)
            error = add_interface(options, part + 4);
        else if (strncmp(part, "mode=", 5) == 0)
            error = parse_mode(options, part + 5);
        else if (strncmp(part, "stall=", 6) == 0)
            error = parse_stall(options, part + 6);
        else if (strcmp(part, "optional") == 0)
            options->optional = true;
        else
            error = "bmc: the options are bmc=INTERFACE, mode=auto|native|skb|tc, stall=SECONDS, "
                    "optional";
    }
    return error;
}
