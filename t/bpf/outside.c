/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes from outside and claims to come from, or to mean, this machine alone. */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "t/lib/tap.h"

static bool from(struct lab *lab, const char *source, const char *destination, bool answered)
{
    static const char text[] = "get none\r\n";
    struct frame frame;
    uint32_t address;

    frame_request(&frame, text, sizeof(text) - 1);
    address = inet_addr(source);
    memcpy(frame.bytes + 26, &address, 4);
    address = inet_addr(destination);
    memcpy(frame.bytes + 30, &address, 4);
    frame_seal(&frame);
    return answered ? lab_answers(lab, LOADER_XDP, &frame, "END\r\n", 5)
                    : lab_passes(lab, LOADER_XDP, &frame, MC_COUNT_PASS_SOURCE);
}

static void test_interface(struct lab *lab, const char *name, bool loopback)
{
    lab->ifindex = loopback ? 0 : (int)if_nametoindex(name);
    ok(from(lab, "10.0.0.2", "10.0.0.1", true), "%s: a neighbour is answered", name);
    ok(from(lab, "10.0.0.1", "10.0.0.1", loopback), "%s: our own address as source: %s", name,
       loopback ? "answered" : "passed");
    ok(from(lab, "127.0.0.1", "10.0.0.1", loopback), "%s: loopback's as source: %s", name,
       loopback ? "answered" : "passed");
    ok(from(lab, "10.0.0.2", "127.0.0.1", loopback), "%s: loopback's as destination: %s", name,
       loopback ? "answered" : "passed");
    ok(from(lab, "127.0.0.1", "127.0.0.1", loopback), "%s: loopback's as both: %s", name,
       loopback ? "answered" : "passed");
}

int main(void)
{
    struct loader_link link;
    struct lab lab;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        skip_all("needs root");
    if (system("ip link set lo up && ip link add ou0 type veth peer name ou1 && "
               "ip link set ou0 up && ip link set ou1 up") != 0)
        skip_all("cannot make a veth pair");
    lab_open(&lab, 256);
    lab.control->addresses[1] = htonl(INADDR_LOOPBACK);
    lab.control->naddresses = 2;
    loader_link_init(&link, (int)if_nametoindex("ou0"));
    if (loader_attach_xdp(lab.loader, &link, false))
        skip_all("cannot attach native XDP to veth");
    test_interface(&lab, "lo", true);
    test_interface(&lab, "ou0", false);
    loader_detach(&link);
    lab_close(&lab);
    return done();
}
