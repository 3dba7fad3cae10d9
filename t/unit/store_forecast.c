/* SPDX-License-Identifier: BSD-3-Clause */
/* When a class is crawled again. */
#include "store/forecast.h"
#include "t/lib/tap.h"

enum { NOW = 1000, MINUTE = 60 };

static struct forecast_found found_of(uint64_t seen, uint64_t dead)
{
    return (struct forecast_found){.seen = seen, .dead = dead};
}

static void test_expiry(void)
{
    struct forecast forecast = {0};
    struct forecast_found found = found_of(10000, 0);

    for (unsigned int i = 0; i < 99; i++)
        forecast_count(&found, NOW + 3 * MINUTE, NOW);
    forecast_learn(&forecast, &found, 0, NOW);
    ok(forecast_wait(&forecast, 0, NOW) == 60 * MINUTE,
       "less than a hundredth of a class expiring soon does not make it due");
    forecast_count(&found, NOW + 7 * MINUTE + 59, NOW);
    forecast_learn(&forecast, &found, 0, NOW);
    ok(forecast_wait(&forecast, 0, NOW) == 8 * MINUTE,
       "a class is due when a hundredth of it has expired");
    ok(forecast_wait(&forecast, 0, NOW + 8 * MINUTE) == 0 &&
           forecast_wait(&forecast, 0, NOW + 20 * MINUTE) == 0,
       "a class stays due from then on");
    found = found_of(3, 1);
    forecast_count(&found, NOW + 1, NOW);
    forecast_learn(&forecast, &found, 0, NOW);
    ok(forecast_wait(&forecast, 0, NOW) == MINUTE,
       "in a small class one expired item makes it due");
    found = found_of(3, 0);
    forecast_count(&found, 0, NOW);
    forecast_count(&found, NOW - 5, NOW);
    forecast_count(&found, NOW + 60 * MINUTE, NOW);
    forecast_learn(&forecast, &found, 0, NOW);
    ok(forecast_wait(&forecast, 0, NOW) == 60 * MINUTE,
       "items that never expire, or late, do not make a class due within an hour");
}

static void test_turnover(void)
{
    struct forecast forecast = {0};
    struct forecast_found empty = found_of(0, 0), nothing = found_of(1000, 0);
    struct forecast_found dead = found_of(1000, 10);

    ok(forecast_wait(&forecast, 0, NOW) == 60 * MINUTE, "an empty class is due after an hour");
    ok(forecast_wait(&forecast, 1, NOW) == MINUTE, "a class with new items is due after a minute");
    forecast_learn(&forecast, &empty, 0, NOW);
    ok(forecast_wait(&forecast, 1, NOW) == MINUTE, "a crawl that found no items says nothing");
    forecast_learn(&forecast, &nothing, 1000, NOW);
    ok(forecast_wait(&forecast, 1500, NOW) == 60 * MINUTE,
       "a class of which half was stored since the last crawl is due after an hour");
    ok(forecast_wait(&forecast, 1501, NOW) == 2 * MINUTE,
       "a class of which more was stored is due within minutes");
    for (unsigned int i = 0; i < 10; i++)
        forecast_learn(&forecast, &nothing, 1000, NOW);
    ok(forecast_wait(&forecast, 9999, NOW) == 16 * MINUTE,
       "a class without expired items in the last crawls is due later");
    forecast_learn(&forecast, &dead, 1000, NOW);
    ok(forecast_wait(&forecast, 9999, NOW) == MINUTE,
       "a class with a hundredth of expired items is due after a minute");
    ok(forecast_wait(&forecast, 500, NOW) == MINUTE, "a wrapped count of sets does no harm");
}

int main(void)
{
    test_expiry();
    test_turnover();
    return done();
}
