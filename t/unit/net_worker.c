/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a worker yields its CPU: its turns in this thread, which sleeps between them or does not.
 * And when a turn has lasted too long, and when the worker polls again.
 */
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

static uint64_t at_ns;
static unsigned int nlooks;

static uint64_t look(void)
{
    nlooks++;
    return at_ns;
}

/* After how many requests of `ns` each a turn is over, of at most 1,000; each has 64 bytes. */
static unsigned int requests(enum verb verb, uint64_t ns)
{
    struct turn_time time = {0};
    unsigned int n = 0;

    nlooks = 0;
    at_ns = 1;
    do {
        at_ns += ns;
        turn_requests(&time, verb, 24);
    } while (++n < 1000 && !turn_is_long(&time, 40, look));
    return n;
}

static void test_time(void)
{
    struct worker worker = {0};
    unsigned int npolls = 0;
    enum { A_LOOK = LOOK_BYTES / 64 };

    ok(requests(VERB_GET, 0) == 1000 && nlooks == 999 / A_LOOK,
       "gets that take no time end no turn, and the clock is read after %d of them", A_LOOK);
    ok(requests(VERB_META_SET, TURN_NS) == 2 * A_LOOK, "long ones end it at the second look");
    ok(requests(VERB_STATS, TURN_NS) == 2, "what is about no item is looked at after each");
    ok(requests(VERB_STATS, TURN_NS / 10) == 11, "and ends it when it has taken as long");
    for (unsigned int i = 1; i <= 320; i++)
        npolls += worker_polls(&worker, 0);
    ok(npolls == 320 / 16, "a worker polls once in 16 reactivations (%u)", npolls);
    worker_polls(&worker, 2 * POLL_NS);
    ok(worker_polls(&worker, 3 * POLL_NS), "and when it has not for some time");
    ok(!worker_polls(&worker, 3 * POLL_NS + 1), "but not at once again");
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
    test_time();
    return done();
}
