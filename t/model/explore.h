/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explore: visits every state that a model can reach with at most so many faults, fewest faults
 * first, and says whether one is wrong, or is one from which the end cannot be reached any more.
 *
 * The latter is asked for each way of sending again by itself, and without the help of a fault:
 * along steps that are sure to happen in the end.
 */
#ifndef T_MODEL_EXPLORE_H
#define T_MODEL_EXPLORE_H

#include <stddef.h>

#include "model.h"

enum { EXPLORE_FAULTS = 8 }; /* at most */

struct explore_result {
    const char *wrong; /* what must not be, NULL: nothing */
    size_t nstates, nsteps;
    unsigned faults; /* of the trace */
    unsigned bound;  /* at most so many were looked at */
    char *trace;     /* to what is wrong, a step a line; the caller frees it */
};

/* Returns 0, or -ENOSPC: there are more than `max_states`. */
int explore(const struct model *m, unsigned faults, size_t max_states, struct explore_result *r);

#endif
