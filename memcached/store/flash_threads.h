/* SPDX-License-Identifier: BSD-3-Clause */
/* flash_threads: the two threads of flash storage: one writes values out, one compacts pages. */
#ifndef STORE_FLASH_THREADS_H
#define STORE_FLASH_THREADS_H

#include "store/background.h"

struct flash_threads {
    struct background write, compact;
    bool stop; /* atomic: a page that is being compacted is left as it is */
};

/* 0 or -errno. */
int flash_threads_init(struct flash_threads *flash_threads);
void flash_threads_fini(struct flash_threads *flash_threads);

#endif
