/* SPDX-License-Identifier: BSD-3-Clause */
#include "iface/losses.h"

unsigned int losses_note(struct losses *losses, time_t now)
{
    const unsigned int last = losses->pause_s;

    if (now - losses->since > (last > LOSSES_WITHIN_S ? (time_t)last : LOSSES_WITHIN_S))
        *losses = (struct losses){.since = now};
    else if (!losses->n)
        losses->since = now;
    if (++losses->n < LOSSES_MAX)
        return 0;
    losses->pause_s = !losses->pause_s                       ? LOSSES_PAUSE_S
                      : losses->pause_s < LOSSES_LONGEST / 2 ? 2 * losses->pause_s
                                                             : LOSSES_LONGEST;
    losses->since = now + (time_t)losses->pause_s;
    return losses->pause_s;
}
