/* SPDX-License-Identifier: BSD-3-Clause */
/* When a worker yields its CPU: its turns in this thread, which sleeps between them or does not. */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "net/worker.h"
#include "t/lib/tap.h"

enum { TURNS = 2 * TURNS_JUDGED };

static unsigned int nyields;

/* In the place of libc's: the same, counted. */
int sched_yield(void)
{
    nyields++;
    return (int)syscall(SYS_sched_yield);
}

/* How often it yields in so many turns, of which one of `nsleeping` begins after a sleep. */
static unsigned int yields(struct worker *worker, unsigned int nsleeping)
{
    const struct timespec moment = {0, 20000};

    nyields = 0;
    for (unsigned int i = 0; i < TURNS; i++) {
        if (i % nsleeping == 0)
            nanosleep(&moment, NULL);
        worker_turn(worker);
    }
    return nyields;
}

int main(void)
{
    const struct net_config several = {.nthreads = 4}, alone = {.nthreads = 1};
    struct worker worker = {.config = &several}, sole = {.config = &alone};

    ok(yields(&worker, 1) == 0, "a worker that sleeps before each turn does not yield");
    ok(yields(&worker, TURNS) == (TURNS - TURNS_JUDGED) / TURNS_BEFORE_YIELD + 1,
       "one that does not sleep yields every so many turns once that is known");
    yields(&worker, 1);
    ok(yields(&worker, 1) == 0, "it does not when each turn begins after a sleep again");
    ok(yields(&worker, 2) == 0, "nor when every other turn begins without one");
    ok(yields(&worker, 4) == 0, "nor when one of four begins after one");
    ok(yields(&worker, 32) > 0, "it does when one of 32 begins after one");
    ok(yields(&sole, TURNS) == 0, "a worker without another one never yields");
    return done();
}
