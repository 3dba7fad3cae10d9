/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What bmc trace finds of a server that is attached: its programs, and by their maps the counters
 * that name the reasons. That it traces them is t/kernels/trace.t: many kernels refuse it.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/attach/attach.h"
#include "bpf/load/load.h"
#include "bpf/trace/find.h"
#include "t/lib/tap.h"

enum { UDP_PORT = 40001, TCP_PORT = 40002, SLOTS = 16 };

static const struct chain_settings chain = {
    .entries = 1024,
    .nmedium = 64,
    .nlarge = 64,
    .noutstanding = 64,
    .key_max = 250,
    .value_max = 1300,
    .max_age = 1000,
    .nconnections = 64,
    .settle = 1000000,
    .outstanding = 1000000,
};

static struct found found[FIND_MAX];

/* How many programs to these ports have all counters of `kinds`, bits; XDP's and TC's. */
static void count(unsigned int kinds, int *nxdp, int *ntc)
{
    int n = find_all(found), i, kind;
    uint16_t ports[TRACE_PORTS];
    unsigned int has;

    *nxdp = *ntc = 0;
    for (i = 0; i < n; i++) {
        find_ports(&found[i], ports);
        for (has = 0, kind = 0; kind < TRACE_KINDS; kind++)
            has |= (found[i].ncounters[kind] == 1) << kind;
        if (ports[0] == htons(UDP_PORT) && found[i].ncontrols == 1 && has == kinds)
            ++*(found[i].is_tc ? ntc : nxdp);
        find_close(&found[i]);
    }
}

static void test_found(struct loader *loader, unsigned int kinds, const char *name)
{
    struct loader_link link;
    int nxdp, ntc;

    loader_control(loader)->port = htons(UDP_PORT);
    count(kinds, &nxdp, &ntc);
    ok(!nxdp && !ntc, "%s: loaded, but not attached: none is found", name);
    loader_link_init(&link, (int)if_nametoindex("lo"));
    if (!ok(!loader_attach_xdp(loader, &link, true) && !loader_attach_tc(loader, &link),
            "%s: attached", name))
        return;
    count(kinds, &nxdp, &ntc);
    ok(nxdp == 1 && ntc == 2, "%s: XDP's program and TC's are found: %d, %d", name, nxdp, ntc);
    loader_detach(&link);
    count(kinds, &nxdp, &ntc);
    ok(!nxdp && !ntc, "%s: detached: none is found", name);
}

int main(void)
{
    const struct loader_guard guard = {0};
    struct loader *loader;
    char error[512];

    if (unshare(CLONE_NEWNET) || system("ip link set lo up") != 0)
        skip_all("no interfaces");
    loader = loader_open_guarded(&guard, LOADER_TCP, error, sizeof(error));
    if (!loader || loader_open_tcp(loader, SLOTS, error, sizeof(error)) ||
        loader_wait(loader, error, sizeof(error)))
        skip_all(error);
    loader_control(loader)->tcp_port = htons(TCP_PORT);
    test_found(loader, 1 << TRACE_MAIN | 1 << TRACE_TCP, "in place");
    loader_close(loader);
    loader = loader_open_chain(&chain, &guard, error, sizeof(error));
    if (ok(loader != NULL, "the chain is loaded"))
        test_found(loader, 1 << TRACE_MAIN | 1 << TRACE_CHAIN, "the chain");
    loader_close(loader);
    return done();
}
