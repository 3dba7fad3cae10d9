/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of the packets that XDP passes go into the AF_XDP ring of their queue, and when it is full.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xsk.h"
#include "iface/local.h"
#include "t/bpf/lab.h"
#include "t/lib/tap.h"

enum { PASS = 2, TX = 3, REDIRECT = 4 };

static const struct mc_local ours = {.n4 = 1,
                                     .n6 = 1,
                                     .nmacs = 1,
                                     .nvlans = 1,
                                     .v4 = {__builtin_bswap32(LAB_SERVER)},
                                     .v6 = {{0xfd, (uint64_t)__builtin_bswap32(LAB_SERVER) << 32}},
                                     .macs = {LAB_MAC},
                                     .vlans = {LAB_VLAN}};

static void request(struct frame *frame, const struct shape *shape, const char *text)
{
    frame_request(frame, text, strlen(text));
    memcpy(frame->bytes, &(uint64_t){LAB_MAC}, 6);
    frame_shape(frame, shape);
    frame_sum(frame, FRAME_SUM_WHOLE);
}

/* Whether a frame has this verdict and is as it came; into the ring, it is counted so. */
static bool becomes(struct lab *lab, const struct frame *in, uint32_t verdict)
{
    static struct frame out;
    struct mc_counts before, after;
    uint64_t taken;

    loader_counts(lab->loader, &before);
    if (lab_run(lab, LOADER_XDP, in, &out) != verdict || !frame_equal(in, &out))
        return false;
    loader_counts(lab->loader, &after);
    taken = after.count[MC_COUNT_RING] - before.count[MC_COUNT_RING];
    return taken == (verdict == REDIRECT) &&
           after.count[MC_COUNT_SEEN] - before.count[MC_COUNT_SEEN] <= 1;
}

static bool text_becomes(struct lab *lab, const struct shape *shape, const char *text,
                         uint32_t verdict)
{
    struct frame frame;

    request(&frame, shape, text);
    return becomes(lab, &frame, verdict);
}

/* The stack sends a datagram of the server, from which the return path is learned. */
static bool reply_leaves(struct lab *lab, bool v6)
{
    struct sockaddr_storage to = {0}, own = {0};
    socklen_t n = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool sent;

    to.ss_family = own.ss_family = v6 ? AF_INET6 : AF_INET;
    ((struct sockaddr_in *)&to)->sin_port = htons(LAB_CLIENT_PORT);
    ((struct sockaddr_in *)&own)->sin_port = htons(LAB_PORT);
    if (v6) {
        inet_pton(AF_INET6, "fd00::a00:2", &((struct sockaddr_in6 *)&to)->sin6_addr);
        inet_pton(AF_INET6, "fd00::a00:1", &((struct sockaddr_in6 *)&own)->sin6_addr);
    } else {
        ((struct sockaddr_in *)&to)->sin_addr.s_addr = htonl(LAB_CLIENT);
        ((struct sockaddr_in *)&own)->sin_addr.s_addr = htonl(LAB_SERVER);
    }
    sent = bind(fd, (struct sockaddr *)&own, n) == 0 && loader_know_socket(lab->loader, fd) == 0 &&
           sendto(fd, "x", 1, 0, (struct sockaddr *)&to, n) == 1;
    close(fd);
    return sent;
}

