/* SPDX-License-Identifier: BSD-3-Clause */
/* sizes: how large our structures are; memcached's own `make test` begins with such a list. */
#include <stdio.h>

#include "bpf/shared/layout.h"
#include "command/command.h"
#include "net/endpoint.h"
#include "net/worker.h"
#include "options/options.h"
#include "proto/proto.h"
#include "store/lru.h"
#include "store/slab.h"
#include "store/table.h"

#define ROW(type)                                                                                  \
    {                                                                                              \
#type, sizeof(type)                                                                        \
    }

static const struct {
    const char *name;
    size_t size;
} rows[] = {
    ROW(struct mc_item), ROW(struct mc_bucket), ROW(struct mc_control), ROW(struct slab_class),
    ROW(struct slabs),   ROW(struct table),     ROW(struct endpoint),   ROW(struct worker),
    ROW(struct request), ROW(struct reply),     ROW(struct options),
};

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-20s %8zu\n", rows[i].name, rows[i].size);
    printf("%-20s %8d\n", "a page", MC_PAGE_BYTES);
    printf("%-20s %8d\n", "a segment", MC_EXTENT_BYTES);
    return 0;
}
