/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <limits.h>

#include "t/lib/tap.h"

enum { NOW = 100 };

int main(void)
{
    struct clock clock = {.base_ns = 0, .base_unix = 1700000000};
    struct clock real;

    ok(clock_expiry(&clock, 0, NOW) == 0, "0 is never");
    ok(clock_expiry(&clock, 1, NOW) == NOW + 1, "a small number is relative");
    ok(clock_expiry(&clock, CLOCK_MAX_RELATIVE, NOW) == NOW + CLOCK_MAX_RELATIVE, "up to 30 days");
    ok(clock_expiry(&clock, CLOCK_MAX_RELATIVE + 1, NOW) <= NOW,
       "a second more is a Unix time, long ago");
    ok(clock_expiry(&clock, clock.base_unix + 500, NOW) == 500, "a Unix time to come");
    ok(clock_expiry(&clock, clock.base_unix + 50, NOW) == 50,
       "a Unix time since the start is over");
    ok(clock_expiry(&clock, clock.base_unix, NOW) != 0, "the start itself is not never");
    ok(clock_expiry(&clock, clock.base_unix + 1, NOW) <= NOW, "nor is the second after it");
    ok(clock_expiry(&clock, -1, NOW) != 0 && clock_expiry(&clock, -1, NOW) <= NOW,
       "a negative number is over");
    ok(clock_expiry(&clock, INT64_MIN, NOW) <= NOW && clock_expiry(&clock, INT64_MIN, NOW) != 0,
       "the most negative too");
    ok(clock_expiry(&clock, INT64_MAX, NOW) == UINT32_MAX, "the largest is as late as can be");

    clock_init(&real);
    ok(clock_now(&real) == 2, "a new clock stands at two seconds");
    ok(real.base_unix + 2 <= (int64_t)time(NULL) && real.base_unix + 4 >= (int64_t)time(NULL),
       "and its second 0 is two seconds ago in Unix time");
    return done();
}
