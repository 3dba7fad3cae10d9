/* SPDX-License-Identifier: BSD-3-Clause */
/* What only an attached program can show: where packets come from, and frames without room. */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kcache/self.h"
#include "t/lib/tap.h"

enum { LO = 1 }; /* its index in every namespace */

static bool from(struct lab *lab, const char *source, const char *destination, bool answered)
{
    static const char text[] = "get none\r\n";
    struct frame frame;
    uint32_t address;

    frame_request(&frame, text, sizeof(text) - 1);
    if (lab->ifindex)
        memcpy(frame.bytes, &(uint64_t){LAB_STATION}, 6);
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

/* Whether a request comes to the server's socket as it was sent. */
static bool comes_through(int client, int server, const char *text)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(LAB_PORT)};
    char request[64] = {1, 2, 0, 0, 0, 1, 0, 0}, got[64];
    size_t n = 8 + strlen(text);

    memcpy(request + 8, text, strlen(text));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sendto(client, request, n, 0, (struct sockaddr *)(void *)&to, sizeof(to)) ==
               (ssize_t)n &&
           recv(server, got, sizeof(got), 0) == (ssize_t)n && memcmp(got, request, n) == 0;
}

static uint64_t counted(struct lab *lab, enum mc_count which)
{
    struct mc_counts counts;

    loader_counts(lab->loader, &counts);
    return counts.count[which];
}

/* The frames of a local socket have little room behind them. */
static void test_room(struct lab *lab)
{
    static const char *const requests[] = {"get large\r\n", "get none large none\r\n"};
    int server = lab_socket(LAB_PORT), client = lab_socket(0);
    char value[1300];
    struct loader_link link;
    unsigned int i;

    memset(value, 'v', sizeof(value));
    lab_put(lab, "large", 5, value, sizeof(value));
    loader_link_init(&link, LO);
    if (loader_attach_xdp(lab->loader, &link, true))
        skip_all("cannot attach generic XDP to lo");
    for (i = 0; i < 2; i++)
        ok(comes_through(client, server, requests[i]) && counted(lab, MC_COUNT_PASS_ROOM) == i + 1,
           "without TC a request whose reply has no room is passed and counted, %u", i);
    loader_set_tc(lab->loader, true, false);
    for (i = 0; i < 2; i++)
        ok(comes_through(client, server, requests[i]) && counted(lab, MC_COUNT_PASS_ROOM) == 2,
           "before TC it is left to TC to count, %u", i);
    loader_detach(&link);
    close(client);
    close(server);
}

int main(void)
{
    static const struct mc_self self = {
        .n4 = 2,
        .nstations = 1,
        .v4 = {__builtin_bswap32(LAB_SERVER), __builtin_bswap32(INADDR_LOOPBACK)},
        .stations = {LAB_STATION}};
    struct loader_link link;
    struct lab lab;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        skip_all("needs root");
    if (system("ip link set lo up && ip link add ou0 type veth peer name ou1 && "
               "ip link set ou0 up && ip link set ou1 up") != 0)
        skip_all("cannot make a veth pair");
    lab_open(&lab, 256);
    self_publish(lab.control, &self);
    loader_link_init(&link, (int)if_nametoindex("ou0"));
    if (loader_attach_xdp(lab.loader, &link, false))
        skip_all("cannot attach native XDP to veth");
    test_interface(&lab, "lo", true);
    test_interface(&lab, "ou0", false);
    loader_detach(&link);
    test_room(&lab);
    lab_close(&lab);
    return done();
}
