/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock: the seconds that items expire by.
 *
 * The server's clock counts seconds of CLOCK_MONOTONIC from two seconds before it started, so that
 * 0 can mean "never" and an item that has just been stored can be a second old. The kernel programs
 * compute the same seconds from mc_control.base_ns with bpf_ktime_get_coarse_ns; both read the
 * coarse clock.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Seconds on the server's clock. */
typedef uint32_t rel_time;

struct clock {
    uint64_t base_ns;  /* CLOCK_MONOTONIC_COARSE at second 0 */
    int64_t base_unix; /* Unix time at second 0 */
};

/* Expiry times above this are Unix times (memcached's protocol.txt). */
enum { CLOCK_MAX_RELATIVE = 60 * 60 * 24 * 30 };

void clock_init(struct clock *clock);
/* Nanoseconds of CLOCK_MONOTONIC, to measure how long something takes. */
uint64_t clock_exact_ns(void);
/*
 * Continues the clock of another process, which had this base_unix and read `last`: by Unix time,
 * unless that was set back. base_ns wraps around where second 0 was before the machine booted.
 */
void clock_continue(struct clock *clock, int64_t base_unix, rel_time last);
/* Seconds since base, rounded down. */
rel_time clock_now(const struct clock *clock);
/*
 * The second at which an item with the wire's `exptime` expires: 0 never; a negative or past one is
 * already over at `now`.
 */
rel_time clock_expiry(const struct clock *clock, int64_t exptime, rel_time now);

#endif
