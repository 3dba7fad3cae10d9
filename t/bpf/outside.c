/* SPDX-License-Identifier: BSD-3-Clause */
/* Behaviour that only an attached program has: it depends on where packets come from, and on frames
 * without room. */
#include "t/bpf/lab.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/load/object.h"
#include "iface/local.h"
#include "t/lib/tap.h"

enum { LO = 1 }; /* its index in every namespace */

static const char get_none[] = "get none\r\n";

static void to_server(struct frame *frame)
{
    frame_text(frame, get_none);
    memcpy(frame->bytes, &(uint64_t){LAB_MAC}, 6);
}

static bool from(struct lab *lab, const char *source, const char *destination, bool answered)
{
    struct lab_case row = {SEND("get none\r\n"), FROM(source), TO(destination), PASS(SOURCE)};
    struct frame frame;

    lab_frame(&frame, &row);
    if (lab->ifindex)
        memcpy(frame.bytes, &(uint64_t){LAB_MAC}, 6);
    return answered ? lab_answers(lab, &frame, "END\r\n", 5)
                    : lab_passes(lab, &frame, MC_COUNT_PASS_SOURCE);
}

/*
 * The stack sends a datagram to 10.0.0.2, whose MAC address is that of frame_request, of the
 * server's socket or of another.
 */
static bool datagram_leaves(struct lab *lab, const char *address, uint16_t port, bool servers)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(LAB_CLIENT_PORT)};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool sent;

    to.sin_addr.s_addr = inet_addr("10.0.0.2");
    own.sin_addr.s_addr = inet_addr(address);
    sent = bind(fd, (struct sockaddr *)(void *)&own, sizeof(own)) == 0 &&
           (!servers || loader_know_socket(lab->loader, fd) == 0) &&
           sendto(fd, "x", 1, 0, (struct sockaddr *)(void *)&to, sizeof(to)) == 1;
    close(fd);
    return sent;
}

static bool reply_leaves(struct lab *lab)
{
    return datagram_leaves(lab, "10.0.0.1", LAB_PORT, true);
}

/* ntags: of a VLAN that is the server's. */
static bool comes_unknown(struct lab *lab, unsigned int ntags)
{
    struct frame frame;

    frame_text(&frame, get_none);
    frame_shape(&frame, &(struct shape){.ntags = ntags});
    memcpy(frame.bytes, &(uint64_t){LAB_MAC}, 6);
    return lab_passes(lab, &frame, MC_COUNT_PASS_WAY);
}

static bool neighbour_is_unknown(struct lab *lab)
{
    return comes_unknown(lab, 0);
}

/* A request from another MAC address is passed: replies go to the one that the stack has replied
 * to. */
static bool other_mac_has_no_reply(struct lab *lab)
{
    struct frame frame, out;

    to_server(&frame);
    frame.bytes[11] = 77;
    return lab_run(lab, LOADER_XDP, &frame, &out) == 3 && memcmp(out.bytes, "\2\0\0\0\0\2", 6) == 0;
}

/* Makes every return path that many units of time older. */
static void age_ways(struct lab *lab, unsigned int units)
{
    const struct object *object = &lab->loader->object;
    int fd = bpf_map__fd(object_map(object, "mc_return_paths"));
    struct mc_return_path set[MC_RETURN_PATHS];

    for (uint32_t i = 0; i < 1u << MC_RETURN_PATH_BITS; i++) {
        if (bpf_map_lookup_elem(fd, &i, set) != 0)
            skip_all("no map of return paths");
        for (size_t j = 0; j < MC_RETURN_PATHS; j++) {
            set[j].to -= (uint64_t)units << 48;
            set[j].vouch -= ((uint64_t)units << 48) * object->return_path_factors[3];
        }
        bpf_map_update_elem(fd, &i, set, BPF_ANY);
    }
}

/* How many of 400 requests are answered. */
static unsigned int nanswered(struct lab *lab)
{
    static const char text[] = "get none\r\n";
    struct frame frame, out;
    unsigned int i, n = 0;

    frame_request(&frame, text, sizeof(text) - 1);
    memcpy(frame.bytes, &(uint64_t){LAB_MAC}, 6);
    for (i = 0; i < 400; i++)
        n += lab_run(lab, LOADER_XDP, &frame, &out) == 3;
    return n;
}

static void test_age(struct lab *lab)
{
    unsigned int n;

    age_ways(lab, 55);
    ok(nanswered(lab) == 400, "in the first minute all requests are answered");
    age_ways(lab, 10);
    n = nanswered(lab);
    ok(n > 320 && n < 400,
       "in the second minute some requests are passed, so that the stack replies (%u of 400)",
       400 - n);
    age_ways(lab, 60);
    ok(nanswered(lab) == 0, "in the third minute all requests are passed");
    ok(reply_leaves(lab) && nanswered(lab) == 400,
       "after the stack has replied all requests are answered");
    age_ways(lab, 3);
    ok(nanswered(lab) == 400 && !other_mac_has_no_reply(lab),
       "after seconds requests from the known MAC address are answered, from another are "
       "passed");
}

