/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * losses: how often other processes have detached the programs from an interface, and when they are
 * attached again. A process that detaches them three times within a minute means it: a pause
 * follows, twice as long after each further time, until they have stayed attached for longer than
 * the last pause and a minute. Pure; times are in seconds.
 */
#ifndef IFACE_LOSSES_H
#define IFACE_LOSSES_H

#include <time.h>

enum {
    LOSSES_MAX = 3,        /* without a pause, */
    LOSSES_WITHIN_S = 60,  /* within so much time */
    LOSSES_PAUSE_S = 20,   /* the first pause, */
    LOSSES_LONGEST = 3600, /* and the longest */
};

struct losses {
    time_t since; /* the first of n, or the end of the last pause */
    unsigned int n;
    unsigned int pause_s; /* the last one; 0: there was none */
};

/* Notes one. Returns for how long the programs are not attached; 0: they are at once. */
unsigned int losses_note(struct losses *losses, time_t now);

#endif
