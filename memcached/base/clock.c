/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

enum { NS_PER_SECOND = 1000000000, HEAD_START = 2 };

static uint64_t read_ns(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_SECOND + (uint64_t)ts.tv_nsec;
}

static uint64_t monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_exact_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

void clock_init(struct clock *clock)
{
    uint64_t head_start = (uint64_t)HEAD_START * NS_PER_SECOND;
    uint64_t now = monotonic_ns();

    /* A machine that booted less than two seconds ago has no earlier second 0. */
    clock->base_ns = now > head_start ? now - head_start : 0;
    clock->base_unix = (int64_t)time(NULL) - (int64_t)((now - clock->base_ns) / NS_PER_SECOND);
}

void clock_continue(struct clock *clock, int64_t base_unix, rel_time last)
{
    uint64_t mono = monotonic_ns();
    int64_t unix_now = (int64_t)time(NULL);
    int64_t now = unix_now - base_unix;

    if (now < (int64_t)last)
        now = last;
    clock->base_ns = mono - (uint64_t)now * NS_PER_SECOND;
    clock->base_unix = unix_now - now;
}

rel_time clock_now(const struct clock *clock)
{
    return (rel_time)((monotonic_ns() - clock->base_ns) / NS_PER_SECOND);
}

rel_time clock_expiry(const struct clock *clock, int64_t exptime, rel_time now)
{
    /* Second 1 is before the start, so it is in the past at any `now`; 0 means never. */
    const rel_time over = 1;
    int64_t second;

    if (exptime == 0)
        return 0;
    if (exptime < 0)
        return over;
    if (exptime <= CLOCK_MAX_RELATIVE)
        return now + (rel_time)exptime;
    if (exptime <= clock->base_unix)
        return over;
    second = exptime - clock->base_unix;
    if (second <= over)
        return over;
    return second > UINT32_MAX ? UINT32_MAX : (rel_time)second;
}