static void test_way(struct lab *lab, struct loader_link *link, const char *name)
{
    tap_under("%s: ", name);
    lab->ifindex = (int)if_nametoindex(name);
    ok(neighbour_is_unknown(lab), "a neighbour that the stack has not replied to is passed");
    if (loader_attach_tc(lab->loader, link)) {
        ok(true, "the stack's replies # SKIP no TC on this kernel");
        return;
    }
    ok(datagram_leaves(lab, "10.0.0.1", LAB_PORT + 1, true) && neighbour_is_unknown(lab),
       "a neighbour is passed after the stack sent to it from another port");
    ok(datagram_leaves(lab, "10.0.0.1", LAB_PORT, false) && neighbour_is_unknown(lab),
       "a neighbour is passed after another's socket sent to it from the port");
    ok(datagram_leaves(lab, "10.0.0.3", LAB_PORT, true) && neighbour_is_unknown(lab),
       "a neighbour is passed after the stack sent to it from another address");
    ok(reply_leaves(lab) && from(lab, "10.0.0.2", "10.0.0.1", true),
       "a neighbour that the server replied to is answered");
    ok(comes_unknown(lab, 1) && comes_unknown(lab, 2),
       "in a VLAN it is passed: the reply has left without a tag");
    ok(other_mac_has_no_reply(lab), "another MAC address with its IP address is passed");
    loader_invalidate_return_paths(lab->loader);
    ok(neighbour_is_unknown(lab), "after a change of routes the neighbour is passed");
    ok(reply_leaves(lab) && from(lab, "10.0.0.2", "10.0.0.1", true),
       "after another reply of the stack it is answered");
    loader_set_ports(lab->loader, &(struct mc_return_path_port){(uint32_t)lab->ifindex, 77}, 1);
    ok(neighbour_is_unknown(lab), "as a port of another interface this one has no return paths");
    loader_set_ports(lab->loader, NULL, 0);
    test_age(lab);
}

static void test_interface(struct lab *lab, const char *name, bool loopback)
{
    tap_under("%s: ", name);
    lab->ifindex = loopback ? 0 : (int)if_nametoindex(name);
    ok(from(lab, "10.0.0.2", "10.0.0.1", true), "a neighbour is answered");
    ok(from(lab, "10.0.0.1", "10.0.0.1", loopback), "one of our own addresses as source: %s",
       loopback ? "answered" : "passed");
    ok(from(lab, "127.0.0.1", "10.0.0.1", loopback), "a loopback address as source: %s",
       loopback ? "answered" : "passed");
    ok(from(lab, "10.0.0.2", "127.0.0.1", loopback), "a loopback address as destination: %s",
       loopback ? "answered" : "passed");
    ok(from(lab, "127.0.0.1", "127.0.0.1", loopback), "a loopback address as both: %s",
       loopback ? "answered" : "passed");
}

/* Whether the server's socket receives a request as it was sent. */
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

/* The frames of a local socket have little room behind their data. */
static void test_room(struct lab *lab)
{
    static const char *const requests[] = {"get large\r\n", "get none large none\r\n"};
    int server = lab_socket(LAB_PORT), client = lab_socket(0);
    char value[1300];
    struct loader_link link;

    memset(value, 'v', sizeof(value));
    lab_put(lab, "large", 5, value, sizeof(value));
    loader_link_init(&link, LO);
    if (loader_attach_xdp(lab->loader, &link, true))
        skip_all("cannot attach generic XDP to lo");
    for (unsigned int i = 0; i < 2; i++)
        ok(comes_through(client, server, requests[i]) &&
               lab_count(lab, MC_COUNT_PASS_ROOM) == i + 1,
           "without TC a request whose reply has no room is passed and counted, %u", i);
    loader_set_tc(lab->loader, true, false);
    for (unsigned int i = 0; i < 2; i++)
        ok(comes_through(client, server, requests[i]) && lab_count(lab, MC_COUNT_PASS_ROOM) == 2,
           "with TC such a request is left to TC to count, %u", i);
    loader_detach(&link);
    close(client);
    close(server);
}

/* The process stays in its time namespace, so its clock there cannot be read. */
static void test_time(void)
{
    struct loader *loader;
    char error[512] = "";

    if (unshare(CLONE_NEWTIME) != 0) {
        diag("this kernel has no time namespaces");
        return;
    }
    loader = loader_open(error, sizeof(error));
    ok(!loader && strstr(error, "time namespace"),
       "loading fails in a process that has unshared its time namespace and not forked");
    loader_close(loader);
}

int main(void)
{
    static const struct mc_local local = {
        .n4 = 2,
        .nmacs = 1,
        .nvlans = 2,
        .vlans = {LAB_VLAN, LAB_VLAN << 16 | LAB_VLAN_OUTER | MC_VLAN_AD},
        .v4 = {__builtin_bswap32(LAB_SERVER), __builtin_bswap32(INADDR_LOOPBACK)},
        .macs = {LAB_MAC}};
    struct loader_link link;
    struct lab lab;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        skip_all("needs root");
    if (system("ip link set lo up && ip link add ou0 type veth peer name ou1 && "
               "ip link set ou1 up && ip link set ou0 up && ip address add 10.0.0.1/24 dev ou0 && "
               "ip address add 10.0.0.3/24 dev ou0 && "
               "ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev ou0") != 0)
        skip_all("cannot make a veth pair");
    lab_open(&lab, 256);
    local_publish(lab.control, &local);
    loader_link_init(&link, (int)if_nametoindex("ou0"));
    if (loader_attach_xdp(lab.loader, &link, false))
        skip_all("cannot attach native XDP to veth");
    test_way(&lab, &link, "ou0");
    test_interface(&lab, "lo", true);
    test_interface(&lab, "ou0", false);
    loader_detach(&link);
    tap_under("%s", "");
    test_room(&lab);
    lab_close(&lab);
    test_time();
    return done();
}
