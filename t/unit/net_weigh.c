/* SPDX-License-Identifier: BSD-3-Clause */
/* Which replies change what a worker knows of a connection's gain: only those are weighed. */
#include "base/boundaries.h"
#include "net/boundary.h"
#include "t/lib/tap.h"

static struct mc_tcp_slot slot;

static struct mc_tcp_slot *open_slot(struct boundaries *boundaries, int socket,
                                     unsigned int nundone)
{
    (void)boundaries;
    (void)socket;
    (void)nundone;
    return &slot;
}

int main(void)
{
    struct boundaries boundaries = {.open = open_slot};
    struct boundary before = {.since = 100}, after;
    bool right = true;

    ok(!boundary_is_weighed(&before, false), "a reply that gains nothing is not weighed");
    for (; before.ngets <= BOUNDARY_GETS; before.ngets++) {
        after = before;
        boundary_weigh(&after, &boundaries, -1, 100, false);
        right &= boundary_is_weighed(&before, false) ||
                 (!after.slot && after.ngets == before.ngets && after.since == before.since);
        right &= boundary_is_weighed(&before, true);
    }
    ok(right, "unless it would get the connection a slot; one that gains is");
    before = (struct boundary){.slot = &slot};
    ok(boundary_is_weighed(&before, false), "on a connection with a slot all are");
    return done();
}
