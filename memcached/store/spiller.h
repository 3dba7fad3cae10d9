/* SPDX-License-Identifier: BSD-3-Clause */
/* spiller: the two threads of flash storage: one writes values out, one compacts pages. */
#ifndef STORE_SPILLER_H
#define STORE_SPILLER_H

#include "store/background.h"

struct spiller {
    struct background spill, compact;
    bool stop; /* atomic: a page that is being compacted is left as it is */
};

/* 0 or -errno. */
int spiller_init(struct spiller *spiller);
void spiller_fini(struct spiller *spiller);

#endif
