/* SPDX-License-Identifier: BSD-3-Clause */
/* When programs that others have detached are attached again. */
#include "iface/losses.h"
#include "t/lib/tap.h"

enum { MINUTE = 60, HOUR = 3600, START = 1000 };

static void is(unsigned int got, unsigned int want, const char *name)
{
    if (!ok(got == want, "%s", name))
        diag("%u, not %u", got, want);
}

/* Notes losses at the same moment until a pause follows, and returns it. */
static unsigned int give_up(struct losses *losses, time_t now)
{
    unsigned int pause = 0;

    while (!pause && losses->n < 100)
        pause = losses_note(losses, now);
    return pause;
}

static void test_three(void)
{
    struct losses losses = {0};

    ok(!losses_note(&losses, START) && !losses_note(&losses, START + MINUTE / 2),
       "after the first and the second the programs are attached at once");
    is(losses_note(&losses, START + MINUTE), LOSSES_PAUSE_S,
       "after the third within a minute there is a pause");
    losses = (struct losses){0};
    losses_note(&losses, START);
    losses_note(&losses, START + MINUTE / 2);
    is(losses_note(&losses, START + MINUTE + 1), 0, "none after one that came later");
    losses = (struct losses){0};
    is(losses_note(&losses, 1), 0, "none on a machine that has just started");
}

static void test_pauses(void)
{
    struct losses losses = {0};
    time_t now = START;
    unsigned int pause = give_up(&losses, now), last, doubled = 0;

    do {
        last = pause;
        now += (time_t)pause;
        pause = losses_note(&losses, now + 1);
        doubled += pause == 2 * last;
    } while (pause > last);
    ok(doubled >= 5, "each further one makes the pause twice as long (%u times)", doubled);
    is(pause, HOUR, "an hour at most");
    is(losses_note(&losses, now + 2 * HOUR), HOUR,
       "one within an hour after the longest pause makes another");
    is(losses_note(&losses, now + 10 * HOUR), 0, "one after that makes none");
    is(give_up(&losses, now + 10 * HOUR), LOSSES_PAUSE_S, "then the pauses begin anew");
}

static void test_first_pause(void)
{
    struct losses losses = {0};
    unsigned int pause = give_up(&losses, START);
    time_t again = START + (time_t)pause;

    is(losses_note(&losses, again + MINUTE), 2 * pause, "one within a minute after a short pause");
    losses = (struct losses){0};
    give_up(&losses, START);
    is(losses_note(&losses, again + MINUTE + 1), 0, "one after a minute begins anew");
}

int main(void)
{
    test_three();
    test_pauses();
    test_first_pause();
    return done();
}
