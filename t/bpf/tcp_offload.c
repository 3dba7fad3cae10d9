/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments with partial checksums, and merged ones, through the programs on TC's hooks of a tap
 * device: what leaves, and what the stack gets. Only a real packet is marked so.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "t/bpf/tcp_lab.h"
#include "t/bpf/wire.h"
#include "t/lib/tap.h"

enum { LINK = 14, TCP = LINK + 20, PATIENCE = 5000 /* milliseconds */ };

#define TEXT(bytes) .text = bytes, .n = sizeof(bytes) - 1
#define HIT         "VALUE hit 0 5\r\nvalue\r\nEND\r\n"

static const struct request get_hit = {TEXT("get hit\r\n"), .reply = HIT, .nreply = sizeof(HIT) - 1,
                                       .hits = 1};
static const struct request set_hit = {TEXT("set hit 0 0 2\r\nxx\r\n"),
                                       .reason = MC_TCP_PASS_COMMAND};

struct wire {
    struct tcp_lab lab;
    struct loader_link link;
    int ifindex;
    int tap, stack;  /* the device's other side, and what the stack gets of TCP */
    uint16_t linear; /* bytes of a packet that are together, the rest in pages; 0: all */
};

/* --- the device ------------------------------------------------------------------------------- */

static void wire_open(struct wire *wire)
{
    struct ifreq request = {.ifr_name = "tp0",
                            .ifr_flags =
                                IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_NAPI | IFF_NAPI_FRAGS};
    const struct timeval patience = {.tv_sec = PATIENCE / 1000};

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        skip_all("needs root");
    wire->tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (wire->tap < 0 || ioctl(wire->tap, TUNSETIFF, &request) != 0)
        skip_all("no tap device");
    if (system("ip link set lo up && ip link set tp0 address 02:00:00:00:00:01 && "
               "ip link set tp0 up && ip address add 10.0.0.1/24 dev tp0 && "
               "ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev tp0") != 0)
        skip_all("cannot set the tap device up");
    wire->stack = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);
    if (wire->stack < 0 ||
        setsockopt(wire->stack, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
        skip_all("no raw socket");
    wire->ifindex = (int)if_nametoindex("tp0");
    tcp_lab_open(&wire->lab);
    tcp_lab_set_alone(&wire->lab, true);
    lab_put(&wire->lab.lab, "hit", 3, "value", 5);
    loader_link_init(&wire->link, wire->ifindex);
    if (loader_attach_tc(wire->lab.lab.loader, &wire->link))
        skip_all("cannot attach to TC");
}

static void wire_close(struct wire *wire)
{
    loader_detach(&wire->link);
    tcp_lab_close(&wire->lab);
    close(wire->stack);
    close(wire->tap);
}

/* Sends a segment, as it comes behind a receive offload; gso: bytes of each of several, or 0. */
static bool comes(struct wire *wire, const struct frame *frame, bool left, uint32_t gso)
{
    struct virtio_net_hdr header = {
        .flags = left ? VIRTIO_NET_HDR_F_NEEDS_CSUM : 0,
        .gso_type = gso ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_NONE,
        .gso_size = (uint16_t)gso,
        .hdr_len = gso ? TCP + 32 : 0,
        .csum_start = left ? TCP : 0,
        .csum_offset = left ? 16 : 0,
    };
    size_t linear = wire->linear ? wire->linear : frame->n;
    struct iovec pieces[] = {
        {&header, sizeof(header)},
        {(void *)(uintptr_t)frame->bytes, linear},
        {(void *)(uintptr_t)(frame->bytes + linear), frame->n - linear},
    };

    return writev(wire->tap, pieces, linear < frame->n ? 3 : 2) ==
           (ssize_t)(sizeof(header) + frame->n);
}

/* The next segment that leaves; hardware has completed its checksum. */
static bool leaves(struct wire *wire, struct frame *frame)
{
    struct pollfd ready = {.fd = wire->tap, .events = POLLIN};
    uint8_t bytes[sizeof(struct virtio_net_hdr) + LAB_FRAME_MAX];
    ssize_t n;

    while (poll(&ready, 1, PATIENCE) == 1) {
        n = read(wire->tap, bytes, sizeof(bytes)) - (ssize_t)sizeof(struct virtio_net_hdr);
        if (n < TCP + 20)
            continue;
        frame->n = (size_t)n;
        memcpy(frame->bytes, bytes + sizeof(struct virtio_net_hdr), frame->n);
        if (frame->bytes[12] == 8 && frame->bytes[LINK + 9] == IPPROTO_TCP)
            return true;
    }
    return false;
}

static bool leaves_as(struct wire *wire, const struct frame *want)
{
    static struct frame frame;

    if (leaves(wire, &frame) && frame_equal(&frame, want))
        return true;
    frame_dump("left", &frame);
    frame_dump("wanted", want);
    return false;
}

/* Whether the stack gets this packet next. */
static bool arrives_as(struct wire *wire, const struct frame *want)
{
    static struct frame frame;
    ssize_t n = recv(wire->stack, frame.bytes + LINK, sizeof(frame.bytes) - LINK, 0);

    memcpy(frame.bytes, want->bytes, LINK);
    frame.n = n > 0 ? (size_t)n + LINK : 0;
    if (frame_equal(&frame, want))
        return true;
    frame_dump("arrived", &frame);
    frame_dump("wanted", want);
    return false;
}

/* --- segments --------------------------------------------------------------------------------- */

/* A connection's next segment, whose checksum is partial or whole. */
static void begin(struct wire *wire, struct mc_tcp_conn *conn, struct segment *segment,
                  const struct request *request, bool left)
{
    conn_init(&wire->lab, conn, 1000, 5000);
    conn->ifindex = (uint32_t)wire->ifindex;
    conn_put(&wire->lab, false, conn);
    segment_in(&wire->lab, segment, conn, request->text, request->n);
    segment->sum = left ? SUM_PARTIAL : SUM_WHOLE;
}

static void to_device(struct frame *frame, const struct segment *segment)
{
    segment_frame(frame, segment);
    memcpy(frame->bytes, "\2\0\0\0\0\1", 6);
}

/* The reply to a segment that was answered. */
static void make_reply(struct wire *wire, struct frame *want, const struct segment *segment)
{
    struct outcome outcome = {.reply = get_hit.reply, .nreply = get_hit.nreply};
    struct mc_tcp_conn conn;

    conn_get(&wire->lab, false, &conn);
    reply_frame(want, segment, &outcome, &conn);
    memcpy(want->bytes + 6, "\2\0\0\0\0\1", 6);
}

/* The reset with which the stack, which knows no such connection, answers a segment. */
static bool resets(struct wire *wire, const struct segment *segment)
{
    static struct frame frame;
    const uint8_t *tcp = frame.bytes + TCP;

    return leaves(wire, &frame) && segment_is_sound(&frame) && tcp[13] == RST &&
           get32(tcp + 4) == segment->ack;
}

static void test_answer(struct wire *wire, bool left)
{
    static struct frame frame, want;
    const char *sum = left ? "partial" : "complete";
    struct mc_tcp_conn conn;
    struct segment segment;

    begin(wire, &conn, &segment, &get_hit, left);
    to_device(&frame, &segment);
    ok(comes(wire, &frame, left, 0) && (make_reply(wire, &want, &segment), true) &&
           leaves_as(wire, &want),
       "a request whose checksum is %s: the reply's is complete", sum);
    segment.tsval++;
    to_device(&frame, &segment);
    make_reply(wire, &want, &segment);
    ok(comes(wire, &frame, left, 0) && leaves_as(wire, &want),
       "and so is that of the reply that is sent again");
}

static void test_pass(struct wire *wire, bool left)
{
    static struct frame frame, want;
    struct mc_tcp_conn conn;
    struct segment segment;

    begin(wire, &conn, &segment, &set_hit, left);
    to_device(&frame, &segment);
    want = frame;
    segment_translate(&wire->lab, &want, &segment, &conn);
    ok(comes(wire, &frame, left, 0) && arrives_as(wire, &want),
       "a segment that is passed, whose checksum is %s: it stays so, and the numbers are the "
       "socket's",
       left ? "partial" : "complete");
    ok(resets(wire, &segment), "what the stack sends has the client's numbers, and a right sum");
}

static void test_paid(struct wire *wire, bool left)
{
    static struct frame frame, want, bare;
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right;

    begin(wire, &conn, &segment, &get_hit, left);
    conn.snd_una -= 100;
    conn_put(&wire->lab, false, &conn);
    to_device(&frame, &segment);
    bare_frame(&wire->lab, &bare, &frame, &segment, segment.seq - 1000, segment.ack - 5000, &conn);
    right = comes(wire, &frame, left, 0);
    make_reply(wire, &want, &segment);
    ok(right && leaves_as(wire, &want) && arrives_as(wire, &bare),
       "a request that acknowledges, whose checksum is %s: reply and acknowledgement are right",
       left ? "partial" : "complete");
    leaves(wire, &want); /* the stack's reset */
}

/* Several segments in one packet, as a receive offload makes them. */
static void test_merged(struct wire *wire)
{
    static struct frame frame, want;
    static char text[3000];
    const struct request many = {.text = text, .n = sizeof(text)};
    struct mc_tcp_conn conn;
    struct segment segment;

    memset(text, 'x', sizeof(text));
    begin(wire, &conn, &segment, &many, true);
    to_device(&frame, &segment);
    want = frame;
    segment_translate(&wire->lab, &want, &segment, &conn);
    ok(comes(wire, &frame, true, 1000) && arrives_as(wire, &want) && resets(wire, &segment),
       "several segments in one packet are translated as one");
}

/* Packets whose bytes are not together, as drivers hand them over. */
static void test_pages(struct wire *wire)
{
    static const uint16_t linear[] = {14, 15, 20, 33, 34, 48, 54, 60, 66, 67, 70, 72};
    static struct frame frame, want;
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right = true, passes = true;
    size_t i;

    for (i = 0; i < sizeof(linear) / sizeof(linear[0]); i++) {
        wire->linear = linear[i];
        begin(wire, &conn, &segment, &get_hit, i % 2);
        to_device(&frame, &segment);
        right &= comes(wire, &frame, i % 2, 0);
        make_reply(wire, &want, &segment);
        right &= leaves_as(wire, &want);
        begin(wire, &conn, &segment, &set_hit, i % 2);
        to_device(&frame, &segment);
        passes &= comes(wire, &frame, i % 2, 0);
        want = frame;
        segment_translate(&wire->lab, &want, &segment, &conn);
        passes &= arrives_as(wire, &want) && resets(wire, &segment);
    }
    wire->linear = 0;
    ok(right, "requests in pieces are answered");
    ok(passes, "segments in pieces are translated");
}

static void add_tag(struct frame *frame)
{
    memmove(frame->bytes + 16, frame->bytes + 12, frame->n - 12);
    memcpy(frame->bytes + 12, "\x81\0\0\x64", 4); /* LAB_VLAN */
    frame->n += 4;
}

/* The next frame that leaves, with its tag. */
static bool leaves_tagged(struct wire *wire, const struct frame *want)
{
    struct pollfd ready = {.fd = wire->tap, .events = POLLIN};
    uint8_t bytes[sizeof(struct virtio_net_hdr) + LAB_FRAME_MAX];
    const size_t nheader = sizeof(struct virtio_net_hdr);

    while (poll(&ready, 1, PATIENCE) == 1)
        if (read(wire->tap, bytes, sizeof(bytes)) == (ssize_t)(nheader + want->n) &&
            memcmp(bytes + nheader, want->bytes, want->n) == 0)
            return true;
    return false;
}

/* Whether a count becomes this. */
static bool counts(struct wire *wire, enum mc_tcp_count which, uint64_t want)
{
    struct mc_tcp_counts counts;
    int i;

    for (i = 0; i < PATIENCE; i++) {
        loader_tcp_counts(wire->lab.lab.loader, &counts);
        if (counts.count[which] == want)
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

/* The stack keeps a tag beside the packet. */
static void test_tag(struct wire *wire)
{
    static struct frame frame, want;
    struct mc_tcp_counts before;
    struct mc_tcp_conn conn;
    struct segment segment;
    bool right;

    begin(wire, &conn, &segment, &get_hit, false);
    conn.vlan = LAB_VLAN;
    conn_put(&wire->lab, false, &conn);
    to_device(&frame, &segment);
    add_tag(&frame);
    right = comes(wire, &frame, false, 0);
    make_reply(wire, &want, &segment);
    add_tag(&want);
    ok(right && leaves_tagged(wire, &want),
       "a request in the VLAN in which the server's segments leave is answered there");
    begin(wire, &conn, &segment, &get_hit, false);
    loader_tcp_counts(wire->lab.lab.loader, &before);
    ok(comes(wire, &frame, false, 0) &&
           counts(wire, MC_TCP_PASS_WAY, before.count[MC_TCP_PASS_WAY] + 1) &&
           counts(wire, MC_TCP_ANSWERED_TC, before.count[MC_TCP_ANSWERED_TC]),
       "in another one it is passed");
}

/*
 * A generic XDP program of any owner. Where the kernel copies a frame for it, TC may see the packet
 * from IP on: what passes is translated all the same.
 */
static void test_hidden(struct wire *wire)
{
    static struct frame frame, want;
    static const struct request none = {.text = "", .reason = NOT_COUNTED};
    const struct request *requests[] = {&set_hit, &none};
    struct mc_tcp_conn conn;
    struct segment segment;
    int i;

    if (loader_attach_xdp(wire->lab.lab.loader, &wire->link, true)) {
        ok(false, "generic XDP is attached to the tap device");
        return;
    }
    for (i = 0; i < 2; i++) {
        begin(wire, &conn, &segment, requests[i], false);
        to_device(&frame, &segment);
        want = frame;
        segment_translate(&wire->lab, &want, &segment, &conn);
        ok(comes(wire, &frame, false, 0) && arrives_as(wire, &want) && resets(wire, &segment),
           "behind generic XDP %s is passed, and translated", i ? "an acknowledgement" : "a set");
    }
}

int main(void)
{
    static struct wire wire;
    int left;

    wire_open(&wire);
    for (left = 0; left < 2; left++) {
        test_answer(&wire, left);
        test_pass(&wire, left);
        test_paid(&wire, left);
    }
    test_merged(&wire);
    test_pages(&wire);
    test_tag(&wire);
    test_hidden(&wire);
    wire_close(&wire);
    return done();
}
