/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is read as words behind -X, and its words as prefixes. What must hold: nothing outside
 * is read (the bytes end where the allocation ends), a prefix that is taken is what inet_pton
 * reads, and prints as itself again, and a list that was reduced holds what it held.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcache/kcache.h"
#include "kmem/prefix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 64 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool same(const struct prefix *a, const struct prefix *b)
{
    return a->high == b->high && a->low == b->low && a->bits == b->bits && a->six == b->six;
}

static void check_prefix(const struct prefix *prefix)
{
    char text[INET6_ADDRSTRLEN], whole[2 * INET6_ADDRSTRLEN];
    uint64_t words[2] = {htobe64(prefix->high), htobe64(prefix->low)};
    struct prefix again;

    must(prefix->bits <= (prefix->six ? 128 : 32));
    must((prefix->high & ~prefix_mask_high(prefix->bits)) == 0);
    must((prefix->low & ~prefix_mask_low(prefix->bits)) == 0);
    must(inet_ntop(prefix->six ? AF_INET6 : AF_INET, words, text, sizeof(text)) != NULL);
    snprintf(whole, sizeof(whole), "%s/%u", text, prefix->bits);
    must(prefix_parse(whole, &again) && same(prefix, &again) && prefix_holds(prefix, &again));
}

static void check_list(struct prefix *prefixes, size_t n)
{
    struct prefix all[MOST];
    size_t kept;

    memcpy(all, prefixes, n * sizeof(*all));
    kept = prefix_reduce(prefixes, n);
    must(kept <= n && (kept > 0 || n == 0));
    for (size_t i = 0; i < n; i++) {
        bool held = false;

        for (size_t j = 0; j < kept; j++)
            held |= prefix_holds(&prefixes[j], &all[i]);
        must(held);
    }
    for (size_t i = 0; i + 1 < kept; i++)
        must(!prefix_holds(&prefixes[i], &prefixes[i + 1]) &&
             !prefix_holds(&prefixes[i + 1], &prefixes[i]));
}

/* The words that kcache_parse takes as sources are addresses, names or files. */
static void check_words(char *text)
{
    static struct kcache_options options;

    memset(&options, 0, sizeof(options));
    if (kcache_parse(&options, text))
        return;
    must(options.nallow <= KCACHE_MAX_ALLOW &&
         (options.limits.rate == 0) == (options.limits.burst == 0));
    for (unsigned int i = 0; i < options.nallow; i++) {
        const char *word = options.allow[i].first;

        for (unsigned int j = 0; j < options.allow[i].n; j++, word += strlen(word) + 1) {
            struct prefix prefix;

            must(strcmp(word, "all") == 0 || strcmp(word, "local") == 0 || word[0] == '@' ||
                 prefix_parse(word, &prefix));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *rest = text, *word;
    struct prefix prefixes[MOST];
    size_t n = 0;

    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    while (n < MOST && (word = strsep(&rest, ",\n")) != NULL)
        if (prefix_parse(word, &prefixes[n]))
            check_prefix(&prefixes[n++]);
    check_list(prefixes, n);
    memcpy(text, data, size);
    check_words(text);
    free(text);
    return 0;
}
