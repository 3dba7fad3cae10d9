/* SPDX-License-Identifier: BSD-3-Clause */
/* What the words of mode=chain come to. */
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
       "a quarter of the entries may be medium, a sixteenth large");
    chain = words(",entries=1000");
    ok(chain.entries == 1024 && chain.medium == 256 && chain.large == 64, "powers of two");
    chain = words(",entries=1");
    ok(chain.entries == 1 && chain.medium == 1 && chain.large == 1, "never none");
    chain = words(",entries=16777216/5/9");
    ok(chain.entries == 1 << 24 && chain.medium == 8 && chain.large == 16, "each as it was given");
    chain = words(",keymax=250,valuemax=178");
    ok(chain.medium == 1 << 15 && chain.large == 1, "no large blocks where no text is so long");
    chain = words(",keymax=250,valuemax=179");
    ok(chain.large == 1 << 13, "but where one may be");
    chain = words(",keymax=20,valuemax=24,entries=64/64/64");
    ok(chain.medium == 1 && chain.large == 1, "no blocks at all where all texts are short");
}

static void test_times(void)
{
    struct kcache_chain chain = words(",maxage=100,settle=70,connections=3");
    struct chain_settings settings;

    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.max_age == 24 && settings.settle == 70 * MS && settings.nconnections == 3,
       "an item that is 24 whole ticks of 4 ms old is not yet 100 ms old");
    chain_settings(&chain, 1 * MS, &settings);
    ok(settings.max_age == 99, "nor one of 99 ticks of 1 ms");
    chain.max_age_ms = 1;
    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.max_age == 0, "what is shorter than a tick ends with the tick");
    chain = words("");
    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.max_age == 249 && settings.settle == 1000ull * MS, "a second, if nothing is said");
    ok(settings.ask == 500ull * MS, "an answer makes no item half as old as it may become");
    chain.max_age_ms = 3600000;
    chain_settings(&chain, 4 * MS, &settings);
    ok(settings.ask == CHAIN_ASK_NS, "nor older than two seconds");
    ok(settings.nasks >= 1024 && !(settings.nasks & (settings.nasks - 1)), "asks have a place");
}

int main(void)
{
    test_sizes();
    test_times();
    return done();
}
