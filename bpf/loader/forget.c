/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forget: takes the inner maps out of an array of maps.
 *
 * For each the kernel waits until no program can be using it, 10 to 20 ms; those who wait at the
 * same time wait for the same moment. So many threads ask at once: the 1,024 extents of 16 GiB take
 * a second instead of a quarter of a minute.
 */
#include <pthread.h>
#include <stdint.h>

#include <bpf/bpf.h>

#include "bpf/loader/forget.h"

enum { HELPERS = 47 };

struct emptying {
    int map;
    uint32_t next, end;
};

/* Until an entry is empty: entries are filled without gaps. */
static void *empty(void *arg)
{
    struct emptying *emptying = arg;
    uint32_t index;

    for (;;) {
        index = __atomic_fetch_add(&emptying->next, 1, __ATOMIC_RELAXED);
        if (index >= emptying->end || bpf_map_delete_elem(emptying->map, &index))
            return NULL;
    }
}

void forget_maps(int map, uint32_t first, uint32_t end)
{
    struct emptying emptying = {map, first, end};
    pthread_t helpers[HELPERS];
    unsigned int n = 0;

    while (n < HELPERS && !pthread_create(&helpers[n], NULL, empty, &emptying))
        n++;
    empty(&emptying);
    while (n > 0)
        pthread_join(helpers[--n], NULL);
}
