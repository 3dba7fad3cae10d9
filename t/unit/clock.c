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
    ok(clock_expiry(&clock, 1, NOW) == NOW + 1, "a small exptime is relative");
    ok(clock_expiry(&clock, CLOCK_MAX_RELATIVE, NOW) == NOW + CLOCK_MAX_RELATIVE,
       "an exptime of 30 days is relative");
    ok(clock_expiry(&clock, CLOCK_MAX_RELATIVE + 1, NOW) <= NOW,
       "an exptime over 30 days is a Unix time, here in the past");
    ok(clock_expiry(&clock, clock.base_unix + 500, NOW) == 500,
       "a Unix time in the future is converted");
    ok(clock_expiry(&clock, clock.base_unix + 50, NOW) == 50,
       "a Unix time between the server's start and now has expired");
    ok(clock_expiry(&clock, clock.base_unix, NOW) != 0,
       "the Unix time of the server's start is not taken for 'never'");
    ok(clock_expiry(&clock, clock.base_unix + 1, NOW) <= NOW,
       "nor is the second after the server's start");
    ok(clock_expiry(&clock, -1, NOW) != 0 && clock_expiry(&clock, -1, NOW) <= NOW,
       "a negative exptime has expired");
    ok(clock_expiry(&clock, INT64_MIN, NOW) <= NOW && clock_expiry(&clock, INT64_MIN, NOW) != 0,
       "the most negative exptime has expired");
    ok(clock_expiry(&clock, INT64_MAX, NOW) == UINT32_MAX,
       "the largest exptime becomes the latest time that the clock can represent");

    clock_init(&real);
    ok(clock_now(&real) == 2, "a new clock is at two seconds");
    ok(real.base_unix + 2 <= (int64_t)time(NULL) && real.base_unix + 4 >= (int64_t)time(NULL),
       "second 0 of a new clock is two seconds ago in Unix time");
    return done();
}
