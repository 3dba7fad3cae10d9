/* SPDX-License-Identifier: BSD-3-Clause */
/* The sizes and times that follow from the words of mode=chain. */
#include <string.h>

#include "kcache/chain.h"
#include "t/lib/tap.h"

enum { MS = 1000000 };

static struct kcache_chain words(const char *text)
{
    struct kcache_options options = {0};
    char word[128];
    const char *wrong;

    snprintf(word, sizeof(word), "bmc=lo,mode=chain%s", text);
    wrong = kcache_parse(&options, word);
    ok(!wrong && !kcache_check(&options), "bmc=lo,mode=chain%s", text);
    chain_complete(&options.chain);
    return options.chain;
}

static void test_sizes(void)
{
    struct kcache_chain chain = words("");

    ok(chain.entries == 1 << 17 && chain.medium == 1 << 15 && chain.large == 1 << 13,
       "by default a quarter of the entries may be medium, a sixteenth large");
    chain = words(",entries=1000");
    ok(chain.entries == 1024 && chain.medium == 256 && chain.large == 64,
       "numbers of entries are rounded up to powers of two");
    chain = words(",entries=1");
    ok(chain.entries == 1 && chain.medium == 1 && chain.large == 1, "no number of entries is zero");
    chain = words(",entries=16777216/5/9");
    ok(chain.entries == 1 << 24 && chain.medium == 8 && chain.large == 16,
       "each number of entries can be given");
    chain = words(",keymax=250,valuemax=178");
    ok(chain.medium == 1 << 15 && chain.large == 1,
       "there are no large blocks where no reply is so long");
    chain = words(",keymax=250,valuemax=179");
    ok(chain.large == 1 << 13, "there are large blocks where a reply may be as long");
    chain = words(",keymax=20,valuemax=24,entries=64/64/64");
    ok(chain.medium == 1 && chain.large == 1,
       "there are no medium or large blocks where all replies are short");
}

static void test_times(void)
{
    struct kcache_chain chain = words(",maxage=100,settle=70,connections=3");
    struct chain_settings settings;

    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.max_age == 24 && settings.settle == 70 * MS && settings.nconnections == 3,
       "maxage=100 at 4 ms per tick is 24 ticks, less than 100 ms");
    chain_settings(&chain, 1 * MS, &settings);
    ok(settings.max_age == 99, "maxage=100 at 1 ms per tick is 99 ticks");
    chain.max_age_ms = 1;
    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.max_age == 0, "a maxage below a tick ends with the tick");
    chain = words("");
    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.max_age == 249 && settings.settle == 1000ull * MS,
       "maxage and settle are a second by default");
    ok(settings.outstanding == 500ull * MS, "a request is outstanding for half of maxage");
    chain.max_age_ms = 3600000;
    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.outstanding == CHAIN_OUTSTANDING_NS,
       "a request is outstanding for two seconds at most");
    ok(settings.noutstanding >= 1024 && !(settings.noutstanding & (settings.noutstanding - 1)),
       "the table of outstanding requests is at least 1,024, a power of two");
}

int main(void)
{
    test_sizes();
    test_times();
    return done();
}