static void test_requests(struct lab *lab, const struct shape *shape)
{
    static const struct {
        const char *text;
        uint32_t verdict;
    } rows[] = {
        {"set k 0 0 2\r\nxx\r\n", REDIRECT},
        {"delete k\r\n", REDIRECT},
        {"gat 0 small\r\n", REDIRECT},
        {"get large\r\n", REDIRECT}, /* it does not fit a datagram */
        {"get small large\r\n", REDIRECT},
        {"get small\nx", REDIRECT},
        {"version\r\n", REDIRECT},
        {"mn\r\nmn\r\n", REDIRECT},
        {"x\r\n", PASS}, /* too short for what is looked at */
    };
    struct frame out, frame;

    ok(text_becomes(lab, shape, "set k 0 0 2\r\nxx\r\n", PASS),
       "a source that the stack has not replied to is passed");
    if (!ok(reply_leaves(lab, shape->v6), "the stack replies"))
        return;
    for (size_t i = 0; i < COUNT(rows); i++)
        ok(text_becomes(lab, shape, rows[i].text, rows[i].verdict), "%s%.*s",
           rows[i].verdict == REDIRECT ? "into the ring: " : "passed: ",
           (int)strcspn(rows[i].text, "\r\n"), rows[i].text);
    request(&frame, shape, "get small\r\n");
    ok(lab_run(lab, LOADER_XDP, &frame, &out) == TX, "a hit is answered");
    request(&frame, shape, "get none\r\n");
    ok(lab_run(lab, LOADER_XDP, &frame, &out) == TX, "a miss is answered");
    request(&frame, shape, "delete k\r\n");
    frame.bytes[11] = 77;
    ok(becomes(lab, &frame, PASS), "another MAC address than replies go to is passed");
    frame.bytes[11] = 2;
    frame.bytes[5] ^= 4;
    ok(becomes(lab, &frame, PASS), "a frame to another MAC address is passed");
}

/* Frames that the server could not parse as they are, or that it must not see. */
static void test_frames(struct lab *lab, const struct shape *shape)
{
    static const struct {
        const char *what;
        int at; /* from UDP's header on */
        uint8_t flip;
    } rows[] = {
        {"a request of two datagrams", 13, 3},
        {"lengths that do not agree", 5, 1},
        {"another port", 3, 1},
        {"a source port that no client has", 0, LAB_CLIENT_PORT >> 8},
        {"another machine's address", -1, 8},
    };
    const size_t udp = 14 + (shape->v6 ? 40 : 20);
    struct frame frame;

    for (size_t i = 0; i < COUNT(rows); i++) {
        request(&frame, shape, "delete k\r\n");
        frame.bytes[(int)udp + rows[i].at] ^= rows[i].flip;
        ok(becomes(lab, &frame, PASS), "%s is passed", rows[i].what);
    }
    request(&frame, shape, "delete k\r\n");
    frame.n = MC_RING_FRAME;
    ok(becomes(lab, &frame, REDIRECT), "with padding up to the longest frame it goes");
    frame.n++;
    ok(becomes(lab, &frame, PASS), "a longer one is passed");
    if (shape->v6)
        return;
    request(&frame, shape, "delete k\r\n");
    frame.bytes[20] = 0x20;
    ok(becomes(lab, &frame, PASS), "a fragment is passed");
    request(&frame, &(struct shape){.ntags = 1}, "delete k\r\n");
    ok(becomes(lab, &frame, PASS), "a frame with a tag is passed");
}

/* In that state a request is passed, or goes into the ring. */
static void in_state(struct lab *lab, const struct mc_local *local, uint32_t verdict,
                     const char *what)
{
    local_publish(lab->control, local);
    ok(text_becomes(lab, &(struct shape){0}, "delete k\r\n", verdict), "%s", what);
}

static void test_states(struct lab *lab)
{
    struct mc_local narrow = ours;

    lab->control->bypass = 1;
    in_state(lab, &ours, PASS, "passed while the server sees everything");
    lab->control->bypass = 0;
    lab->control->lease = 0;
    in_state(lab, &ours, PASS, "passed while the server has stopped");
    lab->control->lease = MC_LEASE_EVER | MC_LEASE_DEAD;
    in_state(lab, &ours, PASS, "passed when it has ended");
    lab->control->lease = MC_LEASE_EVER;
    narrow.mtu = 20 + 8 + MC_UDP_PAYLOAD - 1;
    in_state(lab, &narrow, PASS, "passed when a reply may not fit the MTU");
    narrow.mtu++;
    in_state(lab, &narrow, REDIRECT, "not when it just fits");
    narrow = ours;
    narrow.tags_hidden = 1;
    local_publish(lab->control, &narrow);
    lab->control->flush_at = 1;
    ok(text_becomes(lab, &(struct shape){0}, "get small\r\n", PASS),
       "passed while everything is about to be flushed, if its tag may be hidden");
    lab->control->flush_at = 0;
    loader_invalidate_return_paths(lab->loader);
    in_state(lab, &ours, PASS, "passed after a change of routes");
    ok(reply_leaves(lab, false), "the stack replies again");
    in_state(lab, &ours, REDIRECT, "then it goes into the ring again");
}

