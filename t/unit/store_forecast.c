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
    ok(forecast_wait(&forecast, 0, NOW) == 60 * MINUTE, "what expires soon can be too little");
    forecast_count(&found, NOW + 7 * MINUTE + 59, NOW);
    forecast_learn(&forecast, &found, 0, NOW);
    ok(forecast_wait(&forecast, 0, NOW) == 8 * MINUTE,
       "a class is due when a hundredth of it has expired");
    ok(forecast_wait(&forecast, 0, NOW + 8 * MINUTE) == 0 &&
           forecast_wait(&forecast, 0, NOW + 20 * MINUTE) == 0,
       "and from then on");
    found = found_of(3, 1);
    forecast_count(&found, NOW + 1, NOW);
    forecast_learn(&forecast, &found, 0, NOW);
    ok(forecast_wait(&forecast, 0, NOW) == MINUTE, "one item is enough in a small class");
    found = found_of(3, 0);
    forecast_count(&found, 0, NOW);
    forecast_count(&found, NOW - 5, NOW);
    forecast_count(&found, NOW + 60 * MINUTE, NOW);
    forecast_learn(&forecast, &found, 0, NOW);
    ok(forecast_wait(&forecast, 0, NOW) == 60 * MINUTE,
       "what never expires, or late, makes no class due before an hour is over");
}

static void test_turnover(void)
{
    struct forecast forecast = {0};
    struct forecast_found nothing = found_of(1000, 0), dead = found_of(1000, 10);

    ok(forecast_wait(&forecast, 0, NOW) == 60 * MINUTE, "an empty class has time");
    ok(forecast_wait(&forecast, 1, NOW) == MINUTE, "what comes in is looked at after a minute");
    forecast_learn(&forecast, &nothing, 1000, NOW);
    ok(forecast_wait(&forecast, 1500, NOW) == 60 * MINUTE,
       "a class of which half was stored since can wait");
    ok(forecast_wait(&forecast, 1501, NOW) == 2 * MINUTE, "with more it is due in minutes");
    for (unsigned int i = 0; i < 10; i++)
        forecast_learn(&forecast, &nothing, 1000, NOW);
    ok(forecast_wait(&forecast, 9999, NOW) == 16 * MINUTE, "in more of them when nothing was dead");
    forecast_learn(&forecast, &dead, 1000, NOW);
    ok(forecast_wait(&forecast, 9999, NOW) == MINUTE, "in one when a hundredth was");
    ok(forecast_wait(&forecast, 500, NOW) == MINUTE, "a count of sets may go round");
}

int main(void)
{
    test_expiry();
    test_turnover();
    return done();
}
