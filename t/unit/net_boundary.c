/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundary: what it counts and publishes in a slot.
 */
#include "net/boundary.h"

#include "t/lib/tap.h"

static void test_arithmetic(void)
{
    struct mc_tcp_slot slot = {.boundary = MC_TCP_NONE};
    struct boundary boundary = {.slot = &slot, .nread = UINT32_MAX, .nsent = UINT32_MAX - 4};
    struct boundary none = {0};

    boundary_publish(&boundary, 10, false);
    ok(slot.boundary == (5ull << 32 | UINT32_MAX), "both counts are modulo 2^32");
    boundary_withdraw(&boundary);
    ok(slot.boundary == MC_TCP_NONE, "a boundary can be withdrawn");
    ok(!boundary_answered(&boundary), "at first the kernel has answered nothing");
    slot.answered = 3;
    ok(boundary_answered(&boundary) && !boundary_answered(&boundary),
       "what it has answered is reported once");
    boundary_withdraw(&none);
    ok(!boundary_answered(&none), "without a slot it answers nothing");
}

/* A reply that is not acknowledged is sent again after 1, 2, 4, ... seconds. */
static void test_waits(void)
{
    struct mc_tcp_slot slot = {.outstanding = 1};
    struct boundary boundary = {.slot = &slot};
    unsigned int i, sent, wrong = 0;

    for (i = 1, sent = 0; i <= 32 * BOUNDARY_LOOKS; i++)
        if (boundary_waits(&boundary))
            wrong += i != (unsigned int)BOUNDARY_LOOKS << sent++;
    ok(!wrong && sent == 6, "a reply that is outstanding is sent again after 1, 2, 4, ... seconds");
    for (i = 1; i < 32 * BOUNDARY_LOOKS; i++)
        wrong += boundary_waits(&boundary);
    slot.answered++;
    wrong += !boundary_answered(&boundary);
    for (i = 1; i < BOUNDARY_LOOKS; i++)
        wrong += boundary_waits(&boundary);
    ok(!wrong && boundary_waits(&boundary), "the next reply again after 1 second");
    slot.outstanding = 0;
    wrong += boundary_waits(&boundary);
    slot.outstanding = 1;
    ok(!wrong && !boundary_waits(&boundary), "one that is acknowledged is not");
}

int main(void)
{
    test_arithmetic();
    test_waits();
    return done();
}