/* How many of so many requests go into the ring. */
static unsigned int ntaken(struct lab *lab, unsigned int n)
{
    struct frame frame, out;
    unsigned int taken = 0;

    request(&frame, &(struct shape){0}, "delete k\r\n");
    while (n--)
        taken += lab_run(lab, LOADER_XDP, &frame, &out) == REDIRECT;
    return taken;
}

/* taken: how many frames the server has given back, of those that the other tests have put. */
static void test_credit(struct lab *lab, struct xsk *xsk, uint64_t *taken)
{
    *taken = lab_count(lab, MC_COUNT_RING);
    ok(ntaken(lab, MC_RING_SIZE + 10) == MC_RING_SIZE && lab_count(lab, MC_COUNT_RING_FULL) == 10,
       "a ring takes as many frames as it has places, the others are passed and counted");
    *taken += 3;
    ok(ntaken(lab, 10) == 3 && lab_count(lab, MC_COUNT_RING_FULL) == 17,
       "then as many as the server has given back");
    *taken -= 1000;
    ok(ntaken(lab, 10) == 0, "none when the server's count makes no sense");
    *taken = lab_count(lab, MC_COUNT_RING);
    xsk_close(xsk);
    ok(ntaken(lab, 10) == 0, "none when the socket is closed");
}

int main(void)
{
    static char value[2000];
    struct loader_link link;
    struct xsk xsk = {0};
    uint64_t *taken;
    struct lab lab;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        skip_all("needs root");
    if (system("ip link set lo up && ip link add ri0 type veth peer name ri1 && "
               "ip link set ri1 up && ip link set ri0 up && ip address add 10.0.0.1/24 dev ri0 && "
               "ip address add fd00::a00:1/64 dev ri0 nodad && "
               "ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev ri0 && "
               "ip neigh add fd00::a00:2 lladdr 02:00:00:00:00:02 dev ri0") != 0)
        skip_all("cannot make a veth pair");
    lab_open_guarded(&lab, 256, &(struct loader_guard){0}, LOADER_RINGS);
    local_publish(lab.control, &ours);
    loader_link_init(&link, (int)if_nametoindex("ri0"));
    if (loader_attach_xdp(lab.loader, &link, false) || loader_attach_tc(lab.loader, &link))
        skip_all("cannot attach native XDP and TC to veth");
    lab.ifindex = link.ifindex;
    lab_put(&lab, "small", 5, "v", 1);
    lab_put(&lab, "large", 5, value, sizeof(value));
    reply_leaves(&lab, false);
    ok(text_becomes(&lab, &(struct shape){0}, "delete k\r\n", PASS), "passed without a ring");
    loader_invalidate_return_paths(lab.loader);
    if (!ok(xsk_open(&xsk, (unsigned int)link.ifindex, 0, MC_RING_SIZE) == 0, "a ring is opened"))
        return done();
    taken = loader_set_ring(lab.loader, 5, xsk.fd);
    ok(taken != NULL, "and given to the program");
    loader_add_ring_port(lab.loader, &(struct mc_ring_port){(uint32_t)link.ifindex + 1, 5, 1});
    loader_add_ring_port(lab.loader, &(struct mc_ring_port){(uint32_t)link.ifindex, 5, 1});
    for (int v6 = 0; v6 < 2; v6++) {
        tap_under("IPv%d: ", v6 ? 6 : 4);
        test_requests(&lab, &(struct shape){.v6 = v6});
        test_frames(&lab, &(struct shape){.v6 = v6});
    }
    tap_under("%s", "");
    test_states(&lab);
    test_credit(&lab, &xsk, taken);
    loader_detach(&link);
    lab_close(&lab);
    return done();
}
