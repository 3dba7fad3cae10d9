/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The input is taken as a message of rtnetlink. The first byte decides whether it answers a dump.
 * What must hold: nothing is read outside (the sanitizer's job: the bytes end where the allocation
 * ends), there is one entry for each link, and our own entries fit.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "iface/hostnet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check(struct hostnet *hostnet, bool dump)
{
    const struct in6_addr any[] = {{{{0}}}, {{{[10] = 0xff, [11] = 0xff}}}};
    int ifindexes[2] = {1, hostnet->nlinks ? hostnet->links[0].ifindex : 2};
    const struct hostnet_scope scope = {any, 2, ifindexes, 2};
    struct hostnet_beside besides[2];
    struct mc_local local;
    int ways[2];
    size_t i, j;

    for (i = 0; i < hostnet->nlinks; i++) {
        must(memchr(hostnet->links[i].name, 0, sizeof(hostnet->links[i].name)) != NULL);
        for (j = 0; j < i && !dump; j++)
            must(hostnet->links[j].ifindex != hostnet->links[i].ifindex);
    }
    hostnet_local(hostnet, &scope, &local);
    must(local.n4 <= MC_MAX_ADDRESSES && local.n6 <= MC_MAX_ADDRESSES &&
         local.nmacs <= MC_MAX_MACS && local.nvlans <= MC_MAX_VLANS);
    for (i = 0; i < local.n4; i++)
        must(local.v4[i] != 0);
    for (i = 0; i < local.nvlans; i++)
        must(local.vlans[i] != 0);
    must(hostnet_ways(hostnet, &scope, ways, 2) <= 2);
    must(hostnet_beside(hostnet, &scope, besides, 2) <= 2);
    must(hostnet->nroutes <= HOSTNET_ROUTES_MAX);
    for (i = 0; i < hostnet->nlinks; i++)
        must(hostnet_height(hostnet, hostnet->links[i].ifindex) <= 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool dump = size && data[0] & 1;
    struct hostnet hostnet;
    uint8_t *bytes;

    if (!size)
        return 0;
    bytes = malloc(size);
    must(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    bytes = realloc(bytes, size > 1 ? size - 1 : 1);
    must(bytes != NULL);
    hostnet_init(&hostnet);
    hostnet_update(&hostnet, bytes, size - 1, dump);
    check(&hostnet, dump);
    hostnet_update(&hostnet, bytes, size - 1, false);
    check(&hostnet, dump);
    hostnet_fini(&hostnet);
    free(bytes);
    return 0;
}
