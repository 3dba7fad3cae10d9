/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting by prefix: what a prefix is, how many are counted, and several threads at once. */
#include "command/prefix.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "t/lib/tap.h"

enum { NTHREADS = 4, NEVENTS = 20000, NSHARED = 50 };

static bool count(struct prefixes *prefixes, const char *key, enum prefix_event event)
{
    return prefixes_count(prefixes, (struct slice){key, strlen(key)}, event);
}

/* The counts of a prefix; len is 255 if there are none. */
static struct prefix find(struct prefixes *prefixes, const char *text)
{
    struct prefix prefix;
    size_t cursor = 0;

    while (prefixes_next(prefixes, &cursor, &prefix))
        if (prefix.len == strlen(text) && memcmp(prefix.text, text, prefix.len) == 0)
            return prefix;
    return (struct prefix){.len = 255};
}

static size_t how_many(struct prefixes *prefixes)
{
    struct prefix prefix;
    size_t cursor = 0, n = 0;

    while (prefixes_next(prefixes, &cursor, &prefix))
        n++;
    return n;
}

static bool is(struct prefixes *prefixes, const char *text, uint64_t gets, uint64_t hits,
               uint64_t sets, uint64_t deletes)
{
    struct prefix p = find(prefixes, text);

    return p.len == strlen(text) && p.gets == gets && p.hits == hits && p.sets == sets &&
           p.deletes == deletes;
}

static void test_events(void)
{
    struct prefixes *prefixes = prefixes_new(':');
    char longest[MC_KEY_MAX + 1];

    ok(prefixes && how_many(prefixes) == 0, "a new table has no prefixes");
    count(prefixes, "a:1", PREFIX_GET);
    count(prefixes, "a:2", PREFIX_HIT);
    count(prefixes, "a:2:3", PREFIX_SET);
    count(prefixes, "a:", PREFIX_DELETE);
    count(prefixes, "b:a", PREFIX_SET);
    ok(is(prefixes, "a", 2, 1, 1, 1),
       "a hit counts as a get, and the prefix ends at the first delimiter");
    ok(is(prefixes, "b", 0, 0, 1, 0), "another prefix is counted separately");
    count(prefixes, "none", PREFIX_GET);
    count(prefixes, "", PREFIX_GET);
    ok(how_many(prefixes) == 2, "a key without a delimiter has no prefix");
    count(prefixes, ":x", PREFIX_GET);
    ok(is(prefixes, "", 1, 0, 0, 0), "an empty prefix is counted");
    memset(longest, 'l', sizeof(longest));
    longest[MC_KEY_MAX - 1] = ':';
    longest[MC_KEY_MAX] = '\0';
    count(prefixes, longest, PREFIX_GET);
    longest[MC_KEY_MAX - 1] = '\0';
    ok(is(prefixes, longest, 1, 0, 0, 0), "the prefix of the longest key is kept whole");
    prefixes_clear(prefixes);
    ok(how_many(prefixes) == 0, "clear removes all prefixes");
    count(prefixes, "a:1", PREFIX_SET);
    ok(is(prefixes, "a", 0, 0, 1, 0), "after a clear counts begin at 0");
    prefixes_free(prefixes);
    prefixes_free(NULL);
}

static void test_delimiter(void)
{
    struct prefixes *prefixes = prefixes_new('/');

    count(prefixes, "a:b/c", PREFIX_GET);
    ok(is(prefixes, "a:b", 1, 0, 0, 0), "the delimiter can be configured");
    prefixes_free(prefixes);
}

static void test_bound(void)
{
    struct prefixes *prefixes = prefixes_new(':');
    unsigned int refusals = 0;
    struct prefix first;
    size_t cursor = 0;
    char key[32];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2 * PREFIX_MAX; i++) {
            snprintf(key, sizeof(key), "%d:", i);
            refusals += !count(prefixes, key, PREFIX_GET);
        }
    }
    ok(how_many(prefixes) <= PREFIX_MAX && how_many(prefixes) > PREFIX_MAX / 10 * 9,
       "the number of prefixes is limited (%zu)", how_many(prefixes));
    ok(refusals == 1, "reaching the limit is reported once");
    ok(prefixes_next(prefixes, &cursor, &first) && first.gets == 2,
       "prefixes that have counts are counted on at the limit");
    prefixes_clear(prefixes);
    ok(count(prefixes, "new:", PREFIX_GET) && is(prefixes, "new", 1, 0, 0, 0),
       "after a clear new prefixes are counted");
    prefixes_free(prefixes);
}

static void *count_many(void *context)
{
    struct prefixes *prefixes = context;
    char key[32];

    for (int i = 0; i < NEVENTS; i++) {
        snprintf(key, sizeof(key), "%d:x", i % NSHARED);
        count(prefixes, key, (enum prefix_event)(i / NSHARED % 4));
        if (i % 5000 == 0)
            how_many(prefixes);
    }
    return NULL;
}

static void test_threads(void)
{
    struct prefixes *prefixes = prefixes_new(':');
    uint64_t each = NTHREADS * NEVENTS / NSHARED / 4;
    pthread_t threads[NTHREADS];
    unsigned int wrong = 0;
    char text[32];

    for (int i = 0; i < NTHREADS; i++)
        pthread_create(&threads[i], NULL, count_many, prefixes);
    for (int i = 0; i < NTHREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < NSHARED; i++) {
        snprintf(text, sizeof(text), "%d", i);
        wrong += !is(prefixes, text, 2 * each, each, each, each);
    }
    ok(wrong == 0 && how_many(prefixes) == NSHARED, "no event of several threads is lost");
    prefixes_free(prefixes);
}

int main(void)
{
    test_events();
    test_delimiter();
    test_bound();
    test_threads();
    return done();
}
